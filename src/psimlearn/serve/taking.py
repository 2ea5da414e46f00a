"""Rows of many streams taken together: their answers, their alarms, and what is kept of the streams afterwards."""

from typing import NamedTuple

import numpy as np

from psimlearn.errors import DivergedError
from psimlearn.filter.alarms import Bell, Scored, alarm_scores, channels_in_alarm
from psimlearn.filter.likelihood import doubt_of_row
from psimlearn.filter.step import State
from psimlearn.filter.stretches import take_stretch
from psimlearn.filter.tabulate import answers
from psimlearn.serve.bank import Kept, replaced
from psimlearn.serve.served import Served
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Rows", "Taken", "taken", "usable"]

LARGEST = float(np.finfo(np.float64).max) ** 0.25
"""Standardised values below 1e77 are usable: the squares of their squares, of which no more is made, are finite."""
AT_ONCE = 64
"""Rows of one stream that are taken together: the covariance that a gap opens is kept for each of them."""


class Rows(NamedTuple):
    """Rows of b streams, stream after stream."""

    x: Float[np.ndarray, "rows n"]
    u: Float[np.ndarray, "rows p"]
    lengths: Int[np.ndarray, " b"]
    """The number of rows of each stream, at least one."""
    came: Bool[np.ndarray, " rows"]
    """Whether each row came; the others were missed, and need no answer."""


class Taken(NamedTuple):
    """The answers to the rows that came."""

    kept: Kept
    """What is kept of each stream after its last row."""
    answers: Float[np.ndarray, "rows columns"]
    rings: Bool[np.ndarray, " rows"]
    """Whether each row is part of an alarm."""
    channel: np.ndarray
    """The channel that contributed most, of each row in alarm; None for other rows."""


def taken(served: Served, kept: Kept, rows: Rows, steps: int) -> Taken:
    """Take rows and answer them.

    Args:
        served: the model.
        kept: what is kept of the b streams.
        rows: at least one of each stream.
        steps: how many steps to forecast after each row.
    """
    starts = np.cumsum(rows.lengths) - rows.lengths
    found: list[tuple[np.ndarray, ...]] = []
    for begin in range(0, int(rows.lengths.max()), AT_ONCE):
        some = np.flatnonzero(rows.lengths > begin)
        lengths = np.minimum(rows.lengths[some] - begin, AT_ONCE)
        places = np.repeat(starts[some] + begin - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        now = Rows(rows.x[places], rows.u[places], lengths, rows.came[places])
        part, *columns = _stretch(served, kept.at(some), now, steps)
        kept = part if len(some) == len(starts) else replaced(kept, some, part)
        found.append((places[now.came], *columns))
    order = np.argsort(np.concatenate([places for places, *_ in found]))
    columns = [np.concatenate(column)[order] for column in list(zip(*found, strict=True))[1:]]
    return Taken(kept, *columns)


def _stretch(served: Served, kept: Kept, rows: Rows, steps: int) -> tuple[Kept, np.ndarray, np.ndarray, np.ndarray]:
    """The same for few rows of each stream."""
    filter = served.filter
    u = rows.u if served.n_inputs else None
    with np.errstate(over="ignore", invalid="ignore"):  # a huge row has the log-likelihood -inf, which tells enough
        stretch = take_stretch(filter, kept.memory, rows.x, u, rows.lengths)
        _check_usable(stretch.after)
        kept = kept._replace(memory=stretch.end, inputs=rows.u[np.cumsum(rows.lengths) - 1])
        came, x, before, after = rows.came, rows.x, stretch.before, stretch.after
        if not came.any():
            columns = 1 + 2 * x.shape[1] * (1 + steps)
            return kept, np.empty((0, columns)), np.zeros(0, dtype=bool), np.full(0, None)
        of_streams = rows.lengths
        if not came.all():
            of_streams = np.add.reduceat(came, np.cumsum(rows.lengths) - rows.lengths, dtype=np.int64)
            x, before, after = x[came], before.at(came), after.at(came)
        table = answers(filter, before, x, after, steps)
        bell = kept.bell(served)
        if bell is None:
            return kept, table, np.zeros(len(x), dtype=bool), np.full(len(x), None)
        x, doubt = filter.scaling(x), doubt_of_row(filter, before)
        bell, rings = _rung(bell, alarm_scores(filter, before, x, doubt), of_streams)
        channel = channels_in_alarm(filter, rings, before, x, doubt)
    return kept._replace(rings=bell.rings, calm=bell.calm), table, rings, channel


def _rung(bell: Bell, rows: Scored, lengths: Int[np.ndarray, " b"]) -> tuple[Bell, Bool[np.ndarray, " rows"]]:
    """The state of the alarms after the rows, and whether each row is part of an alarm."""
    starts, out = np.cumsum(lengths) - lengths, np.zeros(len(rows.score), dtype=bool)
    if not bell.rings.any() and not (rows.seen & (rows.score < bell.threshold)).any():
        return bell, out  # as most of the time; calm rows are counted from the row at which an alarm begins
    rings, calm = bell.rings.copy(), bell.calm.copy()
    for t in range(int(lengths.max())):
        some = np.flatnonzero(lengths > t)
        now = starts[some] + t
        after = bell._replace(rings=rings[some], calm=calm[some]).after(Scored(rows.score[now], rows.seen[now]))
        rings[some], calm[some] = after.rings, after.calm
        out[now] = after.rings
    return bell._replace(rings=rings, calm=calm), out


def usable(state: State) -> bool:
    """Whether a next row can be computed with: if not, it would be refused, and all after it."""
    small = all((np.abs(part) < LARGEST).all() for part in (state.belief, state.recent))  # NaN is not less
    return small and (state.unrest is None or bool(np.isfinite(state.unrest).all()))


def _check_usable(state: State) -> None:
    if not usable(state):
        raise DivergedError(
            "required rows after which the state of the stream can be computed with, received rows too far from the "
            "training data. The rows were left out. Check their units."
        )
