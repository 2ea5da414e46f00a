"""Predictions read from beliefs, with the uncertainty that calibration measured."""

from collections.abc import Callable

import numpy as np

from psimlearn.checks import room_for, whole
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.doubt import Doubt
from psimlearn.filter.features import Stack
from psimlearn.filter.foresight import about_row, growth
from psimlearn.filter.foresight import ahead as doubt_of_rows
from psimlearn.filter.innovations import Innovations, has_innovations, innovations, memory, treats_exactly
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.onward import advanced, onward, runs_onward
from psimlearn.filter.opening import young
from psimlearn.filter.prediction import Prediction, Spread
from psimlearn.filter.rollout import Reading, Rollout, rolled
from psimlearn.filter.situated import situation
from psimlearn.filter.step import State
from psimlearn.filter.uncertainty import Calibration, InputsToCome
from psimlearn.filter.whole import blocks_before
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import beliefs_before, coming_places
from psimlearn.shapes import Float, Int

__all__ = ["after_unforeseen", "ahead", "before_unforeseen", "claimed_variance", "coming_inputs", "doubt_ahead"]
__all__ += ["doubt_of", "doubt_of_row_and_ahead", "forecast", "forecast_blind", "foretold", "inputs_to_come"]
__all__ += ["predict", "row_and_ahead"]


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
    room_for("steps", len(state.belief), whole(steps, "steps"), len(filter.scaling.mean))
    rows = _read(filter, filter.features.observations, state, steps, future_inputs)
    rows *= filter.scaling.scale  # in place, as `scaling.undo` would: of long recordings these rows fill the memory
    rows += filter.scaling.mean
    return rows


def predict(
    filter: Learnt,
    state: State,
    steps: int,
    future_inputs: Float[np.ndarray, "b steps p"] | None = None,
    *,
    knows_next: bool = False,
    doubt: Float[np.ndarray, "b steps n"] | None = None,
) -> Prediction:
    """`ahead` with standard deviations and intervals, for a calibrated filter.

    Errors are larger where inputs to come are unknown, and are measured apart. Doubt that gaps have left in the state
    adds its variance. A filter that keeps no doubt takes rows in which nothing was observed as a longer horizon. The
    inputs of unobserved rows were known, so they widen intervals by as much as where all inputs are known.

    Args:
        filter: a learnt filter.
        state: the state of b streams.
        steps: how many rows ahead.
        future_inputs: known inputs at these rows.
        knows_next: whether the step to this state received the next inputs, for a filter with feed-through.
        doubt: the variances that doubt adds, standardised; computed from the state if not given.
    """
    if filter.calibration is None:
        raise SettingsError(
            "uncertainty: required a calibrated filter of numbers, received one without calibration. Fit by PSIM, "
            "which calibrates; for symbols, use the probabilities of predict_proba."
        )
    mean = ahead(filter, state, steps, future_inputs)
    inputs = inputs_to_come(filter, steps, future_inputs is not None, knows_next)
    calibration = filter.measured(inputs)
    if calibration is None:
        raise SettingsError(
            "uncertainty: required a filter calibrated for unknown inputs, received one from an older version, "
            "whose intervals are for known inputs. Please fit the model again, or give future_inputs."
        )
    claimed = claimed_variance(filter, state, steps, future_inputs)
    doubt = doubt_of(filter, state, steps) if doubt is None else doubt
    doubt = None if doubt is None else doubt * filter.doubt_factor
    if doubt is not None and filter.starting is not None:  # before anything is seen, starting tells all the doubt
        doubt = np.where(np.reshape(state.age == 0, (-1, 1, 1)), 0.0, doubt)

    def spread(calibration: Calibration, horizon: Int[np.ndarray, "b steps"]) -> Spread:
        variance = calibration.variance(horizon, claimed)
        if np.isnan(variance).any() and has_innovations(filter):
            variance = _beyond(filter, state, calibration, horizon, variance)
        if filter.starting is not None:
            variance = variance * filter.starting.factor(age, horizon)
        in_doubt, share = variance, None
        if doubt is not None:
            in_doubt = variance + np.fmax(doubt, _of_empty_rows(filter, state, horizon))
            share = 1 - variance / in_doubt
        follows, factor = situation(filter, state, horizon, share) if inputs == "known" else (None, 1.0)
        std = np.sqrt(in_doubt * factor) * filter.scaling.scale
        starting, in_gaps, local = filter.starting, filter.in_gaps, filter.local
        return Spread(std, horizon, calibration, age, starting, share, in_gaps, follows, local)

    rows = np.broadcast_to(np.arange(1, steps + 1), mean.shape[:2])
    age = np.broadcast_to(np.reshape(state.age, (-1, 1)), rows.shape)
    if treats_exactly(filter):
        return Prediction(mean, inputs, spread(calibration, rows))
    known = spread(filter.calibration, rows + np.broadcast_to(state.unseen, len(rows))[:, None])
    if inputs == "known":
        return Prediction(mean, inputs, known)
    return Prediction(mean, inputs, spread(calibration, rows), (known, spread(filter.calibration, rows)))


