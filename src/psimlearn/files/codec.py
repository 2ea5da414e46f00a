"""Codecs: each says of one part of a model, in one place, how it stands in a file.

A codec turns a part into named arrays, knows which shapes these must have and which numbers they may hold, and builds
the part again. A reader asks in this order, so that each answer can rely on those before:

    shapes   of the arrays that must be there, from sizes that are known and, where nothing else tells, from one array
    check    of every number
    agrees   of numbers that depend on the sizes
    build    of the part, from arrays that can be trusted by now
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from psimlearn.files.checks import Arrays, require, require_each, require_finite, require_type
from psimlearn.shapes import Bool

__all__ = ["Codec", "Group", "Known", "Shapes", "all_finite", "decoded", "encoded", "grouped"]

Shapes = dict[str, tuple[int, ...]]
"""The required shape of each array, by name."""


class Known(NamedTuple):
    """The features and sizes of a filter, known before any of its parts is built."""

    features: Any
    """One of `psimlearn.files.features`."""
    feedback_weight: float
    lags: int
    n: int
    """Channels."""
    n_inputs: int
    n_controls: int
    """Columns of z that hold inputs: u_t, and u_{t+1} where inputs act at once."""
    d: int
    """Coordinates of a belief."""
    r: int
    """Coordinates that are fed back."""

    @property
    def n_simplices(self) -> int | None:
        """The number of distributions in a belief about symbols; None for numbers."""
        return getattr(self.features, "n_simplices", None)

    @property
    def n_beside(self) -> int:
        """Columns of z beside the belief: lags and inputs."""
        return self.lags * self.n + self.n_controls

    @property
    def p(self) -> int:
        """Columns of z, the input of a regressor."""
        return self.r + self.n_beside


@dataclass(frozen=True)
class Group:
    """The arrays of one part, by their names within the part."""

    name: str
    """The name of the part; empty for arrays that belong to no part."""
    arrays: Arrays

    def full(self, name: str) -> str:
        """The name of an array in the file."""
        return f"{self.name}.{name}" if self.name else name

    def size(self, name: str, axis: int = 0) -> int:
        """The size of an array along an axis, at least 1."""
        require(name in self.arrays, f"missing arrays: {self.full(name)}")
        shape = self.arrays[name].shape
        some = len(shape) > axis and shape[axis] > 0
        require(some, f"array {self.full(name)}: required something along axis {axis}, received shape {shape}")
        return int(shape[axis])

    def require(self, name: str, holds: Bool[np.ndarray, "*shape"], required: str) -> None:
        """Refuse an array unless `holds` is True for each of its numbers; `required` says of which kind they are."""
        require_each(self.full(name), self.arrays[name], holds, required)


def all_finite(group: Group) -> None:
    """Refuse NaN and infinite numbers: the check of most parts."""
    for name, array in group.arrays.items():
        require_finite(group.full(name), array)


Part = TypeVar("Part")
Sizes = TypeVar("Sizes")


@dataclass(frozen=True)
class Codec(Generic[Part, Sizes]):
    """How one part of a model stands in a file. For parts of a filter, `Sizes` are `Known`."""

    arrays: Callable[[Part], Mapping[str, np.ndarray | None]]
    """The arrays of a part, by name; those that are None are left out of the file."""
    shapes: Callable[[Group, Sizes], Shapes]
    """The shapes that these arrays must have; an array that is not named here must not be there."""
    build: Callable[[Group, Sizes], Part]
    """The part, from arrays of these shapes that passed `check`."""
    check: Callable[[Group], None] = all_finite
    """Refuse arrays of the right shapes with numbers that no such part has."""
    agrees: Callable[[Group, Sizes], None] = lambda _, __: None
    """Refuse arrays that passed `check` with numbers that no such part of these sizes has."""
    single: tuple[str, ...] = ()
    """The arrays of float32; all others are of float64."""


def grouped(arrays: Arrays) -> dict[str, Group]:
    """Arrays by the names of their parts: "regressors.0.weights" is the array "weights" of "regressors.0"."""
    groups: dict[str, Group] = {"": Group("", {})}
    for name, array in arrays.items():
        part, _, short = name.rpartition(".")
        groups.setdefault(part, Group(part, {})).arrays[short] = array
    return groups


def encoded(parts: Mapping[str, tuple[Codec[Any, Any], Any]]) -> Arrays:
    """The arrays of some parts, each given by its name, its codec and itself."""
    return {
        Group(part, {}).full(name): array
        for part, (codec, value) in parts.items()
        for name, array in codec.arrays(value).items()
        if array is not None
    }


def decoded(arrays: Arrays, parts: Mapping[str, tuple[Codec[Any, Any], Any]]) -> dict[str, Any]:
    """The parts that all these arrays are, and nothing else; ModelFileError if they cannot be.

    Args:
        arrays: by their names in the file.
        parts: the codec of each part that must be there, by name, and the sizes that it asks for.
    """
    groups = {part: Group(part, {}) for part in parts} | grouped(arrays)
    shapes: Shapes = {}
    single: set[str] = set()
    for part, (codec, sizes) in parts.items():
        shapes |= {groups[part].full(name): shape for name, shape in codec.shapes(groups[part], sizes).items()}
        single |= {groups[part].full(name) for name in codec.single}
    _check_shapes(arrays, shapes, single)
    for part, (codec, sizes) in parts.items():
        codec.check(groups[part])
        codec.agrees(groups[part], sizes)
    return {part: codec.build(groups[part], sizes) for part, (codec, sizes) in parts.items()}


def _check_shapes(arrays: Arrays, shapes: Shapes, single: set[str]) -> None:
    """Refuse arrays unless they are those required, each of the required type and shape."""
    require(arrays.keys() >= shapes.keys(), f"missing arrays: {sorted(shapes.keys() - arrays.keys())!s:.300}")
    require(arrays.keys() <= shapes.keys(), f"surplus arrays: {sorted(arrays.keys() - shapes.keys())!s:.300}")
    for name, shape in shapes.items():
        require_type(name, arrays[name], np.float32 if name in single else np.float64)
        received = arrays[name].shape
        require(received == shape, f"array {name}: required shape {shape}, received {received}")
