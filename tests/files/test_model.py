"""Model files: exact to the last bit, written at once or not at all, and distrusted byte by byte when read."""

import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge as SklearnRidge

import psimlearn
from oracles import ragged
from psimlearn import PSIM
from psimlearn.errors import ModelFileError, PsimlearnError
from psimlearn.files import model as io
from psimlearn.files.model import load, read, save
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.feedback import Feedback
from psimlearn.filter.filter import Filter
from psimlearn.filter.layout import Scaling
from psimlearn.filter.regressors import Linear, RandomFourier
from psimlearn.filter.uncertainty import LEVELS, Calibration
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.learners.ridge import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger, forward

Array = np.ndarray
WINDOW = 2
MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "200"))
"""How many files to damage."""
FEATURES: dict[str, Any] = {"stack": Stack, "squares": StackSquares, "moments": SecondMoment}


# -- filters of every kind ---------------------------------------------------------------------------------------------


def made(case: str, n: int = 2) -> Filter:
    """A filter of random numbers, with the parts that the words of the case ask for."""
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

    def regressor() -> Linear | RandomFourier:
        if "fourier" not in case:
            return linear(r + beside, d)
        raw = "raw" in case
        return RandomFourier(rng.standard_normal((r + beside, 7)), raw, linear(14 + raw * (r + beside), d))

    calibration = Calibration(rng.random((5, n)), rng.random((5, n)), rng.random((len(LEVELS), 5, n)))
    calibration.base[-1] = calibration.gain[-1] = calibration.quantiles[:, -1] = np.nan
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
        hinting=linear(d + beside, 2) if "hints" in case else None,
        names=("Höhe ⛰", "\ud800 \n\"'") if "names" in case else None,
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
    "everything: squares fourier raw steps rank lags inputs feedthrough calibrated hints names",
]


def recordings(n_inputs: int) -> Trajectories:
    rng = np.random.default_rng(0)
    data = ragged([12, 1, 30, 7], 2, rng, missing=0.1)
    return replace(data, inputs=rng.standard_normal((50, n_inputs)) if n_inputs else None)


def says(filter: Filter) -> list[Array]:
    """All that a filter says of some recordings."""
    data = recordings(0 if filter.input_scaling is None else len(filter.input_scaling.mean))
    said = [filter.forecast(data, 4), filter.log_likelihood(data), *filter.run(data)[1]]
    state = filter.run(data)[1]
    future = None if data.inputs is None else data.inputs[:24].reshape(4, 6, -1)
    said.append(filter.ahead(state, 6, future))
    said += [filter.predict(state, 6, future).std] if filter.calibration is not None else []
    return said + ([filter.hints(data)] if filter.hinting is not None else [])


