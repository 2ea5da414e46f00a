"""A robot snaps two parts together: the HIRO snap assembly of AIST and BIRL, wrench and joint angles."""

import re
from pathlib import Path

import numpy as np

from psimlearn.datasets.asfamc import text
from psimlearn.datasets.store import dataset_path
from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.archives import arrays
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["SNAP_CHANNELS", "SNAP_UNITS", "block_means", "raw_snap_assembly", "snap_assembly", "trials"]

FOLDER = "robot_hiro_snap_assembly"
SNAP_CHANNELS = ("Fx", "Fy", "Fz", "Mx", "My", "Mz", "q1", "q2", "q3", "q4", "q5", "q6")
SNAP_UNITS = ("N",) * 3 + ("Nm",) * 3 + ("rad",) * 6
"""Forces are about a hundred times larger than the other channels: compare errors in standard deviations."""

SUCCESS, FAILURE = "hiro_success_20hz_350x12.npz", "hiro_error_40hz_400x12.npz"


def snap_assembly(which: str = "S-22..S-46") -> Trajectories:
    """Trials at 20 Hz: the first 17.5 s of successful ones (350 rows), the first 10 s of failed ones (200 rows).

    Args:
        which: one trial or a range of trials. Successes are two runs of the robot with different programs; do not mix
            them: "S-02..S-21" are near copies of each other, so that held-out trials say little; "S-22..S-46" vary.
            Failures are "E-02..E-17".
    """
    wanted = trials(which)
    stored = arrays(dataset_path(FOLDER, FAILURE if which.startswith("E") else SUCCESS))
    known = stored["trials"].tolist()
    if absent := [trial for trial in wanted if trial not in known]:
        raise SettingsError(f"which must lie within {known[0]}..{known[-1]}; received {which!r}, of which {absent}.")
    rows = stored["X"][[known.index(trial) for trial in wanted]].astype(np.float64)
    block = round(0.05 / float(stored["dt"]))  # failures are stored at 40 Hz
    return Trajectories.of([block_means(trial, block) for trial in rows], names=SNAP_CHANNELS, ids=wanted)


def raw_snap_assembly(which: str = "S-22..S-46", block: int = 10) -> Trajectories:
    """Whole trials of unequal length from the original files at 200 Hz, averaged over blocks of rows.

    Wrench and angles of a trial may differ by a few rows; both are cut to the shorter.

    Args:
        which: one trial or a range of trials, as in `snap_assembly`.
        block: rows to average; 10 gives 20 Hz.
    """
    wanted = trials(which)
    return Trajectories.of([block_means(_raw(trial), block) for trial in wanted], names=SNAP_CHANNELS, ids=wanted)


def trials(which: str) -> tuple[str, ...]:
    """The trials of a range.

    >>> trials("S-20..S-23")
    ('S-20', 'S-21', 'S-22', 'S-23')
    """
    match = re.fullmatch(r"([SE])-(\d\d)(?:\.\.\1-(\d\d))?", which)
    numbers = range(int(match[2]), int(match[3] or match[2]) + 1) if match else range(0)
    if not match or not numbers:
        raise SettingsError(
            f"which must be a trial or a range such as 'S-22..S-46' or 'E-02..E-17'; received {which!r}."
        )
    return tuple(f"{match[1]}-{number:02d}" for number in numbers)


def block_means(rows: Float[np.ndarray, "T n"], block: int) -> Float[np.ndarray, "blocks n"]:
    """The means of blocks of adjacent rows; a remainder at the end is left out."""
    if not 1 <= block <= len(rows):
        raise SettingsError(f"block must lie between 1 and the {len(rows)} rows of a trial; received {block}.")
    n_blocks = len(rows) // block
    means: np.ndarray = rows[: n_blocks * block].reshape(n_blocks, block, -1).mean(axis=1)
    return means


def _raw(trial: str) -> Float[np.ndarray, "T 12"]:
    """One trial at 200 Hz."""
    wrench, angles = (_numbers(dataset_path(FOLDER, f"raw/{trial}_R_{what}.dat.gz")) for what in ("Torques", "Angles"))
    n = min(len(wrench), len(angles))
    if np.abs(wrench[:n, 0] - angles[:n, 0]).max() > 0.0025:
        raise DataError(
            f"trial {trial}: required wrench and angles at the same times, received times that "
            "differ by more than 2.5 ms. Get the files again."
        )
    return np.concatenate([wrench[:n, 1:], angles[:n, 1:]], axis=1)


def _numbers(path: Path) -> Float[np.ndarray, "T 7"]:
    """The rows of a file, each a time and six values."""
    try:
        lines = text(path).splitlines()
        if not lines:
            raise ValueError("an empty file.")
        rows = np.loadtxt(lines, ndmin=2)
    except ValueError as error:
        raise DataError(f"{path}: required rows of 7 numbers, received: {error} Get the file again.") from error
    if rows.shape[1] != 7:
        raise DataError(
            f"{path}: required time and 6 values in each row, received {rows.shape[1]} columns. Get it again."
        )
    return rows
