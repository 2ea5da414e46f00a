"""Model files: a filter in one safetensors file, of which nothing is ever executed.

A file holds settings and arrays: initial, scaling.mean, regressors.0.weights, ..; and arrays that the caller
adds, as extra.<name>. `psimlearn.files.container` describes the bytes and finds damage. A reader goes on to distrust
the contents: every setting must be one that a writer writes, every array must have the one shape that the others leave
it, and every number must be one that a filter can hold. Only then is a filter built. A writer reads the new bytes in
the same way before they replace a file, so whatever was saved can be loaded.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import ModelFileError
from psimlearn.files.atomic import atomic
from psimlearn.files.checks import Arrays, require, require_finite, require_shallow, require_type, shown
from psimlearn.files.codec import Codec, Known, decoded, encoded, grouped
from psimlearn.files.container import as_json, check_beginning, pack, unpack
from psimlearn.files.parts import CONSTANTS, OPTIONAL, PARTS, Constants
from psimlearn.files.regressors import REGRESSORS
from psimlearn.files.settings import alphabet, checked, known, written
from psimlearn.filter import Filter

__all__ = ["Saved", "described", "load", "read", "rebuilt", "save"]

EXTRA = "extra."


class Saved(NamedTuple):
    """All that a model file holds."""

    filter: Filter
    notes: dict[str, Any]
    arrays: Arrays


def save(
    filter: Filter,
    path: str | os.PathLike[str],
    *,
    notes: Mapping[str, Any] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a filter to a file; the forecasts of the filter that `load` returns are the same to the last bit.

    The file is replaced at once: whatever happens, it is the old one or the new one.

    Args:
        filter: made of the features and regressors of this library.
        path: where to write.
        notes: JSON to keep with the filter; `read` returns it.
        arrays: finite float64 arrays to keep with the filter; `read` returns them.
    """
    with _named(path):
        data = _packed(filter, notes or {}, arrays or {})
        _understood(data)
        _replace(Path(path), data)


def load(path: str | os.PathLike[str]) -> Filter:
    """The filter in a model file. Executes nothing; raises ModelFileError for a file that cannot be trusted."""
    return read(path).filter


def read(path: str | os.PathLike[str]) -> Saved:
    """The filter in a model file, with the notes and arrays that were saved beside it."""
    with _named(path):
        received = "a folder" if os.path.isdir(path) else "no file"
        require(os.path.isfile(path), f"required a model file, received {received}")
        try:
            with open(path, "rb") as file:
                check_beginning(file)  # before memory is filled by a large file that is no model
                data = file.read()
        except OSError as error:
            raise ModelFileError(f"required a readable file, received: {error.strerror}.") from error
        return _with_step_of_notes(_understood(data))


def _with_step_of_notes(saved: Saved) -> Saved:
    """Take the step of the recordings from the notes, where older files of estimators keep it."""
    step = saved.notes.pop("step", None) if "recipe" in saved.notes else None
    if step is None:
        return saved
    require(
        type(step) is float and 0 < step < inf, f"step: required a number of seconds above 0, received {shown(step)}"
    )
    return saved._replace(filter=replace(saved.filter, time_step=step))


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the path of the file before every error."""
    if not isinstance(path, str | os.PathLike):
        raise ModelFileError(f"path: required a text or a Path, received a {type(path).__name__}.")
    try:
        require("\0" not in os.fspath(path), "required a path without NUL")
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error.__cause__


def _replace(path: Path, data: bytes) -> None:
    try:
        with atomic(path) as file:
            file.write(data)
    except OSError as error:
        raise ModelFileError(f"required a place to write to, received: {error}.") from error


# -- a filter as bytes -------------------------------------------------------------------------------------------------


def _packed(filter: Filter, notes: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The whole file."""
    settings, held = described(filter)
    extra = {EXTRA + name: array for name, array in arrays.items()}
    return pack(settings | {"notes": as_json(dict(notes))}, held | extra)


def described(filter: Filter) -> tuple[dict[str, Any], Arrays]:
    """The settings and arrays from which `rebuilt` makes a filter again."""
    settings, parts = written(filter), _parts(filter)
    codecs = _codecs(settings["regressors"])
    return settings, encoded({name: (codecs[name], part) for name, part in parts.items() if part is not None})


def _parts(filter: Filter) -> dict[str, Any]:
    """Every part of a filter that has arrays, by its name in a file."""
    parts = {"": Constants(filter.initial, filter.covariance, filter.centre, filter.span)}
    regressors = {f"regressors.{i}": regressor for i, regressor in enumerate(filter.regressors)}
    return parts | {name: getattr(filter, name) for name in PARTS} | regressors


def _codecs(regressors: list[str]) -> dict[str, Codec[Any, Known]]:
    """The codec of every part that a filter with such regressors may have, by the part's name in a file."""
    return {"": CONSTANTS} | PARTS | {f"regressors.{i}": REGRESSORS[kind].codec for i, kind in enumerate(regressors)}


# -- and back, in distrust ---------------------------------------------------------------------------------------------


def _understood(data: bytes) -> Saved:
    """The contents of a file; raises ModelFileError unless all of it makes sense."""
    settings, arrays = unpack(data)
    notes = settings.pop("notes", None)
    require(isinstance(notes, dict), f"notes: required a dictionary, received {shown(notes)}")
    require_shallow("notes", notes)
    extra = {name.removeprefix(EXTRA): arrays.pop(name) for name in sorted(arrays) if name.startswith(EXTRA)}
    for name, array in extra.items():
        require_type(EXTRA + name, array, np.float64)
        require_finite(EXTRA + name, array)
    return Saved(rebuilt(settings, arrays), notes, extra)


def rebuilt(settings: dict[str, Any], arrays: Arrays) -> Filter:
    """The filter that these settings and arrays describe; raises ModelFileError unless all of it makes sense."""
    settings = checked(settings)
    n_regressors = len(settings["regressors"])
    require(2 * n_regressors <= len(arrays), f"missing arrays: {n_regressors} regressors have more than {len(arrays)}")
    groups = grouped(arrays)
    sizes = known(settings, groups)
    _check_together(settings, sizes)
    codecs = _codecs(settings["regressors"])
    there = [name for name in codecs if name in groups or name not in OPTIONAL]
    return _built(settings, decoded(arrays, {name: (codecs[name], sizes) for name in there}), sizes)


def _check_together(settings: dict[str, Any], sizes: Known) -> None:
    """Refuse settings that do not fit the number of channels or of inputs."""
    n, names, spelt = sizes.n, settings["names"], settings["alphabet"]
    require(names is None or len(names) == n, f"names: required {n}, one for each channel, received {shown(names)}")
    require(spelt is None or len(spelt[0]) == n, f"alphabet: required {n} symbols, received {shown(spelt)}")
    controlled = sizes.n_inputs > 0 or not settings["feedthrough"]
    require(controlled, "feedthrough: required a filter with inputs, received one without")


def _built(settings: dict[str, Any], parts: dict[str, Any], sizes: Known) -> Filter:
    """The filter of checked settings and built parts."""
    fields: dict[str, Any] = parts[""]._asdict() | {name: parts.get(name) for name in PARTS}
    return Filter(
        features=sizes.features,
        regressors=tuple(parts[f"regressors.{i}"] for i in range(len(settings["regressors"]))),
        lags=settings["lags"],
        feedthrough=settings["feedthrough"],
        gaps=settings["gaps"],
        time_step=settings["time_step"],
        names=None if settings["names"] is None else tuple(settings["names"]),
        alphabet=alphabet(settings["alphabet"]),
        **fields,
    )
