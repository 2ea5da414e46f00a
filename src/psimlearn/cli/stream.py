"""A filter in a pipe: rows in, one answer to each out, at once; memory stays flat however long it lasts."""

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

from psimlearn.cli.formats import csv_cell, csv_numbers, json_lines
from psimlearn.cli.options import say
from psimlearn.cli.rows import Row, Wanted, csv_rows, json_rows
from psimlearn.errors import DataError
from psimlearn.filter.filter import Filter
from psimlearn.filter.live import Live
from psimlearn.filter.step import State
from psimlearn.filter.tabulate import answer_names, answers

__all__ = ["stream"]

AT_ONCE = 1 << 18
"""The most bytes read at a time: whatever lies ready up to then is answered together."""
LONGEST = 1 << 24
"""A line of more bytes than this is no row."""
MOST_STREAMS = 10_000
"""Recordings at work at the same time; beyond, the one that was silent longest is forgotten."""

NOTHING = np.empty((0, 0))


def stream(
    filter: Filter,
    wanted: Wanted,
    steps: int,
    source: int,
    out: BufferedIOBase,
    header: Sequence[str] | None = None,
) -> None:
    """Answer the lines that come from a file descriptor, until it ends.

    Lines that lie ready are answered together and written at once; a line that comes alone is answered alone.
    """
    n_line = n_bad = 0
    desk: Desk | None = None
    for lines in _batches(source):
        if desk is None:
            lines, skipped = _without_blank_start(lines)
            n_line += skipped
            if not lines:
                continue
            desk = Desk(filter, wanted, steps, lines[0], header)
            out.write(desk.opening)
            if desk.has_header:
                lines, n_line = lines[1:], n_line + 1
        text, bad = desk.answered(lines, n_line)
        n_line, n_bad = n_line + len(lines), n_bad + bad
        out.write(text)
        out.flush()
    if desk is None:
        raise DataError("standard input: required rows, received nothing. Check what writes to the pipe.")
    if n_bad:
        say(f"psimlearn: {n_bad} of {n_line} lines were left out.")


def _batches(source: int) -> Iterator[list[str]]:
    """All the whole lines that are there, as soon as there is one; the last line needs no end."""
    rest = b""
    while chunk := os.read(source, AT_ONCE):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST:
            raise DataError(f"standard input: required lines, received {len(rest)} bytes without an end of line.")
        if lines:
            yield [line.decode("utf-8", errors="replace") for line in lines]
    if rest:
        yield [rest.decode("utf-8", errors="replace")]


def _without_blank_start(lines: list[str]) -> tuple[list[str], int]:
    """From the first line that is not empty; a byte order mark is no part of it."""
    lines = [lines[0].removeprefix("\ufeff"), *lines[1:]]
    blank = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    return lines[blank:], blank


