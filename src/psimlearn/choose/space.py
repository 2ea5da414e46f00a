"""The candidates of a search, as a value."""

from itertools import product
from math import inf
from typing import Any, NamedTuple

from psimlearn.choose.candidates import Candidate
from psimlearn.learners import Learner
from psimlearn.train.recipe import Past, Recipe

__all__ = ["Space", "Systems"]


class Systems(NamedTuple):
    """Subspace starts: F_0 is the Kalman filter of an identified system, and DAgger goes on from it."""

    sizes: tuple[tuple[Past, int], ...]
    """How past and future are related, each with a number of states."""
    ridges: tuple[float, ...]
    """Ridges of that relation beyond that of the sizes, in rising order: tried while errors fall."""
    recipes: tuple[Recipe, ...]
    """The recipes with which rounds go on from the best of these."""
    alphas: tuple[float, ...]
    """The ridges of these rounds: the first for every recipe, the others for the best recipe."""


class Space(NamedTuple):
    """The candidates of a search: every combination of learner and recipe, each with every ridge."""

    learners: tuple[Learner[Any], ...]
    recipes: tuple[Recipe, ...]
    alphas: tuple[float, ...] = ()
    """Ridges in rising order, for learners that have one; if empty, each learner keeps its ridge."""
    refine: bool = True
    """Whether to try ridges between and beyond those."""
    racing_weights: tuple[float, ...] = ()
    """Belief weights with which the best enter the race, if F_0 says nothing of them; if empty, the screened ones."""
    between: tuple[tuple[str, float], ...] = ()
    """Further weights of a recipe, by name, to be tried around the best."""
    cross_weight: float | None = None
    """A cross weight below 1 to be tried with the best of each number of lags; None if there is none."""
    ranks: tuple[int, ...] = ()
    """Numbers of directions to be fed back instead of all, if it does no harm; fewest first."""
    others: tuple[Candidate, ...] = ()
    """Candidates to be tried as they are, beside every combination."""
    systems: Systems | None = None
    """Linear systems whose filters begin courses of their own, if any."""
    hopeless: float = inf
    """The error before the first round beyond which no candidate races: no belief would make up for it."""
    skip: int = 0
    """First rows of each recording whose examples may mislead, so that a search without them may do better."""
    close: float = 0.0
    """The error, relative to the best, up to which runners with other lags go on after the race as well."""

    def candidates(self) -> list[Candidate]:
        """All candidates, in the order in which they are reported."""
        kinds = [Candidate(recipe, learner) for learner, recipe in product(self.learners, self.recipes)]
        combined = [kind.with_alpha(a) if a else kind for kind in kinds for a in self.alphas or (None,)]
        return [*combined, *self.others]
