"""Streams as they were before the server ended, however it ended: stored states, and the rows since then once more."""

from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.serve.bank import TRAIL, Kept, new_kept
from psimlearn.serve.running import Came, ran
from psimlearn.serve.served import Served
from psimlearn.serve.snapshot import kept_from, times_from
from psimlearn.serve.store import Chunk, Store
from psimlearn.serve.streams import Stream, Streams

__all__ = ["numbers_of", "recover"]

WARM_UP = 1000
"""Rows from which the state of a stream is rebuilt for another model."""
TOGETHER = 256
"""Streams that are replayed together."""


def recover(store: Store, streams: Streams) -> int:
    """Bring all streams of a store back; returns the number of rows that were replayed.

    Alarms of another model end here: its thresholds are others.
    """
    known = [streams.add(id, created, key) for key, id, created in store.streams()]
    return sum(_recover(store, streams, known[i : i + TOGETHER]) for i in range(0, len(known), TOGETHER))


def _recover(store: Store, streams: Streams, some: list[Stream]) -> int:
    served = streams.served
    starts = [_start(store, served, stream) for stream in some]
    chunks = [list(store.chunks(stream.key, start.row)) for stream, start in zip(some, starts, strict=True)]
    for stream, start in zip(some, starts, strict=True):
        streams.bank.put(np.array([stream.place]), start.kept)
        stream.alarm = bool(start.kept.rings[0])
    live = [(stream, rows) for stream, rows in zip(some, chunks, strict=True) if rows]
    n_replayed = _replay(streams, live) if live else 0
    anew = [stream for stream, start in zip(some, starts, strict=True) if start.anew]
    for stream in anew:
        streams.bank.quieten(stream.place)
        stream.alarm, stream.channel = False, None
    store.end_alarms([stream.key for stream in anew])
    for stream in some:
        _draw(store, streams, stream)
    return n_replayed


def _replay(streams: Streams, live: list[tuple[Stream, list[Chunk]]]) -> int:
    """Take stored rows once more."""
    served, places = streams.served, np.array([stream.place for stream, _ in live])
    kept, answered = ran(served, streams.bank.get(places), [_came(chunks, served) for _, chunks in live], 1)
    streams.bank.put(places, kept)
    for (stream, chunks), each in zip(live, answered, strict=True):
        stream.n_rows, stream.seen = chunks[-1].first + chunks[-1].n, chunks[-1].seen
        stream.times = times_from(chunks[-1].times, served.wanted.step) or stream.times
        stream.log_likelihood, stream.alarm = float(each.answers[-1, 0]), bool(each.rings[-1])
        stream.channel = streams.channel(each.channel[-1])
    return sum(len(each.rings) for each in answered)


class _Start(NamedTuple):
    """Where the replay of a stream begins."""

    kept: Kept
    row: int
    """The number of the first row that is taken again."""
    anew: bool = False
    """Whether the state is rebuilt for another model."""


def _start(store: Store, served: Served, stream: Stream) -> _Start:
    """The last state of a stream and the row that comes next; a new start some rows back for another model."""
    first, end, seen = store.extent(stream.key)
    saved = store.state(stream.key)
    stream.n_rows, stream.seen = end, seen
    if saved is None:  # all rows since the first are there
        return _Start(new_kept(served, 1), 0)
    stream.n_rows, stream.n_saved, stream.seen = max(end, saved.n_rows), saved.n_rows, seen or saved.seen
    stream.times = times_from(saved.times, served.wanted.step)
    if saved.model == served.fingerprint:
        try:
            return _Start(kept_from(saved.state, served), saved.n_rows)
        except DataError:  # damaged: there are rows to rebuild it from
            pass
    stream.n_saved = 0
    return _Start(new_kept(served, 1), max(first, stream.n_rows - WARM_UP), anew=True)


def _came(chunks: list[Chunk], served: Served) -> Came:
    numbers = np.concatenate([numbers_of(chunk, served) for chunk in chunks])
    if all(chunk.arrivals is None for chunk in chunks):
        return Came(numbers, None)
    arrivals = [
        np.zeros(chunk.n, dtype=np.int64) if chunk.arrivals is None else np.frombuffer(chunk.arrivals, dtype=np.int64)
        for chunk in chunks
    ]
    return Came(numbers, np.concatenate(arrivals))


def numbers_of(chunk: Chunk, served: Served) -> np.ndarray:
    """The numbers of stored rows: channels, then inputs."""
    return np.frombuffer(chunk.numbers).reshape(chunk.n, len(served.channels) + served.n_inputs)


def _draw(store: Store, streams: Streams, stream: Stream) -> None:
    chunks = list(store.chunks(stream.key, max(stream.n_rows - TRAIL, 0)))
    streams.bank.draw([stream.place] * len(chunks), [numbers_of(chunk, streams.served)[:, 0] for chunk in chunks])
