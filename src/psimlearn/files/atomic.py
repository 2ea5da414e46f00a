"""Files that appear whole or not at all."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BufferedRandom
from pathlib import Path
from typing import Any

try:
    fcntl: Any = import_module("fcntl")
except ImportError:  # Windows, which refuses to remove a file that is open
    fcntl = None

__all__ = ["atomic", "remove_leftovers"]

PATTERN = ".psimlearn-*.tmp"
"""The names of temporary files."""
BINARY = getattr(os, "O_BINARY", 0)
"""Without it, Windows would change line ends."""
CHUNK = 1 << 16
"""Bytes in which the last line end is looked for at a time."""


@contextmanager
def atomic(path: Path, keep_whole_lines: bool = False) -> Iterator[BufferedRandom]:
    """Open a temporary file, which replaces the file at `path` once the block has ended without an error.

    Whatever happens, `path` is the old file or the whole new one. A new file keeps the mode and, where that is allowed,
    the owner of the old one, and a link stays a link. Temporary files in the same folder that writers left behind when
    they were killed are removed.

    Args:
        path: the file to write. Its folder must exist: the temporary file is made there.
        keep_whole_lines: if the block ends with an error, keep the lines that are whole, unless there are none.

    Raises:
        OSError: if the file cannot be written, or if `path` is a device, a FIFO or a folder.
    """
    path = Path(os.path.realpath(path))
    old = _replaceable(path)
    remove_leftovers(path.parent)
    file, temporary = _locked(path.parent, old)
    try:
        with file:
            try:
                yield file
            except BaseException:
                if keep_whole_lines:
                    _keep_whole_lines(file, temporary, path)
                raise
            file.flush()
            os.fsync(file.fileno())  # else a power cut could leave the new name without the new bytes
            _name(file, temporary, path)
    finally:
        with suppress(OSError):  # it was renamed by now
            os.remove(temporary)


def _replaceable(path: Path) -> os.stat_result | None:
    """The status of the file that will be replaced, None if there is none. Refuses everything but a regular file."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        kind = "a folder" if stat.S_ISDIR(old.st_mode) else "a device, FIFO or socket"
        raise OSError(errno.EINVAL, f"{kind}, which must not be replaced by a file")
    return old


def _locked(folder: Path, old: os.stat_result | None) -> tuple[BufferedRandom, Path]:
    """A new file, locked for as long as it is open, so that another writer does not take it for a leftover."""
    while True:
        temporary = folder / PATTERN.replace("*", secrets.token_hex(8))
        made = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666 if old is None else 0o600)
        file = os.fdopen(made, "w+b")
        with suppress(OSError):  # not every file system has locks
            _lock(file.fileno())
        if old is not None:
            with suppress(OSError, AttributeError):  # only some may give files away, and Windows has no owners
                os.chown(temporary, old.st_uid, old.st_gid)
            with suppress(OSError):  # not every file system has modes
                os.chmod(temporary, stat.S_IMODE(old.st_mode))
        if temporary.exists():
            return file, temporary
        file.close()  # another writer took it for a leftover before it was locked


def _lock(file: int) -> None:
    """Lock a file, or raise OSError if another process has locked it."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _name(file: BufferedRandom, temporary: Path, path: Path) -> None:
    """Give a complete file its name."""
    if fcntl is None:
        file.close()  # Windows renames no file that is open
    os.replace(temporary, path)
    with suppress(OSError):  # not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _keep_whole_lines(file: BufferedRandom, temporary: Path, path: Path) -> None:
    """Cut a file after its last line end and give it its name, unless no line is whole."""
    with suppress(OSError):  # the disk may be full: the lines that are on it are kept
        file.close()
    with open(temporary, "r+b") as again:
        with suppress(OSError):
            _lock(again.fileno())
        end = again.truncate(_end_of_last_line(again))
        os.fsync(again.fileno())
        if end:
            _name(again, temporary, path)


def _end_of_last_line(file: BufferedRandom) -> int:
    end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(0, end - CHUNK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that no writer holds any more."""
    with suppress(OSError):  # the folder does not exist, or must not be listed
        for leftover in folder.glob(PATTERN):
            with suppress(OSError):  # a writer holds it, or it belongs to another user
                _remove_unless_locked(leftover)


def _remove_unless_locked(leftover: Path) -> None:
    """Remove a temporary file; OSError if a writer holds it."""
    if fcntl is None:
        os.remove(leftover)
        return
    opened = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        _lock(opened)
        os.remove(leftover)
    finally:
        os.close(opened)
