"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path

__all__ = ["atomic"]


@contextmanager
def atomic(path: Path) -> Iterator[BufferedIOBase]:
    """Open a temporary file, which replaces the file at `path` once the block has ended without an error.

    Whatever happens, `path` is the old file or the whole new one.

    Args:
        path: the file to write. Its folder must exist: the temporary file is made there.

    Raises:
        OSError: if the file cannot be written.
    """
    temporary = path.with_name(f".psimlearn-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a power cut could leave the new name without the new bytes
        os.replace(temporary, path)
    finally:
        with suppress(OSError):  # it was renamed by now, or could not be made
            os.remove(temporary)
    with suppress(OSError):  # not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
