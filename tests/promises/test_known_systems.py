"""What the estimator promises where recordings have gaps, inputs, hints or symbols, against filters that know systems.

Settings that matter little here are given, to save the time of choosing them; with the defaults the figures are alike.
"""

import os
from typing import Any

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter

from psimlearn import PSIM
from psimlearn.baselines import KGram
from psimlearn.datasets import LinearSystem, long_memory_hmm, random_system
from psimlearn.evaluate import errors_by_horizon
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.losses import LogLoss

RNG = np.random.default_rng
RADII = (0.9, 0.92, 0.94, 0.96, 0.98)
GIVEN: dict[str, Any] = {"lags": 2, "prior": "mean", "belief_weight": 1.0, "n_rounds": 6, "random_state": 0}
GAPPY: dict[str, Any] = GIVEN | {"learner": Ridge(1e-4), "n_rounds": 4}
"""With the ridge given too: rounds over gappy recordings take long while the tests check every shape."""

ALL = "PSIMLEARN_CAMPAIGN" in os.environ
"""Whether every system is tried; else the one that forgets most quickly and the one that forgets most slowly."""
pytestmark = pytest.mark.usefixtures("unchecked")


def stacked(data: Trajectories) -> np.ndarray:
    return data.values.reshape(len(data), -1, data.n_channels)


def with_gaps(data: Trajectories, share: float, rng: np.random.Generator) -> Trajectories:
    values = data.values.copy()
    values[rng.random(values.shape) < share] = np.nan
    return Trajectories(values, data.offsets)


def predictions(model: PSIM, data: Trajectories) -> np.ndarray:
    """One step ahead, (m, T, n)."""
    return np.stack([np.asarray(p) for p in model.predict(data)])


def error(predicted: np.ndarray, truth: np.ndarray) -> float:
    """Squared, summed over channels, over what was observed."""
    return float(np.nanmean((predicted - truth) ** 2, axis=(0, 1)).sum())


# -- entries missing at random -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5) if ALL else [0, 4])
def test_a_fifth_missing_at_random_costs_little_more_than_it_must(seed: int) -> None:
    """750 recordings of 40 rows, n = k = 2: within 3 % of the Kalman filter that skips what is missing.

    Measured on 300 recordings of 100 rows: .1, .3, .1, .6 and 1.5 %, with the defaults the same: most where the filter
    itself forgets slowly.
    """
    rng = RNG(seed)
    system = random_system(rng, radius=RADII[seed])
    train, test = (with_gaps(system.simulate(750, 40, rng), 0.2, rng) for _ in range(2))
    optimal = error(system.time_varying_kalman().forecast(test, 1)[:, 0].reshape(750, 40, 2), stacked(test))
    ours = error(predictions(PSIM(2, **GAPPY).fit(train), test), stacked(test))
    assert 0.99 <= ours / optimal <= 1.03


def test_a_fifth_missing_of_twelve_channels_leaves_hardly_a_window_whole() -> None:
    """n = 12, k = 5: one window in a million is complete. Within 5 %; with the defaults .3 to .6 % on five systems."""
    rng = RNG(1)
    system = random_system(rng, n_states=6, n_outputs=12, radius=0.92)
    train, test = (with_gaps(system.simulate(100, 100, rng), 0.2, rng) for _ in range(2))
    optimal = error(system.time_varying_kalman().forecast(test, 1)[:, 0].reshape(100, 100, 12), stacked(test))
    model = PSIM(5, **(GAPPY | {"lags": 1, "n_rounds": 1})).fit(train)
    assert 0.99 <= error(predictions(model, test), stacked(test)) / optimal <= 1.05


# -- a sensor that drops out -------------------------------------------------------------------------------------------

DROPOUT = slice(75, 125)
HARD = 13
"""Without its second sensor the exact filter of this system, with missing entries filled in, explodes."""


def dropouts(seed: int) -> list[dict[str, float]]:
    """One of two sensors missing for 50 rows: errors in the gap, and how far the belief is off once it is over."""
    rng = RNG(seed)
    system = random_system(rng, radius=RADII[seed % 5])
    train, full = system.simulate(300, 100, rng), system.simulate(200, 200, rng)
    model = PSIM(2, **GAPPY).fit(train)
    return [dropout(system, model, full, channel) for channel in range(2)]


