"""State-space models: against filterpy, python-control, statsmodels, and Kalman filters that they did not write."""

import sys
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from hypothesis import given, settings
from hypothesis import strategies as st

import small
from oracles import loop_beliefs
from psimlearn import (
    PSIM,
    DataError,
    Live,
    MissingExtraError,
    SettingsError,
    StateSpace,
    Trajectories,
    best,
    load,
    save,
)
from psimlearn.datasets import random_system
from psimlearn.filter import (
    Features,
    Feedback,
    Filter,
    Linear,
    RandomFourier,
    Scaling,
    SecondMoment,
    Stack,
    StackSquares,
)
from psimlearn.filter.smooth import impute

RNG = np.random.default_rng
N, ROWS, CLOSE = 2, 25, 1e-8
FEATURES: dict[str, Features] = {"stack": Stack(2), "squares": StackSquares(2), "moments": SecondMoment(2)}
CASES = [
    case
    for case in product(
        FEATURES, ["none", "inputs", "feedthrough"], [1, 3], ["mean", "last"], [False, True], [0.0, 0.7]
    )
    if case[0] == "stack" or case[3] == "mean"  # "last" is affine for stacks only
]
"""Features, inputs, lags, prior, rank and belief weight, in every combination."""


def made(name: str, inputs: str, lags: int, prior: str, rank: bool, weight: float, seed: int) -> Filter:
    """A random linear filter that forgets."""
    rng, features = RNG(seed), FEATURES[name]
    d = int(features(np.zeros((1, features.window, N))).shape[1])
    r = 3 if rank else d
    p = r + lags * N + {"none": 0, "inputs": 1, "feedthrough": 2}[inputs]
    root = rng.standard_normal((N, N))
    return Filter(
        features=features,
        regressors=(Linear(rng.uniform(-0.5, 0.5, (p, d)) / np.sqrt(p), rng.uniform(-0.3, 0.3, d)),),
        initial=rng.uniform(0.1, 0.4, d),
        scaling=Scaling(rng.standard_normal(N) * 3, rng.uniform(0.5, 4.0, N)),
        feedback=Feedback(
            rng.standard_normal(r) * 0.1,
            rng.uniform(0.5, 2.0, r),
            weight,
            rng.standard_normal((d, r)) / 3 if rank else None,
        ),
        centre=None if prior == "last" else rng.uniform(-0.3, 0.3, d),
        covariance=root @ root.T + 0.2 * np.eye(N),
        lags=lags,
        input_scaling=None if inputs == "none" else Scaling(np.array([0.3]), np.array([2.0])),
        feedthrough=inputs == "feedthrough",
        names=("a", "b"),
    )


