"""Any scikit-learn regressor on the last observations, direct multi-step: the method people try first."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from psimlearn.checks import shown, whole
from psimlearn.errors import SettingsError
from psimlearn.filter import Scaling
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import carried_forward, example_rows, futures, lag_places
from psimlearn.shapes import Float

__all__ = ["Lagged"]


@dataclass(frozen=True, eq=False)
class Lagged:
    """Predicts the changes from the last observation to each of the next `horizon` rows, all at once.

    Observations are standardised, missing ones carried forward; before the first row the training mean is predicted.
    """

    estimator: Any
    lags: int
    horizon: int
    scaling: Scaling

    @classmethod
    def fit(cls, train: Trajectories, estimator: Any, lags: int = 5, horizon: int = 5) -> "Lagged":
        """Fit a clone of the estimator to every row that has `horizon` rows after it.

        Args:
            train: recordings.
            estimator: a scikit-learn regressor of several outputs.
            lags: how many observations to predict from.
            horizon: how many rows ahead to predict.
        """
        whole(lags, "lags")
        whole(horizon, "horizon")
        if isinstance(estimator, type) or not hasattr(estimator, "predict"):
            raise SettingsError(f"estimator: required a scikit-learn regressor, received {shown(estimator)}.")
        scaling, plan = standardisation(train.values), schedule(train.offsets)
        x = carried_forward(scaling(train.values[plan.order]), plan)
        rows, targets = example_rows(plan, horizon)
        z = x[lag_places(plan, lags)][rows].reshape(-1, lags * x.shape[1])
        y = futures(x, plan, horizon)[targets] - x[rows][:, None]
        return cls(clone(estimator).fit(z, y.reshape(len(y), -1)), lags, horizon, scaling)

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """The estimator's predictions from the rows before each row."""
        whole(horizon, "horizon", 1, self.horizon)
        plan = schedule(trajectories.offsets)
        x = carried_forward(self.scaling(trajectories.values[plan.order]), plan)
        z = x[lag_places(plan, self.lags)].reshape(len(x), -1)
        after = self.estimator.predict(z).reshape(len(x), self.horizon, -1)[:, :horizon] + x[:, None]
        before = after[plan.place(-1)]
        before[plan.block(0)] = 0.0
        return plan.packed(self.scaling.undo(before))
