"""Skeletons and their forward kinematics: from joint angles to positions in space, all frames at once."""

from dataclasses import dataclass

import numpy as np

from psimlearn.shapes import Float, Int

__all__ = ["DOFS", "Motion", "Skeleton", "positions", "rotation"]

DOFS = ("tx", "ty", "tz", "rx", "ry", "rz")
"""How a part can move: shifts along and turns about x, y, z."""


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The root and the bones of a skeleton, in the order of the file and in the rest pose."""

    names: tuple[str, ...]
    """The root comes first."""
    parents: Int[np.ndarray, " parts"]
    """Index of the part at whose end a bone begins; -1 for the root."""
    offsets: Float[np.ndarray, "parts 3"]
    """From the beginning of a bone to its end in the world's axes; for the root its position."""
    axes: Float[np.ndarray, "parts 3 3"]
    """C: the axes about which a part turns, as a rotation of the world's axes."""
    orders: tuple[str, ...]
    """The order in which a part turns about its axes: "xyz" is x first."""
    dofs: tuple[tuple[str, ...], ...]
    """The `DOFS` that a motion gives for each part; the others are 0."""
    metres: float = 1.0
    """Metres per unit of length."""


@dataclass(frozen=True, eq=False)
class Motion:
    """The motion of a skeleton: shifts and turns of every part in every frame."""

    first_frame: int
    """The number of the first frame in its recording; more than 1 where the beginning was cut off."""
    values: Float[np.ndarray, "T parts 6"]
    """Shifts and turns in the order of `DOFS`; turns in radians."""


def positions(skeleton: Skeleton, motion: Motion) -> Float[np.ndarray, "T parts 3"]:
    """The position of the root and of the end of each bone, in the world and in the skeleton's unit of length.

    A bone turns by C M C^T in the frame of its parent: to the bone's axes, by the motion's angles, and back.
    """
    ends = np.empty((*motion.values.shape[:2], 3))
    turned = np.empty((*motion.values.shape[:2], 3, 3))
    for part in _parents_first(skeleton.parents):
        shift, angles = motion.values[:, part, :3], motion.values[:, part, 3:]
        C, parent = skeleton.axes[part], skeleton.parents[part]
        turn = C @ rotation(angles, skeleton.orders[part]) @ C.T
        if parent < 0:
            turned[:, part] = turn
            ends[:, part] = skeleton.offsets[part] + shift
        else:
            turned[:, part] = turned[:, parent] @ turn
            ends[:, part] = ends[:, parent] + turned[:, part] @ skeleton.offsets[part]
    return ends


def rotation(angles: Float[np.ndarray, "*frames 3"], order: str) -> Float[np.ndarray, "*frames 3 3"]:
    """The rotation by three angles in radians about x, y and z, the first letter of `order` first.

    >>> rotation(np.array([0.0, 0.0, np.pi / 2]), "xyz").round() @ [1, 0, 0]
    array([0., 1., 0.])
    """
    total: np.ndarray = np.broadcast_to(np.eye(3), (*angles.shape, 3))
    for letter in order:
        axis = "xyz".index(letter)
        total = _turn(angles[..., axis], axis) @ total
    return total


def _turn(angle: Float[np.ndarray, "*frames"], axis: int) -> Float[np.ndarray, "*frames 3 3"]:
    """The turn about one axis, by the right-hand rule."""
    one, other = (axis + 1) % 3, (axis + 2) % 3
    turn = np.zeros((*angle.shape, 3, 3))
    turn[..., axis, axis] = 1.0
    turn[..., one, one] = turn[..., other, other] = np.cos(angle)
    turn[..., other, one] = np.sin(angle)
    turn[..., one, other] = -np.sin(angle)
    return turn


def _parents_first(parents: Int[np.ndarray, " parts"]) -> list[int]:
    """Parts sorted by their distance from the root, because files may list a child before its parent."""
    depths = []
    for part in range(len(parents)):
        depth, above = 0, parents[part]
        while above >= 0:
            depth, above = depth + 1, parents[above]
        depths.append(depth)
    return sorted(range(len(parents)), key=depths.__getitem__)
