"""Linear systems and autoregressions learnt from recordings, against libraries not written here."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.signal
import scipy.stats
from filterpy.kalman import KalmanFilter as FilterpyKalman
from nfoursid.kalman import Kalman as NfoursidKalman
from nfoursid.nfoursid import NFourSID
from pykalman import KalmanFilter as PykalmanFilter
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge
from statsmodels.tsa.api import VAR
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter as StatsmodelsKalman

from known import case
from oracles import ragged
from psimlearn.baselines import Autoregression, InnovationsModel, LastObservation, LinearGaussian, em, ivr, n4sid
from psimlearn.baselines.identify import identified
from psimlearn.datasets import LinearSystem, long_memory_system, random_system
from psimlearn.errors import DataError, SettingsError
from psimlearn.evaluate import Forecaster, errors_by_horizon
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.subspace import columns
from psimlearn.train.systems import stabilised

NAN = np.nan
RNG = np.random.default_rng
WEIGHTINGS: tuple[Any, ...] = ("n4sid", "cva")
Fit = Callable[[Trajectories], Any]
FITS: dict[str, Fit] = {
    "ar": lambda train: Autoregression.fit(train, 3, 2, alpha=1e-3),
    "ar with prior": lambda train: Autoregression.fit(train, 3, 2, alpha=1e-3, prior="last"),
    "cva": lambda train: n4sid(train, 2, block_rows=3),
    "n4sid": lambda train: n4sid(train, 2, block_rows=3, weighting="n4sid"),
    "ivr": lambda train: ivr(train, 2, window=2, past=3),
    "em": lambda train: em(train, 2, block_rows=3, n_iter=3),
}


def gappy(data: Trajectories, share: float, rng: np.random.Generator) -> Trajectories:
    values = np.where(rng.random(data.values.shape) < share, NAN, data.values)
    return Trajectories(values, data.offsets)


# --- time and boundaries, by hand


def test_columns_by_hand_never_span_two_trajectories() -> None:
    counting = Trajectories.of([np.arange(0.0, 5)[:, None], np.arange(10.0, 13)[:, None], np.arange(20.0, 24)[:, None]])
    plan = schedule(counting.offsets)
    past, future = columns(counting.values[plan.order], plan, 2, 2)
    found = sorted(np.concatenate([past, future], axis=1).tolist())
    assert found == [[1, 0, 2, 3], [2, 1, 3, 4], [21, 20, 22, 23]]
    glued = Trajectories.of(counting.values)
    plan = schedule(glued.offsets)
    assert len(columns(glued.values[plan.order], plan, 2, 2)[0]) == 12 - 3


@pytest.mark.parametrize("name", FITS)
def test_trajectories_are_not_one_recording(name: str) -> None:
    parts = ragged([20, 25, 30, 18], 2, RNG(0))
    glued = Trajectories.of(parts.values)
    test = ragged([30], 2, RNG(1))
    apart, together = (FITS[name](train).forecast(test, 2) for train in (parts, glued))
    assert np.abs(apart - together).max() > 1e-4


def test_autoregression_examples_by_hand() -> None:
    first, second = np.array([1.0, 2, 4, 8, 16]), np.array([5.0, 3, 2])
    train = Trajectories.of([first[:, None], second[:, None]])
    model = Autoregression.fit(train, 2, 1, alpha=0.0)
    z = np.array([[2.0, 1], [4, 2], [8, 4], [3, 5]])  # newest first, within one trajectory
    oracle = LinearRegression().fit(z, [4.0, 8, 16, 2])
    test = Trajectories.of(np.array([[1.0], [3], [2], [7]]))
    expected = [3.0, *oracle.predict([[1, 1], [3, 1], [2, 3]])]  # first the mean beginning; x_0 stands for x_{-1}
    np.testing.assert_allclose(model.forecast(test, 1)[:, 0, 0], expected, atol=1e-9)


# --- autoregression against scikit-learn and statsmodels


@pytest.mark.parametrize("prior", ["mean", "last"])
def test_autoregression_is_scikit_learns_ridge(prior: Any) -> None:
    lags, horizon, alpha = 3, 4, 0.02
    train, test = ragged([30, 8, 50, 6, 7], 2, RNG(2)), ragged([25], 2, RNG(3))
    mean, scale = train.values.mean(axis=0), train.values.std(axis=0)
    z, y = [], []
    for part in train:
        x = (part.values - mean) / scale
        for t in range(lags - 1, len(x) - horizon):
            z.append(x[t - lags + 1 : t + 1][::-1].ravel())
            y.append((x[t + 1 : t + 1 + horizon] - (x[t] if prior == "last" else 0)).ravel())
    oracle = SklearnRidge(alpha=alpha * len(z)).fit(np.array(z), np.array(y))
    found = Autoregression.fit(train, lags, horizon, alpha=alpha, prior=prior).forecast(test, horizon)
    x = (test.values - mean) / scale
    for t in range(lags, len(x)):
        ahead = oracle.predict(x[t - lags : t][::-1].reshape(1, -1)).reshape(horizon, 2)
        expected = (ahead + (x[t - 1] if prior == "last" else 0)) * scale + mean
        np.testing.assert_allclose(found[t], expected, rtol=0, atol=1e-9)


def test_autoregression_without_ridge_is_statsmodels_var() -> None:
    train, test = ragged([300], 3, RNG(4)), ragged([20], 3, RNG(5))
    library = VAR(train.values).fit(4, trend="c")
    model = Autoregression.fit(train, 4, 1, alpha=0.0)
    found = model.forecast(test, 6)  # beyond one step by feeding predictions back
    for t in range(4, 20):
        np.testing.assert_allclose(found[t], library.forecast(test.values[:t][-4:], 6), rtol=0, atol=1e-8)


def test_a_heavy_ridge_leaves_the_prior() -> None:
    train, test = ragged([40, 30], 2, RNG(6)), ragged([9, 12], 2, RNG(7), missing=0.2)
    heavy = Autoregression.fit(train, 2, 3, alpha=1e12, prior="last")
    drift = heavy.regressor.intercept.reshape(3, 2) * heavy.scaling.scale  # no penalty touches the intercept
    whole = Trajectories.of([np.nan_to_num(part.values) for part in test])
    stays = LastObservation.fit(train).forecast(whole, 3)[1:9]
    np.testing.assert_allclose(heavy.forecast(whole, 3)[1:9], stays + drift, rtol=0, atol=1e-9)


def test_tuned_autoregression_is_the_best_of_the_grid() -> None:
    data = case(0, 300, 40)
    train, validation = data.train[:40], data.validation[:40]
    tuned = Autoregression.tuned(train, validation, (1, 4), 2, alphas=(1e-6, 1e-2, 1.0))
    scale = tuned.scaling.scale
    errors = {
        (lags, alpha, prior): errors_by_horizon(
            Autoregression.fit(train, lags, 2, alpha=alpha, prior=prior), validation, skip=4, scale=scale
        )[0]
        for lags in (1, 4)
        for alpha in (1e-6, 1e-2, 1.0)
        for prior in ("mean", "last")
    }
    assert (tuned.lags, tuned.alpha, tuned.prior) == min(errors, key=errors.__getitem__)
    window = Autoregression.tuned(train, validation, 4, 2, criterion="window")
    assert np.isfinite(errors_by_horizon(window, validation, 5)).all()


def test_rows_before_which_lags_are_missing_are_no_reason_for_a_larger_ridge() -> None:
    """20 lags are at best 1.7 % worse than the optimal filter; what stands in for missing ones is far worse."""
    rng, system = RNG(0), long_memory_system()
    train, validation, test = (system.simulate(m, 64, rng) for m in (400, 50, 400))
    optimal = errors_by_horizon(system.kalman(), test, skip=20)[0]

    def excess(skip: int | None) -> float:
        model = Autoregression.tuned(train, validation, 20, 1, priors=("mean",), skip=skip)
        return float(errors_by_horizon(model, test, skip=20)[0] / optimal - 1)

    assert excess(None) < 0.05
    assert excess(0) > 0.2
    short = validation.blocks(15)  # no row has 20 before it: the last one counts
    assert np.isfinite(Autoregression.tuned(train, short, 20, 1).alpha)


# --- subspace identification against nfoursid and Octave


def long_recording(seed: int) -> tuple[LinearSystem, Trajectories, Trajectories]:
    rng = RNG(seed)
    system = random_system(rng)
    return system, system.simulate(1, 6000, rng), system.simulate(1, 4000, rng)


@pytest.mark.parametrize("seed", [10, 11])
def test_n4sid_predicts_as_nfoursid_does(seed: int) -> None:
    """With nfoursid's weighting the errors agree; canonical correlations may only do better, and do on seed 11."""
    system, train, test = long_recording(seed)
    mean = train.values.mean(axis=0)
    frame = pd.DataFrame(train.values - mean, columns=["a", "b"])
    library = NFourSID(frame, output_columns=["a", "b"], num_block_rows=10)
    library.subspace_identification()
    space, covariance = library.system_identification(rank=3)
    kalman = NfoursidKalman(space, covariance)
    for row in test.values - mean:
        kalman.step(row[:, None], np.empty((0, 1)))
    theirs = np.array(kalman.y_predicteds)[:-1, :, 0] + mean  # made after row t: of row t + 1
    skip = 100
    error = np.square(test.values[skip:] - theirs[skip - 1 :]).sum(axis=1).mean()
    plain, canonical = (errors_by_horizon(n4sid(train, 3, weighting=w), test, skip=skip)[0] for w in WEIGHTINGS)
    assert abs(plain / error - 1) < 0.01
    assert canonical < 1.002 * error
    assert canonical < 1.005 * errors_by_horizon(system.kalman(), test, skip=skip)[0]


