"""Frames and steps at the estimator: names and the step of `fit` are required by everything that follows."""

import warnings
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import psimlearn
from psimlearn.errors import DataError, ModelFileError
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.scaler import TrajectoryScaler
from psimlearn.files import model as io
from psimlearn.filter import Stack
from psimlearn.filter.smooth import smooth
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import best, dagger
from small import ONE, model, several

BOTH = pytest.mark.parametrize("Frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
ASKED = ["predict", "predict_interval", "forecast", "transform", "score", "score_samples", "smooth", "impute"]


def asked(fitted: PSIM, method: str) -> Any:
    """A method of one argument."""
    return partial(fitted.forecast, steps=2) if method == "forecast" else getattr(fitted, method)


def table(part: np.ndarray, Frame: Any = pd.DataFrame, names: str = "ab") -> Any:
    return Frame({name: part[:, "ab".index(name)] for name in names})


def long_frame(step: float = 0.05) -> pd.DataFrame:
    parts = [table(part).assign(id=i, time=np.arange(len(part)) * step) for i, part in enumerate(several())]
    return pd.concat(parts, ignore_index=True)


@cache
def named() -> PSIM:
    """As `model()`, from frames."""
    return PSIM(**ONE).fit([table(part) for part in several()])


@cache
def stepped() -> PSIM:
    return PSIM(**ONE).fit(Trajectories.from_frame(long_frame(), id="id", time="time"))


def test_frames_and_arrays_teach_the_same() -> None:
    assert list(named().feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(named().forecast(several(), 2), model().forecast(several(), 2))
    np.testing.assert_array_equal(stepped().forecast(several(), 2), model().forecast(several(), 2))


@BOTH
@pytest.mark.parametrize("method", ASKED)
def test_every_method_matches_channels_by_name(Frame: Any, method: str) -> None:
    ask = asked(named(), method)
    straight, swapped = ([table(part, Frame, names) for part in several()] for names in ("ab", "ba"))
    for a, b in zip(np.ravel(_flat(ask(straight))), np.ravel(_flat(ask(swapped))), strict=True):
        assert a == b
    renamed = [
        part.rename(columns={"b": "c"}) if Frame is pd.DataFrame else part.rename({"b": "c"}) for part in straight
    ]
    for wrong in (renamed, renamed[0], {"x": renamed[0]}):
        with pytest.raises(
            DataError,
            match=r"required the channels \['a', 'b'\] as in fit.*none called \['b'\] and further columns \['c'\]",
        ):
            ask(wrong)


def _flat(answer: Any) -> np.ndarray:
    if isinstance(answer, list | tuple):
        return np.concatenate([_flat(part) for part in answer])
    return np.ravel(np.asarray(answer))


@BOTH
def test_one_frame_is_matched_by_name(Frame: Any) -> None:
    part = several()[3]
    expected = named().predict([part])[0]
    for names in ("ab", "ba"):
        answer = named().predict(table(part, Frame, names))
        assert list(answer.columns) == ["a", "b"]
        np.testing.assert_allclose(np.asarray(answer), expected, rtol=0, atol=1e-12)
        scaled = TrajectoryScaler().fit(table(part, Frame)).transform(table(part, Frame, names))
        np.testing.assert_allclose(np.asarray(scaled["b"]).mean(), 0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:partial_fit:psimlearn.errors.PsimlearnWarning")  # a refit is due
def test_later_recordings_are_matched_by_name() -> None:
    data = [table(part) for part in several()]
    swapped = [part[["b", "a"]] for part in data]
    a, b = (PSIM(**ONE | {"validation": held}).fit(data) for held in (data, swapped))
    np.testing.assert_array_equal(a.forecast(data, 2), b.forecast(data, 2))
    a.partial_fit(data)
    b.partial_fit(swapped)
    np.testing.assert_array_equal(a.forecast(data, 2), b.forecast(data, 2))
    with pytest.raises(DataError, match="validation: required the channels"):
        PSIM(**ONE | {"validation": [part[["a"]] for part in data]}).fit(data)


def test_a_long_frame_is_asked_what_it_is() -> None:
    with pytest.raises(DataError, match=r"Call Trajectories.from_frame\(frame, id='id', time='time'\)"):
        PSIM(**ONE).fit(long_frame())
    indexed = long_frame().set_index(["id", "time"])
    fitted = PSIM(**ONE).fit(indexed)
    assert fitted.step_ == pytest.approx(0.05)
    assert fitted.report_["data"]["recordings"] == 8
    answer = fitted.predict(indexed.sample(frac=1, random_state=0).sort_index(level="time"))
    for i, part in enumerate(model().predict(several())):
        np.testing.assert_allclose(answer.loc[i].sort_index().to_numpy(), part, rtol=0, atol=1e-12)
    assert fitted.forecast(indexed, 3).shape == (24, 2)


@pytest.mark.parametrize(
    "wrong",
    [["secret"] * 3, [{"a": "secret"}] * 3, [777.0, 777.0], pd.Series([777.0] * 9), np.array(["secret"] * 3)],
    ids=["words", "dictionaries", "numbers", "series", "array"],
)
def test_other_forms_are_refused_without_data(wrong: Any) -> None:
    for refuse in (PSIM(**ONE).fit, model().predict, model().partial_fit):
        with pytest.raises(DataError) as error:
            refuse(wrong)
        assert "secret" not in str(error.value)
        assert "777" not in str(error.value)


def test_dictionaries_of_frames() -> None:
    frames = {f"r{i}": table(part) for i, part in enumerate(several())}
    fitted = PSIM(**ONE).fit(frames)
    answers = fitted.predict(frames)
    assert list(answers) == list(frames)
    np.testing.assert_array_equal(answers["r3"], model().predict(several())[3])
    assert [part.shape for part in fitted.forecast(frames, 3).values()] == [(3, 2)] * 8
    assert np.isfinite(fitted.score(frames))


# -- the step ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*ASKED, "partial_fit"])
def test_another_step_is_refused(method: str) -> None:
    slower = Trajectories.from_frame(long_frame(0.1), id="id", time="time")
    with pytest.raises(DataError, match=r"required a row every 50 ms as in fit, received a row every 100 ms.*Resample"):
        asked(stepped(), method)(slower)


def test_steps_that_pass() -> None:
    same = Trajectories.from_frame(long_frame(0.0501), id="id", time="time")  # clocks differ
    unknown = Trajectories.from_frame(long_frame(0.1), id="id", time="time", step=None)
    for data in (same, unknown, several()):
        np.testing.assert_array_equal(stepped().forecast(data, 2), model().forecast(several(), 2))
    assert model().step_ is None
    model().predict(same)  # the model knows no step
    resampled = Trajectories.from_frame(long_frame(0.1), id="id", time="time", step=stepped().step_, resample=True)
    assert np.isfinite(stepped().score(resampled))


def test_frames_with_dates_are_measured_by_the_step_of_the_model() -> None:
    """Two rows alone, one of them late, would tell a step of their own."""
    index = pd.to_datetime(["2024-01-01T00:00:00.00", "2024-01-01T00:00:00.15"])
    late = table(several()[3][:2]).set_index(index)
    gap = np.full((2, 2), np.nan)
    expected = stepped().forecast([np.concatenate([several()[3][:1], gap, several()[3][1:2]])], 2)[0]
    np.testing.assert_array_equal(stepped().forecast(late, 2), expected)
    np.testing.assert_array_equal(stepped().forecast([late], 2)[0], expected)
    slow = table(several()[3][:9]).set_index(pd.date_range("2024-01-01", periods=9, freq="100ms"))
    for wrong in (slow, [slow], {"a": slow}):
        with pytest.raises(DataError, match="required a row every 50 ms, received a row every 100 ms"):
            stepped().predict(wrong)


def test_validation_of_another_step_is_refused() -> None:
    data = Trajectories.from_frame(long_frame(), id="id", time="time")
    slower = Trajectories.from_frame(long_frame(0.1), id="id", time="time")
    with pytest.raises(DataError, match="validation: required a row every 50 ms"):
        PSIM(**ONE | {"validation": slower}).fit(data)


def test_a_file_keeps_the_step(tmp_path: Path) -> None:
    path = tmp_path / "model.psim"
    stepped().save(path)
    loaded = PSIM.load(path)
    assert loaded.step_ == stepped().step_
    with pytest.raises(DataError, match="required a row every 50 ms as in fit"):
        loaded.predict(Trajectories.from_frame(long_frame(0.1), id="id", time="time"))
    filter, notes, _ = io.read(path)
    unknown = replace(filter, time_step=None)
    for wrong in (0.0, -1.0, "1s", True, [1]):
        io.save(unknown, path, notes=notes | {"step": wrong})
        with pytest.raises(ModelFileError, match="step: required a number of seconds above 0"):
            PSIM.load(path)
    io.save(unknown, path, notes=notes | {"step": 0.05})  # as older files keep it
    assert PSIM.load(path).step_ == psimlearn.load(path).time_step == 0.05
    io.save(unknown, path, notes=notes)
    assert PSIM.load(path).step_ is None


def test_a_filter_refuses_another_step_too(tmp_path: Path) -> None:
    """The filter of an estimator, one from a trainer, one from a file, and one back from its state space."""
    fitted, path = stepped(), tmp_path / "filter.psim"
    same, slower = (Trajectories.of(several(), step=step) for step in (0.05, 0.1))
    psimlearn.save(fitted.filter_, path)
    trained = best(dagger(same, same, Stack(2), Ridge(1.0), rng=np.random.default_rng(0), n_rounds=1)).filter
    space = fitted.state_space().to_filter()
    for filter in (fitted.filter_, trained, psimlearn.load(path), space):
        for asked in (partial(filter.forecast, horizon=1), filter.log_likelihood, filter.run):
            asked(same)
            asked(Trajectories.of(several()))
            with pytest.raises(DataError, match="required a row every 50 ms as in fit, received a row every 100 ms"):
                asked(slower)
    with pytest.raises(DataError, match="required a row every 50 ms as in fit"):
        smooth(fitted.filter_, slower)


# -- arrays the other way round ----------------------------------------------------------------------------------------


def test_far_more_channels_than_rows_are_told() -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"have 20 channels and at most 3 rows.*Trajectories.from_channels_first"):
        PSIM(**ONE).fit([rng.standard_normal((3, 20)) for _ in range(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        turned = PSIM(**ONE).fit(Trajectories.from_channels_first(rng.standard_normal((2, 2, 30))))
        turned.predict(np.zeros((1, 2)))
