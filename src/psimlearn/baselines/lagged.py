"""Any scikit-learn regressor on the last observations, direct multi-step: what people try first."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from psimlearn.errors import SettingsError
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import carried_forward, example_rows, futures, lag_places

__all__ = ["Lagged"]


@dataclass(frozen=True, eq=False)
class Lagged:
    """Predicts the changes from the last observation to each of the next `horizon` rows, all at once.

    Observations are standardised, missing ones carried forward; before the first row the training mean is predicted.
    """

    estimator: Any
    lags: int
    horizon: int
    mean: Float[np.ndarray, " n"]
    scale: Float[np.ndarray, " n"]

    @classmethod
    def fit(cls, train: Trajectories, estimator: Any, lags: int = 5, horizon: int = 5) -> "Lagged":
        """Fit a clone of the estimator to every row that has `horizon` rows after it."""
        std = np.nanstd(train.values, axis=0)
        blank = cls(None, lags, horizon, np.nanmean(train.values, axis=0), np.where(std > 0, std, 1.0))
        plan = schedule(train.offsets)
        x = carried_forward((train.values[plan.order] - blank.mean) / blank.scale, plan)
        rows, targets = example_rows(plan, horizon)
        z = x[lag_places(plan, lags)][rows].reshape(-1, lags * x.shape[1])
        y = futures(x, plan, horizon)[targets] - x[rows][:, None]
        fitted = clone(estimator).fit(z, y.reshape(len(y), -1))
        return cls(fitted, lags, horizon, blank.mean, blank.scale)

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """What the rows before each row lead the estimator to expect."""
        if horizon > self.horizon:
            raise SettingsError(f"horizon: required at most {self.horizon}, as fitted; received {horizon}.")
        plan = schedule(trajectories.offsets)
        x = carried_forward((trajectories.values[plan.order] - self.mean) / self.scale, plan)
        z = x[lag_places(plan, self.lags)].reshape(len(x), -1)
        after = self.estimator.predict(z).reshape(len(x), self.horizon, -1)[:, :horizon] + x[:, None]
        before = after[plan.before()]
        before[plan.block(0)] = 0.0
        return plan.packed(before * self.scale + self.mean)