class Desk:
    """Where lines are taken in and answers given out: the streams at work, and the form of what comes and goes."""

    def __init__(
        self, filter: Filter, wanted: Wanted, steps: int, first_line: str, header: Sequence[str] | None
    ) -> None:
        self.filter = filter
        self.steps = steps
        self.names = answer_names(wanted.channels, steps)
        self.nothing = np.full(len(self.names), np.nan)
        self.n_channels = len(wanted.channels)
        self.json = first_line.lstrip().startswith("{")
        if self.json:
            self.read, self.keys = json_rows(wanted), {w: n for w in ("id", "time") if (n := getattr(wanted, w))}
        else:
            self.read, self.keys = csv_rows(first_line, wanted, header)
        self.has_header = not self.json and header is None
        self.header = first_line.strip() if self.has_header else None
        self.blank_is_row = not self.json and wanted.numbers == wanted.channels[:1] and not self.keys
        self.fresh = Live(filter)
        self.streams: OrderedDict[str, Stream] = OrderedDict()

    @property
    def opening(self) -> bytes:
        """The header of what goes out."""
        return b"" if self.json else (",".join(map(csv_cell, [*self.keys.values(), *self.names])) + "\n").encode()

    def answered(self, lines: Sequence[str], n_before: int) -> tuple[bytes, int]:
        """One answer for each row, as text, and how many rows were left out."""
        taken: list[Row] = []
        steps: list[Step | None] = []
        for number, line in enumerate(lines, n_before + 1):
            line = line.rstrip("\r")
            # a tab may stand between two cells that were not observed
            if not (line.strip(" ") or self.blank_is_row) or line.strip() == self.header:
                continue
            try:
                row = self.read(line, lambda wrong, number=number: say(f"line {number}, {wrong}"))  # type: ignore[misc]
                steps.append(self._stream(row.id).take(row, self.n_channels))
            except DataError as error:
                say(f"line {number}: {error} Left out.")
                row = Row([], "", "", None)
                steps.append(None)
            taken.append(row)
        rows = np.tile(self.nothing, (len(taken), 1))
        if good := [i for i, step in enumerate(steps) if step is not None]:
            rows[good] = self._said([step for step in steps if step is not None])
        return self._text(taken, rows).encode(), len(taken) - len(good)

    def _stream(self, id: str) -> "Stream":
        if id in self.streams:
            self.streams.move_to_end(id)
        else:
            self.streams[id] = Stream(self.fresh.copy(), self.steps)
            if len(self.streams) > MOST_STREAMS:
                self.streams.popitem(last=False)
        return self.streams[id]

    def _said(self, steps: Sequence["Step"]) -> np.ndarray:
        before, x, after = zip(*steps, strict=True)
        return answers(self.filter, _together(before), np.array(x), _together(after), self.steps)

    def _text(self, taken: Sequence[Row], rows: np.ndarray) -> str:
        if self.json:
            keys = [{name: getattr(row, what) for what, name in self.keys.items()} for row in taken]
            return "".join(line + "\n" for line in json_lines(keys, self.names, rows))
        own = [[csv_cell(getattr(row, what)) for row in taken] for what in self.keys]
        return "".join(",".join(cells) + "\n" for cells in zip(*own, csv_numbers(rows), strict=True))


class Position(NamedTuple):
    """Where one stream stands."""

    belief: np.ndarray
    recent: np.ndarray
    clock: int
    unseen: int


Step = tuple[Position, np.ndarray, Position]
"""A stream before a row, the row, and the stream after it."""


class Stream:
    """One recording that goes on and on."""

    def __init__(self, live: Live, steps: int) -> None:
        self.live = live
        self.beyond = steps > live.filter.features.window
        self.clock = 0
        self.moment: Any = None
        self.here = self._position(live)
        self.pending: tuple[np.ndarray, np.ndarray] | None = None

    def take(self, row: Row, n: int) -> Step:
        """A row of n channels and some inputs; one that is refused leaves everything as it was."""
        if row.moment is not None:
            self._check_time(row)
        x = np.array(row.numbers[:n])
        if len(row.numbers) == n:
            before = self.here
            self.live.update(x)
            self.clock += 1
            self.here = self._position(self.live)
            step = before, x, self.here
        else:
            step = self._take_with_inputs(x, np.array(row.numbers[n:]))
        self.moment = row.moment
        return step

    def _take_with_inputs(self, x: np.ndarray, u: np.ndarray) -> Step:
        """Where inputs act at once, the belief before a row is known only when the inputs of that row are."""
        ahead = self.live.copy()
        if self.pending is not None:
            ahead.update(*self.pending, next_u=u)
        before = self._position(ahead)
        after = ahead.copy()
        after.update(x, u)
        if self.live.filter.feedthrough:
            self.live, self.pending = ahead, (x, u)
        else:
            self.live = after
        self.clock += 1
        return before, x, self._position(after)

    def _position(self, live: Live) -> Position:
        """The last observations are needed only for predictions beyond the window."""
        recent = live.state.recent[0] if self.beyond else NOTHING
        unseen = live.unseen
        return Position(live.belief, recent, self.clock, unseen if isinstance(unseen, int) else int(unseen[0]))

    def _check_time(self, row: Row) -> None:
        try:
            rises = self.moment is None or row.moment > self.moment
        except TypeError as error:
            raise DataError(f"required times of one kind, received {row.moment} after {self.moment}.") from error
        if not rises:
            raise DataError(
                f"required times that rise, received {row.time} after {self.moment}: a new recording needs an id."
            )


def _together(positions: Sequence[Position]) -> State:
    return State(*(np.array(part) for part in zip(*positions, strict=True)))
