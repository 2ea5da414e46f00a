"""A model at work in a program that has numpy and safetensors, and no other library."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from modelfiles import made
from psimlearn.files.model import save
from psimlearn.recordings.trajectories import Trajectories
from small import driven, model, several

ALONE = """
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions

known = packages_distributions()
allowed = {"numpy", "safetensors", "psimlearn"}
blocked = {module for module, homes in known.items() if not allowed & {home.lower() for home in homes}}


class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
assert {"jaxtyping", "scipy", "sklearn", "click", "narwhals"} <= blocked
"""


def printed(code: str, folder: Path) -> np.ndarray:
    """The numbers that a program prints in which all other libraries are absent."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE + code], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), dtype=float)


def test_load_step_forecast_and_likelihood_need_numpy_and_safetensors_only(tmp_path: Path) -> None:
    model().save(tmp_path / "model.psim")
    np.save(tmp_path / "rows.npy", several()[0])
    code = """
import numpy as np
import psimlearn

filter = psimlearn.load("model.psim")
rows = np.load("rows.npy")
live = psimlearn.Live(filter)
nats = []
for x in rows:
    live.update(x)
    nats.append(live.log_likelihood)
data = psimlearn.Trajectories.of([rows])
print(*nats, *live.forecast(4, coverage=0.9)[2].ravel())
print(*filter.log_likelihood(data), *filter.forecast(data, 3).ravel())
psimlearn.save(filter, "again.psim")
"""
    rows = several()[0]
    nats = model().score_samples([rows])[0]
    bounds = model().forecast(rows, 4, coverage=0.9)[2]
    ahead = model().filter_.forecast(Trajectories.of([rows]), 3)
    expected = np.concatenate([nats, bounds.ravel(), nats, ahead.ravel()])
    np.testing.assert_allclose(printed(code, tmp_path), expected, rtol=1e-9, atol=1e-9)
    assert (tmp_path / "again.psim").stat().st_size > 0


def test_a_model_with_inputs_needs_no_more(tmp_path: Path) -> None:
    driven().save(tmp_path / "model.psim")
    code = """
from psimlearn import Alphabet, Filter, Live, Stack, SymbolLive, load
live = Live(load("model.psim"), 2)
live.update([[1.0], [None]], [[0.5], [0.25]])
print(*live.predict(2, return_std=True)[1].ravel())
"""
    live = driven().start(2)
    live.update([[1.0], [np.nan]], [[0.5], [0.25]])
    np.testing.assert_allclose(printed(code, tmp_path), live.predict(2, return_std=True)[1].ravel(), rtol=1e-9)


def test_trees_need_no_more(tmp_path: Path) -> None:
    filter = made("trees lags calibrated")
    save(filter, tmp_path / "model.psim")
    code = """
import psimlearn
live = psimlearn.Live(psimlearn.load("model.psim"))
for x in ([1.0, 2.0], [0.5, -1.0], [0.0, 0.25]):
    live.update(x)
print(*live.forecast(4).ravel())
"""
    rows = Trajectories.of([np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 0.25]])])
    np.testing.assert_allclose(printed(code, tmp_path), filter.ahead(filter.run(rows)[1], 4).ravel(), rtol=1e-9)
