"""Linear dynamical systems with their Kalman filter and the paper's filter in predictive space."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.signal

from psimlearn.baselines.kalman import Kalman, StationaryKalman
from psimlearn.checks import generator, number, room_for, whole
from psimlearn.filter import Feedback, Filter, Linear, Scaling, Stack
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["LinearSystem", "Stationary", "hard_system", "long_memory_system", "random_system"]


MOST_STATES = 1000
"""The most states and outputs of a random system."""


class Stationary(NamedTuple):
    """The fixed point of the Kalman filter."""

    P: Float[np.ndarray, "s s"]
    """Covariance of the state expected before the observation (Sigma_s of the paper)."""
    V: Float[np.ndarray, "n n"]
    """Covariance of the one-step error; its trace is e_F, the least possible error."""
    L: Float[np.ndarray, "s n"]
    """The gain of the filter."""


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """s_{t+1} = A s_t + w_t, x_t = C s_t + v_t, cov(w, v) = [Q S; S' R], started at s_0 ~ N(mean, Sigma_s)."""

    A: Float[np.ndarray, "s s"]
    C: Float[np.ndarray, "n s"]
    Q: Float[np.ndarray, "s s"]
    R: Float[np.ndarray, "n n"]
    S: Float[np.ndarray, "s n"]
    mean: Float[np.ndarray, " s"]

    @cached_property
    def stationary(self) -> Stationary:
        """The fixed point, from the Riccati equation."""
        A, C = self.A, self.C
        P = scipy.linalg.solve_discrete_are(A.T, C.T, self.Q, self.R, s=self.S)
        V = C @ P @ C.T + self.R
        return Stationary(P, V, np.linalg.solve(V, (A @ P @ C.T + self.S).T).T)

    def simulate(
        self,
        n_trajectories: int,
        length: int,
        rng: np.random.Generator,
        start_covariance: Float[np.ndarray, "s s"] | None = None,
    ) -> Trajectories:
        """Draw recordings. Only with the default start is the stationary Kalman filter optimal from the first row."""
        n_states, n = self.S.shape
        room_for("n_trajectories", whole(n_trajectories, "n_trajectories"), whole(length, "length"), n)
        generator(rng)
        root = _root(np.block([[self.Q, self.S], [self.S.T, self.R]]))
        start = _root(self.stationary.P if start_covariance is None else start_covariance)
        s = self.mean + rng.standard_normal((n_trajectories, n_states)) @ start.T
        x = np.empty((n_trajectories, length, n))
        for t in range(length):
            noise = rng.standard_normal((n_trajectories, n_states + n)) @ root.T
            x[:, t] = s @ self.C.T + noise[:, n_states:]
            s = s @ self.A.T + noise[:, :n_states]
        return Trajectories.of(x)

    def kalman(self) -> StationaryKalman:
        """The optimal filter for recordings with the default start."""
        return StationaryKalman(self.A, self.C, self.stationary.L, self.mean)

    def time_varying_kalman(self, start_covariance: Float[np.ndarray, "s s"] | None = None) -> Kalman:
        """The optimal filter for any start, and for recordings with gaps."""
        P = self.stationary.P if start_covariance is None else start_covariance
        return Kalman(self.A, self.C, self.Q, self.R, self.S, self.mean, P)

    def errors(self, horizon: int) -> Float[np.ndarray, " horizon"]:
        """The optimal filter's expected squared error 1 to `horizon` steps ahead: tr(C P_j C' + R)."""
        whole(horizon, "horizon")
        P, out = self.stationary.P, []
        for _ in range(horizon):
            out.append(np.trace(self.C @ P @ self.C.T + self.R))
            P = self.A @ P @ self.A.T + self.Q
        return np.array(out)

    def observability(self, window: int) -> Float[np.ndarray, "kn s"]:
        """O = [C; CA; ..; CA^{k-1}], which maps states to beliefs."""
        whole(window, "window")
        return np.concatenate([self.C @ np.linalg.matrix_power(self.A, j) for j in range(window)])

    def predictive_filter(self, window: int) -> Filter:
        """The paper's proposition: m_{t+1} = (OAO^+ - OLCO^+) m_t + OL x_t, which is O times the Kalman state."""
        O = self.observability(window)
        inverse = np.linalg.pinv(O)
        L = self.stationary.L
        weights = np.concatenate([O @ (self.A - L @ self.C) @ inverse, O @ L], axis=1).T
        d, n = len(O), len(self.C)
        return Filter(
            features=Stack(window),
            regressors=(Linear(weights, np.zeros(d)),),
            initial=O @ self.mean,
            scaling=Scaling(np.zeros(n), np.ones(n)),
            feedback=Feedback(np.zeros(d), np.ones(d)),
            centre=np.zeros(d),
            covariance=self.stationary.V,
        )


def random_system(
    rng: np.random.Generator, n_states: int = 3, n_outputs: int = 2, radius: float = 0.9, noise: float = 1.0
) -> LinearSystem:
    """A random stable system with spectral radius `radius`, as in the paper's section 5.1: started at N(1, Sigma_s).

    `noise` scales the observation noise.
    """
    generator(rng)
    whole(n_states, "n_states", most=MOST_STATES)
    whole(n_outputs, "n_outputs", most=MOST_STATES)
    number(radius, "radius")
    number(noise, "noise", above=True)
    A = rng.standard_normal((n_states, n_states))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    return LinearSystem(
        A,
        rng.standard_normal((n_outputs, n_states)),
        _random_covariance(rng, n_states),
        noise * _random_covariance(rng, n_outputs),
        np.zeros((n_states, n_outputs)),
        np.ones(n_states),
    )


def hard_system(rng: np.random.Generator) -> LinearSystem:
    """Spectral radius .99 and 30 times the observation noise: training that starts from zero diverges here."""
    return random_system(rng, radius=0.99, noise=30.0)


def long_memory_system() -> LinearSystem:
    """A system whose filter forgets slowly: observer poles at .97, -.9 and .9, so that short autoregressions fail.

    Its spectral radius is .95. It is in innovations form: the past determines the state, and the one-step error is
    the innovation. Autoregressions of the last 5, 10, 20 and 35 observations are at best 15, 5.3,
    1.7 and 0.5 % worse than its Kalman filter.
    """
    A = np.array([[0.0776, -0.0815, 0.3953], [0.0648, -0.3307, 0.2232], [0.8049, 0.5846, -0.4344]])
    C = np.array([[-1.2654, -0.6233, 0.0413], [-2.3250, -0.2188, -1.2459]])
    L = scipy.signal.place_poles(A.T, C.T, [0.97, -0.9, 0.9]).gain_matrix.T
    return LinearSystem(A, C, L @ L.T, np.eye(2), L, np.ones(3))


def _random_covariance(rng: np.random.Generator, n: int) -> Float[np.ndarray, "n n"]:
    root = rng.standard_normal((n, n))
    return root @ root.T / n + 0.1 * np.eye(n)


def _root(covariance: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """A square root of a covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
