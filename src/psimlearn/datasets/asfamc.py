"""The two file formats of the CMU motion capture database: ASF holds a skeleton, AMC a motion.

Both may be gzipped. Errors name the file and the line.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np

from psimlearn.datasets.skeleton import DOFS, Motion, Skeleton, rotation
from psimlearn.errors import DataError
from psimlearn.shapes import Float

__all__ = ["LONGEST_NUMBER", "read_amc", "read_asf", "text"]

INCH = 0.0254
"""In metres; an ASF file says how many of its units of length are an inch."""
MOST_EXPANDED = 30
"""How many times its size a gzipped file may have unpacked: texts of numbers have up to 7 times, a bomb 1000 times."""
LONGEST_NUMBER = 9
"""Digits of the number of a frame."""
SMALL = 1 << 20
"""Bytes that every gzipped file may have unpacked."""


class Line(NamedTuple):
    """The words of a line, with its file and number."""

    file: Path
    number: int
    words: list[str]

    def fault(self, required: str) -> DataError:
        """The error that says what this line should be."""
        return DataError(
            f"{self.file}, line {self.number}: required {required}, received {' '.join(self.words)!r}. Correct the "
            "line, or get the file again."
        )


class FrameLine(NamedTuple):
    """A line of a motion and its frame, counted from 0; -1 is before the first frame."""

    frame: int
    line: Line


class Bone(NamedTuple):
    """The block of a bone in an ASF file: its first line, and its lines by their first word."""

    begin: Line
    entries: dict[str, Line]


def read_asf(path: str | Path) -> Skeleton:
    """Read a skeleton from an ASF file."""
    sections = _sections(Path(path))
    units = {line.words[0]: line for line in sections["units"]}
    bones = _bones(sections["bonedata"])
    degrees = "angle" not in units or units["angle"].words[1:2] != ["rad"]
    root = Bone(sections["root"][0], {line.words[0]: line for line in sections["root"]})
    names = ("root", *(_entry(bone, "name").words[1] for bone in bones))
    if twice := [bone for bone, name in zip(bones, names[1:], strict=True) if names.count(name) > 1]:
        raise _entry(twice[0], "name").fault("a name that no other bone has")
    turns = [_axes(_entry(root, "orientation"), _entry(root, "axis"), degrees)]
    turns += [_axes(_entry(bone, "axis"), _entry(bone, "axis"), degrees) for bone in bones]
    return Skeleton(
        names,
        _parents(sections["hierarchy"], names),
        np.array([_numbers(_entry(root, "position")), *map(_offset, bones)]),
        np.array([axes for axes, _ in turns]),
        tuple(order for _, order in turns),
        (_dofs(_entry(root, "order"), DOFS), *(_bone_dofs(bone) for bone in bones)),
        _metres(units["length"]) if "length" in units else 1.0,
    )


def read_amc(path: str | Path, skeleton: Skeleton) -> Motion:
    """Read a motion of a skeleton from an AMC file. Bones that the file never mentions stay in their rest pose.

    Frames must follow each other; the first need not be number 1.
    """
    numbers: list[int] = []
    rows: dict[str, list[FrameLine]] = {name: [] for name in skeleton.names}
    degrees = True
    line = Line(Path(path), 0, [])
    for line in _lines(Path(path)):
        word = line.words[0]
        if word in rows:
            rows[word].append(FrameLine(len(numbers) - 1, line))
        elif word.isdecimal() and len(line.words) == 1 and len(word) <= LONGEST_NUMBER:
            numbers.append(int(word))
            if numbers[-1] != numbers[0] + len(numbers) - 1:
                raise line.fault(f"frame {numbers[-2] + 1} after frame {numbers[-2]}")
        elif word.startswith(":"):
            degrees = degrees and word.lower() != ":radians"
        else:
            raise line.fault("a bone of the skeleton, as its ASF file names them")
    if not numbers:
        raise line.fault("at least one frame")
    values = np.zeros((len(numbers), len(rows), len(DOFS)))
    for part, (name, dofs) in enumerate(zip(skeleton.names, skeleton.dofs, strict=True)):
        if rows[name]:
            values[:, part, [DOFS.index(dof) for dof in dofs]] = _values(rows[name], len(numbers), len(dofs))
    if degrees:
        values[..., 3:] = np.deg2rad(values[..., 3:])
    return Motion(numbers[0], values)


def text(path: Path) -> str:
    """The text of a file, unpacked if it is gzipped."""
    try:
        raw = path.read_bytes()
        return (_unpacked(raw) if raw.startswith(b"\x1f\x8b") else raw).decode("latin-1")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: required a readable file, received: {error}. Get the file again.") from error


def _unpacked(packed: bytes) -> bytes:
    """Gunzipped bytes; OSError where they are far more than any text of numbers has."""
    most = max(MOST_EXPANDED * len(packed), SMALL)
    with gzip.GzipFile(fileobj=BytesIO(packed)) as file:
        unpacked = file.read(most + 1)
    if len(unpacked) > most:
        raise OSError(f"a gzipped file that unpacks to more than {MOST_EXPANDED} times its size")
    return unpacked


def _lines(path: Path) -> Iterator[Line]:
    """The lines of a file without comments and empty lines."""
    for number, line in enumerate(text(path).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            yield Line(path, number, words)


def _sections(path: Path) -> dict[str, list[Line]]:
    """The lines of an ASF file by the keyword above them."""
    sections: dict[str, list[Line]] = {"units": []}
    current: list[Line] = []
    line = Line(path, 0, [])
    for line in _lines(path):
        if line.words[0].startswith(":"):
            current = sections.setdefault(line.words[0][1:].lower(), [])
        else:
            current.append(line)
    for keyword in ("root", "bonedata", "hierarchy"):
        if not sections.get(keyword):
            raise line.fault(f"a section :{keyword} before the end of the file")
    return sections


def _bones(lines: Iterable[Line]) -> list[Bone]:
    bones: list[Bone] = []
    inside = False
    for line in lines:
        word = line.words[0].lower()
        if word in ("begin", "end"):
            if inside == (word == "begin"):
                raise line.fault("begin and end in turns")
            inside = not inside
            if inside:
                bones.append(Bone(line, {}))
        elif not inside:
            raise line.fault("begin before a bone")
        else:
            bones[-1].entries[word] = line
    if inside or not bones:
        raise line.fault("at least one bone, and end after the last")
    return bones


def _entry(bone: Bone, keyword: str) -> Line:
    if keyword not in bone.entries or len(bone.entries[keyword].words) < 2:
        raise bone.begin.fault(f"a block that has a line {keyword!r} with values")
    return bone.entries[keyword]


def _numbers(line: Line, n: int = 3) -> list[float]:
    """The first numbers after a line's keyword."""
    try:
        numbers = [float(word) for word in line.words[1 : 1 + n]]
    except ValueError:
        numbers = []
    if len(numbers) != n or not all(map(isfinite, numbers)):
        raise line.fault(f"{n} finite numbers after {line.words[0]!r}")
    return numbers


