"""Whole recordings with gaps: the distribution of what is missing is kept beside the mean of the memory.

Long recordings are cut into chunks, which run at once. A filter forgets, and so does its covariance: each chunk begins
some rows early, from a guess, and has forgotten the guess when its rows begin. If it does not begin as the chunk before
it ends, all chunks begin earlier still; where that does not help, the rows are taken one after the other.

Small linear filters run compiled where numba is installed (`gaploop.py`).
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.chunked import MEETS, chunk_length, same
from psimlearn.filter.doubt import NOTHING, Doubt, together
from psimlearn.filter.gaploop import roll_compiled
from psimlearn.filter.innovations import Innovations, Taken, innovations, memory
from psimlearn.filter.layout import Layout
from psimlearn.filter.learnt import Learnt, start
from psimlearn.filter.opening import LONG_AGO, young
from psimlearn.filter.patterns import Met, Patterns, has_patterns
from psimlearn.recordings.schedule import Chunks, in_chunks
from psimlearn.recordings.windows import ages_after
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Gapped", "Reading", "roll_in_doubt"]

Reading = Callable[[Innovations, Doubt, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Takes a model, the doubt of b streams, the means of their memories, inputs at their mean, as those of the next row
are not known, and the ages of the streams; returns one entry a stream."""
LEAST_CHUNK = 256
"""The least rows of a chunk: covariances forget more slowly than means."""


class Gapped:
    """Arrays with one entry for each scheduled row, which a roll fills."""

    def __init__(
        self, model: Innovations, layout: Layout, z: np.ndarray, reading: Reading | None, patterns: Patterns | None
    ) -> None:
        self.model, self.layout, self.z, self.reading = model, layout, z, reading
        self.x = layout.x.copy()
        """Observations with missing entries at their mean."""
        self.hints = np.empty((len(self.x), model.n_hints))
        self.read: np.ndarray | None = None
        self.patterns = patterns
        self.ends: Doubt | None = None
        """The doubt after each trajectory, in the order of the recordings."""

    @cached_property
    def age(self) -> Int[np.ndarray, " rows"]:
        """The age of each stream after its scheduled row; only a reading of doubt asks for it."""
        plan = self.layout.plan
        clock = plan.time + 1
        return young(clock, clock - ages_after(self.layout.x, plan))


class Held(NamedTuple):
    """The mean of the memory of b streams, and the doubt about it."""

    S: Float[np.ndarray, "_ s"]
    doubt: Doubt | None


def roll_in_doubt(filter: Learnt, layout: Layout, z: Float[np.ndarray, "rows p"], reading: Reading | None) -> Gapped:
    """Roll a filter that keeps a covariance over recordings with gaps; z is filled.

    Args:
        filter: a filter that treats gaps exactly.
        layout: the recordings.
        z: work space for the inputs of its steps.
        reading: read from the doubt after each row: doubt itself is too large to be kept.
    """
    model = innovations(filter)
    blank = memory(filter, model, start(filter))
    if reading is None:
        out = Gapped(model, layout, z, None, None)
        looped = roll_compiled(model, layout, z, out.x, out.hints, blank[0])
        if looped is not None:
            out.ends = looped.ends
            return out
    length, b = chunk_length(layout.plan, LEAST_CHUNK), layout.plan.block(0).stop
    most = b if length is None else b + len(layout.x) // length  # streams or chunks
    patterns = Patterns(model, layout.x, most) if has_patterns(model) else None
    if length is not None:
        chunks = in_chunks(layout.plan, length)
        for early in (max(LEAST_CHUNK, length // 4), length):
            out = Gapped(model, layout, z, reading, patterns)
            if _in_chunks(out, chunks, blank, early):
                return out
    out = Gapped(model, layout, z, reading, patterns)
    _rows(out, list(layout.plan.blocks()), Held(np.tile(blank, (b, 1)), None), np.ones(b, dtype=bool), True)
    return out


def _in_chunks(out: Gapped, chunks: Chunks, blank: Float[np.ndarray, "1 s"], early: int) -> bool:
    """Fill the arrays, chunks at once; return whether each chunk begins as the one before it ends."""
    lead, n = chunks.lead(early), len(chunks.time)
    guess = Held(np.tile(blank, (len(chunks.later), 1)), None)
    warm = _rows(out, lead, guess, np.zeros(len(chunks.later), dtype=bool), False)
    S, group = np.tile(blank, (n, 1)), np.full(n, -1)
    S[chunks.later] = warm.S
    if warm.doubt is not None:
        group[chunks.later] = warm.doubt.group
    doubt = None if warm.doubt is None else Doubt(group, warm.doubt.spread)
    began = Held(warm.S, warm.doubt and warm.doubt.compact())  # patterns may number their nodes anew
    begins = np.ones(n, dtype=bool)
    begins[chunks.later] = False
    ends = _rows(out, chunks.rows, Held(S, doubt), begins, True)
    return _agree(out.model, began, ends, chunks.before)


def _rows(out: Gapped, rows: list[Any], held: Held, begins: Bool[np.ndarray, " _"], kept: bool) -> Held:
    """Take rows of all streams, of which those that still have rows are a prefix, and return the last state."""
    model, layout, (S, doubt) = out.model, out.layout, held
    ends: list[tuple[int, Doubt | None]] = []
    ended = ~layout.plan.reaches(1)
    for j, now in enumerate(rows):
        x, u = layout.x[now], layout.u[now]
        b = len(x)
        doubt = doubt and doubt.at(slice(b))
        taken = _taken(out, S[:b], doubt, x, u, np.where(begins[:b], j, LONG_AGO), now)
        S, doubt = model.following(taken.z), taken.doubt
        if not kept:
            continue
        out.z[now], out.x[now], out.hints[now] = taken.z, taken.x, taken.hints
        if doubt is not None and out.reading is not None:
            told = out.reading(model, doubt.compact(), S, np.zeros_like(u), out.age[now])
            out.read = np.zeros((len(out.x), *told.shape[1:])) if out.read is None else out.read
            out.read[now] = told
        last = np.flatnonzero(ended[now])
        places = layout.plan.order[now][last].tolist()
        ends += [(place, doubt and doubt.at([i]).compact()) for place, i in zip(places, last.tolist(), strict=True)]
    out.ends = together([doubt for _, doubt in sorted(ends, key=lambda end: end[0])])
    return Held(S, doubt)


def _taken(
    out: Gapped,
    S: Float[np.ndarray, "b s"],
    doubt: Doubt | None,
    x: Float[np.ndarray, "b n"],
    u: Float[np.ndarray, "b q"],
    age: Int[np.ndarray, " b"],
    now: Any,
) -> Met | Taken:
    """Take one row of every stream, with covariances that are known by their pattern where that is possible."""
    if out.patterns is None:
        return out.model.take(S, doubt, x, u, age)
    return out.patterns.take(S, doubt, x, u, age, out.patterns.pattern[now])


def _agree(model: Innovations, begin: Held, ends: Held, before: np.ndarray) -> bool:
    """Whether chunks begin as those before them end, in mean and covariance."""
    if not same(begin.S, ends.S[before], MEETS):
        return False
    unit, s = model.noise_level, model.s
    zero = np.zeros((1, s, s))
    a, b = (
        zero if doubt is None else doubt.by_stream(model.kind.between(doubt.spread, np.eye(s)))[which]
        for doubt, which in (
            (begin.doubt, slice(None)),
            (ends.doubt and ends.doubt.compact(), before),
        )
    )
    return bool((np.abs(a - b) <= NOTHING * unit).all())
