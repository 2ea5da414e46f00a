"""Predictions read from beliefs, with the uncertainty that calibration measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.features import Stack
from psimlearn.filter.learnt import Learnt, step
from psimlearn.filter.rollout import rolled
from psimlearn.filter.step import State, expected
from psimlearn.filter.uncertainty import Calibration
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import coming_places

__all__ = ["Prediction", "ahead", "claimed_variance", "coming_inputs", "forecast", "foretold", "predict"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted observations with standard deviations, both in the units of the recordings."""

    mean: Float[np.ndarray, "*b n"]
    std: Float[np.ndarray, "*b n"]
    """NaN beyond the horizons that calibration reached."""
    horizon: Int[np.ndarray, "*b"]
    """The number of rows from the last row in which anything was observed to the predicted row."""
    calibration: Calibration

    def interval(self, coverage: float) -> tuple[Float[np.ndarray, "*b n"], Float[np.ndarray, "*b n"]]:
        """Return lower and upper bounds that hold this share of observations, such as 0.9."""
        reach = self.std * self.calibration.reach(self.horizon, coverage)
        return self.mean - reach, self.mean + reach

    def parts(self, return_std: bool, coverage: float | None) -> list[Float[np.ndarray, "*b n"]]:
        """The mean, and as asked for the standard deviation, or bounds of this coverage."""
        if coverage is not None:
            return [self.mean, *self.interval(coverage)]
        return [self.mean, self.std] if return_std else [self.mean]

    def at(self, place: Any) -> "Prediction":
        """Pick some of the predictions, by an index into all axes but the last, the channels."""
        return replace(self, mean=self.mean[place], std=self.std[place], horizon=self.horizon[place])


def ahead(
    filter: Learnt, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
) -> Float[np.ndarray, "b steps n"]:
    """Predict the next observations of every stream.

    Predictions are read from the belief, and beyond its window from the last block of the belief, which is advanced by
    its predictions. A belief averages over inputs that are yet to come; where these are given, the belief is advanced
    by its predictions and the given inputs from the first step on, and every prediction is read from block 1.

    Args:
        filter: a learnt filter.
        state: the state of b streams.
        steps: how many rows ahead; the first is the row that `step` would take next.
        future_inputs: known inputs at these rows. Required beyond the window of a filter learnt with inputs.
    """
    return filter.scaling.undo(_read(filter, filter.features.observations, state, steps, future_inputs))


def predict(
    filter: Learnt, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
) -> Prediction:
    """`ahead` with standard deviations and intervals, for a calibrated filter."""
    if filter.calibration is None:
        raise SettingsError(
            "uncertainty: required a calibrated filter of numbers, received one without calibration. Fit by PSIM, "
            "which calibrates; for symbols, use the probabilities of predict_proba."
        )
    horizon = np.arange(1, steps + 1) + np.broadcast_to(state.unseen, len(state.clock))[:, None]
    variance = filter.calibration.variance(horizon, claimed_variance(filter, state, steps, future_inputs))
    mean = ahead(filter, state, steps, future_inputs)
    return Prediction(mean, np.sqrt(variance) * filter.scaling.scale, horizon, filter.calibration)


def claimed_variance(
    filter: Learnt, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
) -> Float[np.ndarray, "b steps n"] | None:
    """Return the variances that beliefs claim for the next rows, standardised; None if their features claim none."""
    if filter.variances is None:
        return None
    return _read(filter, filter.variances.variance, state, steps, future_inputs)


def _read(
    filter: Learnt,
    blocks: Callable[[Float[np.ndarray, "b d"]], Float[np.ndarray, "b window n"]],
    state: State,
    steps: int,
    future_inputs: Float[np.ndarray, "b steps p"] | None,
) -> Float[np.ndarray, "b steps n"]:
    """Read the next rows from beliefs; `blocks` takes beliefs to their blocks."""
    if future_inputs is None:
        inside = blocks(state.belief)[:, :steps]
        beyond = [blocks(m)[:, -1:] for m in _advanced(filter, state, steps - inside.shape[1], None)]
        return np.concatenate([inside, *beyond], axis=1)
    if future_inputs.shape[1] < steps:
        raise DataError(f"future_inputs: required {steps} rows ahead, received {future_inputs.shape[1]}.")
    after = _advanced(filter, state, steps - 1, future_inputs)
    return np.stack([blocks(state.belief)[:, 0], *(blocks(m)[:, 0] for m in after)], axis=1)


def _advanced(
    filter: Learnt, state: State, steps: int, inputs: Float[np.ndarray, "b steps p"] | None
) -> Iterator[Float[np.ndarray, "b d"]]:
    """Yield the beliefs after one, two, .. steps, each of which takes the expected observation as observed."""
    for h in range(steps):
        u, next_u = (None, None) if inputs is None else inputs[:, h : h + 2].swapaxes(0, 1)
        state = step(filter, state, filter.scaling.undo(expected(filter.recursion, state.belief)), u, next_u)
        yield state.belief


def forecast(filter: Learnt, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
    """Predictions made before each row for that row and the rows after it.

    Entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}, and from the inputs up to then where there are any; it may
    lie beyond the end of the recording, where inputs are held at their last value.
    """
    rollout = rolled(filter, trajectories)
    plan = rollout.layout.plan
    if trajectories.inputs is None and isinstance(filter.features, Stack) and horizon <= filter.features.window:
        return plan.packed(filter.scaling.undo(rollout.blocks(horizon)))
    return plan.packed(ahead(filter, rollout.before, horizon, coming_inputs(trajectories, plan, horizon)))


def foretold(filter: Learnt, trajectories: Trajectories, horizon: int) -> Prediction:
    """Forecast with uncertainty: entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}."""
    rollout = rolled(filter, trajectories)
    plan = rollout.layout.plan
    predicted = predict(filter, rollout.before, horizon, coming_inputs(trajectories, plan, horizon))
    return predicted.at(np.argsort(plan.order))  # back in the order of the recordings


def coming_inputs(
    trajectories: Trajectories, plan: Schedule, horizon: int
) -> Float[np.ndarray, "rows horizon p"] | None:
    """Return the inputs of each scheduled row and of the rows after it; the last inputs are held beyond the end."""
    return None if trajectories.inputs is None else trajectories.inputs[plan.order][coming_places(plan, horizon)]
