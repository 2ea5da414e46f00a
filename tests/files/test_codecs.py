"""Forged files: settings and arrays that no filter has are refused, although their hash is right."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelfiles import (
    USUAL_ARRAYS,
    Array,
    accepted,
    canonical,
    contents,
    forged,
    model_bytes,
    refused,
    safetensors_file,
    same,
    says,
)
from psimlearn.errors import ModelFileError

MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "200"))
"""How many files to damage."""


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
    about, arrays = contents(model_bytes("symbols"))
    assert accepted(forged(about, arrays), tmp_path).lags == 2
    key = f"regressors.0.{name}"
    arrays[key] = change(arrays[key])
    if name == "contexts":
        arrays["regressors.0.shares"] = arrays["regressors.0.shares"][: len(arrays[key])]
    refused(forged(about, arrays), tmp_path, key)


def test_the_forger_can_forge(tmp_path: Path) -> None:
    """Else the refusals below would prove nothing."""
    about, arrays = contents(model_bytes())
    assert contents(forged(about, arrays))[0]["sha256"] == about["sha256"]
    assert same(says(accepted(forged(about, arrays), tmp_path)), says(accepted(model_bytes(), tmp_path)))
    arrays["initial"] += 1
    np.testing.assert_array_equal(accepted(forged(about, arrays), tmp_path).initial, arrays["initial"])


def test_settings_that_no_filter_has(tmp_path: Path) -> None:
    about, arrays = contents(model_bytes())
    right: dict[str, Any] = {"feedback_weight": 0.0, "names": ["a", "b"], "psimlearn": "0.0.1", "notes": {"a": [1]}}
    for name, value in right.items():
        accepted(forged({**about, name: value}, arrays), tmp_path)
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


def test_a_file_from_before_unknown_inputs_were_measured(tmp_path: Path) -> None:
    """It loads; of a filter without inputs or feed-through, the parts for unknown inputs are refused."""
    about, arrays = contents(model_bytes())
    unknown = {name: array for name, array in arrays.items() if name.startswith("calibration_")}
    old = accepted(forged(about, {name: array for name, array in arrays.items() if name not in unknown}), tmp_path)
    assert old.calibration is not None
    assert old.calibration_blind is old.calibration_next is None
    for case, part in (("squares calibrated last open", "calibration_blind"), ("inputs", "calibration_next")):
        about, arrays = contents(model_bytes(case))
        accepted(forged(about, arrays), tmp_path)
        more = {name: array for name, array in unknown.items() if name.startswith(part)}
        refused(forged(about, arrays | more), tmp_path, f"{part}: required a filter with")


@pytest.mark.parametrize("name", USUAL_ARRAYS)
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


def test_an_asymmetric_covariance_is_refused(tmp_path: Path) -> None:
    """Its Cholesky factor exists, as that reads the lower half alone."""
    about, arrays = contents(model_bytes())
    lopsided = arrays["covariance"] + [[0, 0.1], [0, 0]]
    np.linalg.cholesky(lopsided)
    refused(forged(about, {**arrays, "covariance": lopsided}), tmp_path, "covariance: required a symmetric matrix")
    rounded = arrays["covariance"] * [[1, 1 + 1e-15], [1, 1]]
    accepted(forged(about, {**arrays, "covariance": rounded}), tmp_path)


@pytest.mark.parametrize("case", ["symbols", "symbols marginals softmax", "symbols projected"])
@pytest.mark.parametrize("name", ["initial", "regressors.0.shares"])
def test_probabilities_that_are_no_distribution_are_refused(name: str, case: str, tmp_path: Path) -> None:
    about, arrays = contents(model_bytes(case))
    right = arrays[name]
    accepted(forged(about, {**arrays, name: right * (1 + 1e-12)}), tmp_path)
    for factor, shift in ((0.5, 0.0), (0.0, 0.0), (1 + 1e-5, 0.0), (1.0, np.arange(right.shape[-1]) == 1)):
        wrong = right * factor + shift
        refused(forged(about, {**arrays, name: np.minimum(wrong, 1.0)}), tmp_path, f"{name}, sums: required")
    turned = right.copy()
    turned[..., 0], turned[..., 1] = -0.5, right[..., :2].sum(axis=-1) + 0.5
    refused(forged(about, {**arrays, name: turned}), tmp_path, f"{name}: required")


@pytest.mark.parametrize("name", ["centre", "scaling.mean", "scaling.scale"])
def test_probabilities_that_would_be_shifted_or_scaled_are_refused(name: str, tmp_path: Path) -> None:
    about, arrays = contents(model_bytes("symbols"))
    accepted(forged(about, arrays), tmp_path)
    changed = arrays[name] + (np.arange(len(arrays[name])) == 1)
    refused(
        forged(about, {**arrays, name: changed}), tmp_path, f"{name}: required (zeros|ones) for a filter of symbols"
    )


def test_symbols_need_a_centre(tmp_path: Path) -> None:
    """Without one, the last observation would be repeated, which symbols do not know."""
    about, arrays = contents(model_bytes("symbols"))
    del arrays["centre"]
    refused(forged(about, arrays), tmp_path, "centre: required zeros")


@pytest.mark.parametrize("case", ["linear", "symbols", "symbols marginals softmax", "symbols projected"])
@pytest.mark.parametrize("name", ["lags", "window"])
@pytest.mark.parametrize("value", [64, 10**6, 2**31 - 1])
def test_sizes_that_no_array_bounds_are_refused(case: str, name: str, value: int, tmp_path: Path) -> None:
    """The files are small, and the filters would have taken up to 48 GiB for each stream."""
    about, arrays = contents(model_bytes(case))
    refused(forged({**about, name: value}, arrays), tmp_path)


def test_words_of_a_single_symbol_are_not_endless(tmp_path: Path) -> None:
    """With one symbol there is one word of any length, so no array bounds the window."""
    about, arrays = contents(model_bytes("symbols"))
    shapes = {"initial": 1, "centre": 1, "covariance": (1, 1), "regressors.0.shares": (1, 1), "regressors.0.floor": 1}
    ones = {name: np.ones(shapes.get(name, 1)) for name in arrays}
    ones |= {"regressors.0.weights": np.ones((1, 1)), "regressors.0.contexts": np.zeros(1)}
    ones |= {"centre": np.zeros(1), "scaling.mean": np.zeros(1)}
    about |= {"alphabet": [["a"], None]}
    assert accepted(forged(about | {"window": 32}, ones), tmp_path).start().belief.shape == (1, 1)
    refused(forged(about | {"window": 2**31 - 1}, ones), tmp_path, "window: required words of at most 32")
    refused(forged(about | {"lags": 2**31 - 1}, ones), tmp_path, "lags: required fewer contexts")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("in_gaps.factor", lambda factor: 0 * factor, "a number from 0.1 to 10"),
        ("in_gaps.factor", lambda factor: factor + np.inf, "finite"),
        ("in_gaps.quantiles", lambda quantiles: quantiles[::-1].copy(), "rise with their level"),
        ("in_gaps.quantiles", lambda quantiles: quantiles[1:].copy(), "required"),
        ("thresholds.scores", lambda scores: scores[::-1].copy(), "scores that rise with their rate"),
        ("thresholds.rows", lambda rows: 0 * rows, "a number of at least 1"),
        ("thresholds.rate", lambda rate: rate + 1, "a rate of alarms"),
        ("thresholds.rate", lambda rate: 0 * rate, "a rate of alarms"),
    ],
)
def test_thresholds_and_errors_in_gaps_that_cannot_be_are_refused(
    name: str, change: Callable[[Array], Array], message: str, tmp_path: Path
) -> None:
    about, arrays = contents(model_bytes())
    refused(forged(about, {**arrays, name: change(arrays[name])}), tmp_path, message)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("fading", lambda fading: 0 * fading, "a share above 0"),
        ("fading", lambda fading: 5 * fading, "a share above 0"),
        ("usual", lambda usual: -usual, "at least 0"),
        ("usual", lambda usual: 0 * usual, "a channel that moves"),
        ("weights", lambda weights: weights[1:].copy(), "required"),
        ("weights", lambda weights: weights * np.nan, "finite"),
        ("scores", lambda scores: scores[::-1].copy(), "scores that rise"),
        ("scores", lambda scores: 0 * scores, "scores that rise"),
        ("scores", lambda scores: scores[:0].copy(), "required something"),
        ("logs", lambda logs: logs[1:].copy(), "required"),
        ("logs", lambda logs: logs[::-1].copy(), "never fall"),
        ("logs", lambda logs: logs + 50, "from -10 to 10"),
        ("power", lambda power: power + 1, "from 0 to 1"),
        ("power", lambda power: power[:, :1].copy(), "required"),
        ("level", lambda level: 0 * level, "above 0"),
        ("level", lambda level: level + np.inf, "finite"),
        ("quantiles", lambda quantiles: quantiles[::-1].copy(), "rise with their level"),
    ],
)
def test_local_scales_that_cannot_be_are_refused(
    name: str, change: Callable[[Array], Array], message: str, tmp_path: Path
) -> None:
    about, arrays = contents(model_bytes())
    arrays[f"local.{name}"] = change(arrays[f"local.{name}"])
    refused(forged(about, arrays), tmp_path, message)


@pytest.mark.parametrize("part", ["thresholds", "in_gaps", "local"])
def test_a_file_from_before_a_part_has_none(part: str, tmp_path: Path) -> None:
    about, arrays = contents(model_bytes())
    assert any(name.startswith(f"{part}.") for name in arrays)
    older = {name: array for name, array in arrays.items() if not name.startswith(f"{part}.")}
    assert getattr(accepted(forged(about, older), tmp_path), part) is None


def test_quantiles_that_fall_are_refused(tmp_path: Path) -> None:
    about, arrays = contents(model_bytes())
    for name in ("calibration", "calibration_blind", "calibration_next"):
        falling = {f"{name}.quantiles": arrays[f"{name}.quantiles"][::-1]}
        refused(forged(about, {**arrays, **falling}), tmp_path, f"{name}.quantiles: required quantiles that rise")


@pytest.mark.parametrize("kind", ["list", "dictionary"])
def test_notes_are_not_nested_deeply(kind: str, tmp_path: Path) -> None:
    """Deeper notes took all of Python's stack when an estimator was loaded."""
    about, arrays = contents(model_bytes())
    notes: Any = {}
    for depth in range(1, 501):
        notes = {"a": [notes] if kind == "list" else {"b": notes}}
        if depth == 15:
            accepted(forged({**about, "notes": notes}, arrays), tmp_path)
        if depth in (17, 100, 240):
            refused(forged({**about, "notes": notes}, arrays), tmp_path, "notes: required at most 32 levels")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 40), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=3)
)
SHAPES = st.lists(st.integers(0, 5), max_size=3)
NUMBERS = st.one_of(st.floats(), st.floats(0.1, 2.0))


