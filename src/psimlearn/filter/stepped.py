"""Live streams of any filter, run by the textbook step; and the memory that all runners of streams keep."""

from collections.abc import Callable
from typing import Any

import numpy as np

from psimlearn.filter.doubt import Doubt
from psimlearn.filter.learnt import Learnt, start
from psimlearn.filter.step import State, following_at, inputs
from psimlearn.filter.stepping import step
from psimlearn.recordings.arrays import check_finite
from psimlearn.shapes import Bool, Float, Int

__all__ = ["SteppedStreams", "Streams", "Values"]

Values = Float[np.ndarray, "..."]
"""A row of one stream, (n,), or of a bank, (b, n)."""


class Streams:
    """The time of every stream, and which entries of its last row were missing."""

    def __init__(self, filter: Learnt, n_streams: int) -> None:
        self.filter = filter
        self.missing: Bool[np.ndarray, "b n"] | None = None
        """Marks the entries of the last row that were not observed; None if all were observed."""
        self.unseen: Int[np.ndarray, " b"] | int = 0
        """The number of rows since anything was observed."""
        self.unseen_before: Int[np.ndarray, " b"] | int = 0
        """The value of `unseen` before the last row."""
        self.late = self.late_before = np.zeros(n_streams, dtype=np.int64)
        """The number of rows before the first in which anything was observed; and the same before the last row."""
        self.doubt: Doubt | None = None
        """The covariance that gaps have opened; None if nothing is in doubt."""
        self.doubt_before: Doubt | None = None
        """The doubt before the last row."""
        self.corrected: Float[np.ndarray, "b h"] | None = None
        """The part of the hints that is read from the belief before the last row, if the row has corrected it."""
        self.unrest = start(filter, n_streams).unrest
        """The fading mean of squared errors, if intervals follow the situation; None if they do not."""
        self.quick: Callable[[np.ndarray], bool] | None = None
        """Take the next row of one stream, if it is complete, and return whether it was; None if `take` has to."""
        self._time = self._last_reset = 0
        self._born = np.zeros(n_streams, dtype=np.int64)

    @property
    def clock(self) -> Int[np.ndarray, " b"]:
        """The number of rows that each stream has had."""
        return self._time - self._born

    def settle(self) -> None:
        """Note the rows that `quick` has taken."""

    def reset(self, chosen: Bool[np.ndarray, " b"]) -> None:
        """Start some streams again."""
        self._last_reset = self._time
        self._born = np.where(chosen, self._time, self._born)
        self.unseen = np.where(chosen, 0, self.unseen)
        self.late = np.where(chosen, 0, self.late)
        self.doubt = self.doubt and self.doubt.without(chosen)
        self.unrest = None if self.unrest is None else np.where(chosen[:, None], 1.0, self.unrest)

    def _note(self, x: Float[np.ndarray, "b n"]) -> None:
        """Remember which entries of the last row were missing."""
        self.missing = np.isnan(x)
        blind = self.missing.all(axis=1)
        self.unseen_before, self.unseen = self.unseen, np.where(blind, self.unseen + 1, 0)
        self.late_before, self.late = self.late, self.late + (blind & (self.clock == self.late))

    def _part(self, horizon: int, belief: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b q"]:
        """The observation expected `horizon` steps ahead, within the window; the whole belief for horizon 0."""
        return self.filter.features.observations(belief)[:, horizon - 1] if horizon else belief

    def _finite(self, *values: Values | None) -> list[Any]:
        """Reshape x, u and next_u, streams first, and refuse numbers that are not finite, except NaN in x."""
        rows = [None if value is None else value.reshape(len(self._born), -1) for value in values]
        for what, row in zip(("x", "u", "next_u"), rows, strict=True):
            if row is not None:
                check_finite(row, what, "stream {}".format, missing_allowed=what == "x")
        return rows


class SteppedStreams(Streams):
    """Streams of any filter, run by the textbook step."""

    def __init__(self, filter: Learnt, n_streams: int) -> None:
        super().__init__(filter, n_streams)
        self.belief, self.recent, *_ = start(filter, n_streams)
        self.held = self.belief
        self.controls = np.empty((n_streams, 0))

    def take(self, x: Values, u: Values | None, next_u: Values | None) -> None:
        """Take one row of every stream."""
        x, u, next_u = self._finite(x, u, next_u)
        with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverges is a value, not a crash
            before = State(self.belief, self.recent, self.clock, 0, self.late, None, self.unrest)
            after = step(self.filter, before, x, u, next_u)
        self.controls = self.filter.controls(u, next_u, len(x))
        self.held, self.belief, self.recent, self.unrest = self.belief, after.belief, after.recent, after.unrest
        self._note(x)
        self._time += 1

    def expected(self, horizon: int) -> Float[np.ndarray, "b n"]:
        """The expected observation within the window, standardised."""
        return self._part(horizon, self.belief)

    def given_inputs(self, controls: Float[np.ndarray, "b q"]) -> Float[np.ndarray, "b d"]:
        """The belief after the last row, if its inputs and the next ones are these: the last step is taken again."""
        recursion, recent = self.filter.recursion, self.recent
        z = inputs(recursion, self.held, recent.reshape(len(recent), -1), controls)
        return following_at(recursion, z, recent[:, 0], np.maximum(self.clock - 1, 0))

    def reset(self, chosen: Bool[np.ndarray, " b"]) -> None:
        """Start some streams again."""
        super().reset(chosen)
        self.belief = np.where(chosen[:, None], self.filter.initial, self.belief)
