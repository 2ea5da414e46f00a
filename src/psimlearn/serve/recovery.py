"""Streams as they were before the server ended, however it ended: stored states, and the rows since then once more.

A store may be damaged. What is whole is used: a state that cannot be read is rebuilt from its rows, rows that cannot be
read count as not observed, a stream whose rows cannot be computed with begins anew. The log names all of them.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError, PsimlearnError
from psimlearn.serve.bank import TRAIL, Kept, new_kept
from psimlearn.serve.chunks import Stored, stored
from psimlearn.serve.log import log
from psimlearn.serve.running import Came, ran
from psimlearn.serve.served import Served
from psimlearn.serve.snapshot import kept_from, times_from
from psimlearn.serve.store import Chunk, Saved, Store
from psimlearn.serve.streams import Stream, Streams

__all__ = ["recover"]

WARM_UP = 1000
"""Rows from which the state of a stream is rebuilt for another model."""
TOGETHER = 256
"""Streams that are replayed together."""


def recover(store: Store, streams: Streams) -> int:
    """Bring all streams of a store back; returns the number of rows that were replayed.

    Alarms of another model end here: its thresholds are others.
    """
    known = [streams.add(id, created, key) for key, id, created in store.streams()]
    streams.next_key = max(streams.next_key, store.last_key() + 1)
    if len(known) > streams.limits.streams:
        log("more streams than --max-streams", streams=len(known), most=streams.limits.streams)
    return sum(_recover(store, streams, known[i : i + TOGETHER]) for i in range(0, len(known), TOGETHER))


class _Live(NamedTuple):
    """A stream with the rows that are taken again."""

    stream: Stream
    chunks: list[Chunk]
    rows: list[Stored]


def _recover(store: Store, streams: Streams, some: list[Stream]) -> int:
    served = streams.served
    starts = [_start(store, served, stream) for stream in some]
    live: list[_Live] = []
    for stream, start in zip(some, starts, strict=True):
        streams.bank.put(np.array([stream.place]), start.kept)
        stream.alarm = bool(start.kept.rings[0])
        if chunks := store.chunks(stream.key, start.row):
            live.append(_Live(stream, chunks, [_read(stream, chunk, served) for chunk in chunks]))
    lost = _replayed(streams, live)
    anew = lost + [stream for stream, start in zip(some, starts, strict=True) if start.anew]
    for stream in anew:
        streams.bank.quieten(stream.place)
        stream.alarm, stream.channel = False, None
    store.end_alarms([stream.key for stream in anew])
    for stream in some:
        chunks = store.chunks(stream.key, max(stream.n_rows - TRAIL, 0))
        streams.bank.draw([stream.place] * len(chunks), [stored(chunk, served).numbers[:, 0] for chunk in chunks])
    return sum(chunk.n for stream, chunks, _ in live if stream not in lost for chunk in chunks)


def _read(stream: Stream, chunk: Chunk, served: Served) -> Stored:
    """The rows of a chunk; what is damaged is told."""
    found = stored(chunk, served)
    if found.damaged:
        log("damaged rows", stream=stream.id, first=chunk.first, rows=chunk.n, parts=", ".join(found.damaged))
    return found


def _replayed(streams: Streams, live: list[_Live]) -> list[Stream]:
    """Take stored rows once more; returns the streams whose rows cannot be computed with, which begin anew."""
    if not live:
        return []
    try:
        _replay(streams, live)
        return []
    except (PsimlearnError, ArithmeticError, ValueError) as error:
        if len(live) > 1:
            half = len(live) // 2
            return _replayed(streams, live[:half]) + _replayed(streams, live[half:])
        ((stream, chunks, _),) = live
        log("stream begins anew", stream=stream.id, why=str(error)[:500])
        streams.bank.put(np.array([stream.place]), new_kept(streams.served, 1))
        stream.seen = chunks[-1].seen
        return [stream]


def _replay(streams: Streams, live: list[_Live]) -> None:
    served, places = streams.served, np.array([stream.place for stream, *_ in live])
    kept = streams.bank.get(places)
    came = [_came(rows, kept.inputs[i], len(served.channels)) for i, (*_, rows) in enumerate(live)]
    kept, answered = ran(served, kept, came, 1)
    streams.bank.put(places, kept)
    for (stream, chunks, rows), each in zip(live, answered, strict=True):
        stream.n_rows, stream.seen = chunks[-1].first + chunks[-1].n, chunks[-1].seen
        stream.times = rows[-1].times or stream.times
        stream.log_likelihood, stream.alarm = float(each.answers[-1, 0]), bool(each.rings[-1])
        stream.channel = streams.channel(each.channel[-1])


class _Start(NamedTuple):
    """Where the replay of a stream begins."""

    kept: Kept
    row: int
    """The number of the first row that is taken again."""
    anew: bool = False
    """Whether the state is rebuilt, for another model or because it was damaged."""


def _start(store: Store, served: Served, stream: Stream) -> _Start:
    """The last state of a stream and the row that comes next; without a state that can be used, some rows back."""
    first, end, seen = store.extent(stream.key)
    saved = store.state(stream.key)
    stream.n_rows, stream.seen = end, seen
    if saved is None:  # all rows since the first are there
        return _Start(new_kept(served, 1), 0)
    stream.n_rows, stream.n_saved, stream.seen = max(end, saved.n_rows), saved.n_rows, seen or saved.seen
    kept = _kept(saved, served, stream)
    if kept is not None:
        return _Start(kept, saved.n_rows)
    stream.n_saved = 0
    return _Start(new_kept(served, 1), max(first, stream.n_rows - WARM_UP), anew=True)


def _kept(saved: Saved, served: Served, stream: Stream) -> Kept | None:
    """What a stored state keeps of a stream, whose times are set; None for another model, and for damaged states."""
    try:
        stream.times = times_from(saved.times, served.wanted.step)
        return kept_from(saved.state, served) if saved.model == served.fingerprint else None
    except DataError as error:
        log("state refused: rebuilt from the last rows", stream=stream.id, why=str(error))
        return None


def _came(rows: list[Stored], inputs: np.ndarray, n: int) -> Came:
    """Rows one after the other; in rows without inputs, which were damaged, those of the row before are held."""
    numbers = np.concatenate([each.numbers for each in rows])
    known = np.isfinite(numbers[:, n:]).all(axis=1)
    if not known.all():
        last = np.maximum.accumulate(np.where(known, np.arange(len(numbers)), -1))
        numbers[:, n:] = np.concatenate([numbers[:, n:], inputs[None]])[last]
    arrivals = np.concatenate([each.arrivals for each in rows])
    return Came(numbers, arrivals if arrivals.any() else None)
