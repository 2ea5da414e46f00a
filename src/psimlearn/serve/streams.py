"""The streams of the server: rows come in groups, and a group is taken, stored and answered as one."""

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError, PsimlearnError
from psimlearn.serve.bank import Bank, Kept
from psimlearn.serve.courses import Course, Planned
from psimlearn.serve.intake import Batch
from psimlearn.serve.limits import Limits
from psimlearn.serve.rowtimes import RowTimes
from psimlearn.serve.running import Answered, Came, ran
from psimlearn.serve.served import Served
from psimlearn.serve.snapshot import kept_to_bytes, times_to_json
from psimlearn.serve.store import Alarm, Chunk, Saved, Writing

__all__ = ["Done", "Group", "LimitError", "Request", "Stream", "Streams"]

SNAPSHOT = 500
"""Rows after which the state of a stream is stored again: as many rows at most are replayed after a crash."""


LEAST = float(np.finfo(np.float64).min)
"""In place of a log-likelihood of -inf, which neither JSON nor SQLite can compare."""


class LimitError(PsimlearnError):
    """A limit of the server is reached."""


class Stream:
    """One stream."""

    __slots__ = (
        "alarm",
        "channel",
        "created",
        "id",
        "key",
        "log_likelihood",
        "n_rows",
        "n_saved",
        "place",
        "seen",
        "times",
    )

    def __init__(self, id: str, key: int, place: int, created: float) -> None:
        self.id = id
        self.key = key
        """Its number in the store."""
        self.place = place
        """Its place in the bank."""
        self.created = created
        self.seen: float | None = None
        """When its last row came, in seconds since 1970."""
        self.n_rows = 0
        self.n_saved = 0
        """The rows after which its state was stored."""
        self.times: RowTimes | None = None
        self.log_likelihood = 0.0
        self.alarm = False
        self.channel: str | None = None
        """The channel of the last alarm."""


class Request(NamedTuple):
    """Rows of one stream, and the steps ahead that are asked for."""

    batch: Batch
    steps: int


class Done(NamedTuple):
    """The answer to a request."""

    stream: Stream
    first: int
    """The number of the first row that was taken."""
    planned: Planned
    answered: Answered | None
    """None if no row was taken."""


class Group(NamedTuple):
    """Requests that were taken together, not yet stored."""

    done: list[Done | PsimlearnError]
    """One entry for each request."""
    streams: list[Stream]
    """The streams that took rows, each with its course, its answers, and what is kept of it."""
    courses: list[Course]
    answered: list[Answered]
    kept: Kept | None
    new: list[Stream]
    writing: Writing
    seen: float


