"""river's own checks, and what they cannot see: that the adapters learn, and that their answers are those of `PSIM`.

river checks detectors on a data set that it downloads. Here a simulated stream stands in for it, of the same form: rows
of numbers as dicts, a few of them anomalies. The checks themselves are river's, all of them, unchanged.
"""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Live
from psimlearn.datasets import random_system
from psimlearn.recordings.trajectories import Trajectories

river = pytest.importorskip("river", reason="needs the extra river")
checks = pytest.importorskip("river.checks", reason="needs the extra river")

from psimlearn.adapters import PSIMAnomaly, PSIMOnlineForecaster  # noqa: E402  after the skip

QUICK: dict[str, Any] = {"prior": "mean", "belief_weight": 1.0, "n_rounds": 1, "lags": 1}
FORECASTER = PSIMOnlineForecaster(grace=5, block=2, window=1, settings=QUICK)
"""It learns and learns on within the eight rows of river's checks."""
DETECTOR = PSIMAnomaly(grace=40, block=300, window=1, settings=QUICK)


class Simulated:
    """A stand-in for river's CreditCard: correlated numbers, of which one row in fifty is an anomaly.

    It is a fifth as long as river asks, so that the checks take seconds.
    """

    def take(self, rows: int) -> Iterator[tuple[dict[str, float], int]]:
        rng, rows = np.random.default_rng(0), rows // 5
        x = random_system(rng, n_states=3, n_outputs=5).simulate(1, rows, rng).values.copy()
        odd = rng.random(rows) < 0.02
        x[odd] += 3 * x.std(axis=0) * rng.choice([-1, 1], (int(odd.sum()), 5))
        for row, label in zip(x, odd, strict=True):
            yield {f"V{i}": float(value) for i, value in enumerate(row)}, int(label)


def checks_of(model: Any) -> list[Any]:
    """All checks of a model; river binds them to their data when they are made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("river.datasets.CreditCard", Simulated)
        return [pytest.param(check, id=check.__name__) for check in checks.yield_checks(model)]


@pytest.mark.parametrize("check", checks_of(FORECASTER))
@pytest.mark.filterwarnings("ignore::psimlearn.PsimlearnWarning")
def test_rivers_checks_of_forecasters(check: Any) -> None:
    assert not FORECASTER._unit_test_skips()
    check(FORECASTER.clone())


@pytest.mark.parametrize("check", checks_of(DETECTOR))
@pytest.mark.filterwarnings("ignore::psimlearn.PsimlearnWarning")
def test_rivers_checks_of_detectors_on_a_simulated_stream(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not DETECTOR._unit_test_skips()
    monkeypatch.setattr("river.datasets.CreditCard", Simulated)
    check(DETECTOR.clone())


def stream(rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(1)
    return random_system(rng, n_states=3, n_outputs=2).simulate(1, rows, rng).values.copy()


@pytest.mark.filterwarnings("ignore::psimlearn.PsimlearnWarning")
def test_a_forecaster_is_psim_fitted_then_learning_on_in_blocks() -> None:
    rows = stream()
    model = PSIMOnlineForecaster(grace=30, block=20, window=2, settings=QUICK)
    assert model.forecast(2) == [0.0, 0.0]
    for a, b in rows[:29].tolist():
        model.learn_one({"a": a, "b": b})
    assert model.forecast(2) == [{"a": rows[28, 0], "b": rows[28, 1]}] * 2
    expected = PSIM(2, random_state=0, **QUICK).fit(Trajectories.of([rows[:30]]))
    for i, (a, b) in enumerate(rows[29:].tolist(), start=30):
        model.learn_one({"b": b, "a": a})
        if i == 50:
            expected.partial_fit(Trajectories.of([rows[30:50]]), any_range=True)
        live = Live(expected.filter_)
        for x in rows[:i] if i < 50 else rows[:i][-(i - 50 + 50) :]:
            live.update(x)
        found = np.array([[row["a"], row["b"]] for row in model.forecast(3)])
        np.testing.assert_allclose(found, live.forecast(3), rtol=0, atol=1e-9)


def test_features_are_inputs_and_are_held_where_they_are_not_given() -> None:
    rng = np.random.default_rng(0)
    u = rng.standard_normal((80, 1))
    y = np.concatenate([[[0.0]], 2.0 * u[:-1]]) + 0.01 * rng.standard_normal((80, 1))
    model = PSIMOnlineForecaster(grace=60, block=100, window=2, settings=QUICK)
    for target, control in zip(y.ravel().tolist(), u.ravel().tolist(), strict=True):
        model.learn_one(target, {"u": control})
    live = Live(PSIM(2, random_state=0, **QUICK).fit(Trajectories.of([y[:60]], [u[:60]])).filter_)
    for x, control in zip(y[10:], u[10:], strict=True):
        live.update(x, control)
    for xs, coming in (([{"u": 5.0}, {}, {"u": -1.0}], [5.0, 5.0, -1.0]), (None, [u[-1, 0]] * 3)):
        expected = live.forecast(3, future_inputs=np.reshape(coming, (3, 1))).ravel()
        np.testing.assert_allclose(model.forecast(3, xs), expected, rtol=0, atol=1e-9)
    assert abs(model.forecast(2, [{"u": 5.0}])[1] - 10.0) < 2.0  # y follows twice the input


def test_a_score_is_the_surprise_of_a_row_and_changes_nothing() -> None:
    rows = stream()
    detector = PSIMAnomaly(grace=30, block=100, window=2, settings=QUICK)
    assert detector.score_one({"a": 9.9}) == 0.0
    for a, b in rows[:40].tolist():
        detector.learn_one({"a": a, "b": b})
    live = Live(PSIM(2, random_state=0, **QUICK).fit(Trajectories.of([rows[:30]])).filter_)
    for x in rows[:41]:
        live.update(x)
    a, b = rows[40].tolist()
    before = copy.deepcopy(detector)
    assert abs(detector.score_one({"a": a, "b": b}) + live.log_likelihood) < 1e-9
    assert detector.score_one({"a": a, "b": b + 100}) > detector.score_one({"a": a, "b": b}) + 50
    assert np.isfinite(detector.score_one({"a": 1e100, "b": b}))
    assert detector.score_one({"a": a, "b": b}) == before.score_one({"b": b, "a": a, "new": 3.0})
    assert np.isfinite(detector.score_one({"a": a}))


@pytest.mark.filterwarnings("ignore::psimlearn.PsimlearnWarning")
def test_memory_stays_bounded() -> None:
    detector = PSIMAnomaly(grace=30, block=20, window=1, settings=QUICK)
    kept = []
    for a, b in stream(150).tolist():
        detector.learn_one({"a": a, "b": b})
        kept.append(len(detector._learning.rows))
    assert max(kept) <= 50 + 20
