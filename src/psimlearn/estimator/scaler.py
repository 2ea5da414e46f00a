"""Standardisation of ragged recordings, for scikit-learn pipelines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from psimlearn.estimator.channels import checked
from psimlearn.filter import Scaling
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["TrajectoryScaler"]


class TrajectoryScaler(TransformerMixin, BaseEstimator):
    """`StandardScaler` for recordings of unequal length: one mean and standard deviation for each channel.

    NaN stays NaN; a constant channel keeps its unit; inputs and hints pass through. `PSIM` standardises by itself:
    this is for pipelines around other estimators, and for errors in comparable units.
    """

    # scikit-learn's rule: __init__ takes anything, and fit complains; so each type is a hint
    def __init__(self, *, with_mean: bool | Any = True, with_std: bool | Any = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    def fit(self, X: Any, y: Any = None) -> "TrajectoryScaler":
        """Learn means and standard deviations over all observed rows of all recordings."""
        mean, scale = standardisation(checked(self, X, reset=True).trajectories.values)
        self.mean_ = mean if self.with_mean else np.zeros_like(mean)
        self.scale_ = scale if self.with_std else np.ones_like(scale)
        return self

    def transform(self, X: Any) -> Any:
        """The recordings in standard units, in the form of X."""
        check_is_fitted(self)
        return self._mapped(X, Scaling(self.mean_, self.scale_).__call__)

    def inverse_transform(self, X: Any) -> Any:
        """Standardised recordings back in the original units, in the form of X."""
        check_is_fitted(self)
        return self._mapped(X, Scaling(self.mean_, self.scale_).undo)

    def _mapped(self, X: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
        given = checked(self, X)
        data = given.trajectories
        values = change(data.values)
        if isinstance(X, Trajectories):
            return replace(data, values=values)
        if data.inputs is not None or data.hints is not None:
            return list(replace(data, values=values))
        return given.returned(values, channels=True)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that NaN is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
