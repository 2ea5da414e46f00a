"""48 walks of three people from the CMU motion capture database, relative to the pelvis."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from psimlearn.datasets.asfamc import read_amc, read_asf
from psimlearn.datasets.cmu import WALKS
from psimlearn.datasets.skeleton import DOFS, Motion, Skeleton, positions
from psimlearn.datasets.store import dataset_path
from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.archives import arrays
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["HEADINGS", "METRES_PER_UNIT", "N_FRAMES", "faced", "joint_angles", "walking"]

FOLDER = "mocap_cmu_walk"
N_FRAMES = 300
"""Frames of each walk, at 120 a second."""
METRES_PER_UNIT = 0.0254 / 0.45
STILL = 1e-6
"""Radians: the collarbones of these files do not move, but their angles differ by rounding."""

HEADINGS = ("world", "first", "every")
"""The direction of walkers: as recorded, facing z in the first frame, or facing z in every frame."""


def walking(heading: str = "world", trials: Sequence[str] = WALKS) -> Trajectories:
    """The first 300 frames of each walk: the ends of 30 bones relative to the root, 90 channels, 120 frames a second.

    Lengths are in the database's units (`METRES_PER_UNIT`); x is to the left of a walker who faces z, y is up.
    Positions come from walk48_positions.npz if that file is there, else from the ASF and AMC files.

    Args:
        heading: "world" leaves directions as they were recorded; "first" turns each walk as a whole so that it begins
            facing z; "every" turns each frame to face z, which moves the sway of the hips into all other parts. In
            these 300 frames the hips of all 48 walks face z within 13 degrees anyway.
        trials: subject and number, such as "07_01".
    """
    if heading not in HEADINGS:
        raise SettingsError(f"heading must be one of {HEADINGS}; received {heading!r}.")
    if not trials:
        raise SettingsError("trials must name at least one walk, such as '07_01'; received none.")
    ready = dataset_path(FOLDER) / "walk48_positions.npz"
    names, parts = _ready(trials) if ready.exists() else _computed(trials)
    relative = faced(parts[:, :, 1:] - parts[:, :, :1], names[1:], heading)
    return Trajectories.of(
        relative.reshape(len(trials), N_FRAMES, -1),
        names=[f"{bone}.{axis}" for bone in names[1:] for axis in "xyz"],
        ids=tuple(trials),
    )


def joint_angles(trials: Sequence[str] = WALKS) -> Trajectories:
    """The first 300 frames of each walk as joint angles in radians, 120 frames a second, from the ASF and AMC files.

    Angles of the root, which say where the walker is, are left out, and so are angles that never change.

    Args:
        trials: subject and number, such as "07_01". A file that begins after frame 1 is taken from its first frame on.
    """
    if not trials:
        raise SettingsError("trials must name at least one walk, such as '07_01'; received none.")
    skeletons = _skeletons(trials)
    walks = np.array([_motion(trial, skeletons[trial[:2]]).values[:N_FRAMES] for trial in trials])
    bones = skeletons[trials[0][:2]].names
    names = [f"{bone}.{axis}" for bone in bones for axis in DOFS]
    rows = walks.reshape(len(trials), N_FRAMES, -1)
    varying = np.ptp(rows, axis=(0, 1)) > STILL
    kept = [i for i, name in enumerate(names) if varying[i] and not name.startswith(f"{bones[0]}.")]
    return Trajectories.of(rows[:, :, kept], names=[names[i] for i in kept], ids=tuple(trials))


def faced(
    relative: Float[np.ndarray, "m T bones 3"], bones: Sequence[str], heading: str
) -> Float[np.ndarray, "m T bones 3"]:
    """Turn walkers about the vertical until the line from right to left hip lies along x, so that they face z."""
    if heading == "world":
        return relative
    across = relative[:, :, bones.index("lhipjoint")] - relative[:, :, bones.index("rhipjoint")]
    across = across[:, :1] if heading == "first" else across
    cos, sin = np.moveaxis(across[..., [0, 2]] / np.linalg.norm(across[..., [0, 2]], axis=-1, keepdims=True), -1, 0)
    still, none = np.ones_like(cos), np.zeros_like(cos)
    rows = [[cos, none, sin], [none, still, none], [-sin, none, cos]]
    turn = np.moveaxis(np.array(rows), (0, 1), (-2, -1))
    return relative @ np.swapaxes(turn, -1, -2)


Parts = tuple[tuple[str, ...], Float[np.ndarray, "m 300 parts 3"]]


def _ready(trials: Sequence[str]) -> Parts:
    """Names and positions of parts from walk48_positions.npz."""
    stored = arrays(dataset_path(FOLDER, "walk48_positions.npz"))
    known = stored["trials"].tolist()
    if absent := [trial for trial in trials if trial not in known]:
        raise SettingsError(f"trials must be among {known}; received {absent}.")
    rows = [known.index(trial) for trial in trials]
    return tuple(stored["joints"].tolist()), stored["positions"][rows].astype(np.float64)


def _computed(trials: Sequence[str]) -> Parts:
    """Names and positions of parts by forward kinematics."""
    skeletons = _skeletons(trials)
    walks = []
    for trial in trials:
        motion = _motion(trial, skeletons[trial[:2]])
        if motion.first_frame != 1:
            raise _cut(trial, motion)
        walks.append(positions(skeletons[trial[:2]], motion)[:N_FRAMES])
    return skeletons[trials[0][:2]].names, np.array(walks)


def _skeletons(trials: Sequence[str]) -> dict[str, Skeleton]:
    """The skeleton of each subject."""
    return {subject: read_asf(_file(f"{subject}.asf")) for subject in sorted({trial[:2] for trial in trials})}


def _motion(trial: str, skeleton: Skeleton) -> Motion:
    """The motion of a walk, of enough frames."""
    motion = read_amc(_file(f"{trial}.amc"), skeleton)
    if len(motion.values) < N_FRAMES:
        raise _cut(trial, motion)
    return motion


def _cut(trial: str, motion: Motion) -> DataError:
    """The error that says which frames of a walk are missing."""
    last = motion.first_frame + len(motion.values) - 1
    return DataError(
        f"{_file(f'{trial}.amc')}: required frames 1 to {N_FRAMES}, received {motion.first_frame} to {last}. This copy "
        "was cut: get the whole file from http://mocap.cs.cmu.edu, or leave the trial out of trials=."
    )


def _file(name: str) -> Path:
    """The path of an ASF or AMC file, gzipped or not."""
    zipped = f"asfamc/{name}.gz"
    return dataset_path(FOLDER, zipped if (dataset_path(FOLDER) / zipped).exists() else f"asfamc/{name}")
