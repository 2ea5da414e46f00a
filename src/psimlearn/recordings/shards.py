"""Shards: recordings that are loaded a part at a time, because all of them together do not fit in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import DataError, PsimlearnError
from psimlearn.recordings.trajectories import Trajectories, as_trajectories

__all__ = ["Shards"]

Loader = Callable[[], Any]


@dataclass(frozen=True)
class _Table:
    """Reads one file."""

    path: Path
    options: Mapping[str, Any]

    def __call__(self) -> Trajectories:
        from psimlearn.recordings.tables import read  # readers of files are loaded where a file is read

        return read(self.path, **self.options)


@dataclass(frozen=True)
class _Held:
    """Recordings that are in memory already."""

    data: Trajectories

    def __call__(self) -> Trajectories:
        return self.data


@dataclass(frozen=True, eq=False)
class Shards:
    """Recordings in parts that are loaded one at a time, each when its turn comes.

    Make them with `from_files`, `of` or `cut`. A recording lies in one shard as a whole. Shards hold the way to load
    each part and no rows, so they can be sent to other processes and machines, which load their parts themselves.

    >>> shards = Shards.cut(Trajectories.of(np.zeros((10, 4, 1))), 3)
    >>> len(shards), shards.load(0)
    (3, Trajectories(3 trajectories, 12 rows, 1 channels))
    """

    loaders: tuple[Loader, ...]
    """Functions without arguments that return recordings, in any form that `Trajectories.of` takes."""
    labels: tuple[str, ...]
    """The name of each shard in messages."""
    sizes: tuple[tuple[int, int], ...] | None = None
    """The numbers of recordings and rows of each shard, once they are known: a shard that changes later is refused."""
    first: int = 0
    """The number of the first shard in messages."""

    def __post_init__(self) -> None:
        """Refuse an empty list."""
        if not self.loaders:
            raise DataError("shards: required at least one, received none.")

    @classmethod
    def from_files(cls, paths: Any, **options: Any) -> "Shards":
        """One shard for each CSV, Parquet, npz or npy file.

        Args:
            paths: files and folders, in the order of the shards. A folder stands for its files, in the order of names.
            options: those of `psimlearn.recordings.tables.read`, such as id, time, channels, inputs and hints. Without
                id each file is one recording. If inputs hold words, all files are read once for them; `words` spares
                this.
        """
        from psimlearn.recordings.found import files_of

        files = files_of(paths)
        if options.get("inputs") and "words" not in options:
            from psimlearn.recordings.tables import words_of_files

            asked = {name: options[name] for name in ("inputs", "header", "missing") if name in options}
            options = options | {"words": words_of_files(files, **asked)}
        return cls(tuple(_Table(file, options) for file in files), tuple(map(str, files)))

    @classmethod
    def of(cls, parts: Iterable[Any]) -> "Shards":
        """One shard for each part: a function without arguments that returns recordings, or recordings.

        Functions that other processes call must be importable, as a function of a module is and a lambda is not.
        """
        loaders = tuple(part if callable(part) else _Held(as_trajectories(part)) for part in parts)
        return cls(loaders, tuple(map(_label, loaders)))

    @classmethod
    def cut(cls, data: Trajectories, n: int) -> "Shards":
        """Recordings in memory, cut into at most n shards of about as many rows each, in their order."""
        middle = (data.offsets[:-1] + data.offsets[1:]) / 2
        shard = (middle * whole(n, "n") / data.offsets[-1]).astype(np.int64)
        return cls.of(data[shard == i] for i in np.unique(shard))

    def __len__(self) -> int:
        """The number of shards."""
        return len(self.loaders)

    def __iter__(self) -> Iterator[Trajectories]:
        """Load one shard after the other."""
        return (self.load(i) for i in range(len(self)))

    def __repr__(self) -> str:
        """The number of shards, and of recordings and rows where they are known."""
        if self.sizes is None:
            return f"Shards({len(self)} shards)"
        recordings, rows = (sum(column) for column in zip(*self.sizes, strict=True))
        return f"Shards({len(self)} shards, {recordings} recordings, {rows} rows)"

    def called(self, i: int) -> str:
        """The name of a shard in messages."""
        return f"shard {self.first + i} ({self.labels[i]})"

    def load(self, i: int) -> Trajectories:
        """The recordings of one shard, checked; an error names the shard."""
        try:
            data = as_trajectories(self.loaders[i]())
        except PsimlearnError as error:
            words = str(error).removeprefix(f"{self.labels[i]}: ")  # readers of files name the file, too
            raise type(error)(f"{self.called(i)}: {words}") from error
        except (MemoryError, AssertionError):
            raise
        except Exception as error:  # a caller's function may raise anything
            raise DataError(f"{self.called(i)}: required recordings, received {_told(error)}.") from error
        if not data.n_channels:
            raise DataError(f"{self.called(i)}: required at least one column of numbers, received none.")
        if self.sizes is not None and (len(data), len(data.values)) != self.sizes[i]:
            recordings, rows = self.sizes[i]
            raise DataError(
                f"{self.called(i)}: required the {recordings} recordings and {rows} rows that it held before, received "
                f"{len(data)} and {len(data.values)}. Do not change shards during a fit."
            )
        return data

    def alone(self, i: int) -> "Shards":
        """One of the shards, to be sent elsewhere."""
        sizes = None if self.sizes is None else (self.sizes[i],)
        return replace(self, loaders=(self.loaders[i],), labels=(self.labels[i],), sizes=sizes, first=self.first + i)


def _label(loader: Loader) -> str:
    """The name of a function or of recordings."""
    return repr(loader.data) if isinstance(loader, _Held) else getattr(loader, "__qualname__", repr(loader))


def _told(error: Exception) -> str:
    """An error in one line."""
    lines = chain(str(error).splitlines(), [""])
    return f"{type(error).__name__}: {next(lines)}"
