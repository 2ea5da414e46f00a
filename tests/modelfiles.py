"""Model files for tests: filters of every kind, their files, and a forger who can hash anew what he changed."""

import hashlib
import json
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.errors import ModelFileError
from psimlearn.files.model import load, save
from psimlearn.filter import (
    Feedback,
    Filter,
    Forest,
    Linear,
    MeanAndVariance,
    OneHotMarginals,
    OneHotProduct,
    RandomFourier,
    Scaling,
    SecondMoment,
    Stack,
    StackSquares,
)
from psimlearn.filter.conditioning import Conditional, Projected
from psimlearn.filter.forest import Trees
from psimlearn.filter.ingaps import InGaps
from psimlearn.filter.localscale import LocalScale
from psimlearn.filter.onehot import onto_simplices
from psimlearn.filter.opening import Opening
from psimlearn.filter.thresholds import thresholds_of
from psimlearn.filter.uncertainty import LEVELS, Calibration, Starting
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.trajectories import Trajectories

Array = np.ndarray
WINDOW = 2
FEATURES: dict[str, Any] = {
    "stack": Stack,
    "squares": StackSquares,
    "moments": SecondMoment,
}


# -- filters of every kind ---------------------------------------------------------------------------------------------


def made(case: str, n: int = 2) -> Filter:
    """A filter of random numbers, with the parts that the words of the case ask for."""
    if "symbols" in case:
        return made_of_symbols(case)
    rng = np.random.default_rng(len(case))
    features = next((FEATURES[word] for word in FEATURES if word in case), Stack)(WINDOW)
    d = features(np.zeros((1, WINDOW, n))).shape[1]
    r = 3 if "rank" in case else d
    lags = 3 if "lags" in case else 1
    inputs = 2 if "inputs" in case else 0
    beside = lags * n + inputs * (2 if "feedthrough" in case else 1)
    low, high = np.sort(rng.standard_normal((2, r)) * 3, axis=0)

    def linear(p: int, q: int) -> Linear:
        return Linear(rng.standard_normal((p, q)) * 0.3 / p, rng.standard_normal(q))

    def regressor() -> Linear | RandomFourier | MeanAndVariance | Forest:
        if "trees" in case:
            forest = Forest(linear(r + beside, d), trees(rng, beside), rng.standard_normal((3, d)), r)
            amplitudes = Linear(rng.standard_normal((14, d)) * 0.02, np.zeros(d))
            waves = RandomFourier(rng.standard_normal((beside, 7)), False, amplitudes)
            return replace(forest, waves=waves) if "waves" in case else forest
        if "fourier" not in case:
            plain = linear(r + beside, d)
            return MeanAndVariance(plain) if "variances" in case else plain
        raw = "raw" in case
        return RandomFourier(rng.standard_normal((r + beside, 7)), raw, linear(14 + raw * (r + beside), d))

    calibration = Calibration(rng.random((5, n)), rng.random((5, n)), np.sort(rng.random((len(LEVELS), 5, n)), axis=0))
    calibration.base[-1] = calibration.gain[-1] = calibration.quantiles[:, -1] = np.nan
    unknown = Calibration(*(1 + array[..., :WINDOW, :] for array in calibration))
    return Filter(
        features=features,
        regressors=tuple(regressor() for _ in range(30 if "steps" in case else 1)),
        initial=rng.standard_normal(d),
        scaling=Scaling(rng.standard_normal(n), rng.random(n) + 0.1),
        feedback=Feedback(
            rng.standard_normal(r),
            rng.random(r) + 0.1,
            0.7,
            rng.standard_normal((d, r)) if "rank" in case else None,
            *((None, None) if "open" in case else (low, high)),
        ),
        centre=None if "last" in case else rng.standard_normal(d),
        covariance=np.eye(n) + 0.3,
        lags=lags,
        input_scaling=Scaling(rng.standard_normal(inputs), rng.random(inputs) + 0.1) if inputs else None,
        feedthrough="feedthrough" in case,
        calibration=calibration if "calibrated" in case else None,
        calibration_blind=unknown if "calibrated" in case and inputs else None,
        calibration_next=unknown if "calibrated" in case and "feedthrough" in case else None,
        opening=Opening(rng.standard_normal((lags - 1, n)), rng.standard_normal((d + (lags - 1) * n, 3)))
        if "started" in case
        else None,
        starting=Starting(calibration.base[None, :3] + 1, calibration.quantiles[:, :1], 2 * np.eye(n))
        if "started" in case
        else None,
        thresholds=thresholds_of(-rng.exponential(size=500)) if "calibrated" in case else None,
        in_gaps=InGaps(np.array([1.5]), 3 * LEVELS) if "calibrated" in case else None,
        local=_local(n) if "calibrated" in case else None,
        hinting=linear(d + beside, 2) if "hints" in case else None,
        gaps="filled" if "filled" in case else "exact",
        names=("Höhe ⛰", "\ud800 \n\"'") if "names" in case else None,
        time_step=1 / 3 if "names" in case else None,
    )


