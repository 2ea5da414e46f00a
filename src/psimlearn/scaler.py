"""Standardisation of ragged recordings, for scikit-learn pipelines."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from psimlearn.errors import DataError
from psimlearn.layout import Scaling
from psimlearn.panels import received
from psimlearn.trajectories import Trajectories

__all__ = ["TrajectoryScaler"]


class TrajectoryScaler(TransformerMixin, BaseEstimator):
    """What `StandardScaler` is for tables, for recordings of unequal length: one mean and deviation per channel.

    NaN stays NaN; a constant channel keeps its unit; inputs and hints pass through. `PSIM` standardises by itself:
    this is for pipelines around other estimators, and for errors in comparable units.
    """

    def __init__(self, *, with_mean: bool = True, with_std: bool = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    def fit(self, X: Any, y: Any = None) -> "TrajectoryScaler":
        """Means and standard deviations over all rows of all recordings, as far as observed."""
        values = received(X).trajectories.values
        empty = np.isnan(values).all(axis=0)
        if empty.any():
            raise DataError(f"channel {int(empty.argmax())}: required at least one observed value, received none.")
        n = values.shape[1]
        std = np.nanstd(values, axis=0) if self.with_std else np.ones(n)
        self.mean_ = np.nanmean(values, axis=0) if self.with_mean else np.zeros(n)
        self.scale_ = np.where(std > 0, std, 1.0)
        self.n_features_in_ = n
        return self

    def transform(self, X: Any) -> Any:
        """Into standard units, in the form of X."""
        check_is_fitted(self)
        return self._mapped(X, Scaling(self.mean_, self.scale_))

    def inverse_transform(self, X: Any) -> Any:
        """Back into the units of the recordings, in the form of X."""
        check_is_fitted(self)
        return self._mapped(X, Scaling(-self.mean_ / self.scale_, 1 / self.scale_))

    def _mapped(self, X: Any, scaling: Scaling) -> Any:
        given = received(X)
        if given.trajectories.n_channels != self.n_features_in_:
            raise DataError(
                f"required {self.n_features_in_} channels as in fit, received {given.trajectories.n_channels}."
            )
        values = scaling(given.trajectories.values)
        if isinstance(X, Trajectories):
            return replace(X, values=values)
        if given.form == "list":
            return (
                list(replace(given.trajectories, values=values))
                if _beside(given.trajectories)
                else given.returned(values)
            )
        return given.returned(values, given.trajectories.names)


def _beside(trajectories: Trajectories) -> bool:
    return trajectories.inputs is not None or trajectories.hints is not None
