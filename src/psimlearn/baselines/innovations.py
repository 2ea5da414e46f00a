"""A linear system in innovations form, as subspace identification and predictive states give it.

s_{t+1} = A s_t + K e_t,    x_t = mean + C s_t + e_t,    cov(e) = V,    s_0 ~ N(initial, covariance)
"""

from dataclasses import dataclass, replace

import numpy as np

from psimlearn.baselines.kalman import Kalman
from psimlearn.filter import Scaling
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float
from psimlearn.train.systems import observability, radius

__all__ = ["InnovationsModel"]


@dataclass(frozen=True, eq=False)
class InnovationsModel:
    """A linear system in innovations form, which contains its stationary Kalman filter, with gain K.

    For python-control, `control.ss(A, K, C, numpy.eye(n), True)` maps innovations to observations less their mean.
    For filterpy, which knows no correlation between noises, set `F = A - K @ C`, `H = C`, `Q = 0`, `R = V`,
    `P = covariance` and call `predict(u=x - mean, B=K)` after each `update(x - mean)`.
    """

    A: Float[np.ndarray, "s s"]
    C: Float[np.ndarray, "n s"]
    K: Float[np.ndarray, "s n"]
    V: Float[np.ndarray, "n n"]
    """Covariance of the innovations, the one-step errors."""
    mean: Float[np.ndarray, " n"]
    """Mean of the observations while the state is zero."""
    initial: Float[np.ndarray, " s"]
    """Mean of the state before the first row."""
    covariance: Float[np.ndarray, "s s"]
    """Covariance of the state before the first row; it makes the first gains larger than K."""
    stabilised: bool = False
    """Whether eigenvalues of A had to be shrunk into the unit circle."""

    @property
    def order(self) -> int:
        """The number of states."""
        return len(self.A)

    @property
    def Q(self) -> Float[np.ndarray, "s s"]:
        """Covariance of the state noise, K V K'."""
        return np.asarray(self.K @ self.V @ self.K.T)

    @property
    def R(self) -> Float[np.ndarray, "n n"]:
        """Covariance of the observation noise, V."""
        return self.V

    @property
    def S(self) -> Float[np.ndarray, "s n"]:
        """Covariance of state noise and observation noise, K V."""
        return np.asarray(self.K @ self.V)

    @property
    def radius(self) -> float:
        """rho(A): below 1 if forecasts settle."""
        return radius(self.A)

    @property
    def filter_radius(self) -> float:
        """rho(A - KC): below 1 if the filter forgets."""
        return radius(self.A - self.K @ self.C)

    def kalman(self) -> Kalman:
        """The same system as a time-varying Kalman filter of the observations less their mean."""
        return Kalman(self.A, self.C, self.Q, self.R, self.S, self.initial, self.covariance)

    def states(self, trajectories: Trajectories) -> Float[np.ndarray, "rows s"]:
        """E[s_t | the observed entries of x_0 .. x_{t-1}] at every row."""
        centred = replace(trajectories, values=trajectories.values - self.mean)
        gappy = np.logical_or.reduceat(np.isnan(centred.values).any(axis=1), centred.offsets[:-1])
        rows = np.repeat(gappy, centred.lengths)
        out = np.empty((len(rows), self.order))
        if gappy.any():
            out[rows] = self.kalman().states(centred[gappy])
        if not gappy.all():
            out[~rows] = self._states_of_whole(centred[~gappy])
        return out

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Mean + C A^j s_t."""
        ahead = self.states(trajectories) @ observability(self.A, self.C, horizon).T
        return np.asarray(ahead.reshape(len(ahead), horizon, -1) + self.mean)

    def _states_of_whole(self, centred: Trajectories) -> Float[np.ndarray, "rows s"]:
        """The states where nothing is missing: all trajectories share the gains K + (A - KC) P C' (C P C' + V)^-1."""
        plan = schedule(centred.offsets)
        x = centred.values[plan.order]
        out = np.empty((len(x), self.order))
        s = np.tile(self.initial, (len(centred), 1))
        F = self.A - self.K @ self.C
        CV = np.linalg.solve(self.V, self.C).T
        P, gain = self.covariance, self.K
        for block in plan.blocks():
            s = s[: block.stop - block.start]
            out[block] = s
            if P.any():
                P = F @ np.linalg.solve(
                    np.eye(self.order) + P @ CV @ self.C, P
                )  # F times the covariance that remains after x_t
                gain = self.K + P @ CV
                P = P @ F.T
                P = P if np.abs(P).max() > 1e-300 else np.zeros_like(P)
            s = s @ self.A.T + (x[block] - s @ self.C.T) @ gain.T
        return plan.packed(out)

    def in_units(self, scaling: Scaling) -> "InnovationsModel":
        """This model of standardised observations as one of observations."""
        scale = scaling.scale
        V = scale[:, None] * self.V * scale
        return replace(self, C=scale[:, None] * self.C, K=self.K / scale, V=V, mean=scaling.undo(self.mean))