def trees(rng: np.random.Generator, n_inputs: int) -> Trees:
    """Three trees of three outputs: one of two splits, one of one, and one that is a leaf."""
    inputs, numbers = rng.integers(n_inputs, size=3), rng.standard_normal((9, 3)).astype(np.float32)
    left, right = np.array([-1, -2, -4]), np.array([1, -3, -5])
    return Trees(inputs, numbers[0].astype(float), left, right, np.array([0, 2, -6]), numbers[3:])


def made_of_symbols(case: str) -> Filter:
    """A filter of two symbols."""
    rng, n = np.random.default_rng(len(case)), 2
    features = (OneHotMarginals if "marginals" in case else OneHotProduct)(WINDOW)
    d, lags = features.width(n), 2
    contexts = np.array([0, 1, 2, 5])
    p, q = (d + lags * n, d) if "projected" in case else (d, n * d)
    linear = Linear(rng.random((p, q)), rng.random(q))
    shares = onto_simplices(rng.random((1 if "projected" in case else len(contexts), d)), features.n_simplices)
    regressor: Any = Projected(linear, shares, 0.2, features)
    if "projected" not in case:
        link: Any = "softmax" if "softmax" in case else "simplex"
        regressor = Conditional(linear, contexts, shares, 0.2, features, link)
    return Filter(
        features=features,
        regressors=(regressor,),
        initial=np.full(d, features.n_simplices / d),
        scaling=Scaling(np.zeros(n), np.ones(n)),
        feedback=Feedback(np.zeros(d), np.ones(d)),
        centre=np.zeros(d),
        covariance=np.eye(n),
        lags=lags,
        alphabet=Alphabet((1, "1"), other="1"),
    )


CASES = [
    "linear",
    "linear open last",
    "linear rank lags names",
    "linear steps",
    "fourier",
    "fourier raw last rank",
    "fourier raw steps lags",
    "squares calibrated last open",
    "moments calibrated",
    "moments fourier raw last hints lags",
    "inputs",
    "inputs feedthrough lags hints calibrated names",
    "squares variances lags",
    "linear calibrated started",
    "fourier lags calibrated started filled",
    "trees lags last",
    "trees waves lags inputs",
    "trees rank inputs feedthrough calibrated hints",
    "symbols",
    "symbols marginals softmax",
    "symbols projected",
    "everything: squares fourier raw steps rank lags inputs feedthrough calibrated hints names",
]


def recordings(filter: Filter) -> Trajectories:
    """Some for this filter, with gaps, and with inputs if it knows any."""
    rng = np.random.default_rng(0)
    if filter.alphabet is not None:
        return Trajectories.of_symbols([[1, "1", None, "1", 1, 1], ["1"], ["1", "1", 1, "2"]], alphabet=filter.alphabet)
    n_inputs = 0 if filter.input_scaling is None else len(filter.input_scaling.mean)
    data = ragged([12, 1, 30, 7], 2, rng, missing=0.1)
    return replace(data, inputs=rng.standard_normal((50, n_inputs)) if n_inputs else None)


def says(filter: Filter) -> list[Array]:
    """All that a filter says of some recordings."""
    data = recordings(filter)
    state = filter.run(data)[1]
    future = None if data.inputs is None else data.inputs[:24].reshape(4, 6, -1)
    said = [filter.forecast(data, 4), filter.log_likelihood(data), *state[:5], filter.ahead(state, 6, future)]
    said += [] if state.doubt is None else [*state.doubt]
    if filter.calibration is not None:
        prediction = filter.predict(state, 6, future)
        alarms = filter.alarms(data)
        said += [prediction.std, *prediction.interval(0.9), alarms.alarm, alarms.score]
        if filter.calibration_blind is not None:
            said += [p.std for p in (filter.predict(state, 2), filter.predict(state, 2, knows_next=True))]
    return said + ([filter.hints(data)] if filter.hinting is not None else [])