def drawn(filter: Filter, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """A recording, and inputs if the filter takes any."""
    rng = RNG(seed)
    x = filter.scaling.mean + np.cumsum(rng.standard_normal((ROWS, N)), axis=0)
    return x, None if filter.input_scaling is None else rng.standard_normal((ROWS, 1))


def predicted(filter: Filter, x: np.ndarray, u: np.ndarray | None = None) -> np.ndarray:
    """The prediction of every row from the rows before, by the textbook step."""
    return filter.scaling.undo(filter.features.observations(loop_beliefs(filter, x, u)[:-1])[:, 0])


def by_filterpy(kf: Any, x: np.ndarray, u: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and log-likelihoods of a filterpy filter."""
    out, nats = [], []
    for t, row in enumerate(x):
        out.append(kf.H @ kf.x)
        kf.update(row)
        nats.append(kf.log_likelihood)
        kf.predict(None if u is None else np.append(u[t], u[min(t + 1, len(u) - 1)]))
    return np.array(out), np.array(nats)


def close(a: Any, b: Any, within: float = CLOSE) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=within)


@cache
def systems() -> list[tuple[tuple[Any, ...], Filter, StateSpace]]:
    """Every combination with its filter and the model of the filter."""
    filters = [made(*case, seed) for seed, case in enumerate(CASES)]
    return [(case, filter, StateSpace.of_filter(filter)) for case, filter in zip(CASES, filters, strict=True)]


# -- out ---------------------------------------------------------------------------------------------------------------


def test_every_linear_filter_is_its_model_in_numpy_and_filterpy() -> None:
    for seed, (case, filter, model) in enumerate(systems()):
        x, u = drawn(filter, seed)
        ours = predicted(filter, x, u)
        close(model.predict(x, u), ours)
        assert model.names == ("a", "b")
        if case[0] != "stack" or not case[4]:  # filterpy is slow, and the rank is not its matter
            continue
        foreign, nats = by_filterpy(model.to_filterpy(None if u is None else u[0]), x, u)
        close(foreign, ours)
        close(nats, filter.log_likelihood(Trajectories.of([x], None if u is None else [u])))


def test_statsmodels_has_our_predictions_and_likelihoods() -> None:
    for seed, (case, filter, model) in enumerate(systems()):
        if case[0] == "stack":
            x, u = drawn(filter, seed)
            results = model.to_statsmodels(x, u).filter([])
            close(results.forecasts.T, predicted(filter, x, u))
            close(results.llf_obs, filter.log_likelihood(Trajectories.of([x], None if u is None else [u])))


@settings(max_examples=25, deadline=None)
@given(place=st.integers(0, len(CASES) - 1), seed=st.integers(0, 2**31), share=st.floats(0, 0.9))
def test_statsmodels_treats_gaps_as_we_do(place: int, seed: int, share: float) -> None:
    _, filter, model = systems()[place]
    x, u = drawn(filter, seed)
    x[RNG(seed).random(x.shape) < share] = np.nan
    data, other = Trajectories.of([x], None if u is None else [u]), model.to_statsmodels(x, u)
    results = other.smooth([])
    close(results.forecasts.T, predicted(filter, x, u))
    close((other["design"] @ results.smoothed_state).T + other["obs_intercept"].T, impute(filter, data))
    if isinstance(filter.features, Stack):  # other beliefs claim variances of their own
        close(results.llf_obs, filter.log_likelihood(data))


def test_control_simulates_our_predictions_from_innovations() -> None:
    control = pytest.importorskip("control", reason="needs python-control: pip install 'psimlearn[statespace]'")
    for seed, (case, filter, model) in enumerate(systems()):
        if case[0] != "stack":
            continue
        x, u = drawn(filter, seed)
        e = x - predicted(filter, x, u)
        known = np.empty((ROWS, 0)) if u is None else u - model.input_scaling.mean
        first = model.start.mean + model.start.inputs @ known[0] + model.start.gains[0] @ e[0]
        system = model.to_control(dt=0.1)
        driven = np.hstack([known, e, np.ones((ROWS, int(model.drift.any())))])
        answer = control.forced_response(system, np.arange(ROWS) * 0.1, driven.T, first)
        close(answer.outputs.T + model.scaling.mean, x)
        assert system.output_labels == ["x0", "x1"]
        assert system.input_labels[known.shape[1] :][:2] == ["e0", "e1"]


@pytest.mark.parametrize("seed", range(4))
def test_a_model_has_no_more_states_than_the_system_behind_the_filter(seed: int) -> None:
    system = random_system(RNG(seed), n_states=3)
    model = StateSpace.of_filter(system.predictive_filter(4))
    assert model.order == 3
    assert StateSpace.of_filter(system.predictive_filter(4), tolerance=0.0).order == 4 * N + N
    poles = [np.sort_complex(np.linalg.eigvals(A)) for A in (model.A, system.A)]
    close(poles[0], poles[1], 1e-6)
    close(model.V, system.stationary.V)


def test_the_error_of_a_coarse_reduction_is_within_its_bound() -> None:
    """The bound holds for sums of squares: of predictions, and of all that drives them, in scales."""
    coarse = 0
    for seed, (_, filter, model) in enumerate(systems()):
        rough, (x, u) = model.reduced(0.02), drawn(filter, seed)
        if rough.order == model.order:
            continue
        coarse += 1
        moved = (rough.predict(x, u) - model.predict(x, u)) / model.scaling.scale
        driven = np.sum(((x - model.scaling.mean) / model.scaling.scale) ** 2)
        driven += 0 if u is None else np.sum(((u - model.input_scaling.mean) / model.input_scaling.scale) ** 2)
        e = (x[0] - model.predict(x, u)[0]) / model.scaling.scale
        first = 0 if u is None else (u[0, 0] - 0.3) / 2
        driven += 1 + np.sum(e**2) + first**2  # start.mean, start.gains and start.inputs
        assert np.linalg.norm(moved) <= rough.reduction_error * np.sqrt(driven) * (1 + 1e-9) + 1e-9
        assert rough.reduction_error > 0
    assert coarse > 20


def test_a_random_walk_keeps_its_drift() -> None:
    """prior="last" with zero weights and an intercept: x_{t+1} = x_t + 0.3, which has no equilibrium."""
    filter = replace(
        made("stack", "none", 1, "last", False, 0.0, 0),
        regressors=(Linear(np.zeros((2 * N + N, 2 * N)), np.repeat([0.3, 0.6], N)),),
    )
    model = StateSpace.of_filter(filter)
    assert model.drift.any()
    x, _ = drawn(filter, 3)
    close(predicted(filter, x)[1:], x[:-1] + 0.3 * filter.scaling.scale)
    close(model.predict(x), predicted(filter, x))
    close(by_filterpy(model.to_filterpy(), x)[0], predicted(filter, x))
    close(model.to_statsmodels(x).filter([]).forecasts.T, predicted(filter, x))
    back = model.to_filter(3)
    close(predicted(back, x), predicted(filter, x))
    ahead = x[-1] + 0.3 * np.arange(1, 7)[:, None] * filter.scaling.scale
    close(back.ahead(back.run(Trajectories.of([x]))[1], 6)[0], ahead)


def test_an_unstable_system_with_a_filter_that_forgets_is_reduced() -> None:
    """A = 1.05 is observed, so A - K C is stable."""
    model = StateSpace.of_kalman([[1.05, 0.0], [0.0, 0.5]], [[1.0, 0.0]], np.eye(2), [[1.0]])
    small = model.reduced()
    assert small.order == 1  # the second state is not observed
    close(np.linalg.eigvals(small.A), 1.05)
    x = np.cumsum(RNG(0).standard_normal((30, 1)), axis=0)
    close(small.predict(x), model.predict(x))


def test_a_filter_that_never_forgets_is_not_reduced() -> None:
    filter = made("stack", "none", 1, "mean", False, 1.0, 0)
    weights = np.vstack([np.eye(2 * N) * 1.1, np.full((N, 2 * N), 0.1)])
    wild = replace(filter, regressors=(Linear(weights, np.zeros(2 * N)),), feedback=Feedback(np.zeros(4), np.ones(4)))
    with pytest.raises(SettingsError, match=r"inside the unit circle.*1\.1.*tolerance=0"):
        StateSpace.of_filter(wild)
    x, _ = drawn(wild, 0)
    close(StateSpace.of_filter(wild, tolerance=0.0).predict(x) / predicted(wild, x), 1.0)


def test_only_linear_filters_are_models() -> None:
    filter = made("stack", "none", 1, "mean", False, 1.0, 0)
    linear = filter.regressors[0]
    assert isinstance(linear, Linear)
    waves = RandomFourier(np.zeros((6, 3)), False, linear)
    cases: list[tuple[Any, ...]] = [(waves,), (linear, linear)]
    for regressors in cases:
        with pytest.raises(SettingsError, match="required a linear filter"):
            StateSpace.of_filter(replace(filter, regressors=regressors))
    squares = made("squares", "none", 1, "mean", False, 1.0, 0)
    with pytest.raises(SettingsError, match="StackSquares"):
        StateSpace.of_filter(replace(squares, centre=None))


def test_a_touched_box_is_not_part_of_the_model() -> None:
    filter = made("stack", "none", 1, "mean", False, 0.7, 4)
    x, _ = drawn(filter, 4)
    fed = filter.feedback(loop_beliefs(filter, x)[:-1])
    bound = 1.001 * np.abs(fed).max(axis=0)
    wide, tight = (replace(filter, feedback=filter.feedback._replace(low=-b, high=b)) for b in (bound, bound / 2))
    close(StateSpace.of_filter(wide).predict(x), predicted(wide, x))
    assert np.abs(StateSpace.of_filter(tight).predict(x) - predicted(tight, x)).max() > 1e-3


def test_psim_gives_its_model() -> None:
    model, x = small.model(), RNG(2).standard_normal((30, N))
    state_space = model.state_space()
    close(state_space.predict(x), model.predict(x))
    # likelihoods of first rows are calibrated by age in `PSIM`, which a model of all rows does not have
    close(state_space.to_statsmodels(x).filter([]).llf_obs[10:], model.score_samples(x)[10:], 1e-3)
    plain = replace(model.filter_, opening=None)
    nats = StateSpace.of_filter(plain).to_statsmodels(x).filter([]).llf_obs
    close(nats[1:], plain.log_likelihood(Trajectories.of(x))[1:])
    with pytest.raises(SettingsError, match=r"tolerance: required .* received 2\.0"):
        model.state_space(tolerance=2.0)
    with pytest.raises(ValueError, match="not fitted"):
        PSIM().state_space()


# -- back --------------------------------------------------------------------------------------------------------------


def test_there_and_back_predicts_the_same() -> None:
    for seed, (case, filter, model) in enumerate(systems()):
        x, u = drawn(filter, seed)
        back = model.to_filter()
        moved = np.abs(predicted(back, x, u) - predicted(filter, x, u))
        close(moved[0], 0.0)  # the start of several lags is forgotten, if it is not kept: see `filter_of`
        late = case[2] > 1 and (case[1] == "feedthrough" or case[0] == "moments")
        close(moved[12 if late else 0 :], 0.0, 1e-6 if late else CLOSE)
        if u is not None:  # with known inputs every step ahead is a step of the filter
            future = np.zeros((1, 8, 1))
            states = [each.run(Trajectories.of([x], [u]), future[:, 0])[1] for each in (back, filter)]
            close(back.ahead(states[0], 8, future), filter.ahead(states[1], 8, future), 1e-6 if late else CLOSE)


def kalman(seed: int, p: int = 0) -> dict[str, np.ndarray]:
    """A Kalman filter of 3 states, 2 outputs and p inputs, whose state has units of its own."""
    rng, system = RNG(seed), random_system(RNG(seed), n_states=3)
    unit = np.array([1.0, 1e3, 1e-2])
    known = {"A": system.A * unit[:, None] / unit, "C": system.C / unit, "Q": system.Q * np.outer(unit, unit)}
    known |= {"R": system.R, "first": unit * rng.standard_normal(3)}
    inputs = {"B": unit[:, None] * rng.standard_normal((3, p)), "D": rng.standard_normal((2, p))}
    return known | {"mean": rng.standard_normal(2) * 10} | (inputs if p else {})


def run_by_filterpy(known: dict[str, np.ndarray], x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and log-likelihoods of filterpy, told the model, from the steady covariance."""
    kf = KalmanFilter(dim_x=3, dim_z=2)
    kf.F, kf.H, kf.Q, kf.R = (known[name] for name in ("A", "C", "Q", "R"))
    for _ in range(300):
        kf.predict()
        kf.update(np.zeros(2))
    kf.predict()
    kf.x = known["first"][:, None]
    out, nats = [], []
    for row, inputs in zip(x, u, strict=True):
        at_once = known["mean"] + (known["D"] @ inputs if u.shape[1] else 0.0)
        out.append((kf.H @ kf.x)[:, 0] + at_once)
        kf.update(row - at_once)
        nats.append(kf.log_likelihood)
        kf.predict()
        kf.x = kf.x + (known["B"] @ inputs)[:, None] if u.shape[1] else kf.x
    return np.array(out), np.array(nats)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("p", [0, 2])
def test_a_given_kalman_filter_runs_here(seed: int, p: int, tmp_path: Path) -> None:
    known, rng = kalman(seed, p), RNG(seed + 10)
    x, u = rng.standard_normal((3, 40, 2)), rng.standard_normal((3, 40, p))
    model = StateSpace.of_kalman(**known)
    save(model.to_filter(), tmp_path / "kalman.psim")
    filter = load(tmp_path / "kalman.psim")
    told = [run_by_filterpy(known, *pair) for pair in zip(x, u, strict=True)]
    first = 1 if p else 0  # a filter predicts row 1 without the inputs of row 1
    for i, (expected, nats) in enumerate(told):
        close(model.predict(x[i], u[i] if p else None), expected)
        data = Trajectories.of([x[i]], [u[i]] if p else None)
        close(filter.forecast(data, 1)[first:, 0], expected[first:])
        close(filter.log_likelihood(data)[first:], nats[first:])
    bank = Live(filter, 3)
    for t in range(39):
        bank.update(x[:, t], *((u[:, t], u[:, t + 1]) if p else ()))
        close(bank.predict(), [expected[t + 1] for expected, _ in told])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 3), st.floats(0.3, 1.02), st.sampled_from([0.0, 0.4]))
