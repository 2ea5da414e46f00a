"""A filter in a pipe: rows in, one answer to each row out, at once, in constant memory."""

import os
import select
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from typing import Any

import numpy as np

from psimlearn.cli.formats import csv_cell, csv_numbers, json_lines
from psimlearn.cli.options import say
from psimlearn.cli.sessions import Sessions, Step
from psimlearn.errors import DataError
from psimlearn.filter import Filter
from psimlearn.filter.outside import Lookout
from psimlearn.serve.columns import alarm_columns, names_of_alarms, names_of_answers
from psimlearn.serve.rows import ParsedRow, Wanted, csv_rows, json_rows
from psimlearn.serve.symbols import symbol_columns

__all__ = ["batches", "stream", "without_blank_start"]

Line = str | None
"""A line without its end; None for a line that is too long."""

AT_ONCE = 1 << 18
"""The most bytes read at a time: lines that are ready are answered together."""
LONGEST = 1 << 24
"""A line of more bytes than this is left out."""
MOST_TOLD = 1000
"""Different notes that are remembered, so that each is told once; a hostile sender must not fill the memory."""


def stream(
    filter: Filter,
    wanted: Wanted,
    steps: int,
    source: int,
    out: BufferedIOBase,
    header: Sequence[str] | None = None,
    alarm: float | None = None,
) -> None:
    """Answer the lines that come from a file descriptor, until it ends.

    Lines that are ready are answered together and written at once; a line that comes alone is answered alone. At the
    end, or when the stream is stopped, a message tells how many lines were left out.

    Args:
        filter: the filter to run.
        wanted: the columns that it needs.
        steps: how many steps to forecast.
        source: the file descriptor.
        out: where answers are written.
        header: the names of the columns, if the lines have no header.
        alarm: the rate of alarms; None for answers without alarms.
    """
    running = Running(filter, wanted, steps, alarm, header)
    try:
        for lines in batches(source):
            out.write(running.answered(lines))
            out.flush()
    finally:
        running.tell()
    if running.responder is None:
        raise DataError("standard input: required rows, received nothing. Check the program that writes to the pipe.")
    if running.n_bad and not running.n_good:
        raise DataError(
            f"standard input: required rows as the model was learnt with, received {running.n_bad} lines of which none "
            "could be used. See the messages above."
        )


class Running:
    """The state of a stream: lines are counted, and the first line with any content decides their form."""

    def __init__(
        self, filter: Filter, wanted: Wanted, steps: int, alarm: float | None, header: Sequence[str] | None
    ) -> None:
        self.about = filter, wanted, steps, alarm
        self.header = header
        self.responder: Responder | None = None
        self.n_lines = self.n_bad = self.n_good = 0

    def answered(self, lines: Sequence[Line]) -> bytes:
        """The answers to lines, after the header of the answers if these lines are the first."""
        opening = b""
        if self.responder is None:
            lines, skipped = without_blank_start(lines)
            self.n_lines += skipped
            if not lines:
                return b""
            self.responder = Responder(*self.about, _first(lines[0]), self.header)
            opening = self.responder.opening
            if self.responder.header is not None:
                lines, self.n_lines = lines[1:], self.n_lines + 1
        with np.errstate(over="ignore", invalid="ignore"):  # a huge row has the log-likelihood -inf, which tells enough
            text, n_good, n_bad = self.responder.answered(lines, self.n_lines)
        self.n_lines, self.n_good, self.n_bad = self.n_lines + len(lines), self.n_good + n_good, self.n_bad + n_bad
        return opening + text

    def tell(self) -> None:
        """Say what was left out and forgotten."""
        if self.n_bad:
            say(f"psimlearn: {self.n_bad} of {self.n_lines} lines were left out.")
        if self.responder is not None and self.responder.sessions.n_forgotten:
            say(f"psimlearn: recordings were forgotten {self.responder.sessions.n_forgotten} times.")


def batches(source: int) -> Iterator[list[Line]]:
    """All complete lines that are ready, as soon as there is one; the last line needs no line end."""
    rest: list[bytes] = []  # pieces of a line that has no end yet
    size = 0
    while chunk := _read(source):
        held = rest.pop() if rest and rest[-1] == b"\r" else b""  # perhaps the first half of a line end
        chunk = (held + chunk).replace(b"\r\n", b"\n")
        last = b"\r" * chunk.endswith(b"\r")
        first, *lines = chunk.removesuffix(last).replace(b"\r", b"\n").split(b"\n")
        size += len(first)
        if size <= LONGEST:
            rest.append(first)
        if lines:
            whole = None if size > LONGEST else b"".join(rest)
            yield [_decoded(line) for line in (whole, *lines[:-1])]
            rest, size = [lines[-1]], len(lines[-1])
        if last:
            rest.append(last)
    if size > LONGEST or b"".join(rest).removesuffix(b"\r"):
        yield [_decoded(None if size > LONGEST else b"".join(rest).removesuffix(b"\r"))]


def _read(source: int) -> bytes:
    """Some bytes, as soon as there are any; none at the end."""
    while True:
        try:
            return os.read(source, AT_ONCE)
        except BlockingIOError:  # another program has set the pipe so that readers do not wait
            select.select([source], [], [])
        except OSError as error:
            raise DataError(
                f"standard input: required rows, received: {error}. Give rows through a pipe or from a file."
            ) from error


def _decoded(line: bytes | None) -> Line:
    """A line as text; None for a line that is too long."""
    return None if line is None or len(line) > LONGEST else line.decode("utf-8", errors="surrogateescape")


