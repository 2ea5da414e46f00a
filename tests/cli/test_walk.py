"""A walk as a new user would take it, from the demo to an evaluation, every command in a process of its own.

`make walk` takes the same steps in a fresh virtual environment, which needs a package index.
"""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from psimlearn import PSIM, Trajectories

COMMANDS = ["info", "fit", "evaluate", "forecast", "filter"]
"""That the demo prints."""


@pytest.mark.slow
def test_a_walk(tmp_path: Path) -> None:
    # a shell that has no psimlearn on its path, also where the tests run in an activated environment
    environment = os.environ | {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}

    def psimlearn(*words: str, rows: str | None = None, expected: int = 0) -> str:
        command = [sys.executable, "-m", "psimlearn", *words]
        done = subprocess.run(command, cwd=tmp_path, input=rows, capture_output=True, text=True, env=environment)
        assert done.returncode == expected, done.stderr
        return done.stdout if expected == 0 else done.stderr

    demo = ("demo", "--recordings", "30", "--length", "40", "--folder", "first")
    shown = psimlearn(*demo)
    for method in ("training mean", "last observation", "autoregression", "N4SID", "PSIM", "optimal Kalman filter"):
        assert re.search(rf"{method} +\d+\.\d+ +\d+\.\d+ +-?\d+\.\d%", shown)
    files = ["model.psim", "new.csv", "recordings.csv", "report.html"]
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == files
    assert "--force" in psimlearn(*demo, expected=2)
    printed = shown[shown.index("Now try:") :].splitlines()[2:]
    results = []
    for line in printed:  # each as it is printed
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        results.append(done.stdout)
    assert [line.split("psimlearn ", 1)[1].split()[0] for line in printed] == COMMANDS
    assert "PSIM" in results[0]
    assert len(results[-1].splitlines()) == 10
    assert (tmp_path / "first" / "mine.html").read_text().endswith("</body></html>\n")
    (tmp_path / "first" / "mine.psim").rename(tmp_path / "mine.psim")
    new = tmp_path / "first" / "new.csv"
    answers = list(csv.DictReader(psimlearn("filter", "mine.psim", rows=new.read_text()).splitlines()))
    asked = list(csv.DictReader(new.read_text().splitlines()))
    assert [(row["recording"], row["t"]) for row in answers] == [(row["recording"], row["t"]) for row in asked]
    model = PSIM.load(tmp_path / "mine.psim")
    first = np.array([[row["x"], row["y"]] for row in asked if row["recording"] == "r0000"], dtype=float)
    told = [float(row["log_likelihood"]) for row in answers[: len(first)]]
    recording = Trajectories.of(first, names=("x", "y"))
    np.testing.assert_allclose(told, model.score_samples(recording)[0], rtol=1e-8)
    ahead = list(csv.DictReader(psimlearn("forecast", "mine.psim", str(new), "--steps", "4").splitlines()))
    np.testing.assert_allclose([float(row["x"]) for row in ahead[:4]], model.forecast(recording, 4)[0, :, 0], rtol=1e-8)
    evaluated = psimlearn("evaluate", "mine.psim", str(new))
    lines = [line.replace("*", "").split() for line in evaluated.splitlines()]
    (ours,) = (float(line[1]) for line in lines if line[:1] == ["PSIM"])
    (mean,) = (float(line[2]) for line in lines if line[:2] == ["training", "mean"])
    assert ours < 0.3 * mean
