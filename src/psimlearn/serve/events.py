"""Server-sent events: each is encoded once for all its readers, and a reader who is too slow is dropped."""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from psimlearn.serve.bank import TRAIL
from psimlearn.serve.numbers import dumps, jsonable
from psimlearn.serve.served import Served
from psimlearn.serve.store import Alarm
from psimlearn.serve.streams import Done, LimitError, Streams

__all__ = ["ALL", "Hub", "Watcher"]

ALL = None
"""In place of the id of a stream: all streams."""
MOST_WAITING = 1 << 20
"""Bytes that may wait for a reader."""

MOST_TOLD = 2000
"""Streams of which one event tells; the others follow in the next."""


class Watcher:
    """A reader of events: what waits for it."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.size = 0
        self.dropped = False
        self.wake = asyncio.Event()

    def put(self, event: bytes) -> None:
        """Let an event wait; a reader for whom too much waits is dropped."""
        self.dropped = self.dropped or self.size + len(event) > MOST_WAITING
        if not self.dropped:
            self.waiting.append(event)
            self.size += len(event)
        self.wake.set()

    async def get(self, patience: float) -> bytes:
        """All events that wait, as soon as there are any; a comment after a while without."""
        try:
            await asyncio.wait_for(self.wake.wait(), patience)
        except TimeoutError:
            return b": nothing new\n\n"
        self.wake.clear()
        events, self.waiting, self.size = b"".join(self.waiting), [], 0
        return events


class Hub:
    """The readers of events."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.watchers: dict[str | None, set[Watcher]] = {}
        self.moved: dict[str, int] = {}
        """The streams that have moved since readers were told, and how many rows each had before."""

    def __len__(self) -> int:
        return sum(map(len, self.watchers.values()))

    def join(self, id: str | None) -> Watcher:
        """A new reader of the events of one stream, or of all."""
        if len(self) >= self.most:
            raise LimitError(f"events: required at most {self.most} readers, received one more. Close another page.")
        watcher = Watcher()
        self.watchers.setdefault(id, set()).add(watcher)
        return watcher

    def leave(self, id: str | None, watcher: Watcher) -> None:
        """A reader has gone."""
        self.watchers[id].discard(watcher)
        if not self.watchers[id]:
            del self.watchers[id]

    def came(self, done: Done, served: Served, seen: float) -> None:
        """Tell that rows of a stream came."""
        id = done.stream.id
        if ALL in self.watchers:
            self.moved.setdefault(id, done.first)
        if id not in self.watchers or done.answered is None:
            return
        n, answers = len(served.channels), done.answered.answers
        event = {
            "first": done.first,
            "seen": seen,
            "times": done.planned.written,
            "missed": None if done.planned.arrivals is None else done.planned.arrivals.tolist(),
            "x": jsonable(done.planned.numbers[:, :n]),
            "log_likelihood": jsonable(answers[:, 0]),
            "expected": jsonable(answers[:, 1 : 1 + n]),
            "std": jsonable(answers[:, 1 + n : 1 + 2 * n]),
            "alarm": done.answered.rings.astype(int).tolist(),
        }
        self._tell([id], "rows", event)

    def alarm(self, alarm: Alarm) -> None:
        """Tell that an alarm begins or ends."""
        event = {"id": alarm.id, "row": alarm.row, "seen": alarm.seen, "begins": alarm.begins}
        event |= {"channel": alarm.channel, "log_likelihood": alarm.log_likelihood}
        self._tell([alarm.id, ALL], "alarm", event)

    def tell_all(self, kind: str, event: Any) -> None:
        """Tell all readers, whatever they read."""
        self._tell(list(self.watchers), kind, event)

    def flush(self, streams: Streams) -> None:
        """Tell readers of all events which streams have moved, each with its last points."""
        moved = dict(islice(self.moved.items(), MOST_TOLD)) if ALL in self.watchers else {}
        self.moved = {id: row for id, row in self.moved.items() if id not in moved} if moved else {}
        if not moved:
            return
        entries = []
        for id, before in moved.items():
            stream = streams.by_id.get(id)
            if stream is not None:
                k = min(max(stream.n_rows - before, 0), TRAIL)
                points = jsonable(streams.bank.trail[stream.place, TRAIL - k :].astype(np.float64).round(6))
                alarm = stream.channel or "" if stream.alarm else None
                entries.append([id, stream.n_rows, stream.seen, alarm, jsonable(stream.log_likelihood), points])
        self._tell([ALL], "moved", entries)

    def _tell(self, whom: Iterable[str | None], kind: str, event: Any) -> None:
        readers = [watcher for id in whom for watcher in self.watchers.get(id, ())]
        if readers:
            data = f"event: {kind}\ndata: {dumps(event).decode()}\n\n".encode()
            for watcher in readers:
                watcher.put(data)