class Streams:
    """All streams, in memory."""

    def __init__(self, served: Served, limits: Limits) -> None:
        self.served = served
        self.limits = limits
        self.bank = Bank(served)
        self.by_id: dict[str, Stream] = {}
        self.by_key: dict[int, Stream] = {}
        self.next_key = 1

    def add(self, id: str, created: float, key: int | None = None) -> Stream:
        """A new stream."""
        if len(self.by_id) >= self.limits.streams:
            raise LimitError(
                f"streams: required at most {self.limits.streams}, received one more. Delete some, or start the server "
                "with a larger --max-streams."
            )
        key = self.next_key if key is None else key
        self.next_key = max(self.next_key, key + 1)
        self.by_id[id] = self.by_key[key] = stream = Stream(id, key, self.bank.add(), created)
        return stream

    def remove(self, streams: Iterable[Stream]) -> None:
        """Forget streams."""
        for stream in streams:
            del self.by_id[stream.id], self.by_key[stream.key]
            self.bank.remove(stream.place)

    def take(self, requests: Sequence[Request]) -> Group:
        """Take requests together, in their order; the streams change only when the group is installed."""
        seen, new = time.time(), list[Stream]()
        try:
            return self._taken(requests, seen, new)
        except BaseException:
            self.remove(new)
            raise

    def install(self, group: Group) -> None:
        """Make a group, which is stored by now, the present of its streams."""
        if group.kept is not None:
            self.bank.put(_places(group.streams), group.kept)
        for stream, course, answered in zip(group.streams, group.courses, group.answered, strict=True):
            stream.n_rows, stream.times, stream.seen = course.n_rows, course.times, group.seen
            stream.log_likelihood, stream.alarm = float(answered.answers[-1, 0]), bool(answered.rings[-1])
            stream.channel = self.channel(answered.channel[-1]) or (stream.channel if stream.alarm else None)
        for saved in group.writing.states:
            self.by_key[saved.stream].n_saved = saved.n_rows
        drawn = [each for each in group.done if isinstance(each, Done) and each.answered is not None]
        self.bank.draw([each.stream.place for each in drawn], [each.planned.numbers[:, 0] for each in drawn])

    def saved(self, streams: Sequence[Stream]) -> list[Saved]:
        """The states of some streams, to be stored."""
        kept = self.bank.get(_places(streams))
        return [self._saved(stream, kept.at(np.array([i])), stream) for i, stream in enumerate(streams)]

    def channel(self, channel: Any) -> str | None:
        """The name of a channel that is known by name or number; None for None."""
        return self.served.channels[channel] if isinstance(channel, int) else channel

    def _taken(self, requests: Sequence[Request], seen: float, new: list[Stream]) -> Group:
        done: list[Any] = []
        courses: dict[Stream, Course] = {}
        for batch, _ in requests:
            try:
                stream = self.by_id.get(batch.id)
                if stream is None:
                    stream = self.add(batch.id, seen)
                    new.append(stream)
                course = courses.setdefault(stream, Course(stream.n_rows, stream.times))
                first = course.n_rows
                done.append(Done(stream, first, course.planned(batch, self.served), None))
            except (DataError, LimitError) as error:
                done.append(error)
        pieces: dict[Stream, list[int]] = {}
        for i, each in enumerate(done):
            if isinstance(each, Done) and len(each.planned.rows):
                pieces.setdefault(each.stream, []).append(i)
        kept, answered = None, list[Answered]()
        if pieces:
            steps = max(request.steps for request in requests)
            came = [_came([done[i].planned for i in some]) for some in pieces.values()]
            kept, answered = ran(self.served, self.bank.get(_places(list(pieces))), came, steps)
        for some, each in zip(pieces.values(), answered, strict=True):
            _divide(done, some, each)
        streams = list(pieces)
        writing = self._writing(done, [courses[s] for s in streams], streams, answered, kept, new, seen)
        return Group(done, streams, [courses[s] for s in streams], answered, kept, new, writing, seen)

    def _writing(
        self,
        done: Sequence[Done | PsimlearnError],
        courses: Sequence[Course],
        streams: Sequence[Stream],
        answered: Sequence[Answered],
        kept: Kept | None,
        new: Sequence[Stream],
        seen: float,
    ) -> Writing:
        """All that must last of a group."""
        course_of = dict(zip(streams, courses, strict=True))
        chunks = [
            self._chunk(each, each.answered, course_of[each.stream].times, seen)
            for each in done
            if isinstance(each, Done) and each.answered is not None
        ]
        states, alarms = list[Saved](), list[Alarm]()
        for i, (stream, course, each) in enumerate(zip(streams, courses, answered, strict=True)):
            alarms += self._alarms(stream, each, seen, done)
            if course.n_rows - stream.n_saved >= SNAPSHOT and kept is not None:
                states.append(self._saved(stream, kept.at(np.array([i])), course, seen))
        return Writing([(s.key, s.id, s.created) for s in new], chunks, states, alarms)

    def _chunk(self, done: Done, answered: Answered, times: RowTimes | None, seen: float) -> Chunk:
        planned, n = done.planned, len(self.served.channels)
        return Chunk(
            done.stream.key,
            done.first,
            len(planned.rows),
            seen,
            np.ascontiguousarray(planned.numbers).tobytes(),
            answered.answers[:, : 1 + 2 * n].tobytes() + answered.rings.tobytes(),
            None if planned.written is None else json.dumps(planned.written),
            None if planned.arrivals is None else planned.arrivals.tobytes(),
            times_to_json(times),
        )

    def _saved(self, stream: Stream, kept: Kept, course: Course | Stream, seen: float | None = None) -> Saved:
        """The state of a stream after all rows of a course, which may be the stream itself."""
        seen = (stream.seen or stream.created) if seen is None else seen
        times = times_to_json(course.times)
        return Saved(stream.key, course.n_rows, self.served.fingerprint, kept_to_bytes(kept), times, seen)

    def _alarms(
        self, stream: Stream, answered: Answered, seen: float, done: Sequence[Done | PsimlearnError]
    ) -> list[Alarm]:
        """The alarms that begin or end in rows of a stream."""
        if not stream.alarm and not answered.rings.any():
            return []
        before = np.concatenate([[stream.alarm], answered.rings[:-1]])
        mine = [each.planned for each in done if isinstance(each, Done) and each.stream is stream]
        times = [time for each in mine for time in each.written or [None] * len(each.rows)]
        return [
            Alarm(
                stream.key,
                stream.id,
                stream.n_rows + i,
                seen,
                bool(answered.rings[i]),
                None if times[i] is None else str(times[i]),
                self.channel(answered.channel[i]),
                float(np.maximum(answered.answers[i, 0], LEAST)),
            )
            for i in np.flatnonzero(before != answered.rings).tolist()
        ]


def _places(streams: Sequence[Stream]) -> Any:
    return np.array([stream.place for stream in streams], dtype=np.int64)


def _came(planned: Sequence[Planned]) -> Came:
    """The rows of several batches of one stream, one after the other."""
    if len(planned) == 1:
        return Came(planned[0].numbers, planned[0].arrivals)
    numbers = np.concatenate([each.numbers for each in planned])
    if all(each.arrivals is None for each in planned):
        return Came(numbers, None)
    zeros = (np.zeros(len(each.rows), dtype=np.int64) if each.arrivals is None else each.arrivals for each in planned)
    return Came(numbers, np.concatenate(list(zeros)))


def _divide(done: list[Any], some: Sequence[int], answered: Answered) -> None:
    """Give each request of a stream its part of the answers."""
    if len(some) == 1:
        done[some[0]] = done[some[0]]._replace(answered=answered)
        return
    end = 0
    for i in some:
        begin, end = end, end + len(done[i].planned.rows)
        done[i] = done[i]._replace(answered=answered.part(slice(begin, end)))