def same(a: list[Array], b: list[Array]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


# -- there and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_filter_is_the_saved_one_to_the_last_bit(case: str, tmp_path: Path) -> None:
    filter = made(case)
    before = pickle.dumps(filter)
    save(filter, tmp_path / "model")
    assert pickle.dumps(filter) == before  # saving alters nothing
    loaded = load(str(tmp_path / "model"))
    assert same(says(loaded), says(filter))
    assert loaded.features == filter.features
    assert loaded.names == filter.names
    assert [type(part) for part in loaded.regressors] == [type(part) for part in filter.regressors]
    save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("learner", [Ridge(1e-3), RandomFourierRidge(30, 1e-3)], ids=["ridge", "fourier"])
@pytest.mark.parametrize("trainer", ["dagger", "forward"])
def test_learnt_filters(trainer: str, learner: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = ragged([12, 15, 9, 20] * 30, 2, rng)
    recipe = Recipe(lags=2, rank=3, prior="last")
    rounds: Any = (
        dagger(data, data, Stack(3), learner, rng=rng, n_rounds=2, recipe=recipe)
        if trainer == "dagger"
        else forward(data, data, Stack(3), learner, rng=rng, recipe=recipe)
    )
    filter = best(rounds).filter
    save(filter, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").forecast(data, 5), filter.forecast(data, 5))


def test_every_part_of_a_filter_has_a_place_in_the_file() -> None:
    """Whoever adds a field to Filter is told here to add it to io, and to raise the format's version if it matters."""
    known = "features regressors initial scaling feedback centre covariance lags input_scaling feedthrough"
    assert {field.name for field in fields(Filter)} == {*known.split(), "alphabet", "calibration", "hinting", "names"}
    assert {field.name for field in fields(Linear)} == {"weights", "intercept"}
    assert {field.name for field in fields(RandomFourier)} == {"directions", "raw_inputs", "linear"}
    assert set(Feedback._fields) == {"mean", "scale", "weight", "directions", "low", "high"}


def test_notes_and_arrays_come_back(tmp_path: Path) -> None:
    notes = {"settings": {"alpha": 1e-3, "window": None, "π": [1, 2.5, True, "x" * 1000]}, "10": 0, "2": 1}
    arrays = {"zz": np.arange(6.0).reshape(2, 3).T, "n": np.array(3.0), "none": np.empty((0, 4)), "a b.ü": np.ones(1)}
    save(made("linear"), tmp_path / "model", notes=notes, arrays=arrays)
    saved = read(tmp_path / "model")
    assert saved.notes == notes
    assert saved.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert saved.arrays[name].shape == array.shape
        np.testing.assert_array_equal(saved.arrays[name], array)
    assert same(says(saved.filter), says(made("linear")))
    save(made("linear"), tmp_path / "model")
    assert read(tmp_path / "model")[1:] == ({}, {})
    save(made("linear"), tmp_path / "model", notes={"by number": {10: 0, 9: (1, 2)}})
    assert read(tmp_path / "model").notes == {"by number": {"10": 0, "9": [1, 2]}}  # all that JSON knows


def test_any_memory_order_is_saved(tmp_path: Path) -> None:
    filter = made("linear rank")
    weights = np.asfortranarray(filter.regressors[0].weights)  # type: ignore[attr-defined]
    turned = replace(filter, regressors=(replace(filter.regressors[0], weights=weights),))  # type: ignore[type-var]
    turned = replace(turned, initial=np.repeat(filter.initial, 2)[::2])
    save(filter, tmp_path / "one")
    save(turned, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_public_names() -> None:
    assert psimlearn.load is load
    assert psimlearn.save is save
    assert psimlearn.ModelFileError is ModelFileError
    assert issubclass(ModelFileError, PsimlearnError)


def test_running_a_saved_filter_needs_numpy_and_safetensors_alone(tmp_path: Path) -> None:
    save(made("everything: fourier calibrated hints"), tmp_path / "model")
    program = (
        "import sys, numpy as np, psimlearn\n"
        "f = psimlearn.load(sys.argv[1])\n"
        "state = f.step(f.start(), np.array([[0.5, np.nan]]))\n"
        "f.ahead(state, 5); f.predict(state, 5)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("COV", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(tmp_path / "model")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.split())
    assert {"numpy", "safetensors", "psimlearn"} <= modules
    assert not modules & {"sklearn", "scipy", "narwhals", "pandas", "polars", "pyarrow", "jax", "torch"}


# -- what cannot be saved ----------------------------------------------------------------------------------------------


class Other(Stack):
    """Features of one's own."""


class Odd(Linear):
    """A regressor of one's own."""


def nan_weights() -> Filter:
    filter = made("linear")
    filter.regressors[0].weights[0, 0] = np.nan  # type: ignore[attr-defined]
    return filter


UNSAVEABLE: dict[str, tuple[Callable[[], Filter], str]] = {
    "features of one's own": (lambda: replace(made("linear"), features=Other(2)), "Stack.* received Other"),
    "a regressor of one's own": (
        lambda: replace(made("linear"), regressors=(Odd(np.zeros((6, 4)), np.zeros(4)),)),
        "required one of Linear, RandomFourier.* received Odd.* learn with Ridge",
    ),
    "nan weights": (nan_weights, r"regressors\.0\.weights: required finite"),
    "float32": (lambda: replace(made("linear"), initial=np.zeros(4, np.float32)), "initial: .*float64.*float32"),
    "a wrong shape": (lambda: replace(made("last"), initial=np.zeros(5)), r"initial: required shape \(4,\)"),
    "no regressors": (lambda: replace(made("linear"), regressors=()), "regressors"),
    "an infinite weight": (
        lambda: replace(made("linear"), feedback=made("linear").feedback._replace(weight=np.inf)),
        "finite JSON",
    ),
    "too few names": (lambda: replace(made("linear"), names=("one",)), "names: required 2"),
    "half a box": (
        lambda: replace(made("linear"), feedback=made("linear").feedback._replace(high=None)),
        r"missing arrays: \['feedback.high'\]",
    ),
}


@pytest.mark.parametrize("name", UNSAVEABLE)
def test_what_cannot_be_saved_says_so_and_leaves_the_file_alone(name: str, tmp_path: Path) -> None:
    make, message = UNSAVEABLE[name]
    (tmp_path / "model").write_text("old")
    with pytest.raises(ModelFileError, match=message):
        save(make(), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_text() == "old"


def test_a_foreign_estimator_cannot_be_saved(tmp_path: Path) -> None:
    data = ragged([12, 15, 9, 20] * 5, 2, np.random.default_rng(1))
    learner = SklearnLearner(SklearnRidge(1e-3))
    filter = best(dagger(data, data, Stack(2), learner, rng=np.random.default_rng(0), n_rounds=1)).filter
    with pytest.raises(ModelFileError, match=r"received BlackBox.*learn with Ridge or RandomFourierRidge"):
        save(filter, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_notes_and_arrays_that_cannot_be_saved(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    notes: list[Any] = [{"a": np.nan}, {"a": object()}, {"a": {1, 2}}, {"a": 1, 2: 3}, {"a": deep}, {"a": "x" * 10**7}]
    for note in notes:
        with pytest.raises(ModelFileError):
            save(made("linear"), tmp_path / "model", notes=note)
    arrays: list[Any] = [np.arange(3), np.array([np.nan]), np.array([np.inf]), np.zeros(3, ">f8"), np.array(["a"])]
    for array in arrays:
        with pytest.raises(ModelFileError, match=r"extra\.own: required"):
            save(made("linear"), tmp_path / "model", arrays={"own": array})
    with pytest.raises(ModelFileError):
        save(made("linear"), tmp_path / "model", arrays={"\ud800": np.zeros(1)})
    assert not list(tmp_path.iterdir())


# -- at once or not at all ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("place", ["os.replace", "os.fsync"])
def test_a_failure_leaves_the_old_file(
    place: str, kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        assert len(list(tmp_path.iterdir())) == 2  # the temporary file is in the same folder
        raise kind("no")

    save(made("linear"), tmp_path / "model")
    old = (tmp_path / "model").read_bytes()
    monkeypatch.setattr(place, fail)
    with pytest.raises(ModelFileError if kind is OSError else kind):
        save(made("fourier"), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == old


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on file sizes makes the write itself fail half way."""
    save(made("linear"), tmp_path / "model")
    old = (tmp_path / "model").read_bytes()
    program = (
        "import resource, signal, sys, psimlearn\n"
        "f = psimlearn.load(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: psimlearn.save(f, sys.argv[1])\n"
        "except psimlearn.ModelFileError as error: print(error)"
    )
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == old


def test_a_folder_that_cannot_be_flushed_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise PermissionError("no")

    monkeypatch.setattr(os, "open", fail)
    save(made("linear"), tmp_path / "model")
    monkeypatch.undo()
    assert same(says(load(tmp_path / "model")), says(made("linear")))


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    places: list[Any] = [tmp_path / "folder", tmp_path / "none" / "model", tmp_path / ("x" * 300), f"{tmp_path}/a\0b"]
    for place in places:
        with pytest.raises(ModelFileError):
            save(made("linear"), place)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_a_link_stays_a_link_and_a_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "model")
    save(made("linear"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "any").write_bytes(b"")
    assert (tmp_path / "there" / "model").stat().st_mode == (tmp_path / "any").stat().st_mode
    load(tmp_path / "link")


# -- files that are none -----------------------------------------------------------------------------------------------


@cache
def model_bytes(case: str = "everything: squares fourier raw rank inputs feedthrough calibrated hints") -> bytes:
    return io._packed(made(case), {"note": "ä"}, {})


def refused(data: bytes, folder: Path, message: str | None = None) -> None:
    (folder / "model").write_bytes(data)
    with pytest.raises(ModelFileError, match=message) as error:
        load(folder / "model")
    assert str(folder / "model") in str(error.value)


def test_no_file_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Any] = [(tmp_path / "none", "no file"), (tmp_path, "a folder"), (f"{tmp_path}/\0", "NUL")]
    for place, message in places:
        with pytest.raises(ModelFileError, match=message):
            load(place)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="no file"):  # and does not wait for a writer
        load(tmp_path / "pipe")
    save(made("linear"), tmp_path / "model")

    def forbidden(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(ModelFileError, match="Permission denied"):
        load(tmp_path / "model")


class Bomb:
    """Goes off when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was loaded",))


def test_other_files(tmp_path: Path) -> None:
    whole = model_bytes()
    size = int.from_bytes(whole[:8], "little")
    for other in [
        b"",
        b"{",
        b"\0" * 8,
        b"time,x\n0,1\n" * 100,
        pickle.dumps(Bomb()),
        b"PK\3\4" + bytes(100),
        whole[8:],
    ]:
        refused(other, tmp_path, "required a safetensors file")
    for n in [9, 100, 8 + size - 1]:
        refused(whole[:n], tmp_path, "cut short: the header")
    for n in [8 + size, len(whole) - 1000, len(whole) - 1]:
        refused(whole[:n], tmp_path, "cut short: the arrays")
    refused(whole + b"\0", tmp_path, "1 surplus bytes")
    refused(struct.pack("<Q", 2**63) + whole[8:], tmp_path, "header: required at most")
    refused(struct.pack("<Q", 50_000_000) + whole[8:], tmp_path, "header: required at most")
    for header in [
        b"{}",
        b'{"a":1}',
        b'{"a":{"data_offsets":[0,"x"]}}',
        b'{"a":{"data_offsets":[0,1e999]}}',
        b'{"a":{"data_offsets":[0,' + b"9" * 4300 + b"]}}",
        b"{" * 10**5,
    ]:
        refused(struct.pack("<Q", len(header)) + header, tmp_path)
    refused(safetensors_file({"a": np.zeros(3)}, None), tmp_path, "required a psimlearn model")
    refused(safetensors_file({"a": np.zeros(3)}, {"format": "pt"}), tmp_path, "required a psimlearn model")


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
    return about, {
        name: np.frombuffer(data[8 + size :][slice(*entry["data_offsets"])]).reshape(entry["shape"]).copy()
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


@cache
def symbols_bytes() -> bytes:
    filter = PSIM(1, features="onehot", n_rounds=1, lags=2, random_state=0).fit([[0, 1, 1, 0, 1, 0, 0, 1]] * 6).filter_
    return io._packed(filter, {}, {})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("contexts", lambda numbers: numbers[:0]),
        ("contexts", lambda numbers: numbers + 1),
        ("contexts", lambda numbers: np.where(numbers == 2, 1.5, numbers)),
        ("contexts", lambda numbers: np.where(numbers == 2, 1.0, numbers)),
        ("contexts", lambda numbers: np.where(numbers == numbers[-1], 2.0**53, numbers)),
        ("shares", lambda shares: shares + 1),
        ("floor", lambda floor: floor - 1),
    ],
)
def test_contexts_that_cannot_be_are_refused(name: str, change: Callable[[Array], Array], tmp_path: Path) -> None:
    about, arrays = contents(symbols_bytes())
    (tmp_path / "model").write_bytes(forged(about, arrays))
    assert load(tmp_path / "model").lags == 2  # as it is, it is read
    key = f"regressors.0.{name}"
    arrays[key] = change(arrays[key])
    if name == "contexts":
        arrays["regressors.0.shares"] = arrays["regressors.0.shares"][: len(arrays[key])]
    refused(forged(about, arrays), tmp_path, key)


def test_the_forger_can_forge(tmp_path: Path) -> None:
    """Else the refusals below would prove nothing."""
    about, arrays = contents(model_bytes())
    (tmp_path / "model").write_bytes(forged(about, arrays))
    assert contents(forged(about, arrays))[0]["sha256"] == about["sha256"]
    assert same(says(load(tmp_path / "model")), says(io._understood(model_bytes()).filter))
    arrays["initial"] += 1
    (tmp_path / "model").write_bytes(forged(about, arrays))
    np.testing.assert_array_equal(load(tmp_path / "model").initial, arrays["initial"])


def test_no_training_data_in_the_file() -> None:
    """Every array is one of the filter's."""
    about, arrays = contents(model_bytes())
    assert set(arrays) == {
        *("initial", "centre", "covariance", "scaling.mean", "scaling.scale"),
        *("feedback.mean", "feedback.scale", "feedback.directions", "feedback.low", "feedback.high"),
        *("input_scaling.mean", "input_scaling.scale", "hinting.weights", "hinting.intercept"),
        *("calibration.base", "calibration.gain", "calibration.quantiles"),
        *("regressors.0.directions", "regressors.0.weights", "regressors.0.intercept"),
    }
    assert about["kind"] == "psimlearn filter"
    assert about["format"] == 1
    assert about["psimlearn"] == psimlearn.__version__


def test_settings_that_no_filter_has(tmp_path: Path) -> None:
    about, arrays = contents(model_bytes())
    wrong: dict[str, list[Any]] = {
        "format": [0, -1, True, None, "1", 1.0, 10**30],
        "kind": ["psimlearn estimator", None, 3],
        "psimlearn": [None, 3],
        "features": ["Other", None, ["Stack"], "Stack", "SecondMoment", {}],
        "window": [0, -1, 3, 1, True, 2.0, None, "2", 10**30, 10**4000, 2**31 - 1],
        "lags": [0, -1, 2, True, 1.0, None, 2**31 - 1, 10**4000],
        "feedthrough": [False, None, 1],
        "feedback_weight": [-1.0, 1, None, True, "1", float("nan"), float("inf")],
        "names": [["a"], ["a", "b", "c"], ["a", 1], "ab", {}, [["a"], "b"]],
        "regressors": [
            [],
            None,
            "Linear",
            ["Linear"],
            ["RandomFourier"],
            ["Odd"],
            [about["regressors"][0]] * 2,
            [{}],
            ["Linear"] * 10**5,
        ],
        "notes": [None, [], "a", 3],
    }
    for name, values in wrong.items():
        for value in values:
            refused(forged({**about, name: value}, arrays), tmp_path)
        refused(forged({key: about[key] for key in about if key != name}, arrays), tmp_path)
    refused(forged({**about, "features": "SecondMoment", "window": 10**4000}, arrays), tmp_path, "window")
    refused(forged({**about, "more": 1}, arrays), tmp_path, "settings: required")
    refused(safetensors_file(arrays, {"psimlearn": canonical(about | {"sha256": None})}), tmp_path, "sha256")
    refused(safetensors_file(arrays, {"psimlearn": json.dumps(about)}), tmp_path, "not as psimlearn writes them")
    twice = canonical(about).replace('"lags":1', '"lags":9,"lags":1')
    refused(safetensors_file(arrays, {"psimlearn": twice}), tmp_path, "not as psimlearn writes them")
    for text in ["", "{", "[]", "3", "null", "[" * 10**5, '"\\ud800"', '{"kind":NaN}', "1" * 5000]:
        refused(safetensors_file(arrays, {"psimlearn": text}), tmp_path)
    newer = {"format": 2, "kind": "psimlearn filter", "psimlearn": "9.8.7"}  # whatever else a later format may say
    refused(safetensors_file({}, {"psimlearn": canonical(newer)}), tmp_path, r"written by psimlearn 9\.8\.7.*upgrade")


@pytest.mark.parametrize("name", sorted(contents(model_bytes())[1]))
def test_arrays_that_no_filter_has(name: str, tmp_path: Path) -> None:
    """Each array in turn: left out, of another shape or type, or with numbers that mean nothing."""
    about, arrays = contents(model_bytes())
    array = arrays[name]
    if name not in ("centre", "feedback.directions"):  # without its centre the filter is a valid other one
        refused(forged(about, {key: arrays[key] for key in arrays if key != name}), tmp_path, name.split(".")[0])
    others = [array[:-1], np.concatenate([array, array]), array[:0], array[None], array.reshape(-1), array[..., :-1]]
    others += [array.ravel()[0].reshape(()), array[..., None], array.T]
    for other in others:
        if other.shape != array.shape:
            refused(forged(about, {**arrays, name: other.copy()}), tmp_path)
    for dtype in ("<f4", "<i8", "?"):
        refused(forged(about, {**arrays, name: np.ones(array.shape, dtype)}), tmp_path, f"{name}.*float64")
    refused(forged(about, {**arrays, f"{name}.more": array}), tmp_path, "surplus arrays")
    calibrated = name.startswith("calibration")
    for value in [np.inf, -np.inf, *([-1.0] if calibrated else [np.nan])]:
        odd = array.copy()
        odd.flat[-1] = value
        refused(forged(about, {**arrays, name: odd}), tmp_path, f"{name}: required")
    if name.endswith("scale"):
        for value in [0.0, -0.0, -1.0]:
            refused(forged(about, {**arrays, name: np.full_like(array, value)}), tmp_path, f"{name}.*above 0")


def test_arrays_that_do_not_go_together(tmp_path: Path) -> None:
    about, arrays = contents(model_bytes())
    low, high = arrays["feedback.low"], arrays["feedback.high"]
    refused(forged(about, {**arrays, "feedback.low": high, "feedback.high": low}), tmp_path, "feedback.low: required")
    refused(forged(about, {**arrays, "feedback.low": high, "feedback.high": high - 1e-9}), tmp_path, "feedback.low")
    refused(forged(about, {**arrays, "weights": low}), tmp_path, "surplus arrays")
    for covariance in [np.zeros((2, 2)), -np.eye(2), np.ones((2, 2)), np.full((2, 2), 1e308)]:
        refused(forged(about, {**arrays, "covariance": covariance}), tmp_path, "positive definite")
    part = {key: array for key, array in arrays.items() if not key.startswith("input_scaling")}
    refused(forged(about, part), tmp_path)
    longer = {key: np.concatenate([arrays[key]] * 2) for key in ("calibration.base", "calibration.gain")}
    refused(forged(about, {**arrays, **longer}), tmp_path, "calibration.quantiles: required shape")
    levels = {"calibration.quantiles": arrays["calibration.quantiles"][:-1]}
    refused(forged(about, {**arrays, **levels}), tmp_path, "calibration.quantiles: required shape")
    refused(forged(about, {**arrays, "extra.own": np.array([np.nan])}), tmp_path, "extra.own: required finite")
    refused(forged(about, {**arrays, "extra.own": np.array([1])}), tmp_path, "extra.own: required float64")
    empty: list[dict[str, Array]] = [  # consistent, and still nothing that runs
        {key: array[..., :0] for key, array in arrays.items()},
        {
            "regressors.0.directions": arrays["regressors.0.directions"][:, :0],
            "regressors.0.weights": arrays["regressors.0.weights"][14:],
        },
        {key: array[..., :0, :] for key, array in arrays.items() if key.startswith("calibration")},
        {key: array[..., :0] for key, array in arrays.items() if key.startswith("hinting")},
    ]
    for parts in empty:
        refused(forged(about, {**arrays, **parts}), tmp_path, "required something along")
    about, arrays = contents(model_bytes("linear"))
    refused(forged({**about, "feedthrough": True}, arrays), tmp_path, "required a filter with inputs")


def test_headers_that_claim_more_than_there_is(tmp_path: Path) -> None:
    about, arrays = contents(model_bytes("linear"))
    metadata = {"psimlearn": canonical(about)}
    end = sum(array.nbytes for array in arrays.values())
    claims: list[Any] = [
        {"dtype": "F64", "shape": [2**40], "data_offsets": [end, end + 2**43]},
        {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**62, 4], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [0, 2**63], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [0] * 100, "data_offsets": [end, end]},
        {"dtype": "BF16", "shape": [0], "data_offsets": [end, end]},
        {"dtype": "O", "shape": [0], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [1], "data_offsets": [end - 8, end]},  # shares its bytes with another
    ]
    for claim in claims:
        refused(safetensors_file(arrays, metadata, odd=claim), tmp_path)


# -- damage of any kind ------------------------------------------------------------------------------------------------


def survives(data: bytes, path: Path, case: str) -> bool:
    """Whether a file loads, and if so as the same filter; anything but that and ModelFileError is a failure."""
    path.write_bytes(data)
    try:
        loaded = load(path)
    except ModelFileError:
        return False
    assert same(says(loaded), says(made(case)))
    return True


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """One bit of almost every byte; all of them where many examples are asked for."""
    data = bytearray(model_bytes("linear"))
    for bit in range(0, 8 * len(data), 9 if MANY < 1000 else 1):
        data[bit // 8] ^= 1 << bit % 8
        assert not survives(bytes(data), tmp_path / "model", "linear"), bit
        data[bit // 8] ^= 1 << bit % 8
    assert survives(bytes(data), tmp_path / "model", "linear")


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """Flip, delete, insert, truncate, swap or append, up to three times."""
    for _ in range(draw(st.integers(1, 3))):
        # the header is a small part of a file and the most interesting one
        place = st.one_of(st.integers(0, min(1200, len(data))), st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "delete", "insert", "truncate", "swap", "append", "digit"]))
        a, b = sorted([draw(place), draw(place)])
        some = draw(st.binary(min_size=1, max_size=20))
        if kind == "flip" and a < len(data):
            data = data[:a] + bytes([data[a] ^ (1 << draw(st.integers(0, 7)))]) + data[a + 1 :]
        elif kind == "delete":
            data = data[:a] + data[min(b, a + draw(st.integers(1, 50))) :]
        elif kind == "insert":
            data = data[:a] + some + data[a:]
        elif kind == "truncate":
            data = data[:b]
        elif kind == "swap":
            n = min(draw(st.integers(1, 16)), b - a, len(data) - b)
            data = data[:a] + data[b : b + n] + data[a + n : b] + data[a : a + n] + data[b + n :]
        elif kind == "append":
            data += some
        elif kind == "digit":  # of a size, an offset, a setting
            digits = [i for i, byte in enumerate(data[:4000]) if 48 <= byte < 58]
            if digits:
                i = draw(st.sampled_from(digits))
                data = data[:i] + bytes([draw(st.integers(48, 57))]) + data[i + 1 :]
    return data


DAMAGED = "moments calibrated names rank"


@settings(max_examples=MANY, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.deferred(lambda: damage(model_bytes(DAMAGED))))
def test_damage_is_found_or_does_not_matter(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    if data != model_bytes(DAMAGED):
        survives(data, folder / "damaged", DAMAGED)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 40), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=3)
)
SHAPES = st.lists(st.integers(0, 5), max_size=3)


@settings(max_examples=MANY, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(draws=st.data())
def test_forgeries_are_found_or_run(draws: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hashed anew, any settings and arrays are refused or make a filter that runs."""
    path = tmp_path_factory.getbasetemp() / "forged"
    about, arrays = contents(model_bytes("linear calibrated"))
    for _ in range(draws.draw(st.integers(1, 2))):
        if draws.draw(st.booleans()):
            name = draws.draw(st.sampled_from(sorted(about)))
            about[name] = draws.draw(VALUES)
        else:
            name = draws.draw(st.sampled_from(sorted(arrays)))
            shape = draws.draw(st.one_of(st.just(arrays[name].shape), SHAPES))
            arrays[name] = np.full(shape, draws.draw(st.floats()))
    path.write_bytes(forged(about, arrays))
    try:
        loaded = load(path)
    except ModelFileError:
        return
    with np.errstate(all="ignore"):
        x = np.zeros((1, len(loaded.scaling.mean)))
        assert loaded.ahead(loaded.step(loaded.start(), x), 3).shape == (1, 3, x.shape[1])