def test_any_kalman_filter_equals_its_filter(seed: int, s: int, n: int, radius: float, missing: float) -> None:
    """Also where entries are missing, which the Kalman filter skips."""
    system = random_system(RNG(seed), n_states=s, n_outputs=n, radius=radius)
    filter = StateSpace.of_kalman(system.A, system.C, system.Q, system.R, S=system.S, first=system.mean).to_filter()
    x = system.simulate(1, 30, RNG(seed)).values
    x = np.where(RNG(seed).random(x.shape) < missing, np.nan, x)
    expected = system.time_varying_kalman().forecast(Trajectories.of([x]), 5)
    close(filter.forecast(Trajectories.of([x]), 5), expected, CLOSE * max(1.0, np.abs(expected).max()))


def test_intervals_of_a_given_filter_are_those_of_its_model() -> None:
    system = random_system(RNG(5))
    filter = StateSpace.of_kalman(system.A, system.C, system.Q, system.R, first=system.mean).to_filter(5)
    data = system.simulate(200, 30, RNG(6))
    live = Live(filter)
    std = np.array([live.predict(h, return_std=True)[1] for h in range(1, 11)])
    close(np.sum(std**2, axis=1), system.errors(10))
    low, high = filter.predict(filter.run(data)[1]._replace(unseen=np.zeros(200, dtype=int)), 1).interval(0.9)
    assert low.shape == high.shape == (200, 1, 2)
    before = filter.forecast(data, 1)[:, 0]
    reach = (high - low)[0, 0] / 2
    assert 0.88 < np.mean(np.abs(data.values - before) < reach) < 0.92


