"""Recordings from files: CSV, Parquet, npz and npy, one file, several, or a folder of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings import roles as remembered
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.archives import arrays
from psimlearn.recordings.arranged import Roles, arranged, words_as_symbols, words_in
from psimlearn.recordings.cells import FIRST, Absent, Header
from psimlearn.recordings.delimited import read_csv
from psimlearn.recordings.found import Files, Paths, files_of, find
from psimlearn.recordings.meanings import Suspect, may_be_id, suspects
from psimlearn.recordings.names import listed
from psimlearn.recordings.parquet import read_parquet
from psimlearn.recordings.regular import Timing
from psimlearn.recordings.selection import MAX_BYTES, TOO_LARGE, Selection, Table, check_size
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Doubts", "doubts_of", "find", "read", "read_archives", "read_table", "words_of_files", "written"]


def read(
    path: Paths,
    id: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    inputs: Sequence[str] = (),
    hints: Sequence[str] = (),
    *,
    header: bool | Sequence[str] = True,
    exclude: Sequence[str] = (),
    missing: Sequence[str] = (),
    array: Sequence[str] = (),
    words: Mapping[str, Sequence[str]] = {},
    time_format: str | None = None,
    step: Any = "auto",
    duplicates: Literal["refuse", "mean"] = "refuse",
    sort: bool = False,
    resample: bool = False,
) -> Trajectories:
    """Recordings from CSV, Parquet, npz or npy files, or from all such files of a folder, in the order of their names.

    Each file is one trajectory and its id is the file's name without ending, unless a column `id` tells trajectories
    apart. Parquet needs the extra `data`. In CSV files ids stay text ("007" is not 7), empty cells and NA mean "not
    observed", true and false are 1 and 0, and cells are separated by commas, semicolons or tabs. A first column without
    a name is left out if it holds the numbers of rows.

    An npz archive has no columns: each 2-D array in it is a trajectory, or its one 3-D array holds many. Single numbers
    and text beside them are ignored. Files of more than 2 GiB, packed or unpacked, are refused.

    Args:
        path: the file or folder, or several.
        id: the column that tells trajectories apart; they may go on from one file to the next.
        time: a column that must rise within each trajectory: numbers, or dates and times in ISO 8601.
        channels: the observed columns; by default every column of numbers not named otherwise, and then columns that
            may be an id or a time are asked for.
        inputs: columns of known controls, of numbers or of words: there is an input for each word.
        hints: columns of quantities measured in training only.
        header: False if CSV files have no header, or the names of their columns.
        exclude: columns to leave out.
        missing: cells that also mean "not observed", such as "-999" or "?".
        array: the arrays to take from npz files; by default all.
        words: the words of inputs, where these files do not hold all of them; others are refused.
        time_format: how times are written, as in `datetime.strptime`.
        step: the time between rows: seconds or a text such as "50ms", "auto" for the usual one; holes become rows that
            were not observed. None takes rows as they are.
        duplicates: "mean" averages rows of one time in a trajectory; "refuse" raises.
        sort: sort rows by time, instead of refusing times that fall.
        resample: resample to `step`, instead of refusing rows that are no whole number of steps apart.
    """
    found = find(path, header)
    if not found.headers:
        if id or time or channels or inputs or hints or exclude:
            raise SettingsError(
                f"{found.label}: npz archives have no columns, so id, time, channels, inputs, hints and exclude must "
                "not be given. Load the arrays with numpy and use Trajectories.of(values, inputs, hints=)."
            )
        return read_archives(found, array)
    if odd := sorted(set(words) - set(inputs)):
        raise SettingsError(f"words: required names of inputs, {listed(inputs)}, received {listed(odd)}.")
    kept = tuple(name for name in (id, time, *words) if name)
    either = tuple(name for name in inputs if name not in words)
    numbers = (*(channels or ()), *hints)
    wanted = Selection(kept, numbers, either, channels is None, tuple(exclude), Absent.of(missing))
    table, key = read_table(found, wanted, id)
    if FIRST in table.kept and FIRST not in kept:
        raise DataError(
            f"{found.label}: required a name for every column, received a {FIRST} that does not count rows. Add a name "
            f"to the header, or use time={FIRST!r}, id={FIRST!r} or exclude=[{FIRST!r}]."
        )
    if channels is None:
        _check_meaning(doubts_of(found, table, id, (*inputs, *hints), timed=time is not None), found, id, time)
    others = {*inputs, *hints}
    observed = tuple(channels or (name for name in table.names if name not in others))
    categories = words_in(table, inputs, words)
    roles = Roles(key, time, observed, tuple(inputs), tuple(hints), None, categories)
    try:
        data = arranged(table, roles, Timing(step, duplicates, sort, resample), time_format).data
    except DataError as error:
        named = any(str(file) in str(error) for file in found.files)
        raise error if named else DataError(f"{found.label}: {error}") from error
    told = remembered.Roles(id, time, observed, roles.inputs, roles.hints, time_format, categories, step is None)
    return replace(data, roles=told)


def words_of_files(
    paths: Paths,
    inputs: Sequence[str],
    header: bool | Sequence[str] = True,
    missing: Sequence[str] = (),
) -> dict[str, tuple[str | int, ...]]:
    """The words of inputs in all files, one file in memory at a time; an input of numbers in the first has none.

    Args:
        paths: files and folders.
        inputs: the columns.
        header: False if CSV files have no header, or the names of their columns.
        missing: cells that also mean "not observed".
    """
    found: dict[str, set[str | int]] = {}
    asked = Selection((), (), tuple(inputs), False, (), Absent.of(missing))
    for i, file in enumerate(files_of(paths)):
        table = read_table(find(file, header), asked, None)[0]
        names = [name for name in inputs if name in table.kept] if i == 0 else list(found)
        if not names:
            break
        for name in names:
            found.setdefault(name, set()).update(Alphabet.of([words_as_symbols(table.kept[name])]).symbols)
        asked = asked._replace(kept=tuple(names), either=())
    return {name: Alphabet.of([list(cells)]).symbols for name, cells in found.items()}


def read_table(found: Files, wanted: Selection, id: str | None) -> tuple[Table, str]:
    """CSV or Parquet files as one table in the order of their rows, and the name of its column of ids.

    That column is `id`, or a new column with the names of the files. A first column without a name, as pandas and R
    write it, is left out if it holds the numbers of rows, and kept if not.
    """
    _check_sizes(found)
    tables, n_rows = [], 0
    for file, header in zip(found.files, found.headers, strict=True):
        tables.append(_without_row_numbers(_table(file, header, wanted)))
        n_rows += len(tables[-1].values)
        check_size(found.label, n_rows, len(tables[0].names))
    column = id or _unused({name for header in found.headers for name in header.names})
    whole = _together(found.files, tables)
    if id is None:
        pairs = zip(found.stems, tables, strict=True)
        whole.kept[column] = [stem for stem, table in pairs for _ in range(len(table.values))]
    return whole, column


class Doubts(NamedTuple):
    """Columns that may be an id or a time, and that nobody has named so."""

    found: dict[str, Suspect]
    channels: tuple[str, ...]
    """The columns that are channels if nobody says more."""


def _check_meaning(doubts: Doubts, found: Files, id: str | None, time: str | None) -> None:
    """Refuse columns that may be an id or a time."""
    if not doubts.found:
        return
    asked = " and ".join(f"{name!r} ({suspect.asked})" for name, suspect in doubts.found.items())
    given = {"id": id, "time": time} | {suspect.what: name for name, suspect in doubts.found.items()}
    call = ", ".join(f"{what}={name!r}" for what, name in given.items() if name is not None)
    channels = [name for name in doubts.channels if name not in doubts.found]
    raise DataError(
        f"{found.label}: required the meaning of the column{'s' * (len(doubts.found) > 1)} {asked}, received none. "
        f"Pass {call}; else name the channels: channels={listed(channels)}, and this one if it is one."
    )


def doubts_of(found: Files, table: Table, id: str | None, beside: Sequence[str], *, timed: bool) -> Doubts:
    """The columns of files that may be an id or a time, as their names or their cells say.

    Args:
        found: the files.
        table: their columns, all of those that hold numbers.
        id: the column of ids; None if there is none.
        beside: columns of numbers that are no channels.
        timed: whether a time is known.
    """
    numbers = {name: table.values[:, i] for i, name in enumerate(table.names) if name not in beside}
    whole = {name: _narrow(column) for name, column in numbers.items() if _is_whole(column)}
    groups = None if id is None else np.unique(np.array(table.kept[id], dtype=str), return_inverse=True)[1]
    words = [] if timed and id is not None else [name for name in table.left_out if name != FIRST]
    texts = written(found, words) if words else {}
    suspected = suspects(numbers | whole | {name: list(texts[name]) for name in words}, groups, timed=timed)
    if len(found.files) > 1:  # each is one recording, unless a name says otherwise
        suspected = {name: s for name, s in suspected.items() if s.what == "time" or not s.why}
    doubtful = {
        name: suspect
        for name, suspect in suspected.items()  # with decimal points it is a measurement
        if suspect.what == "time" or name in words or not suspect.why or may_be_id(list(written(found, [name])[name]))
    }
    return Doubts(doubtful, tuple(numbers))


def written(found: Files, names: Sequence[str]) -> dict[str, list[Any]]:
    """The cells of some columns of files, as they are written."""
    return read_table(found, Selection(tuple(names), rest=False), None)[0].kept


def _is_whole(column: Float[np.ndarray, " rows"]) -> bool:
    return bool(np.isfinite(column).all() and (np.abs(column) < 2**53).all() and (column == np.rint(column)).all())


def _narrow(column: Float[np.ndarray, " rows"]) -> np.ndarray:
    """Whole numbers in the narrowest kind: a copy of all columns may not fill the memory."""
    return column.astype(np.result_type(*(np.min_scalar_type(int(end)) for end in (column.min(), column.max()))))


def _check_sizes(found: Files) -> None:
    """Refuse, before any row is read, files that would not fit in memory."""
    size = sum(file.stat().st_size for file in found.files)
    if size > MAX_BYTES:
        raise DataError(f"{found.label}: required at most {MAX_BYTES} bytes of tables, received {size}. {TOO_LARGE}")


def _table(file: Path, header: Header, wanted: Selection) -> Table:
    """The chosen columns of one file."""
    if absent := sorted(wanted.named - set(header.names)):
        fill = "; if a channel was not measured, add its column with empty cells"
        raise DataError(
            f"{file}: required columns {listed(absent)}, received a file with the columns "
            f"{listed(header.names)}. Correct the names{fill if set(absent) & set(wanted.numbers) else ''}."
        )
    parquet = file.suffix.lower() == ".parquet"
    table = read_parquet(file, wanted) if parquet else read_csv(file, header, wanted)
    if not table.names and not table.kept:
        raise DataError(
            f"{file}: no channel left: required at least one column of numbers, received none. Check the file."
        )
    if not len(table.values):
        raise DataError(f"{file}: required at least one row, received none. Leave out empty files.")
    return table


def _without_row_numbers(table: Table) -> Table:
    if FIRST not in table.kept or not _counts(table.kept[FIRST]):
        return table
    kept = {name: column for name, column in table.kept.items() if name != FIRST}
    return table._replace(kept=kept, left_out=(FIRST, *table.left_out))


def _counts(cells: Sequence[Any]) -> bool:
    """Whether cells are the numbers of rows: whole numbers from 0 or 1 on, which may start again."""
    if not all(isinstance(cell, int) or (isinstance(cell, str) and cell.isdecimal()) for cell in cells):
        return False
    numbers = np.array([int(cell) for cell in cells], dtype=object)
    first = numbers[0]
    return bool(first in (0, 1) and np.all((np.diff(numbers) == 1) | (numbers[1:] == first)))


def _together(files: Sequence[Path], tables: Sequence[Table]) -> Table:
    """All tables below one another, with the columns of the first in its order."""
    first = tables[0]
    if len(tables) == 1:  # no copy of numbers that may fill the memory
        return first
    for file, table in zip(files, tables, strict=True):
        if different := sorted({*first.names, *first.kept} ^ {*table.names, *table.kept}):
            raise DataError(
                f"{file}: required the same columns of numbers as in {files[0].name}, received a difference in "
                f"{listed(different)}. Name channels= that all files have, or add empty columns."
            )
    ordered = [table.values if table.names == first.names else table.numbers(first.names) for table in tables]
    kept = {name: [cell for table in tables for cell in table.kept[name]] for name in first.kept}
    left_out = dict.fromkeys(name for table in tables for name in table.left_out)
    origins = tuple(origin for table in tables for origin in table.origins)
    return Table(first.names, np.concatenate(ordered), kept, tuple(left_out), origins)


def _unused(names: set[str]) -> str:
    """A name that no column has yet."""
    name = "file"
    while name in names:
        name += "_"
    return name


def read_archives(found: Files, chosen: Sequence[str] = (), channels_first: bool = False) -> Trajectories:
    """The trajectories of npz and npy files, named by file, by array, or by both, as needed to tell them apart.

    Args:
        found: the files.
        chosen: the arrays to take from each file; all, if none is named.
        channels_first: whether arrays are (channel, time) or (trajectory, channel, time).
    """
    trajectories: dict[str, np.ndarray] = {}
    for file, stem in zip(found.files, found.stems, strict=True):
        stored = _trajectories(file, chosen)
        for name, rows in stored.items():
            within = f"{stem}/{name}" if len(stored) > 1 else stem
            trajectories[name if len(found.files) == 1 and len(stored) > 1 else within] = rows
    of = Trajectories.from_channels_first if channels_first else Trajectories.of
    return of(list(trajectories.values()), ids=tuple(trajectories))


def _trajectories(file: Path, chosen: Sequence[str]) -> dict[str, np.ndarray]:
    """The trajectories of one file by name; numbers and text beside them are passed over."""
    stored = arrays(file)
    if absent := sorted(set(chosen) - set(stored)):
        raise DataError(
            f"{file}: required arrays {listed(absent)}, received {listed(list(stored))}. Correct the names."
        )
    stored = {name: stored[name] for name in chosen} if chosen else stored
    stored = {name: array for name, array in stored.items() if array.ndim and array.dtype.kind not in "SU"}
    shapes = {name: array.shape for name, array in stored.items()}
    if any(0 in shape for shape in shapes.values()):
        raise DataError(f"{file}: required arrays with at least one number, received {shapes}. Leave empty arrays out.")
    check_size(file, sum(array.size for array in stored.values()), 1)
    dimensions = [array.ndim for array in stored.values()]
    if dimensions == [3]:
        (many,) = stored.values()
        return {str(i): rows for i, rows in enumerate(many)}
    if not dimensions or set(dimensions) != {2}:
        raise DataError(
            f"{file}: required 2-D arrays (time, channel), one per trajectory, or a single 3-D array (trajectory, "
            f"time, channel), received {shapes}. Choose arrays with --array (array= in Python); for a single channel "
            "save x.reshape(-1, 1)."
        )
    return stored