def _of_empty_rows(filter: Learnt, state: State, horizon: Int[np.ndarray, "b steps"]) -> Float[np.ndarray, "b steps n"]:
    """The variance that rows without any observation add at least, as calibration found for predictions so far ahead.

    The model of a filter may say that errors grow more slowly than they do.
    """
    calibration = filter.calibration
    assert calibration is not None
    empty = np.broadcast_to(np.where(np.asarray(state.age) > 0, state.unseen, 0), len(horizon))[:, None]
    near, far = (np.minimum(steps, calibration.furthest) - 1 for steps in (horizon, horizon + empty))
    return np.asarray(np.maximum(calibration.base[far] - calibration.base[near], 0.0))


def doubt_of(filter: Learnt, state: State, steps: int) -> Float[np.ndarray, "b steps n"] | None:
    """The variances that doubt in a state adds to the errors of the next rows; None if there is no doubt."""
    if state.doubt is None:
        return None
    known = *_memory_and_inputs(filter, state), young(state.clock, np.asarray(state.late))
    return doubt_of_rows(innovations(filter), state.doubt, *known, steps)


def doubt_ahead(steps: int) -> Reading:
    """Read the variances that doubt adds to the errors of the next rows."""
    return lambda model, doubt, S, u, age: doubt_of_rows(model, doubt, S, u, age, steps)


def doubt_of_row_and_ahead(steps: int) -> Reading:
    """Read the covariance that doubt adds to the errors of the next row, and the variances for the next rows, flat."""

    def reading(
        model: Innovations, doubt: Doubt, S: np.ndarray, u: np.ndarray, age: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, "b columns"]:
        of_row, ahead = about_row(model, doubt, age), doubt_of_rows(model, doubt, S, u, age, steps)
        return np.concatenate([of_row.reshape(len(S), -1), ahead.reshape(len(S), -1)], axis=1)

    return reading


def row_and_ahead(
    read: Float[np.ndarray, "b columns"], n: int
) -> tuple[Float[np.ndarray, "b n n"], Float[np.ndarray, "b steps n"]]:
    """The two parts of a reading by `doubt_of_row_and_ahead`, of n channels."""
    return read[:, : n * n].reshape(-1, n, n), read[:, n * n :].reshape(len(read), -1, n)


def _memory_and_inputs(filter: Learnt, state: State) -> tuple[Float[np.ndarray, "b s"], Float[np.ndarray, "b q"]]:
    """The mean of the memory, and inputs at their mean: at most the derivative of random features depends on them."""
    width = 0 if filter.input_scaling is None else len(filter.input_scaling.mean) * (1 + filter.feedthrough)
    return memory(filter, innovations(filter), state), np.zeros((len(state.belief), width))


def _beyond(
    filter: Learnt,
    state: State,
    calibration: Calibration,
    horizon: Int[np.ndarray, "b steps"],
    variance: Float[np.ndarray, "b steps n"],
) -> Float[np.ndarray, "b steps n"]:
    """Continue variances beyond the horizons that calibration reached, as the model says they grow."""
    last = calibration.furthest
    grows = growth(innovations(filter), *_memory_and_inputs(filter, state), max(last, int(horizon.max())))
    grows = np.broadcast_to(grows, (len(horizon), *grows.shape[-2:]))
    rows = np.arange(len(horizon))[:, None]
    grown = grows[rows, horizon - 1] / grows[:, last - 1 : last]
    return np.where(np.isnan(variance), calibration.base[last - 1] * np.maximum(grown, 1.0), variance)


