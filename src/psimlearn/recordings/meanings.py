"""Columns that nobody has named and that may be no channels: ids, times and counters, by their names and their cells.

This is the one place that knows them. Python asks what they mean, and the command line tells what it made of them.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Literal, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.names import COUNTERS, IDS, PERHAPS_IDS, TIMES, looks_like
from psimlearn.recordings.times import moment_of
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Suspect", "may_be_id", "suspects"]

LEAST_ROWS = 10
"""Fewer rows fill blocks, or count up, by chance."""
LEAST_BLOCKS = 3
"""Two blocks of numbers are a switch, such as a fault flag that goes on; two blocks of words are enough."""
EVEN = 0.95
"""The share of rows that follow the row before by the usual distance: in counters a few rows are missing."""
SMOOTH, JUMP = 0.5, 2.0
"""A channel is smooth if neighbouring rows differ by less than this share of its standard deviation. Between recordings
it jumps by more than twice that, else the rows go on as one recording would: the column may be a set point. Of 2000
random columns of whole numbers beside a random walk, 6 are asked for, and 90 beside noise, which is never smooth."""
DIGITS = 6
"""Times are rounded to so many decimals at most."""


class Suspect(NamedTuple):
    """What a column may mean."""

    what: Literal["id", "time"]
    why: str = ""
    """What its cells say; nothing if its name says it."""

    @property
    def asked(self) -> str:
        """The question in words."""
        return f"{self.why}: {self.question}" if self.why else self.question

    @property
    def question(self) -> str:
        """Its meaning as a question."""
        return "an id?" if self.what == "id" else "a time?"


def suspects(
    columns: Mapping[Any, Any],
    groups: Int[np.ndarray, " rows"] | None = None,
    *,
    timed: bool = False,
    alone: bool = True,
) -> dict[Any, Suspect]:
    """The columns that may be an id or a time, at most one for each, by name.

    Args:
        columns: cells by the name of the column: an array of numbers, a list of words, or None where nothing but the
            name counts.
        groups: the number of the recording of each row, if an id is known.
        timed: whether a time is known.
        alone: whether there are no channels beside these columns: then one at least is what it looks like.
    """
    found: dict[Any, Suspect] = {}
    if groups is None and (id := _id_by_name(columns) or _id_by_cells(columns)) is not None:
        found[id.name], groups = Suspect("id", id.why), _codes(columns[id.name])
    free = {name: cells for name, cells in columns.items() if name not in found}
    if not timed and (time := _time_by_name(free, groups)) is not None:
        found[time] = Suspect("time")
    elif not timed and (time := next((name for name, cells in free.items() if _holds_dates(cells)), None)) is not None:
        found[time] = Suspect("time", "it holds dates")
    elif not (timed and groups is not None):
        counters = (name for name, cells in free.items() if _counts_up(cells, groups, even=True, restarts=timed))
        found |= {name: Suspect("time", "it counts up") for name in [*counters][:1]}
    channels = {name for name, cells in columns.items() if isinstance(cells, np.ndarray)}
    if alone and channels <= found.keys():
        return {name: suspect for name, suspect in found.items() if not suspect.why}
    return found


def may_be_id(cells: Any) -> bool:
    """Whether cells are words or whole numbers that come again: not fractions, and not another one in each row."""
    codes = _codes(cells)
    return codes is not None and 2 * (int(codes.max()) + 1) <= len(codes)


# -- ids ---------------------------------------------------------------------------------------------------------------


class _Id(NamedTuple):
    """A column that may be the id."""

    name: Any
    why: str = ""


def _id_by_name(columns: Mapping[Any, Any]) -> _Id | None:
    """The first column with the name of an id; a doubtful name counts if the cells agree."""
    names = list(columns)
    perhaps = (name for name in looks_like(PERHAPS_IDS, names) if may_be_id(columns[name]))
    return next((_Id(name) for name in [*looks_like(IDS, names), *perhaps]), None)


def _id_by_cells(columns: Mapping[Any, Any]) -> _Id | None:
    """The first column each of whose values fills one block of rows, or whose values come in turn in every time."""
    dates = {*looks_like(TIMES, list(columns)), *(name for name, cells in columns.items() if _holds_dates(cells))}
    free = {name: cells for name, cells in columns.items() if name not in dates}  # a day fills a block of rows
    turns = {name: n for name, cells in free.items() if (n := _turn(cells))}
    for name, cells in free.items():
        if lengths := _blocks(cells):
            other = next((name for name, n in turns.items() if lengths == {n}), None)
            n = 0 if other is None else turns[other]
            if other is not None and n * n <= len(cells) and _follows_after(columns, {name, other}, n):
                return _Id(other, "its values come in turn")
            if isinstance(cells, list) or not _goes_on(columns, name):
                return _Id(name, "each value fills one block of rows")
    words = (name for name in turns if not _counts_up(columns[name], None))
    return next((_Id(name, "its values come in turn") for name in words), None)


def _blocks(cells: Any) -> set[int]:
    """The lengths of blocks of rows, each of one word or whole number that no other has; none for other columns."""
    if _is_short(cells):
        return set()
    words = isinstance(cells, list)
    values = _objects(cells) if words else cells
    starts = np.concatenate([[0], _edges(cells) + 1])
    if not (2 if words else LEAST_BLOCKS) <= len(starts) <= len(values) / 2:
        return set()
    different = set(values[starts].tolist())
    if len(different) < len(starts) or None in different:
        return set()
    return set(np.diff([*starts, len(values)]).tolist())


def _edges(cells: Any) -> Int[np.ndarray, " edges"]:
    """The rows that differ from the row after."""
    values = _objects(cells) if isinstance(cells, list) else cells
    return np.flatnonzero(values[1:] != values[:-1])


def _goes_on(columns: Mapping[Any, Any], id: Any) -> bool:
    """Whether smooth channels go on where the values of a column change, and nothing begins to count anew."""
    edges, ratios = _edges(columns[id]), []
    for name, cells in columns.items():
        if name == id or not isinstance(cells, np.ndarray):
            continue
        rises, spread = np.diff(cells.astype(np.float64)), float(np.nanstd(cells))
        steps = np.abs(rises)
        at, within = steps[edges], np.delete(steps, edges)
        if _counts_up(cells, None, restarts=True) and np.array_equal(np.flatnonzero(rises <= 0), edges):
            return False
        if 0 < (usual := float(np.nanmean(within))) < SMOOTH * spread:
            ratios.append(float(np.nanmean(at)) / usual)
    return bool(ratios) and float(np.median(ratios)) < JUMP


def _turn(cells: Any) -> int:
    """The number of words, or of whole numbers, that come one after the other, again and again; 0 if they do not."""
    if _is_short(cells):
        return 0
    words = isinstance(cells, list)
    values = _objects(cells) if words else cells
    again = np.flatnonzero(values[1:] == values[0])
    n = int(again[0]) + 1 if len(again) else 0
    if not (2 if words else LEAST_BLOCKS) <= n <= len(values) / 2 or (values[n:] != values[:-n]).any():
        return 0
    first = set(values[:n].tolist())
    return n if len(first) == n and None not in first else 0


def _is_short(cells: Any) -> bool:
    """Whether these are too few, or neither words nor whole numbers."""
    known = isinstance(cells, list) or (cells is not None and cells.dtype.kind in "iu")
    return not known or len(cells) < LEAST_ROWS


def _follows_after(columns: Mapping[Any, Any], keys: set[Any], n: int) -> bool:
    """Whether numbers go on after n rows rather than in the next row, as they do where recordings take turns."""
    near = far = 0.0
    for name, cells in columns.items():
        if name not in keys and cells is not None and not isinstance(cells, list):
            values = np.asarray(cells, dtype=np.float64)
            spread = float(np.nanstd(values)) or 1.0
            near += float(np.nanmean(np.abs(values[1:] - values[:-1]))) / spread
            far += float(np.nanmean(np.abs(values[n:] - values[:-n]))) / spread
    return far < 0.8 * near  # of noise, both are the same up to chance


def _codes(cells: Any) -> Int[np.ndarray, " rows"] | None:
    """Cells as numbers of groups; None for fractions, empty cells and columns without cells."""
    if cells is None or not len(cells):
        return None
    if isinstance(cells, list):
        numbers: dict[Any, int] = {}
        codes = np.array([numbers.setdefault(cell, len(numbers)) for cell in cells])
        return None if None in numbers or any(map(_is_fraction, numbers)) else codes
    if cells.dtype.kind not in "iu":
        return None
    return np.unique(cells, return_inverse=True)[1]


def _is_fraction(cell: Any) -> bool:
    """Whether a cell is a number that is not whole, or that is written with a decimal point."""
    if isinstance(cell, float):
        return not cell.is_integer()
    try:
        return isinstance(cell, str) and "." in cell and isfinite(float(cell))
    except ValueError:
        return False


def _objects(cells: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


# -- times and counters ------------------------------------------------------------------------------------------------


def _time_by_name(columns: Mapping[Any, Any], groups: Int[np.ndarray, " rows"] | None) -> Any:
    """The first column with the name of a time; the name of a counter counts if the cells rise."""
    names = list(columns)
    perhaps = [name for name in looks_like(COUNTERS, names) if _counts_up(columns[name], groups)]
    return next(iter([*looks_like(TIMES, names), *perhaps]), None)


def _counts_up(
    cells: Any, groups: Int[np.ndarray, " rows"] | None, *, even: bool = False, restarts: bool = False
) -> bool:
    """Whether numbers rise from row to row, and begin again with the first number, if at all.

    Args:
        cells: the cells of a column.
        groups: the number of the recording of each row: within each, numbers rise; None if it is not known.
        even: whether they must rise by the same number.
        restarts: whether they must begin again.
    """
    if cells is None or isinstance(cells, list) or len(cells) < LEAST_ROWS:
        return False
    values = np.asarray(cells, dtype=np.float64)
    if groups is None and not _rises(values[:200])[1]:  # most columns are channels, and this tells them quickly
        return False
    begins = np.zeros(len(values) - 1, dtype=bool)
    if groups is not None:
        order = np.argsort(groups, kind="stable")
        values, begins = values[order], np.diff(groups[order]) != 0
    falls, sound = _rises(values, begins)
    n_runs = 1 + int((falls | begins).sum())
    if not sound or len(values) < 3 * n_runs or (restarts and not falls.any()):
        return False
    rises = np.diff(values)[~(falls | begins)]
    return not even or _is_even(rises, values)


def _rises(
    values: Float[np.ndarray, " rows"], begins: Bool[np.ndarray, " pairs"] | None = None
) -> tuple[Bool[np.ndarray, " pairs"], bool]:
    """Where numbers fall within a recording, and whether they begin with the first number of all wherever they do."""
    if not np.isfinite(values).all():
        return np.zeros(0, dtype=bool), False
    falls = np.diff(values) <= 0
    falls = falls if begins is None else falls & ~begins
    return falls, bool((values[1:][falls] == values[0]).all())


def _is_even(rises: Float[np.ndarray, " pairs"], values: Float[np.ndarray, " rows"]) -> bool:
    """Whether nearly all rises are the same, up to the rounding of decimals, and the others larger."""
    usual = float(np.median(rises))
    unit = next((10.0**-k for k in range(DIGITS + 1) if _is_whole(values[:200] * 10.0**k)), 0.0)
    slack = 1e-6 * usual + 4 * np.spacing(np.abs(values).max()) + (1.01 * unit if usual >= 10 * unit else 0.0)
    same = np.abs(rises - usual) <= slack
    return bool(same.mean() >= EVEN and (rises[~same] > usual).all())


def _is_whole(values: Float[np.ndarray, " rows"]) -> bool:
    return bool((np.abs(values - np.rint(values)) < 1e-6).all())


def _holds_dates(cells: Any) -> bool:
    """Whether words are times, told from the first and the last, which differ."""
    if not isinstance(cells, list) or not cells or (len(cells) > 1 and cells[0] == cells[-1]):
        return False
    try:
        return all(moment_of(cell).kind != "number" for cell in (cells[0], cells[-1]))
    except DataError:
        return False
