"""Model files: a filter in one safetensors file, of which nothing is ever executed.

    header   safetensors' own, with one metadata string "psimlearn": settings as JSON with sorted keys, and a sha256
             over those settings and over the name, type, shape and bytes of every array
    arrays   float64 in C order: initial, scaling.mean, regressors.0.weights, ..; the caller's own as extra.<name>

The hash finds damage, not malice: whoever can write the file can hash it anew. So a reader goes on to check that every
setting is one that this module writes, that every array has the one shape the others leave it, and that every number
is one a filter can hold. Only then is a filter built. A writer reads its own bytes in the same way before they replace
a file, so that whatever was saved can be loaded.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from psimlearn.errors import ModelFileError
from psimlearn.files.atomic import whole
from psimlearn.filter.conditioning import Conditional, Link, Projected
from psimlearn.filter.contexts import MOST_CONTEXTS
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.feedback import Feedback
from psimlearn.filter.filter import Filter
from psimlearn.filter.layout import Scaling
from psimlearn.filter.onehot import LARGEST, OneHot, OneHotMarginals, OneHotProduct
from psimlearn.filter.regressors import Linear, MeanAndVariance, RandomFourier, Regressor
from psimlearn.filter.uncertainty import LEVELS, Calibration
from psimlearn.recordings.alphabet import Alphabet

__all__ = ["Saved", "load", "read", "save"]

FORMAT = 1
"""Raise it whenever a setting or an array changes its meaning, `uncertainty.LEVELS` included."""
KIND = "psimlearn filter"
EXTRA = "extra."
LARGEST_HEADER = 10_000_000
"""In bytes. Parsed JSON takes many times its size in memory; what is large belongs into arrays."""
LARGEST_COUNT = 2**31 - 1
"""Of window and lags: what they multiply stays a number that can be printed."""

FEATURES: dict[str, type[SecondMoment | Stack | StackSquares | OneHot]] = {
    "OneHotMarginals": OneHotMarginals,
    "OneHotProduct": OneHotProduct,
    "SecondMoment": SecondMoment,
    "Stack": Stack,
    "StackSquares": StackSquares,
}
LINEAR, FOURIER, FOURIER_AND_RAW = ("Linear", "RandomFourier", "RandomFourier with raw inputs")
VARIANCES, PROJECTED, CONDITIONAL, SOFTMAX = ("MeanAndVariance", "Projected", "Conditional", "Conditional by softmax")
OF_SYMBOLS = (PROJECTED, CONDITIONAL, SOFTMAX)
REGRESSORS = (LINEAR, FOURIER, FOURIER_AND_RAW, VARIANCES, *OF_SYMBOLS)
SETTINGS = {
    "feedback_weight",
    "features",
    "feedthrough",
    "format",
    "kind",
    "lags",
    "names",
    "notes",
    "psimlearn",
    "regressors",
    "window",
}

Arrays = dict[str, np.ndarray]


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
    """Write a filter to a file that `load` gives back: its forecasts are the same to the last bit.

    The file is replaced in one go: whatever happens, it is the old one or the new one.

    Args:
        filter: made of the features and regressors of this library.
        path: of the file.
        notes: JSON to keep with the filter; `read` gives it back.
        arrays: finite float64 arrays to keep with the filter; `read` gives them back.
    """
    with _named(path):
        own = {EXTRA + name: array for name, array in (arrays or {}).items()}
        data = _serialised(_settings(filter, _parsed(_text(dict(notes or {})))), {**_arrays(filter), **own})
        _understood(data)
        _replace(Path(os.path.realpath(path)), data)


def load(path: str | os.PathLike[str]) -> Filter:
    """The filter in a model file. Executes nothing; raises ModelFileError for a file that cannot be trusted."""
    return read(path).filter


def read(path: str | os.PathLike[str]) -> Saved:
    """The filter in a model file with the notes and arrays that were saved beside it."""
    with _named(path):
        _require(
            os.path.isfile(path),
            "required a model file, received " + ("a folder" if os.path.isdir(path) else "no file"),
        )
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ModelFileError(f"required a readable file, received: {error.strerror}.") from error
        return _understood(data)


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say which file an error is about."""
    try:
        _require("\0" not in os.fspath(path), "required a path without NUL")
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error.__cause__


def _require(holds: bool | np.bool, message: str) -> None:
    if not holds:
        raise ModelFileError(message + ".")


# -- a filter as settings and arrays -----------------------------------------------------------------------------------


