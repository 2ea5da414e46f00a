"""The online face of a filter: one stream, or a bank of thousands, one observation at a time."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from psimlearn.checks import room_for, switch, whole
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.alarms import Bell, alarm_scores, channels_in_alarm, known_thresholds
from psimlearn.filter.cards import card_of_live, line_of_live
from psimlearn.filter.doubt import Doubt
from psimlearn.filter.filter import Filter
from psimlearn.filter.lastrow import held_inputs, hints_at_last_row, last_row, outside_at_last_row
from psimlearn.filter.likelihood import log_likelihood
from psimlearn.filter.outside import Outside
from psimlearn.filter.pace import NO_TIMES
from psimlearn.filter.pending import Settled, Waiting
from psimlearn.filter.step import State
from psimlearn.filter.streams import streams as new_streams
from psimlearn.recordings.arrays import check_finite, numbers
from psimlearn.shapes import Float

__all__ = ["Live"]

FLOAT = np.dtype(np.float64)


class Live:
    """A filter at work on one stream, or on `n_streams` streams that never influence each other.

    With one stream, observations are (n,), inputs (p,) and answers have no axis of streams; with more, observations are
    (n_streams, n), inputs (n_streams, p), and streams are the first axis of every answer. With a rate, such as 0.001,
    `alarm` tells after every row whether the stream is in alarm.
    """

    _streams = Settled()

    def __init__(self, filter: Filter, n_streams: int = 1, alarm: float | None = None) -> None:
        self.filter = filter
        self.n_streams = n_streams = whole(n_streams, "n_streams")
        room_for("n_streams", n_streams, len(filter.initial) + filter.lags * len(filter.scaling.mean))
        self._shape = () if n_streams == 1 else (n_streams,)
        self._with_inputs, self._feedthrough = filter.input_scaling is not None, filter.feedthrough
        self._x_shape = (*self._shape, len(filter.scaling.mean))
        self._nothing = np.full(self._x_shape, np.nan)
        self._runner = new_streams(filter, n_streams)
        self._waiting: Waiting | None = None
        self._bell = None if alarm is None else Bell.of(known_thresholds(filter), alarm, n_streams)
        self._pace = NO_TIMES

    def update(self, x: Any, u: Any = None, next_u: Any = None, time: Any = None) -> None:
        """Take one row of every stream. A refused row changes nothing.

        Args:
            x: observations; NaN where a channel, or a whole stream, was not observed; None if nothing arrived at all.
                Either way time moves on by one row.
            u: inputs that acted at this row, if the filter was learnt with inputs.
            next_u: inputs that act at the next row, for a filter with feed-through. If not given, predictions hold
                them at u, and the next update takes this row again with the inputs that did act.
            time: the time of the row: a number of seconds, a date, or a text in ISO 8601. Rows that were missed since
                the last row count as not observed, and inputs stay; a row that comes too early is refused.
        """
        if type(x) is not np.ndarray or x.shape != self._x_shape or x.dtype is not FLOAT:
            x = self._nothing if x is None else numbers(x, self._x_shape, "x")
        quick = self._runner.quick
        if quick and u is None and time is None and self._bell is None and self._pace is NO_TIMES and quick(x):
            return
        if time is not None or self._pace.last is not None:
            self._update_at(time, x, u, next_u)
            return
        told = next_u is not None or not self._feedthrough
        if u is not None or self._with_inputs:
            u, next_u = self._inputs(u, next_u)
        if told and self._waiting is None:
            self._runner.take(x, u, next_u)
        else:
            self._take_waiting(x, u, next_u, told)
        if self._bell is not None:
            self._bell = self._bell.after(alarm_scores(self.filter, *last_row(self._streams)))

    def predict(
        self, horizon: int = 1, return_std: bool = False, coverage: float | None = None, future_inputs: Any = None
    ) -> Any:
        """Predict the row `horizon` steps ahead.

        Args:
            horizon: 1 is the row that `update` takes next.
            return_std: also return standard deviations; beyond the calibrated horizons they grow as a linear or
                random-feature model says, and are NaN for other filters.
            coverage: also return bounds that hold this share of observations, such as 0.9.
            future_inputs: known inputs of the next `horizon` rows, (.., horizon, p). Required beyond the window of a
                filter learnt with inputs. They replace the `next_u` of the last update. Without them, deviations and
                bounds are wider: they are for inputs that are not known.

        Returns:
            The mean, (n,) or (n_streams, n); with `return_std` a pair (mean, std); with `coverage` (mean, low, high).
        """
        plain = return_std is False and coverage is None and future_inputs is None
        if plain and type(horizon) is int and 1 <= horizon <= self.filter.features.window:
            return self._squeezed(self.filter.scaling.undo(self._streams.expected(horizon)))
        return self._answers(horizon, "horizon", -1, return_std, coverage, future_inputs)

    def forecast(
        self, steps: int, return_std: bool = False, coverage: float | None = None, future_inputs: Any = None
    ) -> Any:
        """Predict the next `steps` rows, (steps, n) or (n_streams, steps, n); the arguments are as in `predict`."""
        return self._answers(steps, "steps", slice(None), return_std, coverage, future_inputs)

    @property
    def belief(self) -> Float[np.ndarray, "*streams d"]:
        """The belief m_{t+1} after t rows, in standardised units."""
        return self._squeezed(self._streams.belief).copy()

    @property
    def state(self) -> State:
        """The memory of all streams, streams first."""
        return self._state(self._streams.belief)

    @property
    def late(self) -> Any:
        """The number of rows before the first in which anything was observed."""
        late = self._streams.late
        return int(late[0]) if self.n_streams == 1 else late

    @property
    def doubt(self) -> Doubt | None:
        """The covariance that gaps have opened, streams in groups; None if nothing is in doubt."""
        return self._streams.doubt

    @property
    def unseen(self) -> Any:
        """The number of rows since anything was observed: a whole number, or for a bank an array, one for each."""
        unseen = np.broadcast_to(self._streams.unseen, self.n_streams).copy()
        return int(unseen[0]) if self.n_streams == 1 else unseen

    @property
    def missed(self) -> int:
        """The number of rows that were missed just before the last row, by its time; 0 without times."""
        return self._pace.missed

    @property
    def outside(self) -> list[Outside]:
        """The observations of the last row that lie far outside the range of the training data; mostly none.

        Each is a tuple (stream, channel, factor); the factor is the distance from the mean of the training data, in
        their standard deviations, and is above 10.
        """
        return outside_at_last_row(self._streams)

    @property
    def log_likelihood(self) -> Any:
        """The log-likelihood of the last row given the rows before it, in nats; 0 for a stream without observation."""
        nats = log_likelihood(self.filter, *last_row(self._streams)) + 0.0  # no -0
        return float(nats[0]) if self.n_streams == 1 else nats

    @property
    def alarm(self) -> Any:
        """Whether the stream is in alarm after the last row; for a bank an array, one for each stream."""
        rings = self._rung().rings
        return bool(rings[0]) if self.n_streams == 1 else rings.copy()

    @property
    def alarm_channel(self) -> Any:
        """The channel that contributed most to the last row in alarm, by name or number; None without an alarm."""
        rings = self._rung().rings
        none = np.full(self.n_streams, None)
        names = channels_in_alarm(self.filter, rings, *last_row(self._streams)) if rings.any() else none
        return names[0] if self.n_streams == 1 else names

    @property
    def hints(self) -> Float[np.ndarray, "*streams h"]:
        """E[h_t | x_1 .. x_t] at the last row t; NaN for streams without a row since their reset."""
        return self._squeezed(hints_at_last_row(self._streams))

    def reset(self, streams: int | Sequence[int] | np.ndarray | None = None) -> None:
        """Start all streams again, or the streams given by number, numbers or a boolean mask."""
        chosen = np.zeros(self.n_streams, dtype=bool)
        try:
            chosen[slice(None) if streams is None else np.array(streams)] = True
        except IndexError as error:
            raise DataError(
                f"streams: required numbers from 0 to {self.n_streams - 1} or a mask of {self.n_streams}, "
                f"received {streams!r}."
            ) from error
        self._streams.reset(chosen)
        self._bell = None if self._bell is None else self._bell.begun_again(chosen)
        self._pace = NO_TIMES if chosen.all() else self._pace
        if self._waiting is not None:
            self._waiting = self._waiting._replace(reset=self._waiting.reset | chosen)

    def copy(self) -> "Live":
        """Return a copy with the same memory; from here on, updates of one do not change the other."""
        twin = object.__new__(Live)
        twin.__dict__.update(self.__dict__, _runner=copy.copy(self._streams))
        return twin

    __copy__ = copy

    __repr__ = line_of_live
    _repr_html_ = card_of_live

    def _squeezed(self, rows: np.ndarray) -> np.ndarray:
        """Drop the axis of streams if there is only one."""
        squeezed: np.ndarray = rows[0] if self.n_streams == 1 else rows
        return squeezed

    def _inputs(self, u: Any, next_u: Any) -> tuple[np.ndarray, np.ndarray]:
        """The inputs of this row and of the next row, checked."""
        scaling = self.filter.input_scaling
        if scaling is None:
            raise DataError("u: this filter was learnt without inputs, received inputs; call update(x) alone.")
        if u is None:
            raise DataError(f"u: this filter was learnt with {len(scaling.mean)} inputs, received none; pass u.")
        shape = (*self._shape, len(scaling.mean))
        u = numbers(u, shape, "u")
        return u, u if next_u is None else numbers(next_u, shape, "next_u")

    def _answers(
        self, steps: int, what: str, kept: int | slice, return_std: bool, coverage: float | None, future_inputs: Any
    ) -> Any:
        """The mean of the kept rows ahead, then their std or their bounds if requested."""
        room_for(what, self.n_streams, whole(steps, what), self._x_shape[-1])
        if switch(return_std, "return_std") and coverage is not None:
            raise SettingsError("pass either return_std or coverage, not both.")
        inputs = self._future(future_inputs, int(steps))
        state = self._state(self._belief_given(inputs))
        if not return_std and coverage is None:
            return self._squeezed(self.filter.ahead(state, int(steps), inputs)[:, kept])
        knows_next = self._waiting is None and bool(self._streams.clock.any())
        prediction = self.filter.predict(state, int(steps), inputs, knows_next=knows_next)
        return tuple(self._squeezed(part[:, kept]) for part in prediction.parts(return_std, coverage))

    def _update_at(self, time: Any, x: Any, u: Any, next_u: Any) -> None:
        """Take a row after the rows that were missed before it; on a copy, so that a refused row changes nothing."""
        last, pace = self._pace, self._pace.at(time, self.filter.time_step)
        twin = self.copy() if pace.missed else self
        try:
            twin._pace = NO_TIMES
            for _ in range(pace.missed):
                twin.update(None, self._squeezed(held_inputs(self._streams)) if self._with_inputs else None)
            twin.update(x, u, next_u)
        finally:
            self._pace = last
        self.__dict__.update(twin.__dict__, _pace=pace)

    def _take_waiting(self, x: np.ndarray, u: np.ndarray, next_u: np.ndarray, told: bool) -> None:
        """Take a row after the row that waited for its inputs; without the next inputs it waits in turn."""
        streams = self._streams
        if self._waiting is not None:
            streams = copy.copy(self._waiting.before)  # so that a refused row changes nothing
            streams.take(self._waiting.x, self._waiting.u, u)
            if self._waiting.reset.any():
                streams.reset(self._waiting.reset)
        waiting = None if told else Waiting(copy.copy(streams), x.copy(), u.copy(), np.zeros(self.n_streams, bool))
        streams.take(x, u, next_u)
        self._streams, self._waiting = streams, waiting

    def _state(self, belief: Float[np.ndarray, "b d"]) -> State:
        """The memory of all streams, with this belief."""
        streams = self._streams
        unseen = np.broadcast_to(streams.unseen, self.n_streams)
        return State(belief, streams.recent, streams.clock, unseen, streams.late, streams.doubt, streams.unrest)

    def _future(self, future_inputs: Any, steps: int) -> Float[np.ndarray, "b steps p"] | None:
        """The inputs of the rows ahead, checked, streams first."""
        if future_inputs is None:
            return None
        if self.filter.input_scaling is None:
            raise DataError("future_inputs: this filter was learnt without inputs, received inputs; leave them out.")
        shape = (*self._shape, steps, len(self.filter.input_scaling.mean))
        inputs = numbers(future_inputs, shape, "future_inputs").reshape(self.n_streams, steps, -1)
        check_finite(inputs.reshape(len(inputs), -1), "future_inputs", "stream {}".format, missing_allowed=False)
        return inputs

    def _belief_given(self, inputs: Float[np.ndarray, "b steps p"] | None) -> Float[np.ndarray, "b d"]:
        """The belief. If inputs act at once, the last step is taken again with the next inputs that are now known."""
        streams, scaling = self._streams, self.filter.input_scaling
        if inputs is None or scaling is None or not self.filter.feedthrough or not streams.clock.any():
            return streams.belief
        u = scaling.undo(streams.controls[:, : inputs.shape[2]])
        again = streams.given_inputs(self.filter.controls(u, inputs[:, 0], len(u)))
        return np.where(streams.clock[:, None] > 0, again, self.filter.initial)

    def _rung(self) -> Bell:
        """The state of the alarms; refused if they were not asked for."""
        if self._bell is None:
            raise SettingsError("alarm: required a rate of alarms at the start, received none: start(alarm=0.001).")
        return self._bell