OCTAVE = """
pkg load control
x = dlmread('{folder}/x.csv');
u = dlmread('{folder}/u.csv');
[sys, x0, info] = n4sid(iddata(x, u, 1), 3);
[a, b, c] = ssdata(sys);
dlmwrite('{folder}/a.csv', a, 'precision', 17);
dlmwrite('{folder}/c.csv', c, 'precision', 17);
dlmwrite('{folder}/k.csv', info.K, 'precision', 17);
"""


def test_n4sid_predicts_as_octaves_does(tmp_path: Path) -> None:
    """Octave's crashes on data without inputs, so it has one that does nothing."""
    if shutil.which("octave") is None:
        pytest.skip("needs Octave and its control package")
    if subprocess.run(["octave", "--no-gui", "--eval", "pkg load control"], capture_output=True).returncode:
        pytest.skip("needs Octave's control package")
    system, train, test = long_recording(10)
    mean = train.values.mean(axis=0)
    np.savetxt(tmp_path / "x.csv", train.values - mean, delimiter=",")
    np.savetxt(tmp_path / "u.csv", 1e-3 * RNG(0).standard_normal(len(train.values)))
    subprocess.run(["octave", "--no-gui", "--eval", OCTAVE.format(folder=tmp_path)], check=True, capture_output=True)
    A, C, K = (np.loadtxt(tmp_path / f"{name}.csv", delimiter=",", ndmin=2) for name in "ack")
    theirs = InnovationsModel(A, C, K, np.eye(2), mean, np.zeros(3), np.zeros((3, 3)))
    models = (system.kalman(), n4sid(train, 3), theirs)
    optimal, ours, octaves = (errors_by_horizon(model, test, skip=100)[0] for model in models)
    assert ours < 1.005 * optimal
    assert octaves < 1.005 * optimal


