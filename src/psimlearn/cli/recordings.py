"""Recordings from a path or standard input. Columns for id and time are guessed by name, and the guess is told."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psimlearn.cli.columns import NO_COLUMNS, Columns
from psimlearn.cli.options import say
from psimlearn.errors import DataError
from psimlearn.recordings.tables import MAX_BYTES, Files, find, read_archives, read_table
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int

__all__ = ["Recordings", "recordings"]

IDS = ("id", "recording", "recording_id", "trajectory", "trajectory_id", "trial", "run", "episode", "unique_id")
TIMES = ("time", "t", "timestamp", "datetime", "date", "ds", "seconds", "time_s")
"""Names, in small letters, that tell the meaning of a column."""
STDIN = "standard input"
ENDINGS = {b"PAR1": ".parquet", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".csv.gz"}
"""Endings of files by their first bytes."""
UNEVEN = 0.5
"""Steps in time that differ from the median step by more than this share of it are told."""


class Recordings(NamedTuple):
    """Recordings, and the ids and times of their rows in the file."""

    data: Trajectories
    columns: Columns
    keys: dict[str, list[Any]]
    """The columns of ids and times, in the order of the file's rows."""
    order: Int[np.ndarray, " rows"]
    """The file's row of each packed row of the recordings."""


def recordings(source: str, columns: Columns, guess: bool = True, usual: Columns = NO_COLUMNS) -> Recordings:
    """Read a path, or standard input for "-".

    Args:
        source: a file, a folder or "-".
        columns: columns that the table must have; None for those to be found.
        guess: whether columns for id and time may be found by their names.
        usual: columns for id and time that are used if the table has them: those of a model.
    """
    with _at_hand(source) as path:
        try:
            found = find(path)
            if not found.columns:
                return _from_archives(found)
            columns = _known(columns, usual, found.columns)
            return _from_table(found, _guessed(columns, found.columns) if guess else columns)
        except DataError as error:
            raise DataError(str(error).replace(str(path), _called(source))) from error


def _known(columns: Columns, usual: Columns, present: Sequence[str]) -> Columns:
    """With the usual id and time, if the table has them and no others were asked for."""
    if not columns.id and usual.id and usual.id not in present:
        say(f"no column {usual.id!r}: every file is taken as one recording.")
    id, time = (name if name in present else None for name in (usual.id, usual.time))
    return columns._replace(id=columns.id or id, time=columns.time or time)


def _called(source: str) -> str:
    return STDIN if source == "-" else source


@contextmanager
def _at_hand(source: str) -> Iterator[Path]:
    """A path; standard input is written to a file first, because tables are checked as a whole."""
    if source != "-":
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as folder:
        start = sys.stdin.buffer.read(4)
        path = Path(folder, STDIN + next((e for begin, e in ENDINGS.items() if start.startswith(begin)), ".csv"))
        if start.startswith(b"{"):
            raise DataError(
                f"{STDIN}: required CSV, Parquet or npz, received JSON lines. Use 'psimlearn filter' for them."
            )
        with path.open("wb") as file:
            size = file.write(start)
            while size <= MAX_BYTES and (chunk := sys.stdin.buffer.read(1 << 20)):
                size += file.write(chunk)
        yield path


def _guessed(columns: Columns, present: Sequence[str]) -> Columns:
    """With id and time found by name; refuses a table in which several columns have such names."""
    taken = {*(columns.channels or ()), *columns.inputs, columns.id, columns.time}
    for what, known in (("id", IDS), ("time", TIMES)):
        if getattr(columns, what):
            continue
        found = [name for name in present if name.lower() in known and name not in taken]
        if len(found) > 1:
            raise DataError(
                f"columns {found} could all be the --{what}: required one, received {len(found)}. Name it, or use "
                "--no-guess."
            )
        if found:
            purpose = "tells recordings apart" if what == "id" else "is the time"
            say(f"guessed: column {found[0]!r} {purpose} (--{what} {found[0]}; --no-guess if not).")
            columns = columns._replace(id=found[0]) if what == "id" else columns._replace(time=found[0])
    return columns


def _from_archives(found: Files) -> Recordings:
    data = read_archives(found)
    ids = data.ids or tuple(range(len(data)))
    keys = {"recording": [id for id, length in zip(ids, data.lengths, strict=True) for _ in range(length)]}
    return Recordings(data, NO_COLUMNS, keys, np.arange(len(data.values)))


def _from_table(found: Files, columns: Columns) -> Recordings:
    id, time, channels, inputs = columns
    table, key = read_table(found, id, time, channels, inputs)
    observed = channels or [name for name in table.column_names if name not in {key, time, *inputs}]
    data = Trajectories.from_frame(table, id=key, time=time, channels=observed, inputs=inputs, step=None)
    assert data.names is not None  # every column has a name
    assert data.ids is not None  # `key` has them
    columns = columns._replace(channels=data.names)
    if channels is None:
        left_out = [name for name in found.columns if name not in {*table.column_names, id, time, *inputs}]
        rest = f"; left out as text: {', '.join(left_out)}" if left_out else ""
        say(f"channels: {', '.join(data.names)} (all columns of numbers that are nothing else{rest}).")
    several = id is not None or len(data) > 1
    keys = {name: table.column(name).to_pylist() for name in ([key] if several else []) + ([time] if time else [])}
    place = {name: i for i, name in enumerate(data.ids)}
    order = np.argsort([place[name] for name in table.column(key).to_pylist()], kind="stable")
    if time:
        _tell_uneven(time, table.column(time).to_numpy()[order], data)
    return Recordings(data, columns, keys, order)


def _tell_uneven(name: str, times: np.ndarray, data: Trajectories) -> None:
    """Rows are taken as equally spaced; tell the user if their times are not."""
    steps = np.concatenate([np.diff(part) for part in np.split(times, data.offsets[1:-1])])
    if not len(steps):
        return
    steps = steps / np.ones(1, dtype=steps.dtype)  # durations as numbers
    usual = np.median(steps)
    odd = np.mean(np.abs(steps - usual) > UNEVEN * usual)
    if odd > 0:
        say(
            f"note: {odd:.1%} of the steps in {name!r} are over {UNEVEN:.0%} longer or shorter than the usual one. "
            "Rows count as equally far apart: put in empty rows where samples are missing, or resample."
        )
