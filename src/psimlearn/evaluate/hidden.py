"""Entries hidden on purpose: how large errors inside gaps are, on recordings that the filter was not fitted to."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.evaluate.calibrate import Unseen, first_rows, thinned
from psimlearn.filter import Filter
from psimlearn.filter.ingaps import in_gaps
from psimlearn.filter.innovations import treats_exactly
from psimlearn.filter.predict import doubt_ahead
from psimlearn.filter.rollout import rolled
from psimlearn.filter.step import expected
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import row_times
from psimlearn.shapes import Bool, Float, Int

__all__ = ["with_gaps_measured"]

LONGEST = 20
"""Rows of a gap; the fourth part of shorter recordings, and at least 2."""
MOST_ROWS = 20_000
"""Rows with gaps that a filter is tried on: bounds the time."""
WIDE, N_TURNS = 100, 4
"""The numbers in a filter's memory from which recordings are cut, and to how many times the rows of a gap.

The time of a row grows with the cube of the memory, and the rows of many gaps in one recording tell little more.
"""
MOST_PATTERNS = 12
"""Patterns of gaps that a filter is tried on: each has a covariance of its own."""


def with_gaps_measured(filter: Filter, unseen: Sequence[Unseen]) -> Filter:
    """The filter, with its doubt compared to the errors of hidden entries of unseen recordings.

    In each copy of a recording, one channel is hidden for some rows, seen for as many, hidden again, and so on.

    Args:
        filter: a calibrated filter; returned as it is if it fills gaps in.
        unseen: this filter or others learnt like it, each with recordings that it was not fitted to.
    """
    if filter.calibration is None or not treats_exactly(filter) or filter.calibration.still.all():
        return filter
    channels = np.flatnonzero(~filter.calibration.still)
    parts = [_hidden(filter, other, held, np.roll(channels, -i)) for i, (other, held) in enumerate(unseen)]
    found = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return replace(filter, in_gaps=in_gaps(*found) if found else None)


def _hidden(
    filter: Filter, other: Filter, held: Trajectories, channels: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, " entries"], Float[np.ndarray, " entries"], Float[np.ndarray, " entries"]]:
    """The errors of hidden entries, their variances without gaps and the variances that doubt adds.

    They are in the units of `filter`.
    """
    assert filter.calibration is not None
    length = int(np.clip(np.median(held.lengths) // 4, 2, LONGEST))  # nothing is in doubt at the first row of a gap
    wide = len(other.feedback.mean) + other.lags * held.n_channels >= WIDE
    tried = first_rows(held, N_TURNS * length) if wide else held
    copies, channel, late = _copies(thinned(tried, MOST_ROWS), channels)
    hides = _gaps(copies, late, length) & ~np.isnan(copies.values[np.arange(len(channel)), channel])
    rows, columns = np.flatnonzero(hides), channel[hides]
    values = copies.values.copy()
    values[rows, columns] = np.nan
    rollout = rolled(other, replace(copies, values=values), doubt_ahead(1))
    if rollout.read_before is None:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    plan, unit = rollout.layout.plan, filter.scaling.scale
    mean = other.scaling.undo(plan.packed(expected(other.recursion, rollout.held)))
    errors = (copies.values - mean)[rows, columns] / unit[columns]
    doubt = plan.packed(rollout.read_before)[rows, 0, columns] * (other.scaling.scale / unit)[columns] ** 2
    claimed = None if other.variances is None else other.variances.variance(plan.packed(rollout.held))[rows, 0]
    variance = filter.calibration.variance(np.ones(len(rows), dtype=np.int64), claimed)
    return errors, variance[np.arange(len(rows)), columns], doubt


def _copies(
    held: Trajectories, channels: Int[np.ndarray, " k"]
) -> tuple[Trajectories, Int[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Copies of the recordings, the channel that loses rows in each, and whether it loses the later rows.

    Copies take turns, so that every recording loses many channels, and every channel rows in many recordings.
    """
    k = min(len(channels), MOST_PATTERNS)
    patterns = 2 * k if 2 * k <= MOST_PATTERNS else k
    each = max(1, min(patterns, MOST_ROWS // len(held.values)))
    turn = np.arange(each * len(held)) % patterns
    copies = replace(held, ids=None)[np.repeat(np.arange(len(held)), each)]
    chosen = channels[np.linspace(0, len(channels) - 1, k).round().astype(np.int64)]
    channel, late = (np.repeat(of_copy, copies.lengths) for of_copy in (chosen[turn % k], turn >= k))
    return copies, channel, late


def _gaps(copies: Trajectories, late: Bool[np.ndarray, " rows"], length: int) -> Bool[np.ndarray, " rows"]:
    """Mark the rows of gaps: some rows seen, as many in a gap, and so on; copies that are `late` begin a gap later."""
    turn = row_times(copies.offsets) // length - late
    return np.asarray((turn > 0) & (turn % 2 == 1))
