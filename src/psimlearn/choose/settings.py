"""The settings of a fit, checked: some are given, the others are to be chosen."""

from dataclasses import dataclass
from typing import Any, Literal

from psimlearn.filter import Features
from psimlearn.learners import InCoordinates, Learner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.losses import Loss
from psimlearn.train.recipe import Init, Prior, Recipe
from psimlearn.train.score import Criterion

__all__ = ["Settings", "Trainer"]

Trainer = Literal["dagger", "forward", "backprop", "dagger+backprop"]


@dataclass(frozen=True)
class Settings:
    """The meaning of the parameters of `PSIM`; None or "auto" is to be chosen."""

    features: Features
    learner: Learner[Any] | Literal["ridge", "rff", "trees", "auto"]
    trainer: Trainer
    n_rounds: int
    init: Init
    lags: int | None
    prior: Prior | None
    belief_weight: float | None
    level_weight: float | Literal["auto"] | None
    cross_weight: float | None
    rank: int | Literal["auto"] | None
    standard: Recipe
    """The parts of the recipe that are not chosen."""
    literal: bool
    """Whether `standard` is the whole recipe."""
    criterion: Criterion
    validation: float | Trajectories
    refit: bool
    loss: Loss
    """Measures the criterion."""
    blocks: bool = True
    """Whether one long recording may be cut into blocks to learn from."""
    opening: bool = True
    """Whether linear filters learn how recordings begin."""
    systems: bool = False
    """Whether filters of identified linear systems are tried as starts as well."""

    @property
    def levels(self) -> bool:
        """Whether the learner can use a level weight: ridge regressions can, and learners with their coordinates."""
        return isinstance(self.learner, str | InCoordinates)