def inputs_to_come(filter: Learnt, steps: int, given: bool, knows_next: bool) -> InputsToCome:
    """Which inputs a prediction knows, of the inputs that act on the next `steps` rows.

    Args:
        filter: a learnt filter.
        steps: how many rows ahead.
        given: whether the inputs of all these rows are given.
        knows_next: whether the belief knows the next inputs, for a filter with feed-through.
    """
    if filter.feedthrough and not knows_next and not given:
        return "unknown"
    if filter.input_scaling is None or given or steps == 1:
        return "known"
    return "next known" if filter.feedthrough else "unknown"


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
    state = state._replace(doubt=None, unrest=None)  # rows that come as expected move no mean
    if future_inputs is not None and future_inputs.shape[1] < steps:
        raise DataError(f"future_inputs: required {steps} rows ahead, received {future_inputs.shape[1]}.")
    inside = blocks(state.belief)[:, : steps if future_inputs is None else 1]
    known, read = inside.shape[1], -1 if future_inputs is None else 0
    if future_inputs is None and filter.input_scaling is not None and steps > known:
        raise DataError(
            f"future_inputs: required the inputs of the next {steps} rows, received none. Without them, predictions "
            f"end with the belief, after {known} rows: give future_inputs, or use at most {known} steps."
        )
    rows = np.empty((len(inside), steps, inside.shape[2]))
    rows[:, :known] = inside
    if read == -1 and steps > known and runs_onward(filter, state):
        rows[:, known:] = onward(filter, state, steps - known)
        return rows
    for j, m in enumerate(advanced(filter, state, steps - known, future_inputs), known):
        rows[:, j] = blocks(m)[:, read]
    return rows


def forecast(filter: Learnt, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
    """Predictions made before each row for that row and the rows after it.

    Entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}, and from the inputs up to then where there are any; it may
    lie beyond the end of the recording, where inputs are held at their last value.
    """
    if trajectories.inputs is None and isinstance(filter.features, Stack) and horizon <= filter.features.window:
        return blocks_before(filter, trajectories, horizon)
    rollout = rolled(filter, trajectories)
    plan = rollout.layout.plan
    return plan.packed(ahead(filter, rollout.before, horizon, coming_inputs(trajectories, plan, horizon)))


def forecast_blind(filter: Learnt, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
    """`forecast` within the window, without the inputs of the predicted rows."""
    rollout = rolled(filter, trajectories)
    return rollout.layout.plan.packed(ahead(filter, before_unforeseen(rollout, trajectories), horizon))


def after_unforeseen(rollout: Rollout, trajectories: Trajectories) -> State:
    """The state after every scheduled row, without the inputs of the next row: with feed-through, inputs are held."""
    filter, order = rollout.filter, rollout.layout.plan.order
    if not filter.feedthrough or trajectories.inputs is None:
        return rollout.after
    u = trajectories.inputs[order]
    return rollout.after._replace(belief=rollout.given_inputs(slice(None), u, u))


def before_unforeseen(rollout: Rollout, trajectories: Trajectories) -> State:
    """The state before every scheduled row, without the inputs of that row."""
    after = after_unforeseen(rollout, trajectories).belief
    return rollout.before._replace(belief=beliefs_before(after, rollout.filter.initial, rollout.layout.plan))


def foretold(filter: Learnt, trajectories: Trajectories, horizon: int, *, inputs_known: bool = True) -> Prediction:
    """`forecast` with uncertainty; inputs of the predicted rows are known, or within the window they may be unknown."""
    rollout = rolled(filter, trajectories, doubt_ahead(horizon))
    plan, doubt = rollout.layout.plan, rollout.read_before
    before = rollout.before if inputs_known else before_unforeseen(rollout, trajectories)
    inputs = coming_inputs(trajectories, plan, horizon) if inputs_known else None
    predicted = predict(filter, before, horizon, inputs, doubt=doubt)
    return predicted.at(np.argsort(plan.order))  # back in the order of the recordings


def coming_inputs(
    trajectories: Trajectories, plan: Schedule, horizon: int
) -> Float[np.ndarray, "rows horizon p"] | None:
    """Return the inputs of each scheduled row and of the rows after it; the last inputs are held beyond the end."""
    return None if trajectories.inputs is None else trajectories.inputs[plan.order][coming_places(plan, horizon)]
