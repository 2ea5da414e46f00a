"""The step, one observation at a time and all at once, against loops and textbook formulas."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from oracles import loop_beliefs, ragged
from psimlearn.datasets import random_system
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter import Feedback, Filter, Linear, Scaling, SecondMoment, Stack, StackSquares, State
from psimlearn.filter.gaps import conditional_fill, error_covariance
from psimlearn.filter.rollout import rolled
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger, forward

LENGTHS = [9, 30, 17, 30, 12, 21, 25, 14, 28, 11, 19, 23]


def with_inputs(trajectories: Trajectories, rng: np.random.Generator) -> Trajectories:
    return replace(trajectories, inputs=rng.standard_normal((len(trajectories.values), 2)))


@cache
def learnt(case: str) -> tuple[Filter, Trajectories]:
    """A filter of this kind, and the recordings that it was learnt from."""
    rng = np.random.default_rng(3)
    data = ragged(LENGTHS * 4, 2, rng, missing=0.15 if "gaps" in case else 0.0)
    if "inputs" in case:
        data = with_inputs(data, rng)
    recipe = Recipe(
        lags=3 if "lags" in case else 1,
        prior="last" if "last" in case else "mean",
        rank=2 if "rank" in case else None,
        feedthrough="feedthrough" in case,
        box=None if "open" in case else 0.0,
    )
    learner: Any = RandomFourierRidge(30, 1e-3) if "rff" in case else Ridge(1e-3)
    features: Any = StackSquares(3) if "squares" in case else Stack(3)
    if "forward" in case:
        return best(forward(data, data, features, learner, rng=rng, recipe=recipe)).filter, data
    return best(dagger(data, data, features, learner, rng=rng, n_rounds=3, recipe=recipe)).filter, data


CASES = [
    "linear",
    "lags last",
    "rank lags",
    "gaps lags last",
    "gaps rank inputs",
    "inputs",
    "inputs feedthrough lags",
    "rff lags last",
    "rff rank gaps",
    "squares last gaps",
    "forward",
    "forward lags last inputs",
    "forward gaps open",
]


def test_streams_of_different_age_step_together() -> None:
    filter, data = learnt("forward")
    early, late = data[1].values[:5], data[3].values[:2]
    one, two = filter.start(1), filter.start(1)
    for row in early:
        one = filter.step(one, row[None])
    for row in late:
        two = filter.step(two, row[None])
    belief, recent, clock, unseen, late = (np.concatenate(pair) for pair in zip(one[:5], two[:5], strict=True))
    both = State(belief, recent, clock, unseen, late)
    x = np.array([[0.3, -0.2], [1.0, 0.5]])
    expected = np.concatenate([filter.step(one, x[:1]).belief, filter.step(two, x[1:]).belief])
    np.testing.assert_allclose(filter.step(both, x).belief, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_causality(case: str) -> None:
    """Changed observations from row 8 on do not change predictions made before row 8 or before earlier rows."""
    filter, data = learnt(case)
    changed = data.values.copy()
    start, end = data.offsets[1], data.offsets[2]
    changed[start + 8 : end] = 5 - 2 * np.nan_to_num(changed[start + 8 : end])
    other = replace(data, values=changed)
    before, after = filter.forecast(data, 3), filter.forecast(other, 3)
    np.testing.assert_array_equal(before[start : start + 9], after[start : start + 9])
    assert np.abs(before[start + 9 : end] - after[start + 9 : end]).max() > 0.1
    np.testing.assert_array_equal(before[end:], after[end:])  # trajectories do not touch each other


def test_forecasts_of_the_exact_filter_equal_the_kalman_filters_at_any_horizon() -> None:
    rng = np.random.default_rng(0)
    system = random_system(rng)
    data = system.simulate(5, 20, rng)
    ours = system.predictive_filter(2).forecast(data, 9)
    np.testing.assert_allclose(ours, system.kalman().forecast(data, 9), rtol=0, atol=1e-11)


def test_a_row_that_did_not_arrive_is_a_plain_prediction() -> None:
    """Without an observation the innovation is zero: O s becomes O A s."""
    rng = np.random.default_rng(1)
    system = random_system(rng)
    filter, O = system.predictive_filter(2), system.observability(2)
    state = filter.start(1)
    after = filter.step(state, np.full((1, 2), np.nan))
    np.testing.assert_allclose(after.belief[0], O @ system.A @ system.mean, rtol=0, atol=1e-12)


def test_conditional_fill_is_the_gaussian_conditional_mean() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((5, 5))
    S = root @ root.T + 0.1 * np.eye(5)
    x, m = rng.standard_normal((40, 5)), rng.standard_normal((40, 5))
    x[rng.random(x.shape) < 0.4] = np.nan
    x[0], x[1] = np.nan, 1.0
    filled = conditional_fill(x, m, S)
    for row in range(40):
        o = ~np.isnan(x[row])
        expected = x[row].copy()
        expected[~o] = m[row, ~o] + S[np.ix_(~o, o)] @ np.linalg.pinv(S[np.ix_(o, o)]) @ (x[row, o] - m[row, o])
        np.testing.assert_allclose(filled[row], expected, rtol=0, atol=1e-9)
    assert np.isnan(x).any()  # the argument is left alone
    np.testing.assert_array_equal(filled[0], m[0])


def test_error_covariance_of_complete_rows() -> None:
    rng = np.random.default_rng(0)
    e = rng.standard_normal((5000, 3)) @ rng.standard_normal((3, 3))
    np.testing.assert_allclose(error_covariance(e), e.T @ e / 5000, rtol=1e-2, atol=1e-2)
    few = error_covariance(e[:2])  # singular, unless shrunk
    assert np.linalg.eigvalsh(few).min() > 0
    hidden = np.where(rng.random(e.shape) < 0.3, np.nan, e)
    np.testing.assert_allclose(error_covariance(hidden), e.T @ e / 5000, rtol=0.1, atol=0.1)


def test_the_box_bounds_what_is_fed_back_and_nothing_else() -> None:
    """The step doubles the belief: the feedback stops at 1, the predictions do not."""
    filter = Filter(
        features=Stack(1),
        regressors=(Linear(np.array([[2.0], [1.0]]), np.zeros(1)),),
        initial=np.array([0.9]),
        scaling=Scaling(np.zeros(1), np.ones(1)),
        feedback=Feedback(np.zeros(1), np.ones(1), low=np.array([-1.0]), high=np.array([1.0])),
        centre=np.zeros(1),
        covariance=np.eye(1),
    )
    beliefs, _ = filter.run(Trajectories.of(np.full((4, 1), 0.5)))
    assert beliefs[:, 0].tolist() == [0.9, 2.3, 2.5, 2.5]  # 2 * .9 + .5, then 2 * 1 + .5
    rollout = rolled(filter, Trajectories.of(np.full((4, 1), 0.5)))
    assert filter.feedback.clipped(rollout.z[:, :1]).tolist() == [False, True, True, True]


def test_lags_and_last_observation_by_hand() -> None:
    """The filter m_{t+1} = x_t + 10 x_{t-1} + x_t has weights on two lags, and the prior that x_t stays."""
    filter = Filter(
        features=Stack(1),
        regressors=(Linear(np.array([[0.0], [1.0], [10.0]]), np.zeros(1)),),
        initial=np.array([-1.0]),
        scaling=Scaling(np.zeros(1), np.ones(1)),
        feedback=Feedback(np.zeros(1), np.ones(1)),
        centre=None,
        covariance=np.eye(1),
        lags=2,
    )
    beliefs, state = filter.run(Trajectories.of([np.array([[1.0], [2], [3]]), np.array([[5.0]])]))
    assert beliefs[:, 0].tolist() == [-1, 12, 14, -1]  # before 1 2 3 and before 5
    assert state.belief[:, 0].tolist() == [26, 60]  # 3 + 3 + 20, and 5 + 5 + 50


def test_rank_compresses_what_is_fed_back_not_what_is_predicted() -> None:
    filter, data = learnt("rank lags")
    assert len(filter.feedback.mean) == 2
    assert filter.run(data)[0].shape == (len(data.values), 6)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("n_streams", [1.5, 0, -1, "x", float("nan"), True, 10**12])
def test_a_number_of_streams_that_is_none_is_refused(n_streams: Any) -> None:
    with pytest.raises(SettingsError, match="n_streams: required"):
        learnt("linear")[0].start(n_streams)


def test_inputs_are_required_where_they_were_learnt_with() -> None:
    filter, data = learnt("inputs")
    with pytest.raises(DataError, match="required 2 channels and 2 inputs as in training, received 2 channels and 0"):
        filter.run(replace(data, inputs=None))
    with pytest.raises(DataError, match="inputs: required the inputs of every row as in training, received none"):
        filter.step(filter.start(1), np.zeros((1, 2)))
    with pytest.raises(DataError, match="future_inputs: required the inputs of the next 5 rows, received none"):
        filter.ahead(filter.start(1), 5)
    with pytest.raises(DataError, match="future_inputs: required 5 rows ahead, received 4"):
        filter.ahead(filter.start(1), 5, np.zeros((1, 4, 2)))


def test_other_channels_are_refused() -> None:
    filter, _ = learnt("linear")
    with pytest.raises(DataError, match="required 2 channels"):
        filter.run(Trajectories.of(np.zeros((4, 3))))


@pytest.mark.parametrize("case", ["linear", "gaps lags last", "rff lags last"])
def test_recordings_of_any_length_are_filtered(case: str) -> None:
    filter, _ = learnt(case)
    short = Trajectories.of([np.zeros((1, 2)), np.ones((2, 2)), np.ones((40, 2))])
    assert np.isfinite(filter.forecast(short, 8)).all()


@pytest.mark.parametrize("case", CASES)
def test_nothing_that_is_passed_in_is_altered(case: str) -> None:
    filter, data = learnt(case)
    values = data.values.copy()
    weights = [
        getattr(r, "weights", getattr(getattr(r, "linear", None), "weights", np.zeros(0))).copy()
        for r in filter.regressors
    ]
    first = filter.forecast(data, 4)
    np.testing.assert_array_equal(filter.forecast(data, 4), first)  # and nothing is remembered
    np.testing.assert_array_equal(data.values, values)
    for r, w in zip(filter.regressors, weights, strict=True):
        np.testing.assert_array_equal(
            getattr(r, "weights", getattr(getattr(r, "linear", None), "weights", np.zeros(0))), w
        )


def test_black_box_regressors_roll_and_step_alike() -> None:
    from sklearn.neighbors import KNeighborsRegressor

    rng = np.random.default_rng(0)
    data = ragged([12, 20, 15] * 4, 2, rng)
    recipe = Recipe(rank=2, lags=2, prior="last")
    learner = SklearnLearner(KNeighborsRegressor(5), max_rows=200)
    filter = best(dagger(data, data, Stack(2), learner, rng=rng, n_rounds=2, recipe=recipe)).filter
    slow = loop_beliefs(filter, data[1].values)
    np.testing.assert_allclose(filter.run(data)[0][12:32], slow[:-1], rtol=0, atol=1e-10)


def test_second_moments_hold_a_likelihood_of_any_continuation() -> None:
    """On white noise the belief is the Gaussian of the noise, so log-likelihoods under both agree."""
    rng = np.random.default_rng(0)
    data = Trajectories.of(rng.standard_normal((300, 30, 1)))
    filter = best(dagger(data, data, SecondMoment(2), Ridge(1e-2), rng=rng, n_rounds=2)).filter
    belief = filter.run(data[:1])[0][5:6]
    features = SecondMoment(2)
    for f in ([0.0, 0.0], [1.0, -1.0], [2.0, 2.0]):
        ours = features.log_likelihood(belief, np.array(f).reshape(1, 2, 1))[0]
        assert abs(ours - (-0.5 * np.dot(f, f) - np.log(2 * np.pi))) < 0.15


def test_states_after_rows_know_their_time_and_what_was_unseen() -> None:
    """By hand: nothing is seen in the first row, nor in rows 3 and 4 of five."""
    x = np.full((5, 1), 0.5)
    x[[0, 3, 4]] = np.nan
    state = rolled(learnt_of_one(), Trajectories.of(x)).after
    assert state.clock.tolist() == [1, 2, 3, 4, 5]
    assert state.unseen.tolist() == [1, 0, 0, 1, 2]
    assert state.late.tolist() == [1, 1, 1, 1, 1]


def learnt_of_one() -> Filter:
    return random_system(np.random.default_rng(0), n_outputs=1).predictive_filter(3)
