"""Recordings from paths or standard input, for the commands."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psimlearn.cli.columns import AS_USUAL, NO_COLUMNS, Columns, Reading
from psimlearn.cli.guess import (
    advice_on_times,
    guessed,
    known,
    parts_of_time,
    tell_channels,
    tell_holes,
    tell_suspects,
    tell_wide,
)
from psimlearn.cli.options import say
from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.arranged import Arranged, Roles, arranged, words_as_symbols, words_in
from psimlearn.recordings.cells import FIRST, Absent
from psimlearn.recordings.entries import columns_like, wall_like
from psimlearn.recordings.following import following
from psimlearn.recordings.found import Files
from psimlearn.recordings.regular import Timing
from psimlearn.recordings.selection import MAX_BYTES, Selection, Table
from psimlearn.recordings.tables import doubts_of, find, read_archives, read_table, written
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = ["Recordings", "recordings"]

STDIN = "standard input"
ENDINGS = {b"PAR1": ".parquet", b"PK\x03\x04": ".npz", b"\x93NUMPY": ".npy", b"\x1f\x8b": ".csv.gz"}
"""Endings of files by their first bytes."""
OPTIONS = {
    "Pass sort=True": "Use --sort",
    "sort=True": "--sort",
    "Pass duplicates='mean'": "Use --duplicates mean",
    "Pass resample=True": "Use --resample",
    "resample=True": "--resample",
    "or step=None to take": "or --step none to take",
    "or pass step=None": "or use --step none",
    "name the format in which times are written, such as": "name the format in which times are written: --time-format",
    "name the id if": "use --id if",
}
"""Words of Python in messages, and the options that mean the same."""


class Recordings(NamedTuple):
    """Recordings, and the ids and times of their rows in the file."""

    data: Trajectories
    columns: Columns
    keys: dict[str, list[Any]]
    """The columns of ids and times, in the order of the file's rows."""
    order: Int[np.ndarray, " rows"]
    """The file's row of each packed row of the recordings, -1 where there is none."""
    made: dict[str, list[Any]]
    """The ids and times of the packed rows, if some of them are in no file."""
    groups: list[Any] | None = None
    """The group of each recording."""

    @property
    def times(self) -> list[str]:
        """The keys that are times."""
        return [name for name in (self.columns.time,) if name in self.keys]

    def coming(self, steps: int) -> dict[str, list[Any]]:
        """The times of the rows after each recording, written as its last time is; none if its rows have no step."""
        data = self.data
        names = parts_of_time(self.columns.time or "", list(self.keys))
        if not names or data.times is None or data.step is None:
            return {}
        last = _seen(self.order)[data.offsets[1:] - 1]
        wall = wall_like(data.times, self.keys[names[0]][last[0]])
        times = following(data.times, data.offsets, data.step, steps, wall)
        columns = [self.keys[name] for name in names]
        found = columns_like(columns, np.repeat(last, steps).tolist(), times, self.columns.time_format)
        return dict(zip(names, found, strict=True))

    @property
    def group_of(self) -> dict[Any, int] | None:
        """The number of the group of each recording, by id; None without groups."""
        if self.groups is None:
            return None
        numbers = {group: i for i, group in enumerate(dict.fromkeys(self.groups))}
        return dict(zip(self.data.ids or (), (numbers[group] for group in self.groups), strict=True))

    def answered(
        self, rows: Float[np.ndarray, "rows columns"], holes: bool = False
    ) -> tuple[dict[str, list[Any]], Float[np.ndarray, "some columns"]]:
        """Ids and times, and answers, in the order of the file.

        Args:
            rows: the answer to each packed row.
            holes: whether to answer also rows that the file lacks; always so if the recordings were resampled.
        """
        found = np.flatnonzero(self.order >= 0)
        if not len(found) or (holes and len(found) < len(rows)):
            return self.made, rows
        places = found[np.argsort(self.order[found], kind="stable")]
        in_file = self.order[places].tolist()
        return {name: [column[row] for row in in_file] for name, column in self.keys.items()}, rows[places]


