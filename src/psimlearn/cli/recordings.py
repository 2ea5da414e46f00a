"""Recordings from a path or standard input, and what their columns mean: guessed where it is obvious, and said."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from psimlearn.cli.columns import Columns
from psimlearn.cli.options import say
from psimlearn.errors import DataError
from psimlearn.recordings.tables import MAX_BYTES, column_names, read, read_table
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["Recordings", "recordings", "sought"]

IDS = ("id", "recording", "recording_id", "trajectory", "trajectory_id", "trial", "run", "episode", "unique_id")
TIMES = ("time", "t", "timestamp", "datetime", "date", "ds", "seconds", "time_s")
"""Names, in small letters, that say what a column is."""
STDIN = "standard input"
ENDINGS = {b"PAR1": ".parquet", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".csv.gz"}
"""By how a file begins."""
UNEVEN = 0.5
"""A step in time this much longer or shorter than the usual one, relative to it, is told."""


class Recordings(NamedTuple):
    """Recordings, and what their rows were called where they came from."""

    data: Trajectories
    columns: Columns
    keys: dict[str, list[Any]]
    """Columns of ids and times, in the order of the rows of the file."""
    order: Int[np.ndarray, " rows"]
    """The place in that order of each row of the recordings."""


def recordings(source: str, columns: Columns, guess: bool = True) -> Recordings:
    """Read a path, or standard input for "-"."""
    with _at_hand(source) as path:
        try:
            present = column_names(path)
            if not present:
                return _from_archive(path)
            return _from_table(path, _guessed(columns, present) if guess else columns)
        except DataError as error:
            raise DataError(str(error).replace(str(path), _called(source))) from error


def sought(columns: Columns, source: str) -> Columns:
    """The columns of a model, as far as a table has them: recordings need neither be told apart nor have a time."""
    if source == "-":
        return columns
    present = column_names(source)
    if present and columns.id and columns.id not in present:
        say(f"no column {columns.id!r}: every file is taken as one recording.")
        columns = columns._replace(id=None)
    if columns.time not in present:
        columns = columns._replace(time=None)
    return columns if present else Columns(None, None, None, ())


def _called(source: str) -> str:
    return STDIN if source == "-" else source


@contextmanager
def _at_hand(source: str) -> Iterator[Path]:
    """A path; what comes on standard input is put in a file first, for its end tells as much as its beginning."""
    if source != "-":
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as folder:
        start = sys.stdin.buffer.read(4)
        path = Path(folder, STDIN + next((e for begin, e in ENDINGS.items() if start.startswith(begin)), ".csv"))
        if start.startswith(b"{"):
            raise DataError(f"{STDIN}: required CSV, Parquet or npz, received JSON lines. Only 'filter' reads these.")
        with path.open("wb") as file:
            size = file.write(start)
            while size <= MAX_BYTES and (chunk := sys.stdin.buffer.read(1 << 20)):
                size += file.write(chunk)
        yield path


def _guessed(columns: Columns, present: Sequence[str]) -> Columns:
    """With id and time by name, where one column alone can be meant."""
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


def _from_archive(path: Path) -> Recordings:
    data = read(path)
    ids = data.ids or tuple(range(len(data)))
    keys = {"recording": [id for id, length in zip(ids, data.lengths, strict=True) for _ in range(length)]}
    return Recordings(data, Columns(None, None, None, ()), keys, np.arange(len(data.values)))


def _from_table(path: Path, columns: Columns) -> Recordings:
    id, time, channels, inputs = columns
    table, key = read_table(path, id, time, channels, inputs)
    data = Trajectories.from_frame(table, id=key, time=time, channels=channels, inputs=inputs)
    assert data.names is not None  # frames have names
    assert data.ids is not None
    columns = columns._replace(channels=data.names)
    if channels is None:
        left_out = [name for name in column_names(path) if name not in {*table.column_names, id, time, *inputs}]
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
    """Rows count as equally far apart; say so where they are not."""
    steps = np.concatenate([np.diff(own) for own in np.split(times, data.offsets[1:-1])])
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
