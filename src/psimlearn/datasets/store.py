"""The folder of real recordings: the one named by PSIMLEARN_DATA, else psimlearn's folder in the user's cache.

No data set is part of psimlearn. Each has one folder; if that folder holds a SHA256SUMS file, a data file listed there
is checked against it before it is first read.
"""

import hashlib
import os
import platform
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from psimlearn.errors import DataError
from psimlearn.extras import imported

__all__ = ["SOURCES", "Source", "data_folder", "dataset_path", "fetch", "sha256"]


class Source(NamedTuple):
    """A data set: its description, its address and its licence."""

    what: str
    where: str
    licence: str


SOURCES = {
    "mocap_cmu_walk": Source(
        "CMU motion capture, 48 walks of subjects 07, 35 and 39",
        "http://mocap.cs.cmu.edu, which psimlearn.datasets.download_walking() fetches into asfamc/",
        "free for all uses; acknowledge mocap.cs.cmu.edu and NSF EIA-0196217",
    ),
    "robot_hiro_snap_assembly": Source(
        "HIRO robot snap assembly, wrench and joint angles",
        "https://github.com/birlrobotics/REAL_HIRO_ONE_SA_SUCCESS and "
        "https://github.com/birlrobotics/REAL_HIRO_ONE_SA_ERROR_CHARAC (put the .dat files, gzipped, into raw/ as "
        "S-02_R_Torques.dat.gz and so on)",
        "Open Database License 1.0",
    ),
    "video_flag_dyntex": Source(
        "a waving flag, DynTex clip 571c110",
        "the DynTex database, or trainingVideo/dynamicTexture/flag2 of https://github.com/jianwen-xie/Dynamic_generator",
        "research use; not to be passed on",
    ),
    "video_beach_waves": Source(
        "waves at a beach and on the open sea, grey frames",
        "no public address: the clips carry no licence, and any clip of yours can be read with "
        "psimlearn.datasets.frames(path, size) instead",
        "none stated; not to be passed on",
    ),
    "sysid_classics": Source(
        "classics of system identification",
        "src/data of https://github.com/Rafa7046/Non_Linear_Identification and data/glassfurnace.mat of "
        "https://github.com/robotsorcerer/FARNN; originals at DaISy and nonlinearbenchmark.org",
        "none stated by the first, MIT by the second",
    ),
}


def data_folder() -> Path:
    """The folder that holds one folder per data set."""
    named = os.environ.get("PSIMLEARN_DATA")
    if not named:
        return _cache()
    if not Path(named).is_dir():
        raise DataError(f"PSIMLEARN_DATA: required a folder, received {named!r}, which is none. Correct or unset it.")
    return Path(named)


def dataset_path(name: str, file: str = "") -> Path:
    """The path of a file of a data set, which must be present and unchanged; without a file, of its folder."""
    folder = data_folder() / name
    path = folder / file
    if not path.exists():
        what, where, licence = SOURCES[name]
        raise DataError(
            f"required {path}, which is missing. It belongs to {name!r} ({what}; licence: {licence}). Get it from "
            f"{where}; or set PSIMLEARN_DATA to a folder that has {Path(name, file)}."
        )
    if path.is_file():
        _check_sum(folder, path)
    return path


def fetch(name: str, file: str, address: str, check: Callable[[Path], None]) -> Path:
    """Download one file of a data set, unless it is there.

    The checksum of a file that passes the check is written into SHA256SUMS, so that later reads notice any change. A
    file gets its name when it has passed the check; otherwise it is removed, whatever happens.

    Args:
        name: the data set.
        file: the path of the file within the folder of the data set.
        address: the URL.
        check: raises a DataError if the file is wrong.
    """
    folder = data_folder() / name
    path = folder / file
    if path.exists():
        return dataset_path(name, file)
    pooch = imported("pooch", "data")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".psimlearn-", dir=path.parent) as unchecked:
            received = Path(unchecked, path.name)
            pooch.retrieve(address, known_hash=None, fname=path.name, path=Path(unchecked))
            _check(received, check)
            os.replace(received, path)
    except (OSError, ValueError) as error:  # the kinds of errors that requests and pooch raise
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"required {address}, which could not be downloaded to {path}: {error}. Try again with a network, or put "
            "the file there by hand."
        ) from error
    with (folder / "SHA256SUMS").open("a", encoding="utf-8") as sums:
        sums.write(f"{sha256(path)}  ./{file}\n")
    return path


def _check(path: Path, check: Callable[[Path], None]) -> None:
    try:
        check(path)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{path.name}: required a file that can be checked, received {type(error).__name__}: {error}. It was "
            "removed. Try again; if this error comes again, the file at its address has changed: please report it."
        ) from error


def sha256(path: Path) -> str:
    """The sha256 checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_sum(folder: Path, path: Path) -> None:
    expected = _sums(folder).get(path.relative_to(folder).as_posix())
    status = path.stat()
    if expected is None or (received := _sum_once(path, status.st_size, status.st_mtime_ns)) == expected:
        return
    raise DataError(
        f"{path}: required the file with sha256 {expected}, as {folder / 'SHA256SUMS'} says, received {received}. The "
        "file is damaged or was changed: get it again."
    )


@lru_cache(maxsize=4096)
def _sum_once(path: Path, size: int, changed: int) -> str:
    """The checksum, computed once per process, and again if the file's size or time of change differs."""
    return sha256(path)


def _sums(folder: Path) -> dict[str, str]:
    """The checksums by file, as sha256sum writes them; empty if there is no such list."""
    listed = folder / "SHA256SUMS"
    if not listed.exists():
        return {}
    lines = [line.split(maxsplit=1) for line in listed.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {file.lstrip("*").removeprefix("./"): digest for digest, file in lines}


def _cache() -> Path:
    """The folder of the operating system for files that can be downloaded again."""
    home = Path.home()
    match platform.system():
        case "Windows":
            return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "psimlearn" / "Cache"
        case "Darwin":
            return home / "Library" / "Caches" / "psimlearn"
        case _:
            return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "psimlearn"
