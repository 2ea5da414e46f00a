"""The last row of live streams, as likelihoods, alarms and hints see it."""

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter.likelihood import doubt_of_row, hints_at
from psimlearn.filter.outside import Outside, outside_at
from psimlearn.filter.step import State
from psimlearn.filter.stepped import SteppedStreams
from psimlearn.filter.streams import FoldedStreams
from psimlearn.shapes import Float, Int

__all__ = ["held_inputs", "hints_at_last_row", "last_row", "outside_at_last_row"]

Streams = FoldedStreams | SteppedStreams


def last_row(streams: Streams) -> tuple[State, Float[np.ndarray, "b n"], Float[np.ndarray, "b n n"] | None]:
    """The state before the last row, the row, NaN where not observed, and what doubt adds to its errors."""
    clock = _rows_so_far(streams)
    x = np.where((clock == 0)[:, None], np.nan, streams.recent[:, 0])
    if streams.missing is not None:
        x[streams.missing] = np.nan
    unseen, late = (np.broadcast_to(count, len(clock)) for count in (streams.unseen_before, streams.late_before))
    before = State(streams.held, streams.recent, np.maximum(clock - 1, 0), unseen, late, streams.doubt_before)
    return before._replace(doubt=None), x, doubt_of_row(streams.filter, before)


def hints_at_last_row(streams: Streams) -> Float[np.ndarray, "b h"]:
    """E[h_t | x_1 .. x_t] at the last row t; NaN for streams without a row since their reset."""
    clock = _rows_so_far(streams)
    observed = streams.recent.reshape(len(clock), -1)
    hints = hints_at(streams.filter, streams.held, observed, streams.controls, streams.corrected)
    return np.where((clock == 0)[:, None], np.nan, hints)


def outside_at_last_row(streams: Streams) -> list[Outside]:
    """The observations of the last row that lie far outside the range of the training data."""
    x = streams.recent[:, 0]
    seen = np.broadcast_to((streams.clock > 0)[:, None], x.shape)
    return outside_at(streams.filter, x, seen if streams.missing is None else seen & ~streams.missing)


def held_inputs(streams: Streams) -> Float[np.ndarray, "b p"]:
    """The inputs of the next row if nobody tells them: the latest that the last row knew."""
    scaling = streams.filter.input_scaling
    assert scaling is not None
    return scaling.undo(streams.controls[:, -len(scaling.mean) :])


def _rows_so_far(streams: Streams) -> Int[np.ndarray, " b"]:
    """The number of rows that each stream has had; refused before the first row of all."""
    if not streams.clock.any():
        raise SettingsError("log_likelihood and hints: required a row, received none yet; call update first.")
    return streams.clock
