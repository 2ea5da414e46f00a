"""The files behind the paths that a user names, and the name of the recording in each."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from psimlearn.errors import DataError
from psimlearn.recordings.cells import Header
from psimlearn.recordings.delimited import read_header
from psimlearn.recordings.parquet import read_schema

__all__ = ["Files", "Paths", "files_of", "find"]

Paths = str | Path | Sequence[str | Path]
ARRAYS = (".npz", ".npy")
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", *ARRAYS)


class Files(NamedTuple):
    """The files behind some paths, all tables or all arrays; the header of each table is read once, here."""

    label: str
    """The paths in the words of an error message."""
    files: list[Path]
    stems: list[str]
    """The name of each file without its ending; with folders where names alone do not tell files apart."""
    headers: list[Header]
    """The columns of each table; empty for arrays, which have none."""

    @property
    def columns(self) -> list[str]:
        """The columns of the first table."""
        return self.headers[0].names if self.headers else []


def find(paths: Paths, header: bool | Sequence[str] = True) -> Files:
    """The files behind paths and their columns, before any row is read.

    Args:
        paths: files and folders. A folder stands for its files with a known ending, in the order of their names.
        header: False if CSV files have no header, or the names of their columns.
    """
    listed = _listed(paths)
    label = ", ".join(map(str, listed[:3])) + (", .." if len(listed) > 3 else "")
    files = files_of(paths)
    arrays = files[0].suffix.lower() in ARRAYS
    for file in files:
        if (file.suffix.lower() in ARRAYS) != arrays:
            raise DataError(
                f"{label}: required tables or arrays, received {file.name} beside {files[0].name}. Move one away."
            )
    names = None if header is True else [] if header is False else list(header)
    return Files(label, files, _stems(files, label), [] if arrays else [_header(file, names) for file in files])


def files_of(paths: Paths) -> list[Path]:
    """The files behind paths, before any is opened."""
    return [file for path in _listed(paths) for file in _files(path)]


def _listed(paths: Paths) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def _header(file: Path, names: Sequence[str] | None) -> Header:
    return read_schema(file) if file.suffix.lower() == ".parquet" else read_header(file, names)


def _files(path: Path) -> list[Path]:
    """A file, or the files of a folder that have a known ending."""
    try:
        folder = path.is_dir()
        listed = sorted(path.iterdir()) if folder else [path]
    except OSError as error:
        raise DataError(f"{path}: required a readable folder, received: {error}. Check its permissions.") from error
    if not folder and not os.path.lexists(path):
        raise DataError(f"{path}: required a file or a folder, received a path that does not exist. Check it.")
    files = [file for file in listed if file.name.lower().endswith(SUFFIXES) and not file.name.startswith(".")]
    if not files:
        raise DataError(
            f"{path}: required a file that ends in {', '.join(SUFFIXES)}, or a folder with such files, received none."
        )
    files = [file for file in files if path == file or not file.is_dir()]
    for file in files:
        _check_regular(file)
    return files


def _check_regular(file: Path) -> None:
    """Refuse pipes, which would be waited for, and links to files that are gone."""
    if file.is_file():
        return
    what = "a link to a file that does not exist" if file.is_symlink() and not file.exists() else "no regular file"
    raise DataError(
        f"{file}: required a file that can be read again, received {what}. Move it away; give rows from a pipe through "
        "standard input: psimlearn fit - < PIPE."
    )


def _stems(files: Sequence[Path], label: str) -> list[str]:
    """Names that tell files apart: without endings, and without folders if these are not needed."""
    stems = [_stem(file) for file in files]
    if len(set(stems)) < len(stems):
        common = os.path.commonpath([file.absolute().parent for file in files])
        folders = [Path(os.path.relpath(file.absolute().parent, common)) for file in files]
        stems = [(folder / stem).as_posix() for folder, stem in zip(folders, stems, strict=True)]
    seen: dict[str, Path] = {}
    for stem, file in zip(stems, files, strict=True):
        if stem in seen:
            raise DataError(
                f"{label}: required files with different names, received {file.name} beside {seen[stem].name}. Move "
                "one away."
            )
        seen[stem] = file
    return stems


def _stem(file: Path) -> str:
    """A file's name without its ending, which may be double (.csv.gz)."""
    ending = max((suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix)), key=len)
    return file.name[: -len(ending)]
