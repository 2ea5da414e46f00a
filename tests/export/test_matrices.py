"""The JSON of a linear filter, run by a reader that knows its equations and nothing of this library."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from psimlearn import PSIM, DataError, Filter, SettingsError, Stack, StateSpace
from psimlearn.export import export
from psimlearn.export.matrices import matrices
from psimlearn.filter import Linear
from psimlearn.filter.live import Live
from random_filters import RNG, WINDOW, N, made
from small import driven, model

CLOSE = 1e-9


def read(text: str, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The predictions of the equations, as the file writes them."""
    file = json.loads(text)
    A, B, C, D, K, mean, drift = (np.array(file[key]) for key in ("A", "B", "C", "D", "K", "mean", "drift"))
    first = {key: np.array(value) for key, value in file["start"].items()}
    inputs, out = u - np.array(file["input_mean"]), []
    s = first["mean"] + first["inputs"] @ inputs[0]
    for t, (now, row) in enumerate(zip(inputs, x, strict=True)):
        expected = mean + C @ s + D @ now
        if t < len(first["gains"]):
            s = s + first["gains"][t] @ (row - expected)
        s = A @ s + B @ now + K @ (row - expected) + drift
        out.append(expected)
    return np.array(out)


def live(filter: Filter, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The predictions of the filter; with feed-through, inputs of a row are known when it is predicted."""
    running, out = Live(filter), []
    for t, row in enumerate(x):
        out.append(running.predict())
        running.update(row, *((u[t], u[min(t + 1, len(u) - 1)]) if u.shape[1] else ()))
    return np.array(out)


@pytest.mark.parametrize("inputs", ["none", "inputs", "feedthrough"])
@pytest.mark.parametrize("lags", [1, 3])
def test_the_equations_of_the_file_are_the_filter(inputs: str, lags: int) -> None:
    for seed, tolerance in ((1, 1e-12), (2, 0.0), (3, 1e-12)):
        filter = made("opened" if seed == 3 else "linear", Stack(WINDOW), inputs, lags, "last", False, False, seed)
        x, u = RNG(seed).standard_normal((40, N)), RNG(9).standard_normal((40, 0 if inputs == "none" else 1))
        np.testing.assert_allclose(read(matrices(filter, tolerance), x, u), live(filter, x, u), rtol=0, atol=CLOSE)


def test_a_file_holds_the_state_space_model(tmp_path: Path) -> None:
    fitted = model()
    fitted.export(tmp_path / "model.json")
    found = json.loads((tmp_path / "model.json").read_text())
    expected = fitted.state_space()
    assert found["order"] == expected.order
    assert found["version"] == 2
    assert found["V"] == expected.V.tolist()
    fitted.export(tmp_path / "small.json", tolerance=0.5)
    assert json.loads((tmp_path / "small.json").read_text())["order"] == fitted.state_space(0.5).order < expected.order


def test_names_of_channels_are_kept() -> None:
    ss = StateSpace.of([[0.5]], [[1.0]], [[0.3]], [[1.0]], names=["Höhe"])
    assert json.loads(matrices(ss.to_filter()))["channels"] == ["Höhe"]


def test_waves_have_no_matrices(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="state space: required a linear filter"):
        export(made("waves", Stack(WINDOW), "none", 1, "mean", False, False, 1), tmp_path / "a.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("path", "format"), [("a.txt", None), ("a", None), ("a.h", "fortran"), ("a.h", "")])
def test_formats_that_are_not_there_are_refused(path: str, format: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"format: required one of c, .* received"):
        model().export(tmp_path / path, format)


def test_a_path_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="required a file that can be written"):
        model().export(tmp_path / "nowhere" / "a.h")


def test_the_format_may_be_named(tmp_path: Path) -> None:
    model().export(tmp_path / "a.txt", "c")
    model().export(tmp_path / "B.H")
    assert "B_step" in (tmp_path / "B.H").read_text()
    assert "a_step" in (tmp_path / "a.txt").read_text()
    with pytest.raises(NotFittedError):
        PSIM().export(tmp_path / "b.h")


def test_learnt_inputs_are_in_the_matrices() -> None:
    filter = driven().filter_
    assert isinstance(filter.regressors[0], Linear)
    found = json.loads(matrices(filter))
    assert np.array(found["B"]).shape == (found["order"], 1)
