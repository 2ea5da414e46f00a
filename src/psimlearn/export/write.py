"""One file of a filter for programs without Python, in the format that its name says."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from psimlearn.errors import DataError, SettingsError
from psimlearn.export.c import header
from psimlearn.export.graph import graph
from psimlearn.export.machine import machine_of
from psimlearn.export.matrices import matrices
from psimlearn.files.atomic import atomic
from psimlearn.filter.learnt import Learnt

__all__ = ["FORMATS", "export", "format_of"]

FORMATS = {"c": ".h", "onnx": ".onnx", "json": ".json"}
"""The formats of exports, and how the names of their files end."""


def export(
    filter: Learnt,
    path: str | PathLike[str],
    format: str | None = None,
    *,
    precision: str = "double",
    tolerance: float = 1e-12,
) -> None:
    """Write a linear or random-feature filter as a C header, an ONNX graph, or JSON; replaces an older file.

    Args:
        filter: a learnt filter, such as `PSIM.filter_`, or one that `psimlearn.load` read.
        path: the file to write. In a C header, all names begin with the name of the file.
        format: "c", "onnx" (needs the extra `onnx`) or "json" (linear filters only); None takes the ending of the path.
        precision: of an ONNX graph, "double" or "float". A C header has both.
        tolerance: for JSON, the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
    """
    path = Path(path)
    writers: dict[str, Callable[[], bytes]] = {
        "c": lambda: header(machine_of(filter), path.stem).encode("ascii"),
        "onnx": lambda: graph(machine_of(filter), path.stem, precision),
        "json": lambda: matrices(filter, tolerance).encode(),
    }
    content = writers[format_of(path, format)]()
    try:
        with atomic(path) as file:
            file.write(content)
    except OSError as error:
        raise DataError(f"{path}: required a file that can be written, received: {error.strerror or error}.") from error


def format_of(path: Path, format: str | None) -> str:
    """The format that is named, or that the ending of a path says."""
    by_ending = {ending: name for name, ending in FORMATS.items()}
    found = by_ending.get(path.suffix.lower()) if format is None else format
    if found is None or found not in FORMATS:
        raise SettingsError(
            f"format: required one of {', '.join(FORMATS)}, or a path that ends in {', '.join(FORMATS.values())}, "
            f"received {format!r} and {path.name!r}."
        )
    return found