def dropout(system: LinearSystem, model: PSIM, full: Trajectories, channel: int) -> dict[str, float]:
    truth = stacked(full)
    x = truth.copy()
    x[:, DROPOUT, channel] = np.nan
    test = Trajectories.of(x)
    inside = slice(DROPOUT.start + 1, DROPOUT.stop + 1)  # predicted without the sensor
    ours = predictions(model, test)
    ours_inside, optimal, same_fill = (
        error(predicted[:, inside], truth[:, inside])
        for predicted in (
            ours,
            kalman_rows(system.time_varying_kalman(), test),
            kalman_rows(system.predictive_filter(2), test),
        )
    )
    rho = np.abs(np.linalg.eigvals(system.A - system.stationary.L @ system.C)).max()
    back = DROPOUT.stop + int(np.ceil(np.log(100) / -np.log(rho))) + 10
    assert back < 200
    interrupted, straight = (np.stack(model.transform(data)) for data in (test, full))
    size = np.sqrt(np.mean(np.sum(straight**2, axis=2)))
    off = np.sqrt(np.sum((interrupted - straight) ** 2, axis=2)).max(axis=0) / size
    return {
        "optimal": ours_inside / optimal,
        "same fill": ours_inside / same_fill,
        "span": float(np.abs(ours).max() / np.abs(truth).max()),
        "off": float(off[back]),
    }


def kalman_rows(filter: Any, data: Trajectories) -> np.ndarray:
    return np.asarray(filter.forecast(data, 1)[:, 0].reshape(len(data), -1, data.n_channels))


def test_a_sensor_that_drops_out_for_50_rows() -> None:
    """Five systems, either sensor of each, against the Kalman filter that skips the missing one.

    Three quarters stay within 1.1 times its error. A missing channel is filled in with the errors' covariance of whole
    rows, and in a long gap errors go together in another way: so nothing is worse than the exact filter of the paper's
    proposition with the same fill. ln 100 / -ln rho(A - LC) + 10 rows after the gap the belief is within 1 % of one
    that was never interrupted.
    """
    found = [case for seed in range(5) for case in dropouts(seed)]
    assert np.quantile([case["optimal"] for case in found], 0.75) <= 1.1
    assert max(case["same fill"] for case in found) <= 1.03
    assert max(case["off"] for case in found) <= 0.01


def test_where_filling_in_is_unstable_the_box_bounds_it() -> None:
    """Predictions stay within three times the largest observation, and the belief recovers."""
    for case in dropouts(HARD):
        assert case["span"] <= 3
        assert case["off"] <= 0.01


# -- inputs ------------------------------------------------------------------------------------------------------------


