"""sktime's own checks, and that the adapter's answers are those of `PSIM`.

sktime has hundreds of checks. A few that are quick run here. PSIMLEARN_SKTIME=all runs all of them, none excluded:

    pip install "psimlearn[sktime]"
    PSIMLEARN_SKTIME=all pytest tests/adapters/test_sktime.py
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psimlearn

pandas = pytest.importorskip("pandas", reason="needs pandas")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    reason = "needs the extra sktime, which cannot live beside pykalman of the extra test: they need other scikit-base"
    pytest.importorskip("sktime.forecasting.base", reason=reason)
    from psimlearn.adapters import PSIMForecaster

from psimlearn import PSIM, PsimlearnWarning, Trajectories  # noqa: E402  after the skip

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK: dict[str, Any] = {"prior": "mean", "belief_weight": 1.0, "n_rounds": 2}
SOME = ["test_constructor", "test_get_test_params", "test_class_has_doctest_example", "test_fit_idempotent"]
"""Checks that take seconds. They do not stand for all: that is what the variable is for."""
CHECK = """
import json, sys, warnings
warnings.simplefilter("ignore")
from sktime.utils.estimator_checks import check_estimator
from psimlearn.adapters import PSIMForecaster
results = check_estimator(
    PSIMForecaster, raise_exceptions=False, tests_to_run=json.loads(sys.argv[1]), verbose=False
)
print(json.dumps({name: str(said) for name, said in results.items()}))
"""


def frame(rows: int = 60, seed: int = 0) -> tuple[Any, Any]:
    """A series of two channels that an input drives, and the input, twelve rows longer."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((rows + 12, 1))
    y = np.zeros((rows, 2))
    for t in range(rows - 1):
        y[t + 1] = 0.6 * y[t] + u[t] + 0.1 * rng.standard_normal(2)
    months = pandas.period_range("2020-01", periods=rows + 12, freq="M")
    return pandas.DataFrame(y, months[:rows], ["a", "b"]), pandas.DataFrame(u, months, ["u"])


def made() -> Any:
    return PSIMForecaster(2, 1, QUICK, random_state=0)


def model_of(y: Any, X: Any = None) -> PSIM:
    inputs = None if X is None else [X.to_numpy()]
    return PSIM(2, lags=1, random_state=0, **QUICK).fit(Trajectories.of([y.to_numpy()], inputs))


def test_sktimes_checks_a_few_or_all() -> None:
    """As users run it: in this process, checks of annotations wrap every function, and sktime looks at signatures."""
    every = os.environ.get("PSIMLEARN_SKTIME") == "all"
    command = [sys.executable, "-c", CHECK, json.dumps(None if every else SOME)]
    source = str(Path(psimlearn.__file__).parents[1])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) >= (700 if every else 20)
    assert {name: said for name, said in results.items() if said != "PASSED"} == {}


def test_forecasts_and_quantiles_are_those_of_psim() -> None:
    y, X = frame()
    found = made().fit(y, X.iloc[:60])
    data, future = Trajectories.of([y.to_numpy()], [X.iloc[:60].to_numpy()]), X.iloc[60:].to_numpy()
    expected = model_of(y, X.iloc[:60])
    mean, low, high = expected.forecast(data, 12, future_inputs=[future], coverage=0.8)
    met = found.predict(fh=[1, 3, 12], X=X.iloc[60:])
    np.testing.assert_allclose(met, mean[0][[0, 2, 11]], rtol=0, atol=1e-9)
    assert list(met.index) == [X.index[60], X.index[62], X.index[71]]
    assert list(met.columns) == ["a", "b"]
    interval = found.predict_interval(fh=[1, 3, 12], X=X.iloc[60:], coverage=0.8)
    np.testing.assert_allclose(interval["a", 0.8, "lower"], low[0][[0, 2, 11], 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(interval["b", 0.8, "upper"], high[0][[0, 2, 11], 1], rtol=0, atol=1e-9)
    quantiles = found.predict_quantiles(fh=[2], X=X.iloc[60:], alpha=[0.1, 0.499, 0.5, 0.9])
    np.testing.assert_allclose(quantiles["a", 0.1], low[0][1, 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(quantiles["a", 0.5], mean[0][1, 0], rtol=0, atol=1e-9)
    assert (np.diff(quantiles["a"].to_numpy()[0]) > 0).all()
    inside = found.predict(fh=[0, -1, -5], X=X)
    np.testing.assert_allclose(inside.sort_index(), expected.predict(data)[0][[-6, -2, -1]], rtol=0, atol=1e-9)


def test_an_update_learns_by_partial_fit_once_there_are_enough_rows() -> None:
    y, _ = frame()
    found, expected = made().fit(y.iloc[:50]), model_of(y.iloc[:50])
    found.update(y.iloc[50:52])
    assert found.model_.sums_ is not None
    data = Trajectories.of([y.iloc[:52].to_numpy()])
    np.testing.assert_allclose(found.predict(fh=[1]), expected.forecast(data, 1)[0], rtol=0, atol=1e-9)
    found.update(y.iloc[52:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PsimlearnWarning)
        expected.partial_fit(Trajectories.of([y.iloc[50:].to_numpy()]), any_range=True)
    data = Trajectories.of([y.to_numpy()])
    np.testing.assert_allclose(found.predict(fh=[1, 2]), expected.forecast(data, 2)[0], rtol=0, atol=1e-9)
    kept = made().fit(y.iloc[:50]).update(y.iloc[50:], update_params=False)
    np.testing.assert_allclose(kept.predict(fh=[1]), model_of(y.iloc[:50]).forecast(data, 1)[0], rtol=0, atol=1e-9)


def test_a_panel_is_learnt_as_one_set_of_recordings() -> None:
    parts = [frame(40, seed)[0] for seed in (1, 2, 3)]
    y = pandas.concat(parts, keys=["x", "y", "z"], names=["who", "month"])
    found = made().fit(y).predict(fh=[1, 2])
    data = Trajectories.of([part.to_numpy() for part in parts])
    expected = PSIM(2, lags=1, random_state=0, **QUICK).fit(data).forecast(data, 2)
    np.testing.assert_allclose(found.to_numpy().reshape(3, 2, 2), expected, rtol=0, atol=1e-9)
    assert found.index.names == ["who", "month"]