def _settings(filter: Filter, notes: dict[str, Any]) -> dict[str, Any]:
    """All of a filter that is not an array."""
    features = type(filter.features)
    _require(
        FEATURES.get(features.__name__) is features,
        f"features: required one of {', '.join(FEATURES)}, received {features.__name__}, which a file without code "
        "cannot hold. Keep the recordings and the script that learns the filter, and learn it again",
    )
    spelt = filter.alphabet
    return ({} if spelt is None else {"alphabet": [list(spelt.symbols), spelt.other]}) | {
        "feedback_weight": float(filter.feedback.weight),
        "features": features.__name__,
        "feedthrough": bool(filter.feedthrough),
        "format": FORMAT,
        "kind": KIND,
        "lags": int(filter.lags),
        "names": None if filter.names is None else list(filter.names),
        "notes": notes,
        "psimlearn": version("psimlearn"),
        "regressors": [_kind(regressor) for regressor in filter.regressors],
        "window": int(filter.features.window),
    }


def _kind(regressor: Regressor) -> str:
    """By exact type: whatever else it may be, a file without code cannot hold it."""
    if type(regressor) is Linear:
        return LINEAR
    if type(regressor) is RandomFourier:
        return FOURIER_AND_RAW if regressor.raw_inputs else FOURIER
    if type(regressor) is Conditional:
        return SOFTMAX if regressor.link == "softmax" else CONDITIONAL
    if type(regressor) in (MeanAndVariance, Projected):
        return type(regressor).__name__
    raise ModelFileError(
        f"regressor: required one of {', '.join(REGRESSORS)}, received {type(regressor).__name__}. A foreign estimator "
        "could only be kept by pickle, which runs whatever it holds: learn with Ridge or RandomFourierRidge, or keep "
        "the recordings and the script that learns the filter."
    )


