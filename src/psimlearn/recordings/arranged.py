"""Recordings from the rows of a table: rows by id and at equal distances in time, columns by their meaning."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.categories import as_category, one_hot
from psimlearn.recordings.cells import MISSING
from psimlearn.recordings.regular import Timing, check_inputs, regular
from psimlearn.recordings.selection import Table
from psimlearn.recordings.times import times_of
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = ["Arranged", "Roles", "arranged", "words_as_symbols", "words_in"]


class Roles(NamedTuple):
    """The meaning of the columns of a table."""

    id: str
    time: str | None
    channels: tuple[str, ...]
    """The channels; for symbols, their single column."""
    inputs: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    alphabet: Alphabet | None = None
    """The symbols, if the channel holds symbols."""
    categories: Mapping[str, Alphabet] = {}
    """The words of each column that holds words: there is a channel or an input for each word."""


class Arranged(NamedTuple):
    """Recordings, and the row of the table behind each of their rows."""

    data: Trajectories
    source: Int[np.ndarray, " rows"]
    """The row of the table, -1 where there is none."""


def arranged(table: Table, roles: Roles, timing: Timing = Timing(), time_format: str | None = None) -> Arranged:
    """Gather the rows of each recording, in order of first appearance.

    Args:
        table: the rows.
        roles: the meaning of its columns.
        timing: the step, and how to mend duplicates, unsorted rows and other rates.
        time_format: how times are written, as in `datetime.strptime`; by default as numbers or in ISO 8601.
    """
    groups = _rows_by_id(table, roles.id)
    order = next(iter(groups.values())) if len(groups) == 1 else np.concatenate(list(groups.values()))
    offsets = np.cumsum([0, *map(len, groups.values())])
    ids = tuple(groups)
    parts = [_channels(table, roles), _encoded(table, roles.inputs, roles.categories), table.numbers(roles.hints)]
    values, source, times, step = _beside(parts), order, None, None
    if len(groups) > 1:  # else the rows are in order, and a copy of them may fill the memory
        values = values[order]
    if roles.time is not None:
        column = table.kept[roles.time]
        found = times_of(column, time_format, lambda row: f"{table.place(row)}, column {roles.time!r}")
        found = found._replace(ticks=found.ticks[order])
        called = [f"trajectory {id!r}" for id in ids]
        made = regular(values, found, offsets, timing, called.__getitem__, lambda row: table.place(int(order[row])))
        values, offsets, times, step = made.values, made.offsets, made.times, made.step
        source = np.where(made.source < 0, -1, order[made.source])
    observed, inputs, hints = np.split(values, np.cumsum([part.shape[1] for part in parts[:2]]), axis=1)
    check_inputs(inputs, source, offsets, ids, table.place)
    symbolic = roles.alphabet is not None
    data = Trajectories(
        observed,
        offsets,
        inputs if roles.inputs else None,
        None if symbolic else _names(roles),
        ids,
        hints if roles.hints else None,
        roles.alphabet,
        step,
        times,
    )
    return Arranged(data, source)


def _rows_by_id(table: Table, name: str) -> dict[Any, Int[np.ndarray, " T"]]:
    """The table's rows of each recording, by id."""
    cells: Sequence[Hashable] = table.kept[name]
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    edges = np.flatnonzero(column[1:] != column[:-1]) + 1  # rows of one recording follow each other, as a rule
    rows: dict[Any, list[np.ndarray]] = {}
    for run in np.split(np.arange(len(cells)), edges):
        rows.setdefault(cells[run[0]], []).append(run)
    if None in rows:
        raise DataError(
            f"{table.place(int(rows[None][0][0]))}, column {name!r}: required a trajectory id, received an empty cell. "
            "Fill it in or drop the row."
        )
    return {id: runs[0] if len(runs) == 1 else np.concatenate(runs) for id, runs in rows.items()}


def _beside(parts: Sequence[Float[np.ndarray, "rows _"]]) -> Float[np.ndarray, "rows _"]:
    """All columns in one array; those of a single part as they are."""
    filled = [part for part in parts if part.shape[1]]
    return filled[0] if len(filled) == 1 else np.concatenate(parts, axis=1)


def _channels(table: Table, roles: Roles) -> Float[np.ndarray, "rows n"]:
    if roles.alphabet is None:
        return _encoded(table, roles.channels, roles.categories)
    (name,) = roles.channels
    return roles.alphabet.one_hot(words_as_symbols(table.kept[name], roles.alphabet), f"column {name!r}", table.place)


def _encoded(table: Table, names: Sequence[str], categories: Mapping[str, Alphabet]) -> Float[np.ndarray, "rows _"]:
    """Columns of numbers as they are, and columns of words as a column for each word."""
    if not any(name in categories for name in names):
        return table.numbers(names)
    return np.concatenate(
        [
            one_hot(words_as_symbols(table.kept[name], categories[name]), categories[name], name, table.place)
            if name in categories
            else table.numbers([name])
            for name in names
        ],
        axis=1,
    )


def _names(roles: Roles) -> tuple[str, ...]:
    """The name of each channel."""
    words = {name: [f"{name}={word}" for word in found.symbols] for name, found in roles.categories.items()}
    return tuple(each for name in roles.channels for each in words.get(name, [name]))


def words_in(
    table: Table, inputs: Sequence[str], known: Mapping[str, Sequence[str | int]], option: str = "inputs"
) -> dict[str, Alphabet]:
    """The words of each input that holds words: those that are known, or those of the table."""
    return {
        name: as_category(
            Alphabet(tuple(known[name])) if name in known else Alphabet.of([words_as_symbols(table.kept[name])]),
            name,
            option,
        )
        for name in inputs
        if name in table.kept
    }


def words_as_symbols(cells: Sequence[Any], alphabet: Alphabet | None = None) -> list[Any]:
    """Cells as symbols, None for a cell that means "not observed".

    Whole numbers become numbers if the alphabet has numbers; without an alphabet, if all cells are whole numbers.
    """
    texts = [None if cell is None or str(cell).strip().lower() in MISSING else cell for cell in cells]
    texts = [cell.strip() if isinstance(cell, str) else cell for cell in texts]
    present = {cell for cell in texts if cell is not None}
    if alphabet is not None:
        numbers = all(isinstance(symbol, int) for symbol in alphabet.symbols)
    else:
        numbers = all(isinstance(cell, int) or _is_whole(cell) for cell in present)
    if not numbers:
        return texts
    return [int(cell) if isinstance(cell, str) and _is_whole(cell) else cell for cell in texts]


def _is_whole(cell: Any) -> bool:
    """Whether a cell is a whole number in its usual form: 007 is a word."""
    return isinstance(cell, str) and cell.lstrip("-").isdecimal() and str(int(cell)) == cell
