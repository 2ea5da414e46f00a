"""A filter in a pipe: rows in, one answer to each row out, at once, in constant memory."""

import os
from collections.abc import Iterator, Sequence
from io import BufferedIOBase

import numpy as np

from psimlearn.cli.formats import csv_cell, csv_numbers, json_lines
from psimlearn.cli.options import say
from psimlearn.cli.rows import ParsedRow, Wanted, csv_rows, json_rows
from psimlearn.cli.sessions import Sessions, Step
from psimlearn.errors import DataError
from psimlearn.filter import Filter
from psimlearn.filter.tabulate import answer_names

__all__ = ["stream"]

AT_ONCE = 1 << 18
"""The most bytes read at a time: lines that are ready are answered together."""
LONGEST = 1 << 24
"""A line of more bytes than this is refused."""


def stream(
    filter: Filter,
    wanted: Wanted,
    steps: int,
    source: int,
    out: BufferedIOBase,
    header: Sequence[str] | None = None,
) -> None:
    """Answer the lines that come from a file descriptor, until it ends.

    Lines that are ready are answered together and written at once; a line that comes alone is answered alone.

    Args:
        filter: the filter to run.
        wanted: the columns that it needs.
        steps: how many steps to forecast.
        source: the file descriptor.
        out: where answers are written.
        header: the names of the columns, if the lines have no header.
    """
    n_line = n_bad = 0
    responder: Responder | None = None
    for lines in _batches(source):
        if responder is None:
            lines, skipped = _without_blank_start(lines)
            n_line += skipped
            if not lines:
                continue
            responder = Responder(filter, wanted, steps, lines[0], header)
            out.write(responder.opening)
            if responder.header is not None:
                lines, n_line = lines[1:], n_line + 1
        text, bad = responder.answered(lines, n_line)
        n_line, n_bad = n_line + len(lines), n_bad + bad
        out.write(text)
        out.flush()
    if responder is None:
        raise DataError("standard input: required rows, received nothing. Check the program that writes to the pipe.")
    if n_bad:
        say(f"psimlearn: {n_bad} of {n_line} lines were left out.")


def _batches(source: int) -> Iterator[list[str]]:
    """All complete lines that are ready, as soon as there is one; the last line needs no line end."""
    rest = b""
    while chunk := os.read(source, AT_ONCE):
        ready = (rest + chunk).replace(b"\r\n", b"\n")
        held = b"\r" * ready.endswith(b"\r")  # perhaps the first half of a line end
        *lines, rest = ready.removesuffix(held).replace(b"\r", b"\n").split(b"\n")
        rest += held
        if len(rest) > LONGEST:
            raise DataError(
                f"standard input: required lines of at most {LONGEST} bytes, received {len(rest)} bytes without an end "
                "of line. Check the program that writes to the pipe."
            )
        if lines:
            yield [line.decode("utf-8", errors="surrogateescape") for line in lines]
    if rest:
        yield [rest.decode("utf-8", errors="surrogateescape").removesuffix("\r")]


def _without_blank_start(lines: list[str]) -> tuple[list[str], int]:
    """The lines from the first that is not empty, without a byte order mark, and how many were skipped."""
    lines = [lines[0].removeprefix("\ufeff"), *lines[1:]]
    blank = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    return lines[blank:], blank


class Responder:
    """Parses lines, hands their rows to live recordings, and writes answers in the form in which the lines came."""

    def __init__(
        self, filter: Filter, wanted: Wanted, steps: int, first_line: str, header: Sequence[str] | None
    ) -> None:
        self.names = answer_names(wanted.channels, steps)
        self.n_channels = len(wanted.channels)
        self.json = first_line.lstrip().startswith("{")
        if self.json:
            self.read, self.keys = json_rows(wanted), {w: n for w in ("id", "time") if (n := getattr(wanted, w))}
        else:
            self.read, self.keys = csv_rows(first_line, wanted, header)
        self.header = None if self.json or header is not None else first_line.strip()
        self.blank_is_row = not self.json and wanted.numbers == wanted.channels[:1] and not self.keys
        self.sessions = Sessions(filter, steps)

    @property
    def opening(self) -> bytes:
        """The header of the answers; none for JSON lines."""
        return b"" if self.json else (",".join(map(csv_cell, [*self.keys.values(), *self.names])) + "\n").encode()

    def answered(self, lines: Sequence[str], n_before: int) -> tuple[bytes, int]:
        """One answer for each row as text, and how many rows were left out.

        Args:
            lines: without line ends.
            n_before: how many lines came before them, so that messages can name a line by its number.
        """
        taken: list[ParsedRow] = []
        steps: list[Step | None] = []
        for number, line in enumerate(lines, n_before + 1):
            line = line.rstrip("\r")
            if self._is_row(line):
                row, step = self._taken(line, number)
                taken.append(row)
                steps.append(step)
        rows = np.full((len(taken), len(self.names)), np.nan)
        if good := [i for i, step in enumerate(steps) if step is not None]:
            rows[good] = self.sessions.answers([step for step in steps if step is not None])
        return self._text(taken, rows).encode(), len(taken) - len(good)

    def _is_row(self, line: str) -> bool:
        """Whether a line is neither empty nor the header again; tabs may separate cells that were not observed."""
        return bool(line.strip(" ") or self.blank_is_row) and line.strip() != self.header

    def _taken(self, line: str, number: int) -> tuple[ParsedRow, Step | None]:
        """A row and its step; an empty row and None for a line that is left out."""
        try:
            row = self.read(line, lambda wrong: say(f"line {number}, {wrong}"))
            return row, self.sessions.take(row, self.n_channels)
        except DataError as error:
            say(f"line {number}: {error} Left out.")
            return ParsedRow([], "", "", None), None

    def _text(self, taken: Sequence[ParsedRow], rows: np.ndarray) -> str:
        if self.json:
            keys = [{name: getattr(row, what) for what, name in self.keys.items()} for row in taken]
            return "".join(line + "\n" for line in json_lines(keys, self.names, rows))
        cells_of_keys = [[csv_cell(getattr(row, what)) for row in taken] for what in self.keys]
        return "".join(",".join(cells) + "\n" for cells in zip(*cells_of_keys, csv_numbers(rows), strict=True))