def test_forgeries_are_found_or_run(tmp_path: Path) -> None:
    """Hashed anew, any settings and arrays are refused or make a filter that runs; many do either."""
    verdicts: Counter[str] = Counter()

    @settings(max_examples=MANY, derandomize=True, deadline=None, database=None)
    @given(draws=st.data())
    def forge(draws: st.DataObject) -> None:
        about, arrays = contents(model_bytes("linear calibrated"))
        for _ in range(draws.draw(st.integers(1, 2))):
            if draws.draw(st.booleans()):
                name = draws.draw(st.sampled_from(sorted(about)))
                about[name] = draws.draw(VALUES)
            else:
                name = draws.draw(st.sampled_from(sorted(arrays)))
                shape = draws.draw(st.one_of(st.just(arrays[name].shape), SHAPES))
                arrays[name] = np.full(shape, draws.draw(NUMBERS))
        verdicts[_verdict(forged(about, arrays), tmp_path)] += 1

    forge()
    # a tenth is accepted, more or less: hypothesis also draws constants of the modules that tests before it loaded
    assert min(verdicts["refused"], verdicts["accepted"]) > 0.05 * MANY, verdicts


def _verdict(data: bytes, folder: Path) -> str:
    try:
        loaded = accepted(data, folder)
    except ModelFileError:
        return "refused"
    with np.errstate(all="ignore"):
        x = np.zeros((1, len(loaded.scaling.mean)))
        assert loaded.ahead(loaded.step(loaded.start(), x), 3).shape == (1, 3, x.shape[1])
    return "accepted"


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1, True, "1s", [0.5]])
def test_steps_that_cannot_be_are_refused(wrong: Any, tmp_path: Path) -> None:
    about, arrays = contents(model_bytes("linear"))
    assert "time_step" not in about  # a file whose step is not known has the bytes of older files
    assert accepted(forged(about | {"time_step": 0.25}, arrays), tmp_path).time_step == 0.25
    refused(forged(about | {"time_step": wrong}, arrays), tmp_path, "time_step: required a setting of a filter")
