"""Arrays from npz archives of unknown origin: nothing is unpacked before it is checked, and nothing is unpickled."""

import zipfile
import zlib
from math import prod
from pathlib import Path

import numpy as np

from psimlearn.errors import DataError

__all__ = ["MAX_UNPACKED", "arrays"]

MAX_UNPACKED = 2**31
"""Archives that need more bytes of memory are refused: a file of 300 KB can hold 300 MB of zeros."""


def arrays(path: Path, max_unpacked: int = MAX_UNPACKED) -> dict[str, np.ndarray]:
    """All arrays of an archive by name.

    Args:
        path: the npz file.
        max_unpacked: the most bytes that its arrays may take in memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path, max_unpacked)
        with np.load(path, allow_pickle=False) as loaded:
            return dict(loaded)
    except DataError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise DataError(
            f"{path}: required a whole npz archive, received one that cannot be read: {error}. Save it again with "
            "numpy.savez."
        ) from error


def _check(archive: zipfile.ZipFile, path: Path, max_unpacked: int) -> None:
    """Refuse an archive by the sizes that its directory and its array headers declare, whichever are larger."""
    needed = sum(max(member.file_size, _declared(archive, member, path)) for member in archive.infolist())
    if needed > max_unpacked:
        raise DataError(
            f"{path}: required an archive of at most {max_unpacked} bytes when unpacked, received one of {needed}. "
            "Split it, or load it with numpy yourself and use Trajectories.of."
        )


def _declared(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> int:
    """The bytes that the header of an array declares."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(stream)
    if dtype.hasobject:
        raise DataError(
            f"{path}, array {member.filename.removesuffix('.npy')!r}: required plain numbers, received pickled Python "
            "objects, which can run code when they are loaded. Save one numeric array per trajectory."
        )
    return prod(map(int, shape)) * int(dtype.itemsize)  # Python's integers: numpy's would overflow on a forged header