def _metres(line: Line) -> float:
    """Metres per unit, from the units per inch."""
    units_per_inch = _numbers(line, 1)[0]
    if units_per_inch <= 0:
        raise line.fault("a unit of length above 0")
    return INCH / units_per_inch


def _offset(bone: Bone) -> Float[np.ndarray, " 3"]:
    return np.array(_numbers(_entry(bone, "direction"))) * _numbers(_entry(bone, "length"), 1)[0]


def _axes(angles: Line, named: Line, degrees: bool) -> tuple[Float[np.ndarray, "3 3"], str]:
    """C, and the order of turns, which is the last word of its line."""
    order = named.words[-1].lower()
    if sorted(order) != ["x", "y", "z"]:
        raise named.fault("an order of the axes such as XYZ at the end")
    turns = np.array(_numbers(angles))
    return rotation(np.deg2rad(turns) if degrees else turns, order), order


def _bone_dofs(bone: Bone) -> tuple[str, ...]:
    return _dofs(bone.entries["dof"], DOFS[3:]) if "dof" in bone.entries else ()


def _dofs(line: Line, allowed: Iterable[str]) -> tuple[str, ...]:
    dofs = tuple(word.lower() for word in line.words[1:])
    if not set(dofs) <= set(allowed) or len(set(dofs)) < len(dofs):
        raise line.fault(f"each at most once of {' '.join(allowed)} (bones that stretch or slide are not supported)")
    return dofs


def _parents(lines: Iterable[Line], names: tuple[str, ...]) -> np.ndarray:
    """The parent of each part; every bone must hang on the root."""
    parents = dict.fromkeys(names, "")
    for line in lines:
        if line.words in (["begin"], ["end"]):
            continue
        parent, *children = line.words
        for child in children:
            if parent not in parents or child not in parents or parents[child] or child == "root":
                raise line.fault("a bone followed by bones that hang on no other, all of them in :bonedata")
            parents[child] = parent
    for name in names[1:]:
        above, steps = name, 0
        while parents[above] and steps < len(names):
            above, steps = parents[above], steps + 1
        if above != "root":
            raise line.fault(f"a hierarchy in which {name!r} hangs on the root, before or on this last line")
    return np.array([-1, *(names.index(parents[name]) for name in names[1:])])


def _values(rows: list[FrameLine], n_frames: int, n_dofs: int) -> Float[np.ndarray, "T dofs"]:
    """The shifts and turns of one part, one row for every frame."""
    for frame, row in enumerate(rows):
        if row.frame != frame:
            raise row.line.fault(f"{row.line.words[0]!r} exactly once in every frame, from the first frame on")
        if len(row.line.words) != 1 + n_dofs:
            raise row.line.fault(f"{n_dofs} numbers after {row.line.words[0]!r}, as its ASF file says")
    if len(rows) < n_frames:
        raise rows[-1].line.fault(f"{rows[-1].line.words[0]!r} in the frames after this one too")
    try:
        values = np.array([row.line.words[1:] for row in rows], dtype=np.float64)
    except ValueError:
        values = np.full((len(rows), n_dofs), np.nan)
    if not np.isfinite(values).all():  # parse again line by line, to name the line that is wrong
        values = np.array([_numbers(row.line, n_dofs) for row in rows])
    return values
