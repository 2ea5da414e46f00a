"""Rows of some streams from their numbers and arrivals to their answers: the one path of live rows and of replays."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from psimlearn.serve.bank import Kept, new_kept, replaced
from psimlearn.serve.courses import BEGINS, filled
from psimlearn.serve.served import Served
from psimlearn.serve.taking import Rows, taken
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Answered", "Came", "ran"]


class Came(NamedTuple):
    """Rows of one stream that came, at least one."""

    numbers: Float[np.ndarray, "rows columns"]
    """Channels, then inputs."""
    arrivals: Int[np.ndarray, " rows"] | None
    """How many rows were missed before each row, or `BEGINS`; None if nothing was missed."""


class Answered(NamedTuple):
    """The answers to rows of one stream."""

    answers: Float[np.ndarray, "rows columns"]
    rings: Bool[np.ndarray, " rows"]
    channel: np.ndarray

    def part(self, some: slice) -> "Answered":
        """The answers to some of the rows."""
        return Answered(*(column[some] for column in self))


def ran(served: Served, kept: Kept, streams: Sequence[Came], steps: int) -> tuple[Kept, list[Answered]]:
    """Take the rows of b streams.

    Args:
        served: the model.
        kept: what is kept of the b streams.
        streams: the rows of each.
        steps: how many steps to forecast after each row.

    Returns:
        What is kept of the streams after their rows, and the answers to the rows that came.
    """
    parts = [_recordings(came) for came in streams]
    answered: list[list[Answered]] = [[] for _ in streams]
    for number in range(max(map(len, parts))):
        some = np.array([i for i, recordings in enumerate(parts) if len(recordings) > number])
        now = kept if len(some) == len(parts) else kept.at(some)
        begins = np.array([j for j, i in enumerate(some) if parts[i][number][0]], dtype=np.int64)
        if len(begins):
            now = replaced(now, begins, new_kept(served, len(begins)))
        now, found = _round(served, now, [parts[i][number][1] for i in some], steps)
        kept = now if len(some) == len(parts) else replaced(kept, some, now)
        for i, each in zip(some, found, strict=True):
            answered[i].append(each)
    return kept, [each[0] if len(each) == 1 else _one(each) for each in answered]


def _recordings(came: Came) -> list[tuple[bool, Came]]:
    """The rows of a stream, cut where a new recording begins; each with whether it begins."""
    if came.arrivals is None or (came.arrivals != BEGINS).all():
        return [(False, came)]
    cuts = [0, *np.flatnonzero(came.arrivals == BEGINS).tolist(), len(came.numbers)]
    pairs = [(a, b) for a, b in pairwise(cuts) if a < b]
    return [(came.arrivals[a] == BEGINS, Came(came.numbers[a:b], came.arrivals[a:b])) for a, b in pairs]


def _round(served: Served, kept: Kept, streams: Sequence[Came], steps: int) -> tuple[Kept, list[Answered]]:
    """Take rows in which no recording begins after the first."""
    n = len(served.channels)
    xs, us, places = zip(
        *(filled(came.numbers, came.arrivals, n, kept.inputs[i]) for i, came in enumerate(streams)), strict=True
    )
    lengths = np.array([len(x) for x in xs])
    ends = [0, *accumulate(map(len, places))]
    came = np.ones(int(lengths.sum()), dtype=bool)
    if len(came) > ends[-1]:
        came[:] = False
        came[np.concatenate([a + place for a, place in zip(np.cumsum(lengths) - lengths, places, strict=True)])] = True
    rows = Rows(np.concatenate(xs), np.concatenate(us), lengths, came)
    kept, answers, rings, channel = taken(served, kept, rows, steps)
    # views, as copies would cost more than the rest
    return kept, [Answered(answers[a:b], rings[a:b], channel[a:b]) for a, b in pairwise(ends)]


def _one(parts: Sequence[Answered]) -> Answered:
    return Answered(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
