"""The bytes of a model file: settings and arrays in one safetensors file that says when it is damaged.

    header   safetensors' header, with one metadata string "psimlearn": settings as JSON with sorted keys, and a sha256
             over these settings and over the name, type, shape and bytes of every array
    arrays   float64, or float32 where no digit is lost by it, in C order, by name

The hash finds damage, not malice: whoever can write the file can hash it anew. What settings and arrays mean is not
known here, and not trusted by `psimlearn.files.model`, which reads them.
"""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from io import BufferedIOBase
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from psimlearn.errors import ModelFileError
from psimlearn.files.checks import Arrays, counts, require, require_type, shown

__all__ = ["as_json", "check_beginning", "pack", "unpack"]

FORMAT = 1
"""Raise it whenever a setting or an array changes its meaning, `uncertainty.LEVELS` included."""
KIND = "psimlearn filter"
LARGEST_HEADER = 10_000_000
"""In bytes. Parsed JSON takes many times its size in memory; large things belong into arrays."""


def pack(settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray], kind: str = KIND) -> bytes:
    """The bytes of a file that holds these settings, which are finite JSON, and these arrays of float64 or float32.

    A file of another `kind` than that of a filter is no model, and no reader of models takes it for one.
    """
    # safetensors writes memory as it lies, so arrays are put into C order
    ordered = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in ordered.items():
        require_type(name, array, np.float64, np.float32)
    signed = {**settings, "format": FORMAT, "kind": kind, "psimlearn": version("psimlearn")}
    text = _text({**signed, "sha256": _digest(signed, ordered)})
    try:
        return safetensors.save(ordered, {"psimlearn": text})
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"arrays: required names that safetensors can write, received {error}.") from error


def unpack(data: bytes, required: str = KIND) -> tuple[dict[str, Any], Arrays]:
    """The settings and arrays that `pack` was given; ModelFileError unless these are the bytes that it returned."""
    text, arrays = _deserialised(data)
    require(text is not None, "required a psimlearn model, received a safetensors file without psimlearn's settings")
    settings = _parsed(text or "")
    kind = settings.get("kind") if isinstance(settings, dict) else settings
    require(isinstance(settings, dict) and kind == required, f"kind: required {required!r}, received {shown(kind)}")
    _check_format(settings)
    require(_text(settings) == text, "damaged: the settings are not as psimlearn writes them")
    received = settings.pop("sha256", None)
    require(received == _digest(settings, arrays), "damaged: the contents do not have the sha256 that was saved")
    writer = settings.pop("psimlearn", None)
    require(isinstance(writer, str), f"psimlearn: required the version of the writer, received {shown(writer)}")
    del settings["format"], settings["kind"]
    return settings, arrays


def check_beginning(file: BufferedIOBase) -> None:
    """Refuse, from the first bytes and the length of a file, a file that `unpack` would refuse for them."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    size = _header_size(file.read(9), length)
    file.seek(8)
    _header(file.read(size), length)
    file.seek(0)


def as_json(value: Any) -> Any:
    """The value as it comes back from a file: tuples as lists, keys as strings."""
    return _parsed(_text(value))


def _check_format(settings: dict[str, Any]) -> None:
    """Refuse files of later versions before anything else is asked of them."""
    format: Any = settings.get("format")
    require(counts(format), f"format: required a version number, received {shown(format)}")
    if format > FORMAT:
        raise ModelFileError(
            f"written by psimlearn {settings.get('psimlearn')!s:.20} in format {format}: upgrade, as psimlearn "
            f"{version('psimlearn')} reads formats up to {FORMAT}."
        )


def _text(value: Any) -> str:
    """The one way to write a value as JSON."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"settings and notes: required finite JSON, received: {error}.") from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"settings: required JSON, received {shown(text)}.") from error


def _digest(settings: dict[str, Any], arrays: Arrays) -> str:
    """A hash of everything in a file. Each part tells where it ends, so no two contents hash the same bytes."""
    digest = sha256(_text(settings).encode())
    for name, array in sorted(arrays.items()):
        digest.update(_text([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data)
    return digest.hexdigest()


def _deserialised(data: bytes) -> tuple[str | None, Arrays]:
    """The metadata string, if there is one, and the arrays. Allocates no more than the file has."""
    header = _header(data[8 : 8 + _header_size(data[:9], len(data))], len(data))
    try:
        arrays = safetensors.load(data)
    except (SafetensorError, LookupError, OverflowError, ValueError) as error:
        raise ModelFileError(f"required a whole safetensors file of plain arrays, received: {error}.") from error
    return (header.get("__metadata__") or {}).get("psimlearn"), arrays


def _header_size(first: bytes, length: int) -> int:
    """The size of the header, from the first nine bytes and the length of the file."""
    size = int.from_bytes(first[:8], "little")
    require(first[8:9] == b"{", f"required a safetensors file, received one that begins with {first!r}")
    require(size <= LARGEST_HEADER, f"header: required at most {LARGEST_HEADER} bytes, received {size}")
    require(8 + size <= length, f"cut short: the header ends at byte {8 + size}, the file at {length}")
    return size


def _header(text: bytes, length: int) -> dict[str, Any]:
    """The header of a file of this length."""
    try:
        header: dict[str, Any] = json.loads(text.decode())
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        end = 8 + len(text) + min(int(max(ends, default=0)), 2**64)  # a larger one could not even be printed
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(f"header: required that of a safetensors file, received {text[:40]!r} ..") from error
    require(end <= length, f"cut short: the arrays end at byte {end}, the file at {length}")
    require(end >= length, f"{length - end} surplus bytes at the end")
    return header