def test_training_goes_on_from_a_given_filter() -> None:
    """Back-propagation improves a Kalman filter that was told a hundredth of the process noise."""
    pytest.importorskip("jax")
    from psimlearn import backprop

    system = random_system(RNG(7))
    wrong = StateSpace.of_kalman(system.A, system.C, 0.01 * system.Q, system.R, first=system.mean).to_filter(2)
    train, held = system.simulate(20, 30, RNG(8)), system.simulate(20, 30, RNG(9))
    rounds = list(backprop(train, held, wrong, optimiser="rmsprop", batch=None, n_epochs=6))
    assert best(rounds).error < 0.99 * rounds[0].error


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_say_what_is_required() -> None:
    given: dict[str, Any] = {"A": np.eye(2) * 0.5, "C": [[1.0, 1.0]], "K": np.ones((2, 1)), "V": [[1.0]]}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"C": [[1.0, 1.0, 1.0]]}, r"C: required finite numbers of shape \(1, 2\), received shape \(1, 3\)"),
        ({"K": [[np.nan], [1.0]]}, "K: .* not finite"),
        ({"A": "text"}, "A: required numbers"),
        ({"V": [[-1.0]]}, "V: required a symmetric positive definite"),
        ({"B": np.ones((2, 1)), "D": np.ones((1, 2))}, r"D: .*\(1, 1\)"),
    ]
    for change, message in wrong:
        with pytest.raises(SettingsError, match=message):
            StateSpace.of(**(given | change))
    with pytest.raises(SettingsError, match="required a model whose Kalman gain settles"):
        StateSpace.of_kalman([[2.0]], [[0.0]], [[1.0]], [[1.0]])
    model = StateSpace.of(**given)
    with pytest.raises(DataError, match="x, u: required 1 channels and 0 inputs, received 2"):
        model.predict(np.zeros((4, 2)))
    with pytest.raises(DataError, match="without gaps, received 1 missing"):
        model.predict(np.array([[1.0], [np.nan]]))
    with pytest.raises(SettingsError, match="determines the 3 states, received 1"):
        StateSpace.of_kalman(np.diag([0.9, 0.5, 0.1]), np.ones((1, 3)), np.eye(3), [[1.0]]).to_filter(1)
    with pytest.raises(DataError, match="first_inputs: required 0 inputs, received 2"):
        model.to_filterpy(np.zeros(2))
    driven = StateSpace.of(**given, B=np.ones((2, 1)), D=np.ones((1, 1)))
    with pytest.raises(DataError, match="first_inputs: required the 1 inputs"):
        driven.to_filterpy()


def test_a_library_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = StateSpace.of([[0.5]], [[1.0]], [[0.1]], [[1.0]])
    for library, call in [("control", model.to_control), ("filterpy.kalman", model.to_filterpy)]:
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(MissingExtraError, match=rf"{library.partition('.')[0]}.*psimlearn\[statespace\]"):
            call()
