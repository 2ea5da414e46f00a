"""A filter is the Gaussian that it says it is: all rows of a recording, written down as one joint distribution.

The belief m_t and the row x_t are affine in what is random: the start and the noise of every row. So the rows of a
short recording, and those after it, have one mean and one covariance. From these the textbook formula of conditioning
gives every prediction, variance, log-likelihood and smoothed entry. No step of the package is used.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from contract.engines import whole
from contract.readings import HORIZON
from psimlearn.filter import Feedback, Filter, Linear, Scaling, Stack
from psimlearn.filter.opening import Opening
from psimlearn.filter.smooth import smooth
from psimlearn.filter.uncertainty import LEVELS, Calibration, Starting
from psimlearn.recordings.trajectories import Trajectories

CLOSE = 1e-9
ROWS, N = 8, 2


@dataclass(frozen=True)
class System:
    """The numbers of a random linear filter, and the joint distribution of all its rows."""

    lags: int
    window: int
    rank: bool
    inputs: str
    start: str
    prior: str
    seed: int

    def numbers(self) -> dict[str, Any]:
        """Random numbers, so small that nothing grows over the rows."""
        rng = np.random.default_rng(self.seed)
        d, q, p = self.window * N, self.lags, {"none": 0, "inputs": 1, "feedthrough": 2}[self.inputs]
        r = 2 if self.rank else d
        root = rng.standard_normal((2, N, N))
        V = root @ root.swapaxes(1, 2) + 0.2 * np.eye(N)
        return {
            "W": rng.uniform(-0.5, 0.5, (r + q * N + p, d)),
            "b": rng.standard_normal(d),
            "P": rng.standard_normal((d, r)) / 2 if self.rank else np.eye(d),
            "feedback": (rng.standard_normal(r), rng.uniform(0.5, 2.0, r), 0.8),
            "initial": rng.standard_normal(d),
            "older": rng.standard_normal((q - 1, N)),
            "root": rng.standard_normal((d + (q - 1) * N, 4)),
            "V": V[0],
            "V1": V[1] if self.start == "noisy" else V[0],
            "centre": rng.standard_normal(d),
            "scaling": (rng.standard_normal(N) * 3, rng.uniform(0.5, 4.0, N)),
            "u": np.append(rng.standard_normal((ROWS, 1)), np.zeros((HORIZON + 1, 1)), axis=0),
        }

    def maps(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows, (times, n), and beliefs, (times, d), as affine maps of what is random: [constant; start; noises]."""
        a, q = self.numbers(), self.lags
        a["u"][ROWS:] = a["u"][ROWS - 1]  # held
        times, d, k = ROWS + HORIZON, len(a["initial"]), a["root"].shape[1]
        width = 1 + k + times * N
        m, older = np.zeros((d, width)), np.zeros((q - 1, N, width))
        m[:, 0], older[:, :, 0] = a["initial"], a["older"]
        if self.start == "opened":
            m[:, 1 : 1 + k], older[:, :, 1 : 1 + k] = a["root"][:d], a["root"][d:].reshape(q - 1, N, k)
        one, rows, beliefs = np.eye(1, width), [], []
        mean, scale, weight = a["feedback"]
        for t in range(times):
            x = m[:N].copy()
            x[:, 1 + k + t * N : 1 + k + (t + 1) * N] += np.linalg.cholesky(a["V"] if t else a["V1"])
            if t == 0 and self.start != "opened":
                older[:] = x
            fed = weight * (a["P"].T @ m - mean[:, None] * one) / scale[:, None]
            u = {"none": [], "inputs": [a["u"][t]], "feedthrough": [a["u"][t], a["u"][t + 1]]}[self.inputs]
            z = np.concatenate([fed, x, *older, *(each[:, None] * one for each in u)])
            rows.append(x)
            beliefs.append(m)
            m = a["W"].T @ z + a["b"][:, None] * one
            m = m + (np.tile(x, (self.window, 1)) if self.prior == "last" else a["centre"][:, None] * one)
            older = np.concatenate([x[None], older])[: q - 1]
        return np.array(rows), np.array(beliefs)

    def filter(self) -> Filter:
        """The same numbers as a filter, calibrated by what its noise brings to the next rows."""
        a, (rows, _) = self.numbers(), self.maps()
        mean, scale, weight = a["feedback"]
        first = 0 if self.start == "opened" else self.lags  # an opening has no first step of its own
        noises = rows[first + np.arange(HORIZON)][:, :, 1 + a["root"].shape[1] + first * N :]
        base = np.sum(noises**2, axis=2)
        quantiles = np.tile(np.linspace(0.01, 3.0, len(LEVELS))[:, None, None], (1, HORIZON, N))
        alike = Starting(np.ones((1, 1, N)), quantiles[:, :1], a["V1"])
        return Filter(
            features=Stack(self.window),
            regressors=(Linear(a["W"], a["b"]),),
            initial=a["initial"],
            scaling=Scaling(*a["scaling"]),
            feedback=Feedback(mean, scale, weight, a["P"] if self.rank else None),
            centre=None if self.prior == "last" else a["centre"],
            covariance=a["V"],
            lags=self.lags,
            input_scaling=None if self.inputs == "none" else Scaling(np.zeros(1), np.ones(1)),
            feedthrough=self.inputs == "feedthrough",
            calibration=Calibration(base, np.zeros_like(base), quantiles),
            calibration_blind=Calibration(base, np.zeros_like(base), quantiles),
            calibration_next=Calibration(base, np.zeros_like(base), quantiles),
            starting=alike if self.start == "noisy" else None,
            opening=Opening(a["older"], a["root"]) if self.start == "opened" else None,
        )


