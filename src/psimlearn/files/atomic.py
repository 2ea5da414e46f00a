"""Files that are whole or not there."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path

__all__ = ["whole"]


@contextmanager
def whole(path: Path) -> Iterator[BufferedIOBase]:
    """A file that takes its name when everything is in it and on the disk; OSError where that cannot be."""
    temporary = path.with_name(f".psimlearn-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):  # it has its name by now, or could not be made
            os.remove(temporary)
    with suppress(OSError):  # not every system lets a folder be flushed
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