def recordings(
    sources: str | Sequence[str],
    columns: Columns,
    reading: Reading = AS_USUAL,
    usual: Columns = NO_COLUMNS,
    alphabet: Alphabet | None = None,
) -> Recordings:
    """Read paths, or standard input for "-".

    Args:
        sources: files and folders, or "-".
        columns: columns that the table must have; None for those to be found.
        reading: how files are read.
        usual: columns for id and time that are used if the table has them: those of a model.
        alphabet: the symbols of a model.
    """
    with _at_hand([sources] if isinstance(sources, str) else sources) as paths:
        try:
            found = find(paths, reading.header)
            if not found.columns:
                return _from_archives(found, reading)
            columns = known(columns, usual, found.columns)
            asked = guessed(columns, found.columns, partial(written, found)) if reading.guess else columns
            return _from_table(found, asked, columns.time is None, reading, alphabet)
        except DataError as error:
            words = str(error)
            for ours, theirs in (*OPTIONS.items(), *([(str(paths[0]), STDIN)] if "-" in sources else [])):
                words = words.replace(ours, theirs)
            raise DataError(words) from error


@contextmanager
def _at_hand(sources: Sequence[str]) -> Iterator[list[Path]]:
    """Paths; standard input is written to a file first, because tables are checked as a whole."""
    if "-" not in sources:
        yield [Path(source) for source in sources]
        return
    if len(sources) > 1:
        raise DataError(f"required - alone, or files, received - among {len(sources)} paths. Give them one by one.")
    with tempfile.TemporaryDirectory() as folder:
        start = sys.stdin.buffer.read(6)
        path = Path(folder, STDIN + next((e for begin, e in ENDINGS.items() if start.startswith(begin)), ".csv"))
        if start.startswith(b"{"):
            raise DataError(
                f"{STDIN}: required CSV, Parquet, npz or npy, received JSON lines. Use 'psimlearn filter' for them."
            )
        with path.open("wb") as file:
            size = file.write(start)
            while size <= MAX_BYTES and (chunk := sys.stdin.buffer.read(1 << 20)):
                size += file.write(chunk)
        yield [path]


def _from_archives(found: Files, reading: Reading) -> Recordings:
    data = read_archives(found, reading.array, reading.channels_first)
    if not reading.channels_first:
        tell_wide(data, "Use --channels-first if arrays are (channel, time).")
    ids = data.ids or tuple(range(len(data)))
    keys = {"recording": [id for id, length in zip(ids, data.lengths, strict=True) for _ in range(length)]}
    return Recordings(data, NO_COLUMNS, keys, np.arange(len(data.values)), keys)


def _from_table(
    found: Files, columns: Columns, time_guessed: bool, reading: Reading, alphabet: Alphabet | None
) -> Recordings:
    table, key = read_table(found, _selection(columns, found.columns), columns.id)
    if FIRST in table.kept and FIRST not in (columns.id, columns.group, columns.symbols, columns.time):
        columns = _with_first_as_time(columns, reading)
    parts = parts_of_time(columns.time or "", found.columns)
    if len(parts) > 1:
        assert columns.time is not None
        moments = zip(*(table.kept[part] for part in parts), strict=True)
        table.kept[columns.time] = [None if None in cells else " ".join(map(str, cells)) for cells in moments]
    roles = _roles(table, key, columns, alphabet)
    if columns.channels is None and columns.symbols is None:
        tell_channels(roles.channels, table.left_out)
        if reading.guess:
            beside = (*columns.inputs, *columns.hints)
            tell_suspects(doubts_of(found, table, columns.id, beside, timed=columns.time is not None))
    used = {key, columns.group, *parts, *roles.channels, *columns.inputs, *columns.hints}
    columns = columns._replace(
        channels=columns.channels or (None if columns.symbols else roles.channels),
        categories={name: words.symbols for name, words in roles.categories.items()},
        exclude=tuple(name for name in found.columns if name not in used),
    )
    timing = Timing(reading.step, reading.duplicates, reading.sort, reading.resample)
    try:
        result = arranged(table, roles, timing, columns.time_format)
    except DataError as error:
        raise DataError(advice_on_times(str(error), found, table, columns, time_guessed)) from error
    tell_holes(result, reading.resample)
    tell_wide(result.data, "Turn the table if its columns are times.")
    several = columns.id is not None or len(result.data) > 1
    keys = {name: table.kept[name] for name in ([key] if several else []) + parts}
    groups = None if columns.group is None else _groups(table, key, columns.group, result.data.ids or ())
    made = _made(result, {name: table.kept[name] for name in parts}, columns.time_format)
    if made and several:
        lengths = result.data.lengths
        made = {key: [id for id, n in zip(result.data.ids or (), lengths, strict=True) for _ in range(n)]} | made
    return Recordings(result.data, columns, keys, result.source, made, groups)


