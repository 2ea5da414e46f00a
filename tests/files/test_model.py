"""Model files: a filter comes back to the last bit, and whatever cannot be saved says so."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

import psimlearn
from modelfiles import CALIBRATIONS, CASES, USUAL_ARRAYS, contents, made, model_bytes, same, says
from oracles import ragged
from psimlearn.errors import ModelFileError, PsimlearnError
from psimlearn.files.features import FEATURES
from psimlearn.files.model import load, read, save
from psimlearn.files.regressors import REGRESSORS
from psimlearn.filter import Feedback, Filter, Linear, RandomFourier, Stack
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.train import Recipe, best, dagger, forward

MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "200"))
"""How many files to damage."""


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
    """Whoever adds a field is told here to add it to `psimlearn.files`, and to raise the format's version if needed."""
    known = "features regressors initial scaling feedback centre covariance lags input_scaling feedthrough alphabet"
    assert {field.name for field in fields(Filter)} == {
        *known.split(),
        *CALIBRATIONS,
        "hinting",
        "in_gaps",
        "local",
        "names",
        "opening",
        "starting",
        "thresholds",
        "time_step",
        "gaps",
        "span",
    }
    assert {field.name for field in fields(Linear)} == {"weights", "intercept"}
    assert {field.name for field in fields(RandomFourier)} == {"directions", "raw_inputs", "linear"}
    assert set(Feedback._fields) == {"mean", "scale", "weight", "directions", "low", "high"}


def test_the_cases_are_of_every_kind() -> None:
    settings = [contents(model_bytes(case))[0] for case in CASES]
    assert {about["features"] for about in settings} == set(FEATURES)
    assert {kind for about in settings for kind in about["regressors"]} == set(REGRESSORS)


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
        "f.ahead(state, 5); f.predict(state, 5).interval(0.9)\n"
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


def test_no_training_data_in_the_file() -> None:
    """Every array is one of the filter's."""
    about, arrays = contents(model_bytes())
    assert set(arrays) == set(USUAL_ARRAYS)
    assert about["kind"] == "psimlearn filter"
    assert about["format"] == 1
    assert about["psimlearn"] == psimlearn.__version__


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
    with pytest.raises(ModelFileError, match=r"received BlackBox.*learn with Ridge, RandomFourierRidge or Ridge"):
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


def test_no_file_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Any] = [(tmp_path / "none", "no file"), (tmp_path, "a folder"), (f"{tmp_path}/\0", "NUL")]
    for place, message in places:
        with pytest.raises(ModelFileError, match=message):
            load(place)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="no file"):  # and does not wait for a writer
        load(tmp_path / "pipe")
    save(made("linear"), tmp_path / "model")

    def forbidden(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    with pytest.raises(ModelFileError, match="Permission denied"):
        load(tmp_path / "model")
