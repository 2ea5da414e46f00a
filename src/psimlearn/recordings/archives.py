"""Arrays from npz and npy files of unknown origin: nothing is read before it is checked, and nothing is unpickled."""

import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.errors import DataError

__all__ = ["MAX_UNPACKED", "arrays"]

MAX_UNPACKED = 2**31
"""Archives that need more bytes of memory are refused: a file of 300 KB can hold 300 MB of zeros."""


def arrays(path: Path, max_unpacked: int = MAX_UNPACKED) -> dict[str, np.ndarray]:
    """All arrays of an npz archive by name; the array of an npy file has the name of the file.

    Args:
        path: the file.
        max_unpacked: the most bytes that its arrays may take in memory.
    """
    try:
        if path.suffix.lower() == ".npy":
            with path.open("rb") as stream:
                _check(path, _declared(stream, path, path.stem), max_unpacked)
            return {path.stem: np.load(path, allow_pickle=False)}
        with zipfile.ZipFile(path) as archive:
            _check(path, sum(_needed(archive, member, path) for member in archive.infolist()), max_unpacked)
        with np.load(path, allow_pickle=False) as loaded:
            return dict(loaded)
    except DataError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise DataError(
            f"{path}: required a whole npz archive or npy file, received one that cannot be read: {error}. Save it "
            "again with numpy.savez."
        ) from error


def _check(path: Path, needed: int, max_unpacked: int) -> None:
    if needed > max_unpacked:
        raise DataError(
            f"{path}: required an archive of at most {max_unpacked} bytes when unpacked, received one of {needed}. "
            "Split it, or load it with numpy yourself and use Trajectories.of."
        )


def _needed(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> int:
    """The size that the directory of an archive or the header of an array declares, whichever is larger."""
    with archive.open(member) as stream:
        declared = _declared(stream, path, member.filename.removesuffix(".npy"))
    return max(member.file_size, declared)


def _declared(stream: Any, path: Path, name: str) -> int:
    """The bytes that the header of an array declares."""
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    if dtype.hasobject:
        raise DataError(
            f"{path}, array {name!r}: required plain numbers, received pickled Python objects, which can run code when "
            "they are loaded. Save one numeric array per trajectory."
        )
    return prod(map(int, shape)) * int(dtype.itemsize)  # Python's integers: numpy's would overflow on a forged header
