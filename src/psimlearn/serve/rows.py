"""Live rows, as CSV or as JSON lines: each line is parsed by itself, or refused with a reason."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isinf, nan
from operator import itemgetter
from typing import Any, NamedTuple

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.cells import USUAL, Absent, cells_of, check_encoding, header_of, number
from psimlearn.recordings.times import Moment, moment_of
from psimlearn.serve.symbols import Numbers, symbol_rows, worded

__all__ = ["Complain", "ParsedRow", "Wanted", "csv_rows", "json_rows", "names_unknown", "object_rows"]

Complain = Callable[[str], None]
"""Takes the reason why a cell is not a number."""
LONGEST_ID = 1000
"""Characters of an id: ids of thousands of recordings are remembered."""


class Wanted(NamedTuple):
    """The columns that a filter needs, and the columns of ids and times."""

    channels: tuple[str, ...]
    inputs: tuple[str, ...]
    id: str | None
    time: str | None
    alphabet: Alphabet | None = None
    """The alphabet of a filter of symbols, whose only channel is a column of symbols."""
    categories: Mapping[str, Alphabet] = {}
    """The words of each input that holds words."""
    absent: Absent = USUAL
    time_format: str | None = None
    """How times are written; by default as numbers or in ISO 8601."""
    step: float | None = None
    """The seconds from one row to the next, if they are known."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of channels and inputs, in their order."""
        return self.channels + self.inputs

    @property
    def n_channels(self) -> int:
        """The channels of the filter: for symbols, one for each."""
        return len(self.channels) if self.alphabet is None else len(self.alphabet)


class ParsedRow(NamedTuple):
    """One row of one recording."""

    numbers: list[float]
    """Channels, then inputs; NaN for a cell that was not observed."""
    id: str
    time: Any
    """The time as it was written."""
    moment: Moment | None
    """The time, understood; None without a time."""
    note: str = ""
    """What is odd in the form of the row, and so perhaps in all rows of its sender."""


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
    if absent := [name for name in wanted.names if name not in names]:
        raise DataError(
            f"standard input: required columns {absent} as the model was learnt with, received {names}. Correct the "
            "header, or name the columns with --header."
        )
    wanted = wanted._replace(
        id=wanted.id if wanted.id in names else None, time=wanted.time if wanted.time in names else None
    )
    places = [names.index(name) for name in wanted.names]
    pick = itemgetter(*places) if len(places) > 1 else lambda cells: (cells[places[0]],)
    id, time = (None if name is None else names.index(name) for name in (wanted.id, wanted.time))
    numbers = _numbers(wanted, partial(_csv_numbers, absent=wanted.absent))

    def read(line: str, complain: Complain) -> ParsedRow:
        cells = cells_of(line, delimiter)
        if len(cells) != len(names):
            raise DataError(f"required {len(names)} cells as in the header, received {len(cells)}: {line[:200]!r}.")
        when = None if time is None else cells[time].strip()
        moment = None if when is None else moment_of(when, wanted.time_format)
        name = "" if id is None else _usable(cells[id])
        return ParsedRow(numbers(pick(cells), wanted.names, complain), name, when, moment)

    return read, {what: name for what in ("id", "time") if (name := getattr(wanted, what))}


def json_rows(wanted: Wanted) -> Read:
    """A parser of lines that are JSON objects; a name that is absent or null was not observed."""
    read = object_rows(wanted)
    return lambda line, complain: read(_object(line), complain)


def object_rows(wanted: Wanted) -> Callable[[Mapping[str, Any], Complain], ParsedRow]:
    """A reader of JSON objects; a name that is absent or null was not observed. A text is a cell as in CSV."""
    numbers = _numbers(wanted, partial(_json_numbers, absent=wanted.absent))
    known = frozenset(name for name in (*wanted.names, wanted.id, wanted.time) if name)
    plain = frozenset(wanted.names if wanted.alphabet is None else wanted.inputs) - wanted.categories.keys()

    def read(cells: Mapping[str, Any], complain: Complain) -> ParsedRow:
        if not any(name in cells for name in wanted.channels):
            raise DataError(
                f"required at least one of the channels {list(wanted.channels)!s:.200}, received the names "
                f"{list(cells)!s:.200}. Give null for a channel that was not observed."
            )
        when = cells.get(wanted.time) if wanted.time else None
        moment = None if when is None else moment_of(when, wanted.time_format)
        name = _json_id(cells.get(wanted.id)) if wanted.id else ""
        found = numbers([cells.get(name) for name in wanted.names], wanted.names, complain)
        note = "" if cells.keys() <= known else names_unknown(cells, wanted.names, known)
        if bool in map(type, cells.values()) and (truths := [n for n in plain if type(cells.get(n)) is bool]):
            note = f"{note} {sorted(truths)!s:.200}: true counts as 1, false as 0.".strip()
        return ParsedRow(found, name, when, moment, note)

    return read


