"""The two guesses that every other method must beat."""

from dataclasses import dataclass

import numpy as np

from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import carried_forward
from psimlearn.shapes import Float

__all__ = ["LastObservation", "TrainingMean"]


@dataclass(frozen=True, eq=False)
class TrainingMean:
    """Always predicts the mean of each channel in training."""

    mean: Float[np.ndarray, " n"]

    @classmethod
    def fit(cls, train: Trajectories) -> "TrainingMean":
        """Take the means of the observed values."""
        return cls(np.nanmean(train.values, axis=0))

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """The training mean, at every row and horizon."""
        return np.tile(self.mean, (len(trajectories.values), horizon, 1))


@dataclass(frozen=True, eq=False)
class LastObservation:
    """Predicts that each channel stays where it was last seen; before that, the training mean."""

    mean: Float[np.ndarray, " n"]

    @classmethod
    def fit(cls, train: Trajectories) -> "LastObservation":
        """Take the means of the observed values, for the time before anything is observed."""
        return cls(np.nanmean(train.values, axis=0))

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """The observation of each channel before the row, carried across gaps."""
        plan = schedule(trajectories.offsets)
        carried = carried_forward(trajectories.values[plan.order] - self.mean, plan)
        before = np.where(plan.reaches(-1)[:, None], carried[plan.place(-1)], 0.0) + self.mean
        return np.repeat(plan.packed(before)[:, None], horizon, axis=1)
