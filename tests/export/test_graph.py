"""The ONNX graph of a filter, run by onnxruntime, says what the live filter says, row by row, with gaps."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiled import Given, given
from contract import learners
from psimlearn import PSIM, MissingExtraError, SettingsError
from psimlearn.export import export
from psimlearn.export.graph import graph, width
from psimlearn.export.machine import machine_of
from psimlearn.filter import Filter, Stack
from psimlearn.filter.live import Live
from psimlearn.train import best, dagger
from random_filters import WINDOW, N, made
from small import ONE, beside, driven, model

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
pytest.importorskip("onnx", reason="needs the extra onnx")

CLOSE, CLOSE_FLOAT = 1e-12, 1e-4


def session(content: bytes) -> Any:
    """A graph at work, on one thread; whatever onnxruntime remarks is an error in the test's output."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def in_onnx(filter: Filter, of: Given, precision: str = "double") -> np.ndarray:
    """The predictions within the window after every row."""
    kind = np.float32 if precision == "float" else np.float64
    machine = machine_of(filter)
    running, out = session(graph(machine, "model", precision)), []
    state = np.zeros((1, width(machine)), dtype=kind)
    wanted = [part.name for part in running.get_inputs()]
    for t, x in enumerate(of.x):
        state = np.zeros_like(state) if of.starts[t] else state
        parts = {"x": x, "u": of.u[t], "next_u": of.u[t + 1]}
        feed = {name: parts[name][None].astype(kind) for name in wanted if name != "state"}
        predictions, state = running.run(["predictions", "next_state"], feed | {"state": state})
        assert predictions.dtype == kind
        out.append(predictions[0])
    return np.array(out)


def live(filter: Filter, of: Given, every: int = 1) -> np.ndarray:
    """The same by the live filter, asked after every so many rows."""
    running, out = Live(filter), []
    for t, x in enumerate(of.x):
        if of.starts[t]:
            running.reset()
        running.update(x, *((of.u[t], of.u[t + 1]) if of.u.shape[1] else ()))
        if t % every == 0:
            out.append(running.forecast(filter.features.window))
    return np.array(out)


def held(filter: Filter, precision: str = "double", rows: int = 60) -> None:
    of = given(filter, rows, seed=1, steps=1)
    assert np.isnan(of.x).any()
    apart = np.abs(in_onnx(filter, of, precision) - live(filter, of)) / filter.scaling.scale
    assert apart.max() < (CLOSE if precision == "double" else CLOSE_FLOAT)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gappy"])
@pytest.mark.parametrize("features", learners.FEATURES)
@pytest.mark.parametrize("learner", ["ridge", "random features"])
def test_many_steps_do_not_drift(learner: str, features: str, gaps: bool) -> None:
    """Every linear and random-feature filter of the contract, one stream that never starts again.

    A campaign takes 10 000 steps.
    """
    steps = 10_000 if "PSIMLEARN_CAMPAIGN" in os.environ else 500
    data, rng = learners.recordings(gaps), learners.RNG(1)
    rounds = dagger(
        data[:350], data[350:], learners.FEATURES[features], learners.LEARNERS[learner], n_rounds=2, rng=rng
    )
    filter = best(rounds).filter
    some, whole = (given(filter, steps, seed=1, steps=1, missing=missing) for missing in (0.2, 0.0))
    often = np.arange(steps) % 100 < 20  # rows without gaps are quick where doubt dies away in them
    of = Given(np.where(often[:, None], some.x, whole.x), some.u, np.arange(steps) == 0)
    assert np.isnan(of.x).sum() > steps / 50
    apart = np.abs(in_onnx(filter, of)[::5] - live(filter, of, every=5)) / filter.scaling.scale
    assert len(apart) == steps // 5
    assert apart.max() < CLOSE


@pytest.mark.parametrize("kind", ["linear", "waves and raw"])
def test_floats_are_close(kind: str) -> None:
    held(made(kind, Stack(WINDOW), "feedthrough", 3, "last", True, True, 4), "float", rows=300)


def test_streams_of_a_batch_do_not_meet() -> None:
    """Streams with and without gaps, begun and not begun, in one batch give what each gives alone."""
    filter = made("waves and raw", Stack(WINDOW), "none", 3, "last", True, True, 4)
    machine = machine_of(filter)
    running, rng = session(graph(machine, "model")), np.random.default_rng(0)
    x = rng.standard_normal((30, 4, N))
    x[5:8, 0], x[3, 1, 0] = np.nan, np.nan
    state, out = np.zeros((4, width(machine))), []
    for t, rows in enumerate(x):
        state[2] = 0.0 if t < 10 else state[2]
        predictions, state = running.run(None, {"x": rows, "state": state})
        out.append(predictions)
    for stream in range(4):
        starts = np.arange(30) == 0 if stream != 2 else np.arange(30) < 10
        expected = live(filter, Given(x[:, stream], np.empty((31, 0)), starts))
        np.testing.assert_allclose(np.array(out)[:, stream], expected, rtol=0, atol=CLOSE * filter.scaling.scale.max())


def test_learnt_models_run_in_onnxruntime(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Also through a file, and without a remark of the runtime."""
    for fitted in (model(), driven()):
        held(fitted.filter_)
        fitted.export(tmp_path / "model.onnx", precision="float")
        [x, *_, state] = session((tmp_path / "model.onnx").read_bytes()).get_inputs()
        assert (x.type, state.type) == ("tensor(float)", "tensor(float)")
    assert capfd.readouterr().err == ""


def test_what_cannot_be_a_graph_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="precision: required one of double, float, received 'half'"):
        model().export(tmp_path / "a.onnx", precision="half")
    with pytest.raises(SettingsError, match="linear or random-feature"):
        export(made("black box", Stack(WINDOW), "none", 1, "mean", False, True, 1), tmp_path / "a.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"psimlearn\[onnx\]"):
        model().export(tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("label", [0.0, 7.0, 1e-5])
def test_a_channel_that_was_constant_in_training_is_predicted_as_itself(label: float) -> None:
    filter, rows = PSIM(**ONE | {"lags": 2, "prior": "last"}).fit(beside(label)).filter_, beside(label, 1)[3]
    rows[4, 0] = rows[6, 2] = np.nan
    predicted = in_onnx(filter, Given(rows, np.empty((len(rows) + 1, 0)), np.arange(len(rows)) == 0))
    np.testing.assert_allclose(predicted[..., 2], label, rtol=1e-12, atol=1e-14)