def test_ivr_has_a_gain_that_forgets() -> None:
    """Random walks behind noise, and more states than they have: conditioning gives filters that do not forget."""
    rng = RNG(0)
    walk = np.cumsum(rng.standard_normal((6, 40, 1)), axis=1)
    data = Trajectories.of(list(walk + 0.3 * rng.standard_normal((6, 40, 4))))
    ranks = range(1, 21)
    conditioned = [ivr(data, rank) for rank in ranks]
    forgetting = [ivr(data, rank, riccati=True) for rank in ranks]
    assert max(model.filter_radius for model in conditioned) >= 1
    assert max(model.filter_radius for model in forgetting) < 1
    for one, other in zip(conditioned, forgetting, strict=True):
        assert (one.filter_radius >= 1) or np.array_equal(one.K, other.K)


# --- all of them against the truth


@pytest.mark.parametrize("method", [n4sid, ivr])
def test_one_unit_for_all_channels_lets_the_strong_ones_decide(method: Callable[..., InnovationsModel]) -> None:
    """Two states for two channels that move and six that hardly do: in units of their own, all claim as much."""
    rng = RNG(0)
    strong, weak = (random_system(rng, n, n, radius=0.98, noise=0.1) for n in (2, 6))

    def recordings(m: int) -> Trajectories:
        x, faint = (system.simulate(m, 30, rng) for system in (strong, weak))
        return replace(x, values=np.concatenate([x.values, 0.02 * faint.values], axis=1))

    train, test = recordings(20), recordings(200)
    options = {"block_rows": 3, "weighting": "n4sid"} if method is n4sid else {"past": 3}
    identify = partial(method, train, 2, **options)
    errors = {each: errors_by_horizon(identify(standardise=each), test, skip=5)[0] for each in (True, False)}
    assert errors[False] < 0.8 * errors[True]
    small, one = (replace(each, values=1e-3 * each.values) for each in (train, test[:1]))
    again = method(small, 2, standardise=False, **options)
    expected = 1e-3 * identify(standardise=False).forecast(test[:1], 2)
    np.testing.assert_allclose(again.forecast(one, 2), expected, rtol=0, atol=1e-8)