def same(a: list[Array], b: list[Array]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


def situated(filter: Filter) -> Filter:
    """A calibrated filter whose intervals follow the situation."""
    return replace(filter, local=_local(len(filter.scaling.mean)))


def _local(n: int) -> LocalScale:
    curve = np.array([-2.0, 0.0, 1.5]), np.array([-0.5, 0.0, 0.9])
    power, level = np.linspace(1, 0.5, 4 * n).reshape(4, n), np.linspace(0.8, 1.3, 4 * n).reshape(4, n)
    quantiles = 2 * LEVELS[:, None, None] * level
    return LocalScale(np.array([0.25]), np.full(n, 0.1), np.full(5, 0.2), *curve, power, level, quantiles)


# -- files -------------------------------------------------------------------------------------------------------------


USUAL = "everything: squares fourier raw rank inputs feedthrough calibrated hints"
CALIBRATIONS = ("calibration", "calibration_blind", "calibration_next")
USUAL_ARRAYS = [
    *("initial", "centre", "covariance", "scaling.mean", "scaling.scale"),
    *("feedback.mean", "feedback.scale", "feedback.directions", "feedback.low", "feedback.high"),
    *("input_scaling.mean", "input_scaling.scale", "hinting.weights", "hinting.intercept"),
    *(f"{name}.{array}" for name in CALIBRATIONS for array in ("base", "gain", "quantiles")),
    *("thresholds.scores", "thresholds.rows", "thresholds.rate", "in_gaps.factor", "in_gaps.quantiles"),
    *("local.fading", "local.usual", "local.weights", "local.scores", "local.logs"),
    *("local.power", "local.level", "local.quantiles"),
    *("regressors.0.directions", "regressors.0.weights", "regressors.0.intercept"),
]
"""All the arrays of the file of that case."""


@cache
def model_bytes(case: str = USUAL) -> bytes:
    """The file of a filter with these parts, and with a note."""
    with TemporaryDirectory() as folder:
        save(made(case), Path(folder) / "model", notes={"note": "ä"})
        return (Path(folder) / "model").read_bytes()


def safetensors_file(arrays: dict[str, Array], metadata: Any, **entries: Any) -> bytes:
    """The format by hand, with whatever headers and arrays; keyword arguments add entries to the header."""
    header, data = dict(entries), b""
    if metadata is not None:
        header["__metadata__"] = metadata
    types = {"f8": "F64", "f4": "F32", "i8": "I64", "b1": "BOOL"}
    for name, array in arrays.items():
        end = len(data) + array.nbytes
        header[name] = {
            "dtype": types[array.dtype.str[1:]],
            "shape": list(array.shape),
            "data_offsets": [len(data), end],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def contents(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Settings and arrays of a file, by hand."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    about = json.loads(header.pop("__metadata__")["psimlearn"])
    types = {"F64": "<f8", "F32": "<f4"}
    return about, {
        name: np.frombuffer(data[8 + size :][slice(*entry["data_offsets"])], types[entry["dtype"]])
        .reshape(entry["shape"])
        .copy()
        for name, entry in header.items()
    }


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def forged(about: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """A file that says this, hashed anew as the description of the format has it."""
    about = {key: value for key, value in about.items() if key != "sha256"}
    hashed = canonical(about).encode()
    for name in sorted(arrays):
        hashed += canonical([name, arrays[name].dtype.str, list(arrays[name].shape)]).encode() + arrays[name].tobytes()
    about["sha256"] = hashlib.sha256(hashed).hexdigest()
    return safetensors_file(arrays, {"psimlearn": canonical(about)})


def accepted(data: bytes, folder: Path) -> Filter:
    """Load a file that has nothing wrong: beside refusals, the proof that not every file is refused."""
    (folder / "model").write_bytes(data)
    return load(folder / "model")


def refused(data: bytes, folder: Path, message: str | None = None) -> None:
    (folder / "model").write_bytes(data)
    with pytest.raises(ModelFileError, match=message) as error:
        load(folder / "model")
    assert str(folder / "model") in str(error.value)
