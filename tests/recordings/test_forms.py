"""Recordings in every form that callers hold them, and results in the same form."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from oracles import ragged
from psimlearn.errors import DataError
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.scaler import TrajectoryScaler
from psimlearn.learners import Ridge
from psimlearn.recordings.forms import is_table, received, received_symbols
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.trajectory import Trajectory

RNG = np.random.default_rng
QUICK: dict[str, Any] = {
    "window": 2,
    "learner": Ridge(1e-2),
    "n_rounds": 2,
    "lags": 1,
    "prior": "mean",
    "belief_weight": 1.0,
    "validation": 0.5,
    "random_state": 0,
}
LENGTHS = [9, 14, 7, 20, 11, 13, 8, 16]


def several(seed: int = 0) -> list[np.ndarray]:
    return [part.values.copy() for part in ragged(LENGTHS, 2, RNG(seed))]


@cache
def model() -> PSIM:
    return PSIM(**QUICK).fit(several())


def with_inputs_and_hints(m: int = 8) -> Trajectories:
    """x_{t+1} = .5 x_t + u_t, and a hint that is twice x."""
    rng = RNG(1)
    u, x = rng.standard_normal((m, 15, 1)), np.zeros((m, 15, 1))
    for t in range(14):
        x[:, t + 1] = 0.5 * x[:, t] + u[:, t] + 0.01 * rng.standard_normal((m, 1))
    return Trajectories.of(x, u, hints=2 * x)


# -- in and out ------------------------------------------------------------------------------------------------------


def test_a_list_gives_a_list() -> None:
    data = several(1)
    predicted, beliefs, nats = model().predict(data), model().transform(data), model().score_samples(data)
    assert isinstance(predicted, list)
    assert [part.shape for part in predicted] == [part.shape for part in data]
    assert [part.shape for part in beliefs] == [(length, 4) for length in LENGTHS]
    assert [part.shape for part in nats] == [(length,) for length in LENGTHS]
    low, high = model().predict_interval(data)
    assert all((a < b).all() for a, b in zip(low, high, strict=True))


def test_every_form_gives_the_same_numbers() -> None:
    data = several(1)[3]
    whole = model().predict([data])[0]
    frame = pd.DataFrame(data, index=np.arange(100, 120))
    forms: list[tuple[Any, Any]] = [
        (data, lambda out: out),
        (data.tolist(), lambda out: out),
        (data[None], lambda out: out[0]),
        ((data,), lambda out: out[0]),
        (Trajectories.of(data), lambda out: out[0]),
        ([Trajectory(data)], lambda out: out[0]),
        ([data.tolist()], lambda out: out[0]),
        ([frame], lambda out: out[0]),
        (frame, lambda out: out.to_numpy()),
    ]
    for form, numbers in forms:
        np.testing.assert_array_equal(numbers(model().predict(form)), whole, err_msg=str(type(form)))


def test_a_table_gives_a_table_and_a_cube_a_cube() -> None:
    cube = np.stack([part[:7] for part in several(1)])
    assert model().predict(cube[0]).shape == (7, 2)
    assert model().predict(cube).shape == (8, 7, 2)
    assert model().transform(cube[0]).shape == (7, 4)
    assert model().transform(cube).shape == (8, 7, 4)
    assert model().score_samples(cube[0]).shape == (7,)
    assert model().score_samples(cube).shape == (8, 7)
    assert model().forecast(cube[0], 3).shape == (3, 2)
    assert model().forecast(cube, 3).shape == (8, 3, 2)
    assert model().forecast([cube[0]], 3).shape == (1, 3, 2)


def test_pandas_in_pandas_out() -> None:
    index = pd.date_range("2026-01-01", periods=40, freq="h")
    frame = pd.DataFrame(ragged([40], 2, RNG(0)).values.copy(), columns=["left", "right"], index=index)
    frame.loc[index[7], "left"] = np.nan
    fitted = PSIM(**QUICK).fit(frame)
    assert list(fitted.feature_names_in_) == ["left", "right"]
    predicted = fitted.predict(frame)
    assert isinstance(predicted, pd.DataFrame)
    assert predicted.index.equals(index)
    assert predicted.columns.equals(frame.columns)
    assert fitted.transform(frame).index.equals(index)
    assert fitted.score_samples(frame).columns.tolist() == ["log_likelihood"]
    low, high = fitted.predict_interval(frame, 2)
    assert (low.to_numpy() < high.to_numpy()).all()
    assert high.index.equals(index)
    assert fitted.forecast(frame, 3).shape == (3, 2)
    pd.testing.assert_frame_equal(fitted.predict(frame[["right", "left"]]), predicted)  # matched by name
    with pytest.raises(
        DataError, match=r"required the channels \['left', 'right'\] as in fit.*none called \['right'\]"
    ):
        fitted.predict(frame.rename(columns={"right": "wrong"}))


def test_pandas_columns_that_are_numbers_or_nullable() -> None:
    frame = pd.DataFrame(ragged([40], 2, RNG(0)).values)
    assert PSIM(**QUICK).fit(frame).predict(frame).columns.equals(frame.columns)
    whole = pd.DataFrame({"a": pd.array([*range(30)] * 2, dtype="Int64")})
    whole.loc[3, "a"] = pd.NA
    assert np.isfinite(PSIM(**QUICK).fit(whole).predict(whole).to_numpy(dtype=float)).all()


def test_polars_in_polars_out() -> None:
    values = ragged([40], 2, RNG(0)).values
    frame = pl.DataFrame({"left": values[:, 0], "right": [None, *values[1:, 1].tolist()]})
    fitted = PSIM(**QUICK).fit(frame)
    predicted = fitted.predict(frame)
    assert isinstance(predicted, pl.DataFrame)
    assert predicted.columns == ["left", "right"]
    np.testing.assert_array_equal(predicted.to_numpy(), fitted.predict([frame.to_numpy()])[0])
    assert isinstance(fitted.transform(frame), pl.DataFrame)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_long_frame_gives_a_list(kind: Any) -> None:
    data = Trajectories.of(several())
    columns = {"who": np.repeat(np.arange(8), LENGTHS), "when": np.concatenate([np.arange(n) for n in LENGTHS])}
    frame = kind(columns | {"a": data.values[:, 0], "b": data.values[:, 1]})
    packed = Trajectories.from_frame(frame, id="who", time="when")
    fitted = PSIM(**QUICK).fit(packed)
    predicted = fitted.predict(packed)
    assert isinstance(predicted, list)
    for ours, theirs in zip(predicted, model().predict(several()), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    own = packed.names
    one = pd.DataFrame(several()[3], columns=own) if kind is pd.DataFrame else pl.DataFrame(several()[3], schema=own)
    np.testing.assert_allclose(fitted.predict(one).to_numpy(), predicted[3], rtol=0, atol=1e-12)
    swapped = Trajectories.from_frame(frame, id="who", time="when", channels=["b", "a"])
    for ours, theirs in zip(fitted.predict(swapped), predicted, strict=True):
        np.testing.assert_array_equal(ours, theirs)  # in the order of fit


def test_a_refit_forgets_the_names_of_the_last() -> None:
    frame = pd.DataFrame(ragged([40], 2, RNG(0)).values, columns=["left", "right"])
    fitted = PSIM(**QUICK).fit(frame).fit(several())
    assert not hasattr(fitted, "feature_names_in_")
    fitted.predict(frame[["right", "left"]].to_numpy())


def test_nothing_passed_in_is_altered() -> None:
    data = several()
    before = [part.copy() for part in data]
    PSIM(**QUICK).fit(data).predict(data)
    for now, then in zip(data, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(
    ("recordings", "table"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], True),
        (((1, 2), (3, 4)), True),
        ([1.0, 2.0], True),
        (np.zeros((3, 2)), True),
        (np.zeros(3), True),
        (pd.DataFrame({"a": [1.0]}), True),
        (pl.DataFrame({"a": [1.0]}), True),
        (np.zeros((3, 2, 2)), False),
        ([np.zeros(3)], False),
        ([np.zeros((3, 2))], False),
        ([[[1.0], [2.0]], [[1.0]]], False),
        ([[[1.0, 2.0], [2.0]], [[1.0]]], False),
        ([pd.DataFrame({"a": [1.0]})], False),
        ([Trajectory(np.zeros((3, 1)))], False),
        (Trajectories.of(np.zeros((3, 1))), False),
        (np.array([np.zeros((3, 1)), np.zeros((2, 1))], dtype=object), False),
        ([], False),
    ],
)
def test_one_recording_or_several(recordings: Any, table: bool) -> None:
    assert is_table(recordings) is table


def test_received_without_an_estimator() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, np.nan]})
    assert received(frame).trajectories.names == ("a", "b")
    assert received([[1.0], [2.0]]).form == "table"
    assert received(np.zeros((2, 3, 1))).form == "cube"


def test_symbols_come_back_as_symbols_in_the_form_they_came() -> None:
    rows = np.array([[0.2, 0.8], [0.9, 0.1], [0.3, 0.7]])
    one, several = received_symbols("bab"), received_symbols([["b", "a"], ["a"]])
    assert one.returned(rows, channels=True).tolist() == ["b", "a", "b"]
    assert one.returned(rows) is rows
    assert one.one_each(rows[None]).tolist() == ["b", "a", "b"]
    assert [part.tolist() for part in several.returned(rows, channels=True)] == [["b", "a"], ["b"]]
    assert several.one_each(np.stack([rows, rows])).tolist() == [["b", "a", "b"]] * 2
    again = received_symbols(several.trajectories[0], several.trajectories.alphabet)
    assert again.form == "table"
    assert again.trajectories.values.tolist() == [[0, 1], [1, 0]]
    numbers = received(several.trajectories)  # a filter of numbers answers in numbers, also about indicators of symbols
    np.testing.assert_array_equal(numbers.returned(rows, channels=True)[1], rows[2:])


@pytest.mark.parametrize(
    ("recordings", "message"),
    [
        ([], "at least one trajectory"),
        ([np.zeros(3)], "2-D array"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], "required 2 channels"),
        ([[[1.0, 2.0], [2.0]]], "unequal length"),
        ([np.full((3, 2), np.inf)], "finite"),
        ("words", "array"),
        (3.0, "array"),
        (None, "array"),
        (np.zeros((2, 3, 4, 5)), "received one array of shape"),
    ],
)
def test_what_is_no_recording_is_refused(recordings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PSIM(**QUICK).fit(recordings)
    with pytest.raises(ValueError, match=message):
        model().predict(recordings)


# -- scikit-learn's tools ----------------------------------------------------------------------------------------------


def test_grid_search_over_ragged_lists() -> None:
    search = GridSearchCV(PSIM(**QUICK), {"window": [1, 2], "learner": ["ridge", "rff"]}, cv=2).fit(several())
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.cv_results_["params"]) == 4
    assert len(search.predict(several())) == 8
    assert search.score(several()) == search.best_estimator_.score(several())


def test_groups_stay_together() -> None:
    groups = [0, 0, 1, 1, 2, 2, 3, 3]
    scores = cross_val_score(PSIM(**QUICK), several(), groups=groups, cv=GroupKFold(4))
    by_hand = [
        PSIM(**QUICK).fit([several()[i] for i in train]).score([several()[i] for i in test])
        for train, test in GroupKFold(4).split(several(), groups=groups)
    ]
    assert scores.tolist() == by_hand


@pytest.mark.parametrize("form", ["trajectories", "list"])
def test_inputs_and_hints_go_through_splits(form: str) -> None:
    data = with_inputs_and_hints()
    X: Any = data if form == "trajectories" else list(data)
    train, test = train_test_split(X, test_size=0.5, random_state=0)
    assert isinstance(train[0], Trajectory)
    fitted = PSIM(**QUICK).fit(train)
    assert fitted.score(test) > 0.95  # impossible without the inputs: they are most of what happens
    for estimate, part in zip(fitted.hints(test), test, strict=True):
        np.testing.assert_allclose(estimate, part.hints, rtol=0, atol=1e-6)
    assert (cross_val_score(PSIM(**QUICK), X, cv=KFold(2)) > 0.95).all()
    search = GridSearchCV(PSIM(**QUICK), {"window": [1, 2]}, cv=2).fit(X)
    assert search.best_score_ > 0.95


def test_a_cube_in_cross_validation() -> None:
    cube = np.stack([part[:7] for part in several()])
    assert np.isfinite(cross_val_score(PSIM(**QUICK), cube, cv=2)).all()


def test_parameters_go_round() -> None:
    original = PSIM(3, learner="rff", lags=2, rank="auto", random_state=7)
    assert PSIM().set_params(**original.get_params()).get_params() == original.get_params()
    copy = clone(model())
    assert copy.get_params() == model().get_params()
    assert not hasattr(copy, "filter_")
    np.testing.assert_array_equal(copy.fit(several()).predict(several())[0], model().predict(several())[0])


def test_a_pipeline_fits_predicts_and_scores() -> None:
    data = [part * [1.0, 1e3] + [5.0, -1e4] for part in several()]
    pipe = Pipeline([("scale", TrajectoryScaler()), ("filter", PSIM(**QUICK))]).fit(data)
    scaled = pipe["scale"].transform(data)
    np.testing.assert_array_equal(pipe.predict(data)[3], pipe["filter"].predict(scaled)[3])
    assert pipe.score(data) == pytest.approx(PSIM(**QUICK).fit(data).score(data), abs=1e-9)
    assert pipe.set_params(filter__window=1).fit(data).score(data) < 1


# -- the scaler --------------------------------------------------------------------------------------------------------


def test_the_scaler_does_what_scikit_learns_does() -> None:
    data = several()
    data[2][3, 0] = np.nan
    stacked = np.concatenate(data)
    theirs = StandardScaler().fit(stacked)
    for options in ({}, {"with_mean": False}, {"with_std": False}):
        ours = TrajectoryScaler(**options).fit(data)
        expected = StandardScaler(**options).fit_transform(stacked)
        np.testing.assert_allclose(np.concatenate(ours.transform(data)), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            np.concatenate(ours.inverse_transform(ours.transform(data))), stacked, rtol=1e-12, atol=1e-12
        )
    np.testing.assert_allclose(TrajectoryScaler().fit(data).scale_, theirs.scale_, rtol=1e-12)


def test_the_scaler_keeps_forms_inputs_and_hints() -> None:
    data = with_inputs_and_hints()
    scaler = TrajectoryScaler().fit(data)
    whole = scaler.transform(data)
    assert isinstance(whole, Trajectories)
    np.testing.assert_array_equal(whole.inputs, data.inputs)
    np.testing.assert_array_equal(whole.hints, data.hints)
    parts = scaler.transform(list(data))
    assert all(isinstance(part, Trajectory) for part in parts)
    np.testing.assert_array_equal(parts[1].inputs, data[1].inputs)
    assert scaler.transform(np.zeros((4, 1))).shape == (4, 1)
    assert scaler.transform(np.zeros((3, 4, 1))).shape == (3, 4, 1)
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[5, 6, 7])
    out = TrajectoryScaler().fit_transform(frame)
    assert out.index.equals(frame.index)
    np.testing.assert_allclose(out["a"], [-(1.5**0.5), 0.0, 1.5**0.5])


def test_the_scaler_and_extreme_units() -> None:
    x = np.stack([RNG(0).standard_normal(50) * 1e180, np.full(50, 0.1), RNG(0).standard_normal(50) * 1e-180], axis=1)
    scaled = TrajectoryScaler().fit_transform(x)
    np.testing.assert_allclose(scaled.std(axis=0), [1.0, 0.0, 1.0], rtol=0, atol=1e-12)


def test_the_scaler_refuses_what_it_has_not_seen() -> None:
    with pytest.raises(DataError, match="channel 1: required at least one observed value"):
        TrajectoryScaler().fit([np.array([[1.0, np.nan], [2.0, np.nan]])])
    with pytest.raises(DataError, match="required 2 channels as in fit, received 1"):
        TrajectoryScaler().fit(several()).transform([np.zeros((3, 1))])