def test_a_filter_that_does_not_forget_is_the_last_resort() -> None:
    """On these recordings the unstable filter has no error; on others it would diverge."""
    train, validation = Trajectories.of(RNG(0).standard_normal((2, 20, 1))), Trajectories.of(np.zeros((2, 5, 1)))
    one = np.ones((1, 1))

    def model(a: float, level: float) -> InnovationsModel:
        return InnovationsModel(a * one, one, 0 * one, one, np.full(1, level), np.zeros(1), 0 * one)

    wild, tame = model(1.2, -train.values.mean() / train.values.std()), model(0.5, 1.0)
    assert identified(train, validation, lambda x, plan: [wild, tame], True).radius == 0.5
    assert errors_by_horizon(identified(train, validation, lambda x, plan: [wild], True), validation)[0] < 1e-20


def test_expectation_maximisation_starts_from_a_system_given() -> None:
    data = case(0, 300, 40)
    start = n4sid(data.train, 3)
    one, other = em(data.train, 3, n_iter=2), em(data.train, start=start, n_iter=2)
    assert one.log_likelihoods == other.log_likelihoods


def test_expectation_maximisation_refines_what_it_starts_from() -> None:
    rng = RNG(9)
    system = long_memory_system()
    train, test = system.simulate(200, 100, rng), system.simulate(500, 100, rng)
    start, refined = n4sid(train, 3), em(train, 3, n_iter=40)
    optimal = errors_by_horizon(system.kalman(), test)[0]
    begin, end = (errors_by_horizon(model, test)[0] / optimal - 1 for model in (start, refined))
    assert end < 0.8 * begin


def test_gaps_cost_little() -> None:
    data = case(1)
    train = gappy(data.train[:300], 0.2, RNG(10))
    fits: dict[str, Forecaster] = {
        "cva": n4sid(train, 3),
        "ivr": ivr(train, 3),
        "em": em(train, 3, n_iter=10),
        "ar": Autoregression.fit(train, 5, 2, alpha=1e-4),
    }
    for name, model in fits.items():
        assert data.excess(model) < 0.01, name


# --- likelihoods


def lds(rng: np.random.Generator, correlated: bool = False) -> LinearGaussian:
    system = random_system(rng)
    root = rng.standard_normal((5, 5))
    noise = root @ root.T + 0.2 * np.eye(5)
    S = noise[:3, 3:] if correlated else np.zeros((3, 2))
    start = np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 0.5]])
    return LinearGaussian(system.A, system.C, noise[:3, :3], noise[3:, 3:], S, np.array([1.0, -2]), np.ones(3), start)


def by_pykalman(model: LinearGaussian, **options: Any) -> PykalmanFilter:
    return PykalmanFilter(
        transition_matrices=model.A,
        observation_matrices=model.C,
        transition_covariance=model.Q,
        observation_covariance=model.R,
        observation_offsets=model.mean,
        initial_state_mean=model.initial,
        initial_state_covariance=model.covariance,
        **options,
    )


