"""The methods of `PSIM` that answer about recordings: each takes the estimator first."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from psimlearn.checks import switch
from psimlearn.estimator.channels import asked
from psimlearn.estimator.channels import future_inputs as checked_inputs
from psimlearn.estimator.checks import rows_ahead
from psimlearn.estimator.output import belief_names, hint_names
from psimlearn.estimator.scores import mean_log_likelihood, r_squared
from psimlearn.estimator.sharded import score_of_shards
from psimlearn.filter import Filter
from psimlearn.filter.live import Live
from psimlearn.filter.predict import foretold
from psimlearn.filter.rollout import rolled
from psimlearn.filter.symbols import SymbolLive
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import foretelling
from psimlearn.shapes import Float

__all__ = [
    "forecast",
    "hints",
    "predict",
    "predict_interval",
    "predict_proba",
    "score",
    "score_samples",
    "start",
    "transform",
]


def predict(model: Any, X: Any, horizon: int = 1) -> Any:
    """Row t predicts x_t from the rows up to t - horizon; in the form of X."""
    given = asked(model, X)
    return given.returned(_foretold(model.filter_, given.trajectories, horizon), channels=True)


def predict_proba(model: Any, X: Any, horizon: int = 1) -> Any:
    """Row t holds the probability of each symbol at t given the rows up to t - horizon, in alphabet order."""
    given = asked(model, X)
    names = model.filter_.alphabet.symbols
    return given.returned(_foretold(model.filter_, given.trajectories, horizon), names=names)


def predict_interval(model: Any, X: Any, horizon: int = 1, coverage: float = 0.9) -> tuple[Any, Any]:
    """Lower and upper bounds around `predict` that cover this share of observations."""
    given = asked(model, X)
    data, horizon = given.trajectories, rows_ahead(horizon, "horizon", *given.trajectories.values.shape)
    prediction = foretold(model.filter_, data, horizon).at(foretelling(data.offsets, horizon))
    low, high = (given.returned(bound, channels=True) for bound in prediction.interval(coverage))
    return low, high


def forecast(
    model: Any,
    X: Any,
    steps: int,
    return_std: bool = False,
    future_inputs: Any = None,
    *,
    coverage: float | None = None,
) -> Any:
    """Predict beyond the end of each recording: (m, steps, n), or (steps, n) for a single array.

    For frames, a frame with `steps` rows for each recording: its id, and the times that follow its last row.

    Args:
        model: a fitted `PSIM`.
        X: recordings.
        steps: how many rows.
        return_std: return (mean, std); NaN beyond the horizons that calibration reached.
        future_inputs: known inputs of those rows, (m, steps, p) or (steps, p); or frames with the columns of the
            inputs in `fit`, if it was given frames.
        coverage: return (mean, low, high) with intervals that cover this share of observations.
    """
    given = asked(model, X)
    data = given.trajectories
    steps = rows_ahead(steps, "steps", len(data), data.n_channels)
    inputs = checked_inputs(model, future_inputs, data, steps)
    state = model.filter_.run(data, None if inputs is None else inputs[:, 0])[1]
    if not switch(return_std, "return_std") and coverage is None:
        return given.one_each(model.filter_.ahead(state, steps, inputs))
    prediction = model.filter_.predict(state, steps, inputs)
    return tuple(given.one_each(part) for part in prediction.parts(return_std, coverage))


def transform(model: Any, X: Any) -> Any:
    """The belief after each row, in standardised units; in the form of X."""
    given = asked(model, X)
    rollout = rolled(model.filter_, given.trajectories)
    return given.returned(rollout.layout.plan.packed(rollout.beliefs), names=belief_names(model.filter_))


def score(model: Any, X: Any, y: Any = None) -> float:
    """R^2 of the one-step predictions, averaged over channels; NaN if no channel varies.

    For symbols, the mean log-likelihood of the observed ones, in nats: at most 0, and higher is better.
    """
    if isinstance(X, Shards):
        check_is_fitted(model)
        return score_of_shards(model.filter_, X)
    data = asked(model, X).trajectories
    if data.alphabet is not None:
        return mean_log_likelihood(model.filter_, data)
    return r_squared(model.filter_.scaling(data.values), model.filter_.scaling(_foretold(model.filter_, data, 1)))


def score_samples(model: Any, X: Any, relative: bool = False) -> Any:
    """The log-likelihood of each row given the rows before it, in nats: low for rows unlike the training data.

    With `relative`, less its expectation: comparable between rows of which more or less was known, as first rows.
    """
    given = asked(model, X)
    nats = model.filter_.log_likelihood(given.trajectories, relative=switch(relative, "relative"))
    return given.returned(nats, names=["log_likelihood"])


def hints(model: Any, X: Any) -> Any:
    """E[h_t | x_1 .. x_t]: the quantities measured in training only, estimated at every row; in the form of X."""
    given = asked(model, X)
    estimates = model.filter_.hints(given.trajectories)
    return given.returned(estimates, names=hint_names(model, estimates.shape[1]))


def start(model: Any, n_streams: int = 1, alarm: float | None = None) -> Any:
    """A live filter of one stream or a bank of streams: a `Live`, or for symbols a `SymbolLive`.

    With the rate `alarm`, such as 0.001, `live.alarm` tells after each row whether it is part of an alarm.
    """
    check_is_fitted(model)
    return (Live if model.filter_.alphabet is None else SymbolLive)(model.filter_, n_streams, alarm)


def _foretold(filter: Filter, data: Trajectories, horizon: int) -> Float[np.ndarray, "rows n"]:
    ahead = filter.forecast(data, rows_ahead(horizon, "horizon", *data.values.shape))
    return ahead[foretelling(data.offsets, horizon)]