def _arrays(filter: Filter) -> Arrays:
    """The arrays of a filter by name; what is None has no entry."""
    parts = {
        "scaling": filter.scaling._asdict(),
        "feedback": filter.feedback._asdict(),
        "input_scaling": filter.input_scaling._asdict() if filter.input_scaling else {},
        "calibration": filter.calibration._asdict() if filter.calibration else {},
        "hinting": vars(filter.hinting) if filter.hinting else {},
        **{f"regressors.{i}": _regressor_arrays(regressor) for i, regressor in enumerate(filter.regressors)},
    }
    arrays = {"initial": filter.initial, "centre": filter.centre, "covariance": filter.covariance}
    arrays |= {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def _regressor_arrays(regressor: Regressor) -> Arrays:
    if isinstance(regressor, RandomFourier):
        return {"directions": regressor.directions, **vars(regressor.linear)}
    if isinstance(regressor, Conditional | Projected):
        own = {"floor": np.array([regressor.context_share]), "shares": regressor.shares, **vars(regressor.linear)}
        if isinstance(regressor, Conditional):
            own["contexts"] = regressor.contexts.astype(np.float64)
        return own
    return dict(vars(regressor.linear if isinstance(regressor, MeanAndVariance) else regressor))


# -- bytes -------------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    """The one way to write a value as JSON."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"settings and notes: required finite JSON, received something else ({error}).") from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError("settings: required JSON, received something else.") from error


def _digest(settings: dict[str, Any], arrays: Arrays) -> str:
    """Of all that a file says. Each part tells where it ends, so no two contents hash the same bytes."""
    digest = sha256(_text(settings).encode())
    for name, array in sorted(arrays.items()):
        digest.update(_text([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data)
    return digest.hexdigest()


def _serialised(settings: dict[str, Any], arrays: Arrays) -> bytes:
    """The file. Arrays are put into C order, as safetensors writes memory as it lies."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in arrays.items():
        _require_float64(name, array)
    try:
        text = _text({**settings, "sha256": _digest(settings, arrays)})
        return safetensors.save(arrays, {"psimlearn": text})
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"required names that safetensors can hold, received others ({error}).") from error


def _deserialised(data: bytes) -> tuple[str | None, Arrays]:
    """The metadata string, if there is one, and the arrays. Nothing is allocated that the file does not hold."""
    size = int.from_bytes(data[:8], "little")
    _require(data[8:9] == b"{", "required a safetensors file, received something else")
    _require(size <= LARGEST_HEADER, f"header: required at most {LARGEST_HEADER} bytes, received {size}")
    _require(8 + size <= len(data), f"cut short: the header ends at byte {8 + size}, the file at {len(data)}")
    try:
        header = json.loads(data[8 : 8 + size].decode())
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        length = 8 + size + min(int(max(ends, default=0)), 2**64)  # what is longer could not even be printed
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError("header: required that of a safetensors file, received something else.") from error
    _require(length <= len(data), f"cut short: the arrays end at byte {length}, the file at {len(data)}")
    _require(length >= len(data), f"{len(data) - length} surplus bytes at the end")
    try:
        arrays = safetensors.load(data)
    except (SafetensorError, LookupError, OverflowError, ValueError) as error:
        raise ModelFileError(f"required a whole safetensors file of plain arrays, received: {error}.") from error
    return (header.get("__metadata__") or {}).get("psimlearn"), arrays


def _replace(path: Path, data: bytes) -> None:
    """Put data in the place of a file, at once or not at all."""
    try:
        with whole(path) as file:
            file.write(data)
    except OSError as error:
        raise ModelFileError(f"required a place to write to, received: {error}.") from error


# -- distrust ----------------------------------------------------------------------------------------------------------


def _understood(data: bytes) -> Saved:
    """What the bytes of a file mean, if they mean anything."""
    text, arrays = _deserialised(data)
    settings = _checked_settings(text, arrays)
    own = {name.removeprefix(EXTRA): arrays.pop(name) for name in sorted(arrays) if name.startswith(EXTRA)}
    for name, array in own.items():
        _require_float64(EXTRA + name, array)
        _require_finite(EXTRA + name, array)
    _check_shapes(arrays, settings)
    _check_values(arrays)
    return Saved(_built(settings, arrays), settings["notes"], own)


def _checked_settings(text: str | None, arrays: Arrays) -> dict[str, Any]:
    """The settings, once the file is known to be ours, of a format we know, and undamaged."""
    _require(text is not None, "required a psimlearn model, received a safetensors file of something else")
    settings: dict[str, Any] = _parsed(text or "")
    _require(isinstance(settings, dict) and settings.get("kind") == KIND, f"kind: required {KIND!r}, received another")
    format: Any = settings.get("format")
    _require(_counts(format), "format: required a version number, received something else")
    if format > FORMAT:
        raise ModelFileError(
            f"written by psimlearn {settings.get('psimlearn')!s:.20} in format {format}: upgrade, as psimlearn "
            f"{version('psimlearn')} reads formats up to {FORMAT}."
        )
    _require(_text(settings) == text, "damaged: the settings are not as psimlearn writes them")
    received = settings.pop("sha256", None)
    _require(received == _digest(settings, arrays), "damaged: the contents do not have the sha256 that was saved")
    settings.setdefault("alphabet", None)  # only filters of symbols have one
    _require(
        set(settings) == SETTINGS | {"alphabet"},
        f"settings: required {sorted(SETTINGS)}, received {sorted(settings)!s:.300}",
    )
    _check_settings(settings)
    return settings


def _counts(value: Any) -> bool:
    """Whether this is a number of things, and not True."""
    return type(value) is int and 1 <= value <= LARGEST_COUNT


def _check_settings(settings: dict[str, Any]) -> None:
    """Whether each setting, by itself, is one that `_settings` could have written."""
    weight, names, regressors = settings["feedback_weight"], settings["names"], settings["regressors"]
    symbolic = settings["features"] in ("OneHotProduct", "OneHotMarginals")
    rules = {
        "alphabet": settings["alphabet"] is None or (symbolic and _spells(settings["alphabet"])),
        "features": settings["features"] in list(FEATURES),
        "window": _counts(settings["window"]),
        "lags": _counts(settings["lags"]),
        "feedthrough": isinstance(settings["feedthrough"], bool),
        "feedback_weight": type(weight) is float and weight >= 0,
        "names": names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names)),
        "notes": isinstance(settings["notes"], dict),
        "psimlearn": isinstance(settings["psimlearn"], str),
        "regressors": isinstance(regressors, list)
        and len(regressors) > 0
        and all(kind in REGRESSORS and (kind in OF_SYMBOLS) <= symbolic for kind in regressors),
    }
    for name, holds in rules.items():
        _require(holds, f"{name}: required a setting of a filter, received {settings[name]!r:.80}")


def _spells(alphabet: Any) -> bool:
    """Whether this is an alphabet as `_settings` writes it."""
    if not (isinstance(alphabet, list) and len(alphabet) == 2 and isinstance(alphabet[0], list)):
        return False
    symbols, other = alphabet
    return (
        len(symbols) > 0
        and all(type(symbol) in (int, str) for symbol in symbols)
        and len({(type(symbol), symbol) for symbol in symbols}) == len(symbols)
        and (other is None or (type(other) in (int, str) and other in symbols))
    )


def _require_float64(name: str, array: np.ndarray) -> None:
    _require(array.dtype == np.float64, f"array {name}: required float64, received {array.dtype}")


def _require_finite(name: str, array: np.ndarray) -> None:
    _require(np.isfinite(array).all(), f"array {name}: required finite numbers, received NaN or infinite ones")


def _check_shapes(arrays: Arrays, settings: dict[str, Any]) -> None:
    """Whether just those arrays are there that go together, each with the one shape that fits the others."""
    names = settings["names"]
    shapes = _shapes(arrays, settings)
    _require(arrays.keys() >= shapes.keys(), f"missing arrays: {sorted(shapes.keys() - arrays.keys())!s:.300}")
    _require(arrays.keys() <= shapes.keys(), f"surplus arrays: {sorted(arrays.keys() - shapes.keys())!s:.300}")
    for name, shape in shapes.items():
        _require_float64(name, arrays[name])
        received = arrays[name].shape
        _require(received == shape, f"array {name}: required shape {shape}, received {received}")
    n = len(arrays["scaling.mean"])
    _require(names is None or len(names) == n, f"names: required {n}, one for each channel, received {names!r:.80}")
    alphabet = settings["alphabet"]
    _require(alphabet is None or len(alphabet[0]) == n, f"alphabet: required {n} symbols, received {alphabet!r:.80}")
    _require(
        not settings["feedthrough"] or "input_scaling.mean" in arrays,
        "feedthrough: required a filter with inputs, received one without",
    )


def _shapes(arrays: Arrays, settings: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The arrays that a filter with these settings has, and their shapes.

    Sizes that settings do not determine are read from one array each. Optional parts are there if any of their arrays
    is, so that a part of which something is missing does not pass.
    """

    def size(name: str, axis: int = 0) -> int:
        _require(name in arrays, f"missing arrays: {name}")
        shape = arrays[name].shape
        _require(len(shape) > axis and shape[axis] > 0, f"array {name}: required something along axis {axis}")
        return int(shape[axis])

    n_regressors = len(settings["regressors"])
    _require(2 * n_regressors <= len(arrays), f"missing arrays: {n_regressors} regressors have more than {len(arrays)}")
    parts = {name.split(".")[0] for name in arrays}
    n = size("scaling.mean")
    d = _width(settings["features"], settings["window"], n)
    inputs = size("input_scaling.mean") if "input_scaling" in parts else 0
    r = size("feedback.directions", 1) if "feedback.directions" in arrays else d
    beside = settings["lags"] * n + (1 + settings["feedthrough"]) * inputs
    shapes: dict[str, tuple[int, ...]] = {
        "initial": (d,),
        "covariance": (n, n),
        "scaling.mean": (n,),
        "scaling.scale": (n,),
        "feedback.mean": (r,),
        "feedback.scale": (r,),
    }
    for i, kind in enumerate(settings["regressors"]):
        p, q = r + beside, d
        if kind in OF_SYMBOLS:
            c = 1 if kind == PROJECTED else size(f"regressors.{i}.contexts")
            shapes |= {f"regressors.{i}.floor": (1,), f"regressors.{i}.shares": (c, d)}
        if kind in (CONDITIONAL, SOFTMAX):
            shapes[f"regressors.{i}.contexts"] = (c,)
            p, q = p - settings["lags"] * n, n * d
        if kind in (FOURIER, FOURIER_AND_RAW):
            half = size(f"regressors.{i}.directions", 1)
            shapes[f"regressors.{i}.directions"] = (p, half)
            p = 2 * half + (p if kind == FOURIER_AND_RAW else 0)
        shapes |= {f"regressors.{i}.weights": (p, q), f"regressors.{i}.intercept": (q,)}
    if "centre" in arrays:
        shapes["centre"] = (d,)
    if "feedback.directions" in arrays:
        shapes["feedback.directions"] = (d, r)
    if "feedback.low" in arrays or "feedback.high" in arrays:
        shapes |= {"feedback.low": (r,), "feedback.high": (r,)}
    if inputs:
        shapes |= {"input_scaling.mean": (inputs,), "input_scaling.scale": (inputs,)}
    if "calibration" in parts:
        h = size("calibration.base")
        shapes |= {"calibration.base": (h, n), "calibration.gain": (h, n), "calibration.quantiles": (len(LEVELS), h, n)}
    if "hinting" in parts:
        h = size("hinting.intercept")
        shapes |= {"hinting.weights": (d + beside, h), "hinting.intercept": (h,)}
    return shapes


def _width(features: str, window: int, n: int) -> int:
    """d, for n channels: by formula, as laying out what a file merely claims could fill the memory."""
    w = window * n
    if features == "OneHotProduct":
        _require(window * np.log(n) <= np.log(LARGEST) + 1e-9, f"window: required fewer words than {n}^{window}")
        return int(n**window)
    widths = {"Stack": w, "StackSquares": 2 * w, "SecondMoment": w + w * (w + 1) // 2, "OneHotMarginals": w}
    return widths[features]


def _check_values(arrays: Arrays) -> None:
    """Whether every number is one that a filter can work with."""
    with np.errstate(invalid="ignore"):
        for name, array in arrays.items():
            if name.startswith("calibration."):  # NaN at horizons that no recording was long enough for
                usable = bool((np.isnan(array) | ((array >= 0) & (array < np.inf))).all())
                _require(usable, f"array {name}: required numbers of at least 0 or NaN, received others")
            else:
                _require_finite(name, array)
    for name in {"scaling.scale", "input_scaling.scale", "feedback.scale"} & arrays.keys():
        _require((arrays[name] > 0).all(), f"array {name}: required numbers above 0, received others")
    if "feedback.low" in arrays:
        ordered = arrays["feedback.low"] <= arrays["feedback.high"]
        _require(bool(ordered.all()), "array feedback.low: required at most feedback.high, received more")
    for name, array in arrays.items():
        if name.endswith((".shares", ".floor")):
            _require((array >= 0).all() and (array <= 1).all(), f"array {name}: required shares, received others")
        if name.endswith(".contexts"):
            rising = array[0] == 0 and (np.diff(array) > 0).all() and array[-1] < MOST_CONTEXTS
            whole_numbers = (array % 1 == 0).all()
            _require(
                rising and whole_numbers, f"array {name}: required whole numbers from 0 that rise, received others"
            )
    _require(_definite(arrays["covariance"]), "array covariance: required a positive definite matrix, received another")


def _definite(covariance: Float[np.ndarray, "n n"]) -> bool:
    """Whether missing channels can be filled in by it."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(covariance)).all())
    except np.linalg.LinAlgError:
        return False


# -- and back ----------------------------------------------------------------------------------------------------------


def _built(settings: dict[str, Any], arrays: Arrays) -> Filter:
    """The filter that checked settings and arrays describe."""
    inputs = Scaling(*_pick(arrays, "input_scaling", Scaling._fields)) if "input_scaling.mean" in arrays else None
    known = Calibration(*_pick(arrays, "calibration", Calibration._fields)) if "calibration.base" in arrays else None
    features = FEATURES[settings["features"]](settings["window"])
    spelt = settings["alphabet"]
    return Filter(
        features=features,
        regressors=tuple(_regressor(kind, arrays, i, features) for i, kind in enumerate(settings["regressors"])),
        initial=arrays["initial"],
        scaling=Scaling(*_pick(arrays, "scaling", Scaling._fields)),
        feedback=Feedback(
            arrays["feedback.mean"],
            arrays["feedback.scale"],
            settings["feedback_weight"],
            *(arrays.get(f"feedback.{name}") for name in ("directions", "low", "high")),
        ),
        centre=arrays.get("centre"),
        covariance=arrays["covariance"],
        lags=settings["lags"],
        input_scaling=inputs,
        feedthrough=settings["feedthrough"],
        calibration=known,
        hinting=_linear(arrays, "hinting") if "hinting.weights" in arrays else None,
        names=None if settings["names"] is None else tuple(settings["names"]),
        alphabet=None if spelt is None else Alphabet(tuple(spelt[0]), spelt[1]),
    )


def _pick(arrays: Arrays, part: str, names: tuple[str, ...]) -> list[np.ndarray]:
    return [arrays[f"{part}.{name}"] for name in names]


def _linear(arrays: Arrays, part: str) -> Linear:
    return Linear(arrays[f"{part}.weights"], arrays[f"{part}.intercept"])


def _regressor(kind: str, arrays: Arrays, i: int, features: Any) -> Regressor:
    linear = _linear(arrays, f"regressors.{i}")
    if kind == LINEAR:
        return linear
    if kind == VARIANCES:
        return MeanAndVariance(linear)
    if kind in OF_SYMBOLS:
        shares, floor = (arrays[f"regressors.{i}.{name}"] for name in ("shares", "floor"))
        if kind == PROJECTED:
            return Projected(linear, shares, float(floor[0]), features)
        contexts = arrays[f"regressors.{i}.contexts"].astype(np.int64)
        link: Link = "softmax" if kind == SOFTMAX else "simplex"
        return Conditional(linear, contexts, shares, float(floor[0]), features, link)
    return RandomFourier(arrays[f"regressors.{i}.directions"], kind == FOURIER_AND_RAW, linear)