def drawn(system: System, missing: np.ndarray) -> tuple[Filter, Trajectories, np.ndarray]:
    """A filter, a recording of its model with gaps, and the recording standardised."""
    rows, _ = system.maps()
    random = np.random.default_rng([system.seed, 1]).standard_normal((rows.shape[2],))
    random[0] = 1.0
    x = (rows @ random)[:ROWS]
    x = np.where(missing, np.nan, x)
    filter = system.filter()
    data = Trajectories.of([filter.scaling.undo(x)])
    if system.inputs != "none":
        data = Trajectories.of([filter.scaling.undo(x)], [system.numbers()["u"][:ROWS]])
    return filter, data, x


def conditioned(of: np.ndarray, given: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the covariance of some affine maps, given the values of others."""
    covariance, across = given[:, 1:] @ given[:, 1:].T, of[:, 1:] @ given[:, 1:].T
    gain = np.linalg.solve(covariance, across.T).T
    return of[:, 0] + gain @ (values - given[:, 0]), of[:, 1:] @ of[:, 1:].T - gain @ across.T


systems = st.builds(
    System,
    lags=st.integers(1, 3),
    window=st.integers(1, 2),
    rank=st.booleans(),
    inputs=st.sampled_from(["none", "inputs", "feedthrough"]),
    start=st.sampled_from(["plain", "noisy", "opened"]),
    prior=st.sampled_from(["last", "mean"]),
    seed=st.integers(0, 10_000),
)
patterns = st.lists(st.sampled_from([True, True, False, False, False]), min_size=ROWS * N, max_size=ROWS * N)


def hold(system: System, gone: np.ndarray) -> None:
    """Hold all answers about a recording without some entries to the joint distribution."""
    if system.start == "opened" and not gone[0].any():
        gone[0, 0] = True  # the doubt of a start that lost no entry ends early: see the contract of engines
    filter, data, x = drawn(system, gone)
    said, (rows, beliefs), seen = whole(filter, data), system.maps(), ~gone
    driven, window = system.inputs != "none", system.window
    late = int(np.argmax(seen.any(axis=1))) if seen.any() else ROWS
    for t in range(ROWS + 1):
        given, values = rows[:t][seen[:t]], x[:t][seen[:t]]
        for j in range(HORIZON if t < ROWS else HORIZON - 1):
            # with inputs to come the first block is read, else the window, and then its last block
            step, block = (j, 0) if driven or j < 0 else (max(j - window + 1, 0), min(j, window - 1))
            if t + step >= len(rows):
                continue
            read = beliefs[t + step][block * N : (block + 1) * N]
            np.testing.assert_allclose(said["ahead"][t, j], conditioned(read, given, values)[0], rtol=0, atol=CLOSE)
            # doubt of a start that is not late is in the calibration of first rows, of which there is none here
            measured = (t > late if system.start == "noisy" else t > 0) and (system.start != "opened" or late > 0)
            if measured and t + j < len(rows):
                variance = np.diag(conditioned(rows[t + j], given, values)[1])
                np.testing.assert_allclose(said["std"][t, j] ** 2, variance, rtol=CLOSE, atol=0)
        o = seen[t] if t < ROWS else np.zeros(N, bool)
        if o.any() and (system.start != "opened" or late > 0):
            mean, covariance = conditioned(rows[t][o], given, values)
            nats = multivariate_normal.logpdf(x[t][o], mean, covariance) - np.log(filter.scaling.scale[o]).sum()
            np.testing.assert_allclose(said["nats"][t], nats, rtol=0, atol=CLOSE)
    if gone.any():
        smoothed = smooth(filter, data)
        mean, covariance = conditioned(rows[:ROWS][gone], rows[:ROWS][seen], x[seen])
        np.testing.assert_allclose(filter.scaling(smoothed.mean)[gone], mean, rtol=0, atol=CLOSE)
        deviations = (smoothed.std / filter.scaling.scale)[gone]
        np.testing.assert_allclose(deviations**2, np.diag(covariance), rtol=0, atol=CLOSE)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(system=systems, missing=patterns)
def test_every_answer_is_that_of_the_joint_gaussian(system: System, missing: list[bool]) -> None:
    hold(system, np.array(missing).reshape(ROWS, N))


@pytest.mark.parametrize("late", [0, 2])
def test_wide_memories_are_the_joint_gaussian(late: int) -> None:
    """Memories of 102 numbers, of which square roots are kept."""
    gone = np.random.default_rng(late).random((ROWS, N)) < 0.4
    gone[:late] = True
    hold(System(50, 1, False, "none", "opened", "last", late), gone)


@pytest.mark.parametrize("seed", range(4))
def test_statsmodels_says_the_same_of_longer_recordings(seed: int) -> None:
    """The state is [m; older rows; noise of the row], which is observed without noise of its own."""
    system = System(1 + seed % 3, 1 + seed % 2, bool(seed % 2), "none", "opened", ["last", "mean"][seed % 2], seed)
    a, filter, rng = system.numbers(), system.filter(), np.random.default_rng(seed)
    x = rng.standard_normal((60, N))
    x[rng.random(x.shape) < 0.4] = np.nan
    x[0, 0], x[20:30, 1] = np.nan, np.nan
    d, q, k = len(a["initial"]), system.lags, len(a["root"])

    def after(state: np.ndarray) -> np.ndarray:
        """The next [m; older rows] of columns [m; older rows; noise; 1]."""
        m, older, one = state[:d], state[d:k], state[-1:]
        row = m[:N] + state[k : k + N]
        mean, scale, weight = a["feedback"]
        z = np.concatenate([weight * (a["P"].T @ m - mean[:, None] * one) / scale[:, None], row, older])
        prior = np.tile(row, (system.window, 1)) if system.prior == "last" else a["centre"][:, None] * one
        return np.concatenate(
            [a["W"].T @ z + a["b"][:, None] * one + prior, np.concatenate([row, older])[: (q - 1) * N]]
        )

    columns = after(np.eye(k + N + 1))
    theirs = KalmanSmoother(k_endog=N, k_states=k + N, k_posdef=N)
    theirs.tolerance = 0  # never treat the covariance as converged
    theirs["design"] = np.hstack([np.eye(N, k), np.eye(N)])
    theirs["transition"], theirs["selection"] = np.vstack([columns[:, :-1], np.zeros((N, k + N))]), np.eye(k + N, N, -k)
    theirs["state_cov"], theirs["state_intercept"] = a["V"], np.append(columns[:, -1], np.zeros(N))
    first = np.zeros((k + N, k + N))
    first[:k, :k], first[k:, k:] = a["root"] @ a["root"].T, a["V"]
    theirs.initialize_known(np.concatenate([a["initial"], a["older"].ravel(), np.zeros(N)]), first)
    theirs.bind(x.copy())
    result, data, gone = theirs.smooth(), Trajectories.of([filter.scaling.undo(x)]), np.isnan(x)
    np.testing.assert_allclose(whole(filter, data)["belief"], result.predicted_state[:d].T, rtol=0, atol=CLOSE)
    smoothed = smooth(filter, data)
    design = theirs["design"]
    mean = (design @ result.smoothed_state).T
    variance = np.einsum("ni,ijt,nj->tn", design, result.smoothed_state_cov, design)
    np.testing.assert_allclose(filter.scaling(smoothed.mean)[gone], mean[gone], rtol=0, atol=CLOSE)
    np.testing.assert_allclose((smoothed.std / filter.scaling.scale)[gone] ** 2, variance[gone], rtol=0, atol=CLOSE)