def _first(line: Line) -> str:
    if line is None:
        raise DataError(
            f"standard input: required a first line of at most {LONGEST} bytes, received a longer one. Check the "
            "program that writes to the pipe."
        )
    return line


def without_blank_start(lines: Sequence[Line]) -> tuple[Sequence[Line], int]:
    """The lines from the first that is not empty, without a byte order mark, and how many were skipped."""
    lines = [lines[0] and lines[0].removeprefix("\ufeff"), *lines[1:]]
    blank = next((i for i, line in enumerate(lines) if line is None or line.strip()), len(lines))
    return lines[blank:], blank


class Responder:
    """Parses lines, hands their rows to live recordings, and writes answers in the form in which the lines came."""

    def __init__(
        self,
        filter: Filter,
        wanted: Wanted,
        steps: int,
        alarm: float | None,
        first_line: str,
        header: Sequence[str] | None,
    ) -> None:
        self.channels, self.alphabet, self.n_channels = wanted.channels, wanted.alphabet, wanted.n_channels
        self.names, self.alarm_names = names_of_answers(wanted, steps), names_of_alarms(wanted.alphabet, alarm)
        self.json = first_line.lstrip().startswith("{")
        if self.json:
            self.read, self.keys = json_rows(wanted), {w: n for w in ("id", "time") if (n := getattr(wanted, w))}
        else:
            self.read, self.keys = csv_rows(first_line, wanted, header)
            if wanted.step is not None and wanted.time and "time" not in self.keys:
                say(f"psimlearn: no column {wanted.time!r}: every row counts as the next step, late or not.")
        self.header = None if self.json or header is not None else first_line.strip()
        self.blank_is_row = not self.json and wanted.names == wanted.channels[:1] and not self.keys
        self.sessions = Sessions(filter, steps, wanted.step, alarm)
        self.lookout = Lookout(filter)
        self.told: set[str] = set()
        """Notes on the form of rows: a sender gives all its rows one form, so each is told once."""

    @property
    def opening(self) -> bytes:
        """The header of the answers; none for JSON lines."""
        return (
            b""
            if self.json
            else (",".join(map(csv_cell, [*self.keys.values(), *self.names, *self.alarm_names])) + "\n").encode()
        )

    def answered(self, lines: Sequence[Line], n_before: int) -> tuple[bytes, int, int]:
        """One answer for each row as text, how many rows were answered, and how many were left out.

        Args:
            lines: without line ends.
            n_before: how many lines came before them, so that messages can name a line by its number.
        """
        taken: list[ParsedRow] = []
        steps: list[Step | None] = []
        numbers = [number for number, line in enumerate(lines, n_before + 1) if self._is_row(line)]
        for number in numbers:
            row, step = self._taken(lines[number - n_before - 1], number)
            taken.append(row)
            steps.append(step)
        rows = np.full((len(taken), len(self.names)), np.nan)
        alarms: dict[str, list[Any]] = {name: [None] * len(taken) for name in self.alarm_names}
        if good := [i for i, step in enumerate(steps) if step is not None]:
            some = [step for step in steps if step is not None]
            for i, far in self.lookout.found(np.array([taken[place].numbers for place in good])):
                say(f"line {numbers[good[i]]}, {far}. Check its units; this is told once.")
            answers = self.sessions.answers(some)
            rows[good] = answers if self.alphabet is None else symbol_columns(answers, self.n_channels)
            if alarms:
                for i, *cells in zip(good, *alarm_columns(*self.sessions.alarms(some), self.channels), strict=True):
                    for name, cell in zip(self.alarm_names, cells, strict=False):
                        alarms[name][i] = cell
        return self._text(taken, rows, alarms).encode(), len(good), len(taken) - len(good)

    def _is_row(self, line: Line) -> bool:
        """Whether a line is neither empty nor the header again; tabs may separate cells that were not observed."""
        return line is None or (bool(line.strip(" ") or self.blank_is_row) and line.strip() != self.header)

    def _taken(self, line: Line, number: int) -> tuple[ParsedRow, Step | None]:
        """A row and its step; an empty row and None for a line that is left out."""

        def complain(wrong: str) -> None:
            say(f"line {number}, {wrong}")

        try:
            if line is None:
                raise DataError(f"required at most {LONGEST} bytes, received more.")
            row = self.read(line, complain)
            if row.note and row.note not in self.told and len(self.told) < MOST_TOLD:
                self.told.add(row.note)
                complain(f"{row.note} This is told once.")
            return row, self.sessions.take(row, self.n_channels, complain)
        except (DataError, ArithmeticError, np.linalg.LinAlgError) as error:
            say(f"line {number}: {error} Left out.")
            return ParsedRow([], "", "", None), None

    def _text(self, taken: Sequence[ParsedRow], rows: np.ndarray, alarms: Mapping[str, Sequence[Any]]) -> str:
        if self.json:
            keys = [{name: getattr(row, what) for what, name in self.keys.items()} for row in taken]
            ends = [dict(zip(alarms, cells, strict=True)) for cells in zip(*alarms.values(), strict=True)]
            return "".join(line + "\n" for line in json_lines(keys, self.names, rows, ends))
        first = [[csv_cell(getattr(row, what)) for row in taken] for what in self.keys]
        last = [[csv_cell(cell) for cell in cells] for cells in alarms.values()]
        return "".join(",".join(cells) + "\n" for cells in zip(*first, csv_numbers(rows), *last, strict=True))
