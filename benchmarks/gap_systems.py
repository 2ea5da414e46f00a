"""Random linear systems for `gaps.py`, their recordings, and the Kalman filter that knows the system and skips gaps.

Everything is plain numpy, so that no change of psimlearn can change the systems, the recordings or the reference.

    s_{t+1} = A s_t + w_t,    x_t = C s_t + v_t,    w ~ N(0, Q),    v ~ N(0, r I),    s_0 ~ N(0, P_0)

P_0 is the stationary covariance of the state, P_0 = A P_0 A' + Q: recordings begin at any time of a system that has run
for long. The Kalman filter begins with this true P_0, so it is optimal from the first row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_discrete_lyapunov


@dataclass(frozen=True, eq=False)
class System:
    A: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    noise: float

    @property
    def n(self) -> int:
        return len(self.C)

    @property
    def start(self) -> np.ndarray:
        """P_0."""
        P = np.asarray(solve_discrete_lyapunov(self.A, self.Q))
        symmetric: np.ndarray = (P + P.T) / 2
        return symmetric

    @property
    def radius(self) -> float:
        return float(np.abs(np.linalg.eigvals(self.A)).max())

    def simulate(self, n_recordings: int, length: int, rng: np.random.Generator) -> np.ndarray:
        """Recordings, (n_recordings, length, n)."""
        root, d = np.linalg.cholesky(self.Q), len(self.A)
        s = rng.standard_normal((n_recordings, d)) @ np.linalg.cholesky(self.start).T
        x = np.empty((n_recordings, length, self.n))
        for t in range(length):
            x[:, t] = s @ self.C.T + np.sqrt(self.noise) * rng.standard_normal((n_recordings, self.n))
            s = s @ self.A.T + rng.standard_normal((n_recordings, d)) @ root.T
        return x


class Family(NamedTuple):
    """The ranges that systems are drawn from, and the settings of their fit."""

    number: int
    """Part of the seed."""
    n_systems: int
    states: tuple[int, int]
    outputs: tuple[int, int]
    radius: tuple[float, float]
    noise: tuple[float, float]
    n_recordings: int = 100
    window: int | None = None
    """None: PSIM() chooses."""

    def rng(self, seed: int, purpose: int) -> np.random.Generator:
        """The generator of the system (0), its training recordings (1), its test recordings (2), .."""
        return np.random.default_rng([self.number, seed, purpose])

    def system(self, seed: int) -> System:
        """The system of this seed. All draws, in this order, from `rng(seed, 0)`.

        Number of states and number of outputs: uniform, ends included. Spectral radius: uniform. Variance of the
        observation noise r, the same for all outputs: uniform in its logarithm. A: standard normal, scaled to the
        radius. C: standard normal. Q = G G' / d + I / 10, with G standard normal and d states.
        """
        rng = self.rng(seed, 0)
        d, n = (int(rng.integers(low, high + 1)) for low, high in (self.states, self.outputs))
        radius, noise = rng.uniform(*self.radius), np.exp(rng.uniform(*np.log(self.noise)))
        A = rng.standard_normal((d, d))
        A *= radius / np.abs(np.linalg.eigvals(A)).max()
        C, G = rng.standard_normal((n, d)), rng.standard_normal((d, d))
        return System(A, C, G @ G.T / d + 0.1 * np.eye(d), float(noise))


NOISY, ACCURATE = ((0.85, 0.99), (0.1, 3.0)), ((0.97, 0.999), (1e-4, 0.1))
FAMILIES = {
    "noisy": Family(0, 48, (2, 6), (2, 4), *NOISY),
    "accurate": Family(1, 48, (2, 6), (2, 4), *ACCURATE),
    "window 2": Family(2, 24, (3, 3), (2, 2), *NOISY, n_recordings=300, window=2),
    "12 outputs": Family(3, 6, (6, 6), (12, 12), *NOISY, n_recordings=300, window=5),
}
RANDOM = {
    "random 2": Family(4, 10, (3, 3), (2, 2), *NOISY, n_recordings=1000),
    "random 12": Family(5, 10, (6, 6), (12, 12), *NOISY, n_recordings=1000),
}
SHORT = Family(6, 6, (6, 6), (12, 12), (0.85, 0.999), (1e-3, 3.0), n_recordings=300)
HALVES = Family(7, 10, (2, 6), (2, 4), *NOISY, n_recordings=200)


class Reference(NamedTuple):
    """What the Kalman filter expects of each row before the row arrives: (m, T, n) each."""

    mean: np.ndarray
    variance: np.ndarray
    nats: np.ndarray
    """The log-likelihood of each row, (m, T)."""


def kalman(system: System, x: np.ndarray) -> Reference:
    """The time-varying Kalman filter of the true system; it skips NaN entries of x, (m, T, n).

    Recordings with the same pattern of gaps share their covariance.
    """
    A, C, Q, R = system.A, system.C, system.Q, system.noise * np.eye(system.n)
    seen = ~np.isnan(x)
    first, pattern = _patterns(seen)
    s = np.zeros((len(x), len(A)))
    P = np.tile(system.start, (len(first), 1, 1))
    mean, variance, nats = np.empty_like(x), np.empty_like(x), np.empty(x.shape[:2])
    for t in range(x.shape[1]):
        o = seen[first, t]
        V = C @ P @ C.T + R
        mean[:, t], variance[:, t] = s @ C.T, np.diagonal(V, axis1=1, axis2=2)[pattern]
        V = np.where(o[:, :, None] & o[:, None, :], V, np.eye(system.n))  # a missing entry is idle
        G = np.where(o[:, None, :], P @ C.T, 0.0)
        K = np.swapaxes(np.linalg.solve(V, np.swapaxes(G, 1, 2)), 1, 2)
        innovation = np.where(seen[:, t], x[:, t] - mean[:, t], 0.0)
        distance = np.einsum("bi,bi->b", innovation, np.linalg.solve(V[pattern], innovation[:, :, None])[:, :, 0])
        scale = np.linalg.slogdet(V)[1][pattern] + np.log(2 * np.pi) * seen[:, t].sum(axis=1)
        nats[:, t] = -0.5 * (distance + scale)
        s = (s + np.einsum("bsn,bn->bs", K[pattern], innovation)) @ A.T
        P = A @ (P - K @ np.swapaxes(G, 1, 2)) @ A.T + Q
        P = (P + np.swapaxes(P, 1, 2)) / 2
    return Reference(mean, variance, nats)


def _patterns(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One recording of each pattern of gaps, and the number of each recording's pattern."""
    _, first, pattern = np.unique(seen.reshape(len(seen), -1), axis=0, return_index=True, return_inverse=True)
    return first, pattern.reshape(-1)