def names_unknown(cells: Mapping[str, Any], names: Sequence[str], known: frozenset[str]) -> str:
    """A note if a row lacks a column while it has a name that means nothing: one may be the other, misspelt.

    A row may lack columns, and a row may hold more than the model needs; either alone is no reason for a note.

    Args:
        cells: the row.
        names: the columns of the model.
        known: these, and all other names with a meaning.
    """
    absent, unknown = [name for name in names if name not in cells], [name for name in cells if name not in known]
    if not (absent and unknown):
        return ""
    return (
        f"required the names {absent!s:.200} too, received {unknown!s:.200}, which the model does not know. Taken as "
        "not observed: correct the names, or give null for what was not observed."
    )


def _numbers(wanted: Wanted, plain: Numbers) -> Numbers:
    """The numbers of a row, given those of plain cells: words become numbers, too."""
    others = worded(wanted.categories, plain) if wanted.categories else plain
    return others if wanted.alphabet is None else symbol_rows(wanted.alphabet, others)


def _object(line: str) -> dict[str, Any]:
    try:
        cells = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"required a JSON object, received {line[:200]!r} ({error}).") from error
    if not isinstance(cells, dict):
        raise DataError(f"required a JSON object, received {line[:200]!r}.")
    return cells


def _json_id(value: Any) -> str:
    """The id of a row; all rows without an id are one recording."""
    if isinstance(value, dict | list):
        raise DataError(f"required an id that is text or a number, received {type(value).__name__}.")
    return "" if value is None else _usable(str(value))


def _usable(id: str) -> str:
    """An id in UTF-8, as two ids that cannot be read might look like one, and not too long to be remembered."""
    check_encoding(id)
    if len(id) > LONGEST_ID:
        raise DataError(f"required an id of at most {LONGEST_ID} characters, received {len(id)}: {id[:80]!r} ..")
    return id


def _csv_numbers(texts: Sequence[str], names: Sequence[str], complain: Complain, absent: Absent) -> list[float]:
    try:
        numbers = list(map(float, texts))
        total, text = sum(numbers), "".join(texts)
        plain = total - total == 0 and "_" not in text and text.isascii() and not absent.numbers
    except ValueError:
        plain = False
    if plain:  # no NaN, no infinity, no 1_000, no digits of other scripts
        return numbers
    return [_number(cell, name, complain, absent) for cell, name in zip(texts, names, strict=True)]


def _number(cell: str, name: str, complain: Complain, absent: Absent) -> float:
    try:
        value = number(cell, absent)
    except DataError as error:
        complain(f"column {name!r}: {error} Taken as not observed.")
        return nan
    return _not_infinite(value, name, complain)


def _json_numbers(values: Sequence[Any], names: Sequence[str], complain: Complain, absent: Absent) -> list[float]:
    return [_json_number(value, name, complain, absent) for value, name in zip(values, names, strict=True)]


def _json_number(value: Any, name: str, complain: Complain, absent: Absent) -> float:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value in absent.numbers):
        return nan
    if isinstance(value, str):
        return _number(value, name, complain, absent)
    if not isinstance(value, int | float):
        complain(f"column {name!r}: required a number or null, received {value!r:.80}. Taken as not observed.")
        return nan
    try:
        return _not_infinite(float(value), name, complain)
    except OverflowError:
        complain(f"column {name!r}: required a number up to 1.8e308, received {value!r:.20}.. Taken as not observed.")
        return nan


def _not_infinite(value: float, name: str, complain: Complain) -> float:
    if not isinf(value):
        return value
    complain(f"column {name!r}: required a finite number, received {value}. Taken as not observed.")
    return nan
