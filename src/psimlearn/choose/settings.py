"""What is given and what is to be chosen, with the parameters of an estimator already checked."""

from dataclasses import dataclass
from typing import Any, Literal

from psimlearn.filter.features import Features
from psimlearn.learners.ridge import Learner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.losses import Loss
from psimlearn.train.recipe import Init, Prior, Recipe
from psimlearn.train.score import Criterion

__all__ = ["Settings", "Trainer"]

Trainer = Literal["dagger", "forward", "backprop", "dagger+backprop"]


@dataclass(frozen=True)
class Settings:
    """What `PSIM`'s parameters mean; None is "to be chosen"."""

    features: Features
    learner: Learner[Any] | Literal["ridge", "rff", "auto"]
    trainer: Trainer
    n_rounds: int
    init: Init
    lags: int | None
    prior: Prior | None
    belief_weight: float | None
    level_weight: float | Literal["auto"] | None
    rank: int | Literal["auto"] | None
    standard: Recipe
    """All the rest of the recipe."""
    literal: bool
    """Whether `standard` is the whole recipe."""
    criterion: Criterion
    validation: float | Trajectories
    refit: bool
    loss: Loss
    """What the criterion is measured in."""
