"""Live streams of the folded machine: one product per row. `stepped.py` runs the filters that cannot be folded."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.folded import Columns, Map, columns, fold, foldable, folded_map
from psimlearn.filter.innovations import LINEAR_IN_BELIEF, innovations, opening_rows, treats_exactly
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.quick import Quick, quick_step
from psimlearn.filter.regressors import Linear
from psimlearn.filter.stepped import SteppedStreams, Streams, Values
from psimlearn.shapes import Bool, Float

__all__ = ["FoldedStreams", "streams"]

INFINITY = float("inf")


def streams(filter: Learnt, n_streams: int) -> "FoldedStreams | SteppedStreams":
    """Start streams of a filter with the fastest runner for it."""
    return FoldedStreams(filter, n_streams) if foldable(filter) else SteppedStreams(filter, n_streams)


class Column(NamedTuple):
    """[z; 1] of one row of every stream, one column each, and its parts."""

    z: Float[np.ndarray, "p *b"]
    fed: Float[np.ndarray, "r *b"]
    x: Float[np.ndarray, "n *b"]
    recent: Float[np.ndarray, "q *b"]
    older: Float[np.ndarray, "q *b"]
    """The lags that this row shares with the row before."""
    newer: Float[np.ndarray, "q *b"]
    """The lags that this row shares with the next row."""
    u: Float[np.ndarray, "q *b"]
    given: Float[np.ndarray, " entries"]
    """All entries of z but the feedback, flat."""
    place: int
    """The number of this row among the three."""


class FoldedStreams(Streams):
    """Streams of a foldable filter, run by one matrix product per row.

    Streams are columns, so that every part of z is contiguous. Three rows of z take turns: the last but one, the last,
    and the next, which holds its feedback already. The first two give the beliefs before and after the last row, which
    are computed only on request.
    """

    def __init__(self, filter: Learnt, n_streams: int) -> None:
        super().__init__(filter, n_streams)
        machine = fold(filter)
        feed = self._scaled(machine.feed)
        self._feed = feed.weights.dot if feed.directions is None else feed  # one call less saves a tenth of a step
        self._first = machine.first
        self._step: Quick | None = None
        self._alone, self._lagged = n_streams == 1, filter.lags > 1
        self._mean = self._columns(filter.scaling.mean)
        self._u_mean = self._columns(np.empty(0) if filter.input_scaling is None else filter.input_scaling.mean)
        low, high = machine.low, machine.high
        self._box = None if low is None or high is None else (self._columns(low), self._columns(high))
        rows = np.zeros((3, feed.weights.shape[1], *self._mean.shape[1:]))
        rows[:, -1] = 1.0
        self._box_rows = np.stack(machine.bounds)
        self._weights = feed.weights if isinstance(machine.feed, Linear) else None
        self._rows = self._placed(rows)
        self._reads: dict[int, Columns] = {}
        self._model = innovations(filter) if treats_exactly(filter) else None
        self._opening = opening_rows(filter)
        self.reset(np.ones(n_streams, dtype=bool))

    def take(self, x: Values, u: Values | None, next_u: Values | None) -> None:
        """Take one row of every stream; a sum of squares shows whether every number is finite."""
        if self._step is not None and u is None and self._take_compiled(self._step, x):
            return
        before, last, now = self._rows
        given, fed = now.given, before.fed
        np.subtract(x if self._alone else x.T, self._mean, now.x)
        if self._lagged:
            self._put_lags(last, now)
        if u is not None and next_u is not None:
            self._put_inputs(now, u, next_u)
        if given.dot(given) < INFINITY and self.doubt is None and self._time >= self._opens_until:
            self._note_all()
        elif self._model is None:
            self._mend(last, now, x, u, next_u)
        else:
            self._take_in_doubt(last, now, x, u, next_u)
        self._note_unrest(x)
        if self._box is None:
            with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverges is a value, not a crash
                self._feed(now.z, fed)
        else:
            low, high = self._box
            self._feed(now.z, fed)
            np.maximum(fed, low, out=fed)
            np.minimum(fed, high, out=fed)
        self._rows = last, now, before
        self._time += 1

    def _take_compiled(self, step: Quick, x: Values) -> bool:
        """Take a finite row with the compiled step, if no row before it matters; then `quick` may take the next."""
        self.settle()
        self.quick = None
        if self.doubt is not None or self._time < self._alike_from:
            return False
        step.follow(self._rows[2].place)
        if not step.take(x):
            return False
        self._note_unrest(x)
        self.settle()
        self.quick = step.take if self.unrest is None else None
        return True

    def settle(self) -> None:
        """Note the rows that the compiled step took on its own: all were complete."""
        taken = 0 if self._step is None else self._step.taken()
        if taken:
            if taken > 1:
                self.unseen = 0
            self._note_all()
            rows, first = self._rows * 2, taken % 3
            self._rows = rows[first], rows[first + 1], rows[first + 2]
            self._time += taken

    def _note_all(self) -> None:
        """Remember that no entry of the last row was missing."""
        self.missing, self.unseen_before, self.unseen = None, self.unseen, 0
        self.late_before, self.doubt_before, self.corrected = self.late, None, None

    def _note_unrest(self, x: Values) -> None:
        """Let the unrest follow this row, before it becomes the last one."""
        if self.unrest is not None:
            row = self.filter.scaling(x.reshape(len(self._born), -1))
            self.unrest = self.filter.unrest_after(self.unrest, row, self.expected(1))

    def reset(self, chosen: Bool[np.ndarray, " b"]) -> None:
        """Start some streams again."""
        self.quick = None
        super().reset(chosen)
        self._opens_until = self._time + self._opening
        self._alike_from = self._time + max(self._opening, 1)  # the lags of a first row are its own
        self._by_stream(self._rows[2].fed)[chosen] = self._first

    @property
    def belief(self) -> Float[np.ndarray, "b d"]:
        """The belief m_{t+1}, after the last row."""
        return self._left_by(self._rows[1].z, self._time)

    @property
    def held(self) -> Float[np.ndarray, "b d"]:
        """The belief m_t, before the last row."""
        return self._left_by(self._rows[0].z, self._time - 1)

    def given_inputs(self, controls: Float[np.ndarray, "b q"]) -> Float[np.ndarray, "b d"]:
        """The belief after the last row, if its inputs and the next ones are these."""
        scaling, z = self.filter.input_scaling, self._rows[1].z.copy()
        assert scaling is not None
        unit = np.tile(scaling.scale, 1 + self.filter.feedthrough)
        self._by_stream(z[-1 - len(unit) : -1])[...] = controls * unit
        return self._left_by(z, self._time)

    def expected(self, horizon: int) -> Float[np.ndarray, "b n"]:
        """The expected observation within the window, standardised; the rest of the belief is not computed."""
        if isinstance(self.filter.features, LINEAR_IN_BELIEF):
            return self._left_by(self._rows[1].z, self._time, horizon)
        return self._part(horizon, self.belief)

    @property
    def recent(self) -> Float[np.ndarray, "b lags n"]:
        """The last observations, newest first, standardised and filled."""
        scale = self.filter.scaling.scale
        return np.asarray(self._by_stream(self._rows[1].recent).reshape(-1, self.filter.lags, len(scale)) / scale)

    @property
    def controls(self) -> Float[np.ndarray, "b q"]:
        """The inputs of the last row, standardised."""
        return self._standardised_inputs(self._rows[1])

    def _left_by(self, z: Float[np.ndarray, "p *b"], time: int, horizon: int = 0) -> Float[np.ndarray, "b q"]:
        """The beliefs after the row z at this time, or a part of them."""
        read = self._reads.get(horizon) or self._fold_part(horizon)
        out = np.empty((len(read.weights), *z.shape[1:]))
        if self._box is None:
            with np.errstate(over="ignore", invalid="ignore"):
                read(z, out)
        else:
            read(z, out)
        if time > self._last_reset:
            return self._by_stream(out)
        at_start = self._part(horizon, self.filter.initial[None])
        return np.where((self._born < time)[:, None], self._by_stream(out), at_start)

    def _fold_part(self, horizon: int) -> Columns:
        """Fold the map to a part of the belief, on first use."""
        self._reads[horizon] = self._scaled(folded_map(self.filter, partial(self._part, horizon)))
        return self._reads[horizon]

    def _scaled(self, map: Map) -> Columns:
        """Convert a map to one for columns that are centred but not scaled."""
        filter = self.filter
        units = [np.ones(len(filter.feedback.mean)), *[filter.scaling.scale] * filter.lags]
        if filter.input_scaling is not None:
            units += [filter.input_scaling.scale] * (1 + filter.feedthrough)
        return columns(map, np.concatenate(units))

    def _put_lags(self, last: Column, now: Column) -> None:
        """Write the observations before this row; before its first row, a stream repeats its first row."""
        now.older[...] = last.newer
        if self._time == self._last_reset and not self._opening:
            first = self._born == self._time
            self._by_stream(now.recent)[first] = np.tile(self._by_stream(now.x)[first], self.filter.lags)

    def _put_inputs(self, now: Column, u: Values, next_u: Values) -> None:
        p = u.shape[-1]
        np.subtract(u.T, self._u_mean, now.u[:p])
        if self.filter.feedthrough:
            np.subtract(next_u.T, self._u_mean, now.u[p:])

    def _mend(self, last: Column, now: Column, x: Values, u: Values | None, next_u: Values | None) -> None:
        """Refuse infinities; fill in missing observations."""
        x, *_ = self._finite(x, u, next_u)
        filled = self.filter.fill(self.filter.scaling(x), self.expected(1))
        np.copyto(self._by_stream(now.x), filled * self.filter.scaling.scale, where=np.isnan(x))
        if self._lagged:
            self._put_lags(last, now)
        self._note(x)

    def _take_in_doubt(self, last: Column, now: Column, x: Values, u: Values | None, next_u: Values | None) -> None:
        """Refuse infinities; correct what was in doubt by the entries seen, and keep the doubt about missing ones."""
        x, *_ = self._finite(x, u, next_u)
        model, filter = self._model, self.filter
        assert model is not None
        n, first, age = x.shape[1], len(filter.feedback.mean), self.clock
        fed = [self._by_stream(now.fed)] if model.r else []
        read = [] if filter.hinting is None else [self.belief @ filter.to_hints]
        older = self._by_stream(last.newer) / np.tile(filter.scaling.scale, filter.lags - 1)
        if filter.opening is not None and self._opening:
            older = np.where((age == 0)[:, None], filter.opening.older.ravel(), older)
        S = np.concatenate([*fed, self.expected(1), *read, older], axis=1)
        controls = self._standardised_inputs(now)
        taken = model.take(S, self.doubt, filter.scaling(x), controls, age)
        end = first + n * filter.lags
        unit = np.concatenate([np.ones(first), np.tile(filter.scaling.scale, filter.lags)])
        changed = np.tile(((taken.given.group >= 0) | (age < self._opening))[:, None], end)  # others keep every bit
        changed[:, first : first + n] &= np.isnan(x)
        np.copyto(self._by_stream(now.z[:end]), taken.z[:, :end] * unit, where=changed)
        self.doubt_before, self.doubt = self.doubt, taken.doubt
        self.corrected = taken.hints if filter.hinting is not None else None
        self._note(x)

    def _standardised_inputs(self, row: Column) -> Float[np.ndarray, "b q"]:
        """The inputs of a row, standardised."""
        scaling, u = self.filter.input_scaling, self._by_stream(row.u)
        return u if scaling is None else u / np.tile(scaling.scale, 1 + self.filter.feedthrough)

    def _columns(self, values: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q *b"]:
        """Repeat values for every stream, in full: broadcasting a column is slower."""
        return values.copy() if self._alone else np.tile(values[:, None], len(self._born))

    def _by_stream(self, columns: Float[np.ndarray, "q *b"]) -> Float[np.ndarray, "b q"]:
        """View columns with the streams first."""
        return columns[None] if self._alone else columns.T

    def _views(self, rows: Float[np.ndarray, "three p *b"]) -> tuple[Column, Column, Column]:
        """View each row with its parts."""
        r, n = len(self.filter.feedback.mean), len(self.filter.scaling.mean)
        end = r + n * self.filter.lags
        views = [
            Column(
                z, z[:r], z[r : r + n], z[r:end], z[r + n : end], z[r : end - n], z[end:-1], z[r:].reshape(-1), place
            )
            for place, z in enumerate(rows)
        ]
        return views[0], views[1], views[2]

    def _placed(self, rows: Float[np.ndarray, "three p *b"]) -> tuple[Column, Column, Column]:
        """View each row with its parts; the rows of a single stream lie in the store of its compiled step."""
        self._step = quick_step(self._weights, self._box_rows, self._mean, rows) if self._alone else None
        return self._views(rows if self._step is None else self._step.rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows without views of their parts: a copy or a pickle would separate views from their row."""
        self.settle()
        rows = np.stack([row.z for row in self._rows])
        return {**self.__dict__, "_rows": rows, "_step": None, "quick": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the views of the rows."""
        self.__dict__.update(state)
        self._rows = self._placed(state["_rows"])
