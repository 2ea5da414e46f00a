"""One setting of everything that is chosen, and how it did."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from psimlearn.learners import Learner, RandomFourierRidge
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.learners.trees import RidgeAndTrees
from psimlearn.train.derived import OnSums
from psimlearn.train.recipe import Recipe

__all__ = ["Candidate", "Trial", "best_of_each_kind", "worsened"]

OFFSETS = 1.6
"""The doubt about the level of a new recording, times the square of the number of recordings: see `Trial`."""
DOUBT = 0.002
"""The doubt about beliefs that are nothing but contexts."""
PAYS = 0.01
"""The doubt about cross weights below 1: where the past of other channels is noise, they gain far more than this."""
UNSTABLE = 1.0
"""The doubt about filters that do not forget their start."""


def worsened(error: float, factor: float) -> float:
    """An error plus a share of its size, the factor less 1: a likelihood may be negative, and is no better for it."""
    return error * (factor if error >= 0 else 2 - factor)


class Candidate(NamedTuple):
    """One setting of everything that is chosen."""

    recipe: Recipe
    learner: Learner[Any]

    @property
    def alpha(self) -> float | None:
        """The ridge, where the learner has one."""
        return self.learner.alpha if isinstance(self.learner, OnSums) else None

    def with_alpha(self, alpha: float) -> "Candidate":
        """The same candidate with another ridge."""
        assert isinstance(self.learner, OnSums)
        return self._replace(learner=replace(self.learner, alpha=alpha))

    @property
    def kind(self) -> "Candidate":
        """The candidate without its ridge: the same value for all ridges."""
        return self if self.alpha is None else self.with_alpha(1.0)


class Trial(NamedTuple):
    """A candidate and how it did."""

    candidate: Candidate
    n_rounds: int
    """How many rounds of DAgger it was given."""
    best_round: int
    error: float
    """By the criterion, averaged over splits; inf if it diverged on any."""
    n_recordings: int
    """How many recordings all splits were made from."""
    forgets: bool = True
    """Whether the filters of the best round forget their start; others would diverge on longer recordings."""
    estimated: bool = False
    """Whether the error is estimated from the first splits, on which it was far behind that of another candidate."""

    @property
    def penalised_error(self) -> float:
        """The error that ranks candidates: predictions that depend on levels cost a little more with few recordings.

        A new recording may have its particular offset, and few recordings tell little about offsets: those held out
        are not quite new, since settings and units were made with them at hand. Random features and trees see levels
        whatever the level weight of the ridges beside them is. Beliefs about symbols that are mostly
        contexts have to be a little better: smaller differences in nats are chance. So are small gains by a cross
        weight. A filter that does not forget its start has to be far better.
        """
        recipe, learner = self.candidate
        if isinstance(learner, SymbolRidge):
            return worsened(self.error, 1 + DOUBT * learner.floor)
        if not self.forgets:
            return worsened(self.error, 1 + UNSTABLE)
        sees_levels = recipe.level_weight is None or isinstance(learner, RandomFourierRidge | RidgeAndTrees)
        dependence = 1.0 if sees_levels else min(recipe.level_weight or 0.0, 1.0)
        doubt = OFFSETS / self.n_recordings**2 if self.n_recordings > 1 else 0.0
        return worsened(self.error, 1 + doubt * dependence + PAYS * (recipe.cross_weight != 1))

    def row(self) -> dict[str, Any]:
        """The trial as a row of a table."""
        recipe, learner = self.candidate
        return {
            "learner": type(learner).__name__,
            "alpha": learner.alpha if isinstance(learner, RidgeAndTrees) else self.candidate.alpha,
            "bandwidth_factor": getattr(learner, "bandwidth_factor", None),
            "n_features": getattr(learner, "n_features", None),
            "floor": getattr(learner, "floor", None),
            "strength": getattr(learner, "strength", None),
            "lags": recipe.lags,
            "prior": recipe.prior,
            "belief_weight": recipe.belief_weight,
            "level_weight": recipe.level_weight,
            "cross_weight": recipe.cross_weight,
            "rank": recipe.rank,
            "states": recipe.states,
            "past": None if recipe.states is None else recipe.past,
            "past_ridge": None if recipe.states is None else recipe.past_ridge,
            "skip": recipe.skip,
            "n_rounds": self.n_rounds,
            "best_round": self.best_round,
            "error": self.error,
            "estimated": self.estimated,
        }


def best_of_each_kind(trials: Iterable[Trial]) -> list[Trial]:
    """The best ridge of every kind, best kind first."""
    best: dict[Candidate, Trial] = {}
    for trial in sorted(trials, key=lambda t: t.penalised_error):
        best.setdefault(trial.candidate.kind, trial)
    return list(best.values())