@pytest.mark.parametrize("seed", range(3))
def test_likelihood_is_pykalmans(seed: int) -> None:
    model, data = lds(RNG(seed)), ragged([40, 3, 2, 25, 25], 2, RNG(20 + seed))
    library = by_pykalman(model)
    expected = sum(library.loglikelihood(part.values) for part in data)
    np.testing.assert_allclose(model.log_likelihood(data), expected, rtol=1e-8)
    states = [library.filter(part.values)[0] @ model.A.T for part in data]
    found = data.unpacked(model.states(data))
    for ours, theirs in zip(found, states, strict=True):
        np.testing.assert_allclose(ours[1:], theirs[:-1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_likelihood_with_gaps_is_statsmodels(seed: int) -> None:
    model, data = lds(RNG(seed)), ragged([40, 3, 1, 25, 25], 2, RNG(30 + seed), missing=0.3)
    expected = 0.0
    for part in data:
        library = StatsmodelsKalman(2, 3, tolerance=0)
        library["design"], library["transition"], library["selection"] = model.C, model.A, np.eye(3)
        library["obs_cov"], library["state_cov"] = model.R, model.Q
        library["obs_intercept"] = model.mean[:, None]
        library.bind(np.array(part.values))
        library.initialize_known(model.initial, model.covariance)
        expected += library.loglike()
    np.testing.assert_allclose(model.log_likelihood(data), expected, rtol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_likelihood_with_correlated_noises_is_that_of_one_large_gaussian(missing: float) -> None:
    model, x = lds(RNG(3), correlated=True), ragged([6], 2, RNG(33), missing=missing)
    means, rows, width = [], [], 3 + 6 * 5
    source = np.zeros((width, width))
    source[:3, :3] = model.covariance
    state = np.eye(3, width)
    noise = np.block([[model.Q, model.S], [model.S.T, model.R]])
    for t in range(6):
        w = 3 + 5 * t
        source[w : w + 5, w : w + 5] = noise
        row = model.C @ state
        row[:, w + 3 : w + 5] += np.eye(2)
        state = model.A @ state
        state[:, w : w + 3] += np.eye(3)
        rows.append(row)
        means.append(model.mean + model.C @ np.linalg.matrix_power(model.A, t) @ model.initial)
    seen = ~np.isnan(x.values.ravel())
    covariance = (np.concatenate(rows) @ source @ np.concatenate(rows).T)[np.ix_(seen, seen)]
    oracle = scipy.stats.multivariate_normal(np.concatenate(means)[seen], covariance)
    np.testing.assert_allclose(model.log_likelihood(x), oracle.logpdf(x.values.ravel()[seen]), rtol=1e-9)
    centred = Trajectories.of(x.values - model.mean)
    np.testing.assert_allclose(model.states(x), model.kalman().states(centred), rtol=0, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_likelihood_rises_with_every_iteration(missing: float) -> None:
    train = ragged([40, 3, 1, 25, 25, 60], 2, RNG(40), missing=missing)
    for start in (lds(RNG(4)), lds(RNG(5), correlated=True)):
        model = em(train, start=start, n_iter=25, tolerance=0.0)
        assert len(model.log_likelihoods) == 26
        assert np.diff(model.log_likelihoods).min() > 0
        np.testing.assert_allclose(model.log_likelihoods[0], start.log_likelihood(train), rtol=1e-9)
        np.testing.assert_allclose(model.log_likelihoods[-1], model.log_likelihood(train), rtol=1e-9)


def test_almost_no_noise_is_no_trouble() -> None:
    rng = RNG(13)
    mix = rng.standard_normal((4, 6))
    waves = [np.sin(np.arange(80)[:, None] * [0.1, 0.17, 0.23, 0.31] + rng.uniform(0, 6, 4)) @ mix for _ in range(12)]
    train = Trajectories.of(waves)
    model = em(train, 8, block_rows=3, n_iter=10, tolerance=0.0)
    assert len(model.log_likelihoods) > 1
    assert np.diff(model.log_likelihoods).min() > 0
    last = errors_by_horizon(LastObservation.fit(train), train, skip=10)[0]
    assert errors_by_horizon(model, train, skip=10)[0] < 1e-6 * last
    assert errors_by_horizon(n4sid(train, 8, block_rows=3), train, skip=10)[0] < 1e-3 * last
    assert errors_by_horizon(ivr(train, 8, window=3, past=3), train, skip=10)[0] < 1e-2 * last


def test_expectation_maximisation_is_no_worse_than_pykalmans() -> None:
    rng = RNG(6)
    train = random_system(rng).simulate(1, 200, rng)
    start = em(train, 3, block_rows=5, n_iter=0)
    plain = LinearGaussian(start.A, start.C, start.Q, start.R, 0 * start.S, start.mean, start.initial, start.covariance)
    library = by_pykalman(plain, em_vars="all").em(train.values, n_iter=10)
    ours = em(train, start=plain, n_iter=10, tolerance=0.0)
    assert ours.log_likelihoods[-1] >= library.loglikelihood(train.values)
    assert em(train, 3, block_rows=5, n_iter=10).log_likelihoods[-1] >= library.loglikelihood(train.values)


def test_one_iteration_is_pykalmans_where_noises_stay_independent() -> None:
    """Initial moments do not depend on what else is learnt: one step from the same start must give the same."""
    rng = RNG(7)
    train, start = random_system(rng).simulate(1, 80, rng), lds(RNG(7))
    library = by_pykalman(start, em_vars=["initial_state_mean", "initial_state_covariance"]).em(train.values, n_iter=1)
    ours = em(train, start=start, n_iter=1, tolerance=0.0)
    np.testing.assert_allclose(ours.initial, library.initial_state_mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.covariance, library.initial_state_covariance, rtol=0, atol=1e-8)


def test_maximisation_is_regression_on_smoothed_states() -> None:
    """One iteration on one recording, term by term, from pykalman's smoother; S = 0 at the start."""
    rng = RNG(12)
    train, start = random_system(rng).simulate(1, 50, rng), lds(RNG(12))
    library = by_pykalman(start)
    x = np.ma.masked_invalid(np.concatenate([train.values, np.full((1, 2), NAN)]))  # and the state after the last row
    s, P = library.smooth(x)
    means, filtered = library.filter(x)
    del means
    scale = train.values.std(axis=0)
    ours = em(train, start=start, n_iter=1, tolerance=0.0)
    cross = np.zeros((3, 3))
    for t in range(50):
        J = filtered[t] @ start.A.T @ np.linalg.inv(start.A @ filtered[t] @ start.A.T + start.Q)
        cross += P[t + 1] @ J.T + np.outer(s[t + 1], s[t])
    now = s[:50].T @ s[:50] + P[:50].sum(axis=0)
    np.testing.assert_allclose(ours.A, cross @ np.linalg.inv(now), rtol=0, atol=1e-7)
    mean = start.mean + (train.values - start.mean - s[:50] @ start.C.T).mean(axis=0)
    np.testing.assert_allclose(ours.mean, mean, rtol=0, atol=1e-7 * scale.max())
    C = (train.values - mean).T @ s[:50] @ np.linalg.inv(now)
    np.testing.assert_allclose(ours.C, C, rtol=0, atol=1e-7)


# --- the form in which systems are given back


@cache
def small_model() -> InnovationsModel:
    return n4sid(case(2, 300, 40).train, 2, block_rows=4)


def test_innovations_model_is_its_kalman_filter() -> None:
    model, data = small_model(), ragged([30, 1, 12, 30], 2, RNG(50))
    centred = Trajectories(data.values - model.mean, data.offsets)
    np.testing.assert_allclose(model.states(data), model.kalman().states(centred), rtol=0, atol=1e-9)
    values = data.values.copy()
    values[35, 1] = values[3] = NAN  # two of the trajectories have gaps now, two have none
    some = Trajectories(values, data.offsets)
    centred = Trajectories(some.values - model.mean, some.offsets)
    np.testing.assert_allclose(model.states(some), model.kalman().states(centred), rtol=0, atol=1e-9)
    assert (model.radius, model.filter_radius) < (1, 1)
    assert (model.order, model.stabilised) == (2, False)


@pytest.mark.parametrize("which", ["n4sid", "em"])
def test_filterpy_takes_the_system_as_documented(which: str) -> None:
    x = ragged([40], 2, RNG(51))
    model: Any = small_model() if which == "n4sid" else em(case(2, 300, 40).train, 2, block_rows=4, n_iter=2)
    B = np.linalg.solve(model.R, model.S.T).T
    library = FilterpyKalman(dim_x=2, dim_z=2)
    library.F, library.H, library.R = model.A - B @ model.C, model.C, model.R
    library.Q = model.Q - B @ model.S.T
    library.x, library.P = model.initial[:, None].copy(), model.covariance.copy()
    predicted = []
    for row in (x.values - model.mean)[:, :, None]:
        predicted.append(model.mean + (model.C @ library.x)[:, 0])
        library.update(row)
        library.predict(u=row, B=B)
    np.testing.assert_allclose(model.forecast(x, 1)[:, 0], predicted, rtol=0, atol=1e-8)


def test_state_space_form_turns_innovations_into_observations() -> None:
    for model in (small_model(), em(case(2, 300, 40).train, 2, block_rows=4, n_iter=2)):
        stationary = InnovationsModel(model.A, model.C, model.K, np.eye(2), model.mean, np.zeros(2), np.zeros((2, 2)))
        x = ragged([30], 2, RNG(52))
        e = x.values - stationary.forecast(x, 1)[:, 0]
        _, y, _ = scipy.signal.dlsim((model.A, model.K, model.C, np.eye(2), 1), e)
        np.testing.assert_allclose(y + model.mean, x.values, rtol=0, atol=1e-9)


def test_unstable_poles_are_shrunk_and_said_so() -> None:
    rng = RNG(53)
    change = rng.standard_normal((5, 5))
    A = np.zeros((5, 5))
    A[:2, :2] = 1.2 * np.array([[np.cos(1), np.sin(1)], [-np.sin(1), np.cos(1)]])
    A[2:4, 2:4] = [[1.05, 1.0], [0.0, 1.05]]  # a double pole without a second eigenvector
    A[4, 4] = 0.4
    found, shrunk = stabilised(change @ A @ np.linalg.inv(change))
    assert shrunk
    poles = np.linalg.eigvals(found)
    np.testing.assert_allclose(np.sort(np.abs(poles)), [0.4, 0.999, 0.999, 0.999, 0.999], atol=1e-4)
    np.testing.assert_allclose(sorted(np.abs(np.angle(poles)))[-2:], [1.0, 1.0], atol=1e-6)
    stable = 0.3 * np.eye(3)
    assert stabilised(stable) == (stable, False)
    grows = Trajectories.of([np.exp(0.1 * np.arange(30))[:, None] * (1 + 0.01 * rng.standard_normal((30, 1)))])
    model = n4sid(grows, 1, block_rows=3)
    assert model.stabilised
    assert model.radius == pytest.approx(0.999)


# --- what every one of them must keep beside the contract of a forecaster


@pytest.mark.parametrize("name", FITS)
def test_scale_and_shift_of_channels_do_not_matter(name: str) -> None:
    train, test = ragged([30, 12, 45], 2, RNG(62)), ragged([12, 20], 2, RNG(63))
    scale, shift = np.array([1e3, 1e-2]), np.array([5e3, -1.0])
    moved = [Trajectories(part.values * scale + shift, part.offsets) for part in (train, test)]
    expected = FITS[name](train).forecast(test, 3) * scale + shift
    np.testing.assert_allclose((FITS[name](moved[0]).forecast(moved[1], 3) - expected) / scale, 0, atol=1e-6)


@pytest.mark.parametrize("name", FITS)
def test_single_and_constant_channels(name: str) -> None:
    single = FITS[name](ragged([40, 30, 20], 1, RNG(64))).forecast(ragged([10], 1, RNG(65)), 3)
    assert single.shape == (10, 3, 1)
    assert np.isfinite(single).all()
    parts = [np.concatenate([p.values, np.full((len(p), 1), 7.3)], axis=1) for p in ragged([40, 30, 20], 2, RNG(66))]
    constant = Trajectories.of(parts)
    found = FITS[name](constant).forecast(constant, 3)
    np.testing.assert_allclose(found[:, :, 2], 7.3, atol=1e-4)


@pytest.mark.parametrize("name", FITS)
def test_too_little_data_is_said_clearly(name: str) -> None:
    with pytest.raises(DataError, match=r"required .* received .* Use"):
        FITS[name](ragged([4, 3, 2], 2, RNG(67)))
    unseen = ragged([40, 30], 2, RNG(68)).values.copy()
    unseen[:, 1] = NAN
    with pytest.raises(DataError, match="channel 1: required at least one observed value"):
        FITS[name](Trajectories.of(unseen))


@pytest.mark.parametrize(
    "fit",
    [
        lambda train: n4sid(train),
        lambda train: n4sid(train, 0),
        lambda train: n4sid(train, 2, block_rows=(3, 4)),
        lambda train: n4sid(train, 2, block_rows=1),
        lambda train: ivr(train),
        lambda train: ivr(train, 99),
        lambda train: em(train, 2, n_iter=-1),
        lambda train: Autoregression.fit(train, 0),
    ],
)
def test_settings_without_meaning_are_refused(fit: Fit) -> None:
    with pytest.raises(SettingsError, match="required"):
        fit(ragged([60, 50], 2, RNG(69)))