def _selection(columns: Columns, present: Sequence[str]) -> Selection:
    """The columns to read: those with a meaning, or all columns of numbers."""
    named = {*(columns.channels or ()), *columns.inputs, *columns.hints, columns.id, columns.group, columns.symbols}
    if both := sorted(set(columns.exclude) & {*named, *parts_of_time(columns.time or "", present)}):
        raise DataError(f"columns {both}: required one meaning, received --exclude and another. Leave one option out.")
    kept = [columns.id, columns.group, columns.symbols, *parts_of_time(columns.time or "", present)]
    kept += list(columns.categories)
    return Selection(
        tuple(dict.fromkeys(name for name in kept if name)),
        tuple(name for name in (*(columns.channels or ()), *columns.hints) if name not in columns.categories),
        tuple(name for name in columns.inputs if name not in columns.categories),
        columns.channels is None and columns.symbols is None,
        columns.exclude,
        Absent.of(columns.missing),
    )


def _with_first_as_time(columns: Columns, reading: Reading) -> Columns:
    """A nameless first column that does not count rows is the time, if there is no other."""
    if columns.time or not reading.guess:
        raise DataError(
            f"required a name for every column, received a {FIRST} that does not count rows. Add a name to the header, "
            f"or use --exclude '{FIRST}'."
        )
    say(f"guessed: the first column, which has no name, is the time (--exclude '{FIRST}' if not).")
    return columns._replace(time=FIRST)


def _roles(table: Table, key: str, columns: Columns, alphabet: Alphabet | None) -> Roles:
    """The meaning of the columns, with all channels and all words of inputs known."""
    categories = words_in(table, (*columns.inputs, *columns.categories), columns.categories, "--inputs")
    if columns.symbols:
        found = alphabet or Alphabet.of([words_as_symbols(table.kept[columns.symbols])])
        return Roles(key, columns.time, (columns.symbols,), columns.inputs, columns.hints, found, categories)
    others = {*columns.inputs, *columns.hints}
    channels = columns.channels or tuple(name for name in table.names if name not in others)
    if not channels:
        raise DataError(
            "no channel left: required at least one column of numbers beside id, time, inputs and hints, received "
            "none. Name --channels, or --symbols for a column of words."
        )
    return Roles(key, columns.time, channels, columns.inputs, columns.hints, None, categories)


def _made(result: Arranged, written: Mapping[str, list[Any]], format: str | None) -> dict[str, list[Any]]:
    """The times of all packed rows: as the file writes them, and in rows that it lacks as in the row before."""
    times, source = result.data.times, result.source
    if times is None or (source >= 0).all():
        return {}
    found = columns_like(list(written.values()), _seen(source).tolist(), times, format)
    for column, cells in zip(written.values(), found, strict=True):
        for row in np.flatnonzero(source >= 0).tolist():
            cells[row] = column[source[row]]
    return dict(zip(written, found, strict=True))


def _seen(source: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
    """The last row of the file up to each packed row; the first row where there is none."""
    places = np.maximum.accumulate(np.where(source >= 0, np.arange(len(source)), 0))
    return np.asarray(np.maximum(source[places], 0))


def _groups(table: Table, key: str, name: str, ids: Sequence[Any]) -> list[Any]:
    """The group of each recording, which all its rows must name."""
    found: dict[Any, set[Any]] = {}
    for id, cell in zip(table.kept[key], table.kept[name], strict=True):
        found.setdefault(id, set()).add(cell)
    for id, cells in found.items():
        if len(cells) != 1 or None in cells:
            raise DataError(
                f"recording {id!r}: required one group in column {name!r}, the same in all rows, received "
                f"{len(cells)}. Name another column."
            )
    return [cell for id in ids for cell in found[id]]
