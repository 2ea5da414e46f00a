"""The Kalman filter of a known linear system: the limit for every filter learnt from its recordings.

s_{t+1} = A s_t + w_t,    x_t = C s_t + v_t,    cov(w, v) = [Q S; S' R],    s_0 ~ N(mean, covariance)
"""

from dataclasses import dataclass

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Kalman", "StationaryKalman"]


@dataclass(frozen=True, eq=False)
class StationaryKalman:
    """s_{t+1} = A s_t + L (x_t - C s_t), with s the state expected before x_t is seen."""

    A: Float[np.ndarray, "s s"]
    C: Float[np.ndarray, "n s"]
    L: Float[np.ndarray, "s n"]
    mean: Float[np.ndarray, " s"]

    def states(self, trajectories: Trajectories) -> Float[np.ndarray, "rows s"]:
        """E[s_t | x_0 .. x_{t-1}] at every row. Nothing may be missing."""
        missing = np.count_nonzero(np.isnan(trajectories.values))
        if missing:
            raise DataError(
                f"stationary Kalman filter: required recordings without gaps, received {missing} missing entries. Use "
                "`Kalman`, which skips them."
            )
        plan = schedule(trajectories.offsets)
        x = trajectories.values[plan.order]
        out = np.empty((len(x), len(self.mean)))
        s = np.tile(self.mean, (len(trajectories), 1))
        for block in plan.blocks():
            s = s[: block.stop - block.start]
            out[block] = s
            s = s @ self.A.T + (x[block] - s @ self.C.T) @ self.L.T
        return plan.packed(out)

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """C A^j s_t."""
        return _ahead(self.A, self.C, self.states(trajectories), horizon)


@dataclass(frozen=True, eq=False)
class Kalman:
    """The time-varying filter, optimal from the first row; it skips missing entries."""

    A: Float[np.ndarray, "s s"]
    C: Float[np.ndarray, "n s"]
    Q: Float[np.ndarray, "s s"]
    R: Float[np.ndarray, "n n"]
    S: Float[np.ndarray, "s n"]
    mean: Float[np.ndarray, " s"]
    covariance: Float[np.ndarray, "s s"]

    def states(self, trajectories: Trajectories) -> Float[np.ndarray, "rows s"]:
        """E[s_t | the observed entries of x_0 .. x_{t-1}] at every row."""
        A, C, Q, R, S = self.A, self.C, self.Q, self.R, self.S
        plan = schedule(trajectories.offsets)
        x = trajectories.values[plan.order]
        out = np.empty((len(x), len(self.mean)))
        s = np.tile(self.mean, (len(trajectories), 1))
        P = np.tile(self.covariance, (len(trajectories), 1, 1))
        for block in plan.blocks():
            s, P = s[: block.stop - block.start], P[: block.stop - block.start]
            out[block] = s
            seen = ~np.isnan(x[block])
            e = np.where(seen, x[block] - s @ C.T, 0.0)
            both = seen[:, :, None] & seen[:, None, :]
            V = np.where(both, C @ P @ C.T + R, np.eye(len(R)))  # innovation covariance; missing rows are idle
            G = np.where(seen[:, None, :], A @ P @ C.T + S, 0.0)
            K = np.swapaxes(np.linalg.solve(V, np.swapaxes(G, 1, 2)), 1, 2)
            s = s @ A.T + np.einsum("bsn,bn->bs", K, e)
            P = A @ P @ A.T + Q - K @ np.swapaxes(G, 1, 2)
        return plan.packed(out)

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """C A^j s_t."""
        return _ahead(self.A, self.C, self.states(trajectories), horizon)


def _ahead(
    A: Float[np.ndarray, "s s"], C: Float[np.ndarray, "n s"], s: Float[np.ndarray, "rows s"], horizon: int
) -> Float[np.ndarray, "rows horizon n"]:
    return np.stack([s @ np.linalg.matrix_power(A, j).T @ C.T for j in range(horizon)], axis=1)
