"""The streams of the server: rows come in groups, and a group is taken, stored and answered as one."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError, PsimlearnError
from psimlearn.recordings.steps import MOST_MISSED
from psimlearn.serve.bank import Bank, Kept
from psimlearn.serve.courses import Course, Planned
from psimlearn.serve.intake import Batch
from psimlearn.serve.limits import Limits
from psimlearn.serve.rowtimes import RowTimes
from psimlearn.serve.running import Answered, Came, ran
from psimlearn.serve.served import Served
from psimlearn.serve.snapshot import kept_to_bytes, times_to_json
from psimlearn.serve.store import Alarm, Chunk, Saved, Writing

__all__ = ["Done", "Group", "LimitError", "Plan", "Request", "Stream", "Streams", "TooMuchError"]

SNAPSHOT = 500
"""Rows after which the state of a stream is stored again: as many rows at most are replayed after a crash."""


MISSED_TOGETHER = 10
"""Times the rows of a request may be missed by all its streams together, which are taken side by side."""
LEAST = float(np.finfo(np.float64).min)
"""In place of a log-likelihood of -inf, which neither JSON nor SQLite can compare."""


class LimitError(PsimlearnError):
    """A limit of the server is reached."""


class TooMuchError(LimitError):
    """One request asks for more than the server does for any request: it helps to ask for less, not to wait."""


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
    number: int = 0
    """The number of the HTTP request that it is part of."""


class Done(NamedTuple):
    """The answer to a request."""

    stream: Stream
    first: int
    """The number of the first row that was taken."""
    planned: Planned
    answered: Answered | None
    """None if no row was taken."""


class Plan(NamedTuple):
    """Requests whose rows are in order, not yet taken."""

    done: list[Any]
    """One entry for each request: without answers, or an error."""
    courses: dict[Stream, Course]
    """The times and counts of all streams afterwards, also of those that take no row."""
    pieces: dict[Stream, list[int]]
    """The streams that take rows, and their requests."""
    came: list[Came]
    """The rows of each of these streams."""
    kept: Kept | None
    """What is kept of them before; None if there are none."""
    steps: int
    n_turns: int
    """How many rows were missed, and how many predictions must be made."""
    new: list[Stream]
    seen: float


class Group(NamedTuple):
    """Requests that were taken together, not yet stored."""

    done: list[Done | PsimlearnError]
    """One entry for each request."""
    streams: list[Stream]
    """The streams that took rows, each with its answers, and what is kept of it."""
    courses: dict[Stream, Course]
    """The times and counts of all streams afterwards, also of those that took no row."""
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
        """A new stream, or one that the store has with this key: it is there, whatever the limit is now."""
        if key is None and len(self.by_id) >= self.limits.streams:
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

    def planned(self, requests: Sequence[Request]) -> Plan:
        """Put rows in order; of the streams nothing changes but that new ones are added."""
        seen, done, new = time.time(), list[Any](), list[Stream]()
        courses: dict[Stream, Course] = {}
        missed: Counter[int] = Counter()
        try:
            for request in requests:
                done.append(self._done(request, courses, missed, new, seen))
        except BaseException:
            self.remove(new)
            raise
        pieces: dict[Stream, list[int]] = {}
        for i, each in enumerate(done):
            if isinstance(each, Done) and len(each.planned.rows):
                pieces.setdefault(each.stream, []).append(i)
        came = [_came([done[i].planned for i in some]) for some in pieces.values()]
        kept = self.bank.get(_places(list(pieces))) if pieces else None
        steps = max(request.steps for request in requests)
        n_turns = missed.total() + steps * sum(len(each.numbers) for each in came)
        return Plan(done, courses, pieces, came, kept, steps, n_turns, new, seen)

    def computed(self, plan: Plan) -> tuple[Kept | None, list[Answered]]:
        """What is kept of the streams after their rows, and the answers; it reads nothing that others change."""
        return (None, []) if plan.kept is None else ran(self.served, plan.kept, plan.came, plan.steps)

    def grouped(self, plan: Plan, kept: Kept | None, answered: list[Answered]) -> Group:
        """The group that a plan has become; the streams change only when it is installed."""
        done, streams = list(plan.done), list(plan.pieces)
        for some, each in zip(plan.pieces.values(), answered, strict=True):
            _divide(done, some, each)
        writing = self._writing(done, plan.courses, streams, answered, kept, plan.new, plan.seen)
        return Group(done, streams, plan.courses, answered, kept, plan.new, writing, plan.seen)

    def install(self, group: Group) -> None:
        """Make a group, which is stored by now, the present of its streams."""
        if group.kept is not None:
            self.bank.put(_places(group.streams), group.kept)
        for stream, course in group.courses.items():
            stream.times = course.times  # a row that is ignored leaves a doubt about the times
        for stream, answered in zip(group.streams, group.answered, strict=True):
            stream.n_rows, stream.seen = group.courses[stream].n_rows, group.seen
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

    def _done(
        self, request: Request, courses: dict[Stream, Course], missed: Counter[int], new: list[Stream], seen: float
    ) -> Done | PsimlearnError:
        """A request whose rows are in order, with its course among those of all streams; or why it is refused."""
        stream = self.by_id.get(request.batch.id)
        before = Course(0, None) if stream is None else courses.get(stream, stream)
        course = Course(before.n_rows, before.times)
        try:
            planned = course.planned(request.batch, self.served)
            if planned.arrivals is not None:
                missed[request.number] += planned.n_missed
                self._check_missed(planned.n_missed, missed[request.number])
            if stream is None:
                stream = self.add(request.batch.id, seen)
                new.append(stream)
        except (DataError, LimitError) as error:
            return error
        courses[stream] = course
        return Done(stream, before.n_rows, planned, None)

    def _check_missed(self, of_stream: int, of_request: int) -> None:
        """Rows that were missed are taken one after the other, so they count as rows do."""
        once = max(self.limits.rows, MOST_MISSED)  # a single row can always be taken
        for n, most in ((of_stream, once), (of_request, MISSED_TOGETHER * once)):
            if n > most:
                raise TooMuchError(
                    f"rows: required at most {most} rows that were missed before the rows of a request, received {n}, "
                    "by their times. Send fewer rows at once."
                )

    def _writing(
        self,
        done: Sequence[Done | PsimlearnError],
        courses: Mapping[Stream, Course],
        streams: Sequence[Stream],
        answered: Sequence[Answered],
        kept: Kept | None,
        new: Sequence[Stream],
        seen: float,
    ) -> Writing:
        """All that must last of a group."""
        chunks = [
            self._chunk(each, each.answered, courses[each.stream].times, seen)
            for each in done
            if isinstance(each, Done) and each.answered is not None
        ]
        states, alarms = list[Saved](), list[Alarm]()
        for i, (stream, each) in enumerate(zip(streams, answered, strict=True)):
            course = courses[stream]
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