def driven(
    system: LinearSystem, B: np.ndarray, D: np.ndarray, m: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """x and u, 100 rows of each: s_{t+1} = A s_t + B u_t + w_t, x_t = C s_t + D u_t + v_t."""
    Q, R, P = (np.linalg.cholesky(c) for c in (system.Q, system.R, system.stationary.P))
    s, x = system.mean + rng.standard_normal((m, 3)) @ P.T, []
    u = rng.standard_normal((m, 100, B.shape[1]))
    for t in range(100):
        x.append(s @ system.C.T + u[:, t] @ D.T + rng.standard_normal((m, 2)) @ R.T)
        s = s @ system.A.T + u[:, t] @ B.T + rng.standard_normal((m, 3)) @ Q.T
    return np.stack(x, axis=1), u


def kalman_with_inputs(
    system: LinearSystem, B: np.ndarray, D: np.ndarray, x: np.ndarray, u: np.ndarray, seen: int
) -> np.ndarray:
    """Predictions of every row from those before it; from row `seen` on, of the inputs alone."""
    s, out = np.tile(system.mean, (len(x), 1)), []
    for t in range(x.shape[1]):
        out.append(s @ system.C.T + u[:, t] @ D.T)
        s = s @ system.A.T + u[:, t] @ B.T
        if t < seen:
            s = s + (x[:, t] - out[-1]) @ system.stationary.L.T
    return np.stack(out, axis=1)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("at_once", [False, True])
def test_known_inputs_are_used_as_by_a_filter_that_knows_the_system(seed: int, at_once: bool) -> None:
    """One step: excess below 1 %, measured .05 to .14 % on five systems; forecasts of 10 rows within 2 %.

    With feed-through that holds from the second row on (.14 to .96 %, from the sixth on .05 to .16 %). The belief
    before the first row knows no input, so that D u_0 comes as a surprise, and is taken for news of the state: over
    all of 100 rows .3, .8, .3, 1.2 and 1.1 %.
    """
    rng = RNG(seed)
    system = random_system(rng, radius=RADII[seed])
    B, D = rng.standard_normal((3, 2)), rng.standard_normal((2, 2)) * at_once
    (x, u), (y, v) = (driven(system, B, D, 300, rng) for _ in range(2))
    model = PSIM(2, feedthrough=at_once, **GIVEN).fit(Trajectories.of(x, inputs=u))
    oracle = kalman_with_inputs(system, B, D, y, v, 100)

    def ratio(own: PSIM, data: Trajectories, skip: int = 0) -> float:
        late = slice(skip, None)
        return error(predictions(own, data)[:, late], y[:, late]) / error(oracle[:, late], y[:, late])

    test = Trajectories.of(y, inputs=v)
    assert ratio(model, test) <= (1.015 if at_once else 1.01)
    assert ratio(model, test, skip=1) <= 1.01
    assert ratio(model, test, skip=5) <= 1.003
    fixed = GIVEN | {"learner": Ridge(1e-4)}  # for models that know less: no ridge makes up for it
    assert ratio(PSIM(2, **fixed).fit(x), Trajectories.of(y)) >= 1.3
    if at_once:
        assert ratio(PSIM(2, **fixed).fit(Trajectories.of(x, inputs=u)), test) >= 1.1
    past, to_come = Trajectories.of(y[:, :90], inputs=v[:, :90]), v[:, 90:]
    known = error(kalman_with_inputs(system, B, D, y, v, 90)[:, 90:], y[:, 90:])
    assert error(model.forecast(past, 10, future_inputs=to_come), y[:, 90:]) <= 1.02 * known
    for wrong in (np.roll(to_come, 1, axis=0), np.zeros_like(to_come)):
        assert error(model.forecast(past, 10, future_inputs=wrong), y[:, 90:]) >= 1.3 * known


# -- hints -------------------------------------------------------------------------------------------------------------


def hinted(system: LinearSystem, H: np.ndarray, m: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """x and h = H s, 100 rows of each."""
    Q, R, P = (np.linalg.cholesky(c) for c in (system.Q, system.R, system.stationary.P))
    s, x, h = system.mean + rng.standard_normal((m, 3)) @ P.T, [], []
    for _ in range(100):
        h.append(s @ H.T)
        x.append(s @ system.C.T + rng.standard_normal((m, 2)) @ R.T)
        s = s @ system.A.T + rng.standard_normal((m, 3)) @ Q.T
    return np.stack(x, axis=1), np.stack(h, axis=1)


def by_filterpy(system: LinearSystem, x: np.ndarray) -> np.ndarray:
    """E[s_t | x_0 .. x_t] of one recording."""
    kalman = KalmanFilter(dim_x=3, dim_z=2)
    kalman.x, kalman.P = system.mean[:, None].copy(), system.stationary.P.copy()
    kalman.F, kalman.H, kalman.Q, kalman.R = system.A, system.C, system.Q, system.R
    out = []
    for row in x:
        kalman.update(row[:, None])
        out.append(kalman.x[:, 0].copy())
        kalman.predict()
    return np.array(out)


@pytest.mark.parametrize("seed", [0, 2, 4] if ALL else [0, 4])
def test_hints_are_estimated_as_by_the_filtered_kalman_state(seed: int) -> None:
    """Within 2 % of its squared error, measured .0 to .4 %; a predicted state is 1.7 to 2 times worse.

    Hints that are missing cost next to nothing: 30 % at random, or one never measured in two recordings of three.
    """
    rng = RNG(seed)
    system = random_system(rng, radius=RADII[seed])
    H = rng.standard_normal((2, 3))
    (x, h), (y, truth) = (hinted(system, H, 300, rng) for _ in range(2))
    predicted = system.kalman().states(Trajectories.of(y)).reshape(300, 100, 3)
    P, C = system.stationary.P, system.C
    gain = P @ C.T @ np.linalg.inv(system.stationary.V)
    filtered = predicted + (y - predicted @ C.T) @ gain.T
    for i in range(3):
        np.testing.assert_allclose(by_filterpy(system, y[i]), filtered[i], atol=1e-8)
    optimal = error(filtered @ H.T, truth)
    assert error(predicted @ H.T, truth) >= 1.5 * optimal
    at_random, never = h.copy(), h.copy()
    at_random[rng.random(h.shape) < 0.3] = np.nan
    never[100:, :, 1] = np.nan
    for hints, allowed in ((h, 1.02), (at_random, 1.04), (never, 1.04)):
        model = PSIM(2, **GIVEN).fit(Trajectories.of(x, hints=hints))
        assert 0.99 <= error(np.stack(model.hints(Trajectories.of(y))), truth) / optimal <= allowed


# -- symbols -----------------------------------------------------------------------------------------------------------


def test_long_memory_is_learnt_where_kgrams_fail() -> None:
    hmm = long_memory_hmm()
    train, test = (
        Trajectories.of_symbols(list(hmm.simulate(m, 300, RNG(seed))), alphabet=range(3))
        for seed, m in enumerate((300, 150))
    )
    model = PSIM(2, features="onehot", n_rounds=10, random_state=0).fit(train)
    exact, learnt, five = (
        errors_by_horizon(f, test, measure=LogLoss().nats)[0]
        for f in (hmm.forward(), model.filter_, KGram.fit(train, 5))
    )
    assert five - exact > 0.02
    assert (five - learnt) / (five - exact) > 0.8
