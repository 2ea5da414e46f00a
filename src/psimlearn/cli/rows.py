"""Live rows, as CSV or as JSON lines: each line is parsed by itself, or refused with a reason."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from math import isinf, isnan, nan
from operator import itemgetter
from typing import Any, NamedTuple

from psimlearn.errors import DataError
from psimlearn.recordings.cells import cells_of, check_encoding, header_of, number

__all__ = ["ParsedRow", "Wanted", "csv_rows", "json_rows"]

Complain = Callable[[str], None]
"""Takes the reason why a cell is not a number."""


class Wanted(NamedTuple):
    """The columns of numbers that a filter needs, and the columns of ids and times."""

    channels: tuple[str, ...]
    inputs: tuple[str, ...]
    id: str | None
    time: str | None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers, in their order."""
        return self.channels + self.inputs


class ParsedRow(NamedTuple):
    """One row of one recording."""

    numbers: list[float]
    """Channels, then inputs; NaN for a cell that was not observed."""
    id: str
    time: Any
    """The time as it was written."""
    moment: Any
    """The time as a number or an instant; None without a time."""


Read = Callable[[str, Complain], ParsedRow]
"""Parses a line. A cell that is no number is complained of and not observed; a line that is no row is a DataError."""


def csv_rows(first_line: str, wanted: Wanted, given: Sequence[str] | None = None) -> tuple[Read, dict[str, str]]:
    """A parser of CSV lines, and the names of the id and time columns that these lines have.

    Args:
        first_line: the header, or the first row if `given` names the columns.
        wanted: the columns of the model.
        given: the names of the columns, if the lines have no header.
    """
    names, delimiter, _ = header_of(first_line, "standard input", given)
    if absent := [name for name in wanted.numbers if name not in names]:
        raise DataError(
            f"standard input: required columns {absent} as the model was learnt with, received {names}. Correct the "
            "header, or name the columns with --header."
        )
    wanted = wanted._replace(
        id=wanted.id if wanted.id in names else None, time=wanted.time if wanted.time in names else None
    )
    places = [names.index(name) for name in wanted.numbers]
    pick = itemgetter(*places) if len(places) > 1 else lambda cells: (cells[places[0]],)
    id, time = (None if name is None else names.index(name) for name in (wanted.id, wanted.time))

    def read(line: str, complain: Complain) -> ParsedRow:
        cells = cells_of(line, delimiter)
        if len(cells) != len(names):
            raise DataError(f"required {len(names)} cells as in the header, received {len(cells)}: {line[:200]!r}.")
        texts = pick(cells)
        try:
            numbers = list(map(float, texts))
            total = sum(numbers)
            if total - total != 0 or "_" in line or not line.isascii():  # NaN, infinity, 1_000, digits of other scripts
                raise ValueError
        except ValueError:
            numbers = [_number(cell, name, complain) for cell, name in zip(texts, wanted.numbers, strict=True)]
        when = None if time is None else cells[time].strip()
        name = "" if id is None else _readable(cells[id])
        return ParsedRow(numbers, name, when, None if when is None else _moment(when))

    return read, {what: name for what in ("id", "time") if (name := getattr(wanted, what))}


def json_rows(wanted: Wanted) -> Read:
    """A parser of lines that are JSON objects; a name that is absent or null was not observed."""

    def read(line: str, complain: Complain) -> ParsedRow:
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"required a JSON object, received {line[:200]!r} ({error}).") from error
        if not isinstance(cells, dict):
            raise DataError(f"required a JSON object, received {line[:200]!r}.")
        numbers = [_json_number(cells.get(name), name, complain) for name in wanted.numbers]
        when = cells.get(wanted.time) if wanted.time else None
        moment = when if when is None or isinstance(when, int | float) else _moment(str(when))
        return ParsedRow(numbers, _readable(str(cells.get(wanted.id, ""))) if wanted.id else "", when, moment)

    return read


def _readable(id: str) -> str:
    """An id in UTF-8: two ids that cannot be read might look like one."""
    check_encoding(id)
    return id


def _number(cell: str, name: str, complain: Complain) -> float:
    try:
        value = number(cell)
    except DataError as error:
        complain(f"column {name!r}: {error} Taken as not observed.")
        return nan
    return _not_infinite(value, name, complain)


def _json_number(value: Any, name: str, complain: Complain) -> float:
    if value is None:
        return nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        complain(f"column {name!r}: required a number or null, received {value!r}. Taken as not observed.")
        return nan
    return _not_infinite(float(value), name, complain)


def _not_infinite(value: float, name: str, complain: Complain) -> float:
    if not isinf(value):
        return value
    complain(f"column {name!r}: required a finite number, received {value}. Taken as not observed.")
    return nan


def _moment(text: str) -> Any:
    """A time as a number or as an instant."""
    try:
        value = float(text)
    except ValueError:
        try:
            return datetime.fromisoformat(text)
        except ValueError as error:
            raise DataError(f"required a time as a number or in ISO 8601, received {text!r}.") from error
    if isnan(value):
        raise DataError(f"required a time, received {text!r}.")
    return value
