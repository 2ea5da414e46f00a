"""A linear dynamical system with Gaussian noises.

s_{t+1} = A s_t + w_t,    x_t = mean + C s_t + v_t,    cov(w, v) = [Q S; S' R],    s_0 ~ N(initial, covariance)
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from psimlearn.baselines.kalman import Kalman
from psimlearn.baselines.smoother import filtered, records
from psimlearn.filter import Scaling
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float
from psimlearn.train.systems import observability

__all__ = ["LinearGaussian"]


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """A linear dynamical system with Gaussian noises; `em` learns one by maximum likelihood.

    For python-control, `control.ss(A, K, C, numpy.eye(n), True)` maps innovations to observations less their mean, K
    being the stationary gain. For filterpy, which knows no correlation between noises, set `B = S R^-1`,
    `F = A - B C`, `H = C`, `Q - B S'`, `R`, `x = initial`, `P = covariance` and call `predict(u=x - mean, B=B)` after
    each `update(x - mean)`.
    """

    A: Float[np.ndarray, "s s"]
    C: Float[np.ndarray, "n s"]
    Q: Float[np.ndarray, "s s"]
    R: Float[np.ndarray, "n n"]
    S: Float[np.ndarray, "s n"]
    mean: Float[np.ndarray, " n"]
    """Mean of the observations while the state is zero."""
    initial: Float[np.ndarray, " s"]
    """Mean of the state before the first row."""
    covariance: Float[np.ndarray, "s s"]
    """Covariance of the state before the first row."""
    log_likelihoods: tuple[float, ...] = ()
    """Log-likelihood of the training recordings at the start and after each iteration, in nats."""
    converged: bool = False
    """Whether the last iteration gained less than the tolerance."""

    @property
    def order(self) -> int:
        """The number of states."""
        return len(self.A)

    @property
    def K(self) -> Float[np.ndarray, "s n"]:
        """The gain at which the Kalman filter settles."""
        P = scipy.linalg.solve_discrete_are(self.A.T, self.C.T, self.Q, self.R, s=self.S)
        V = self.C @ P @ self.C.T + self.R
        return np.asarray(np.linalg.solve(V, (self.A @ P @ self.C.T + self.S).T).T)

    def kalman(self) -> Kalman:
        """The Kalman filter of the observations less their mean."""
        return Kalman(self.A, self.C, self.Q, self.R, self.S, self.initial, self.covariance)

    def states(self, trajectories: Trajectories) -> Float[np.ndarray, "rows s"]:
        """E[s_t | the observed entries of x_0 .. x_{t-1}] at every row."""
        centred = records(trajectories.values - self.mean, trajectories)
        return centred.plan.packed(filtered(self.kalman(), centred).before)

    def log_likelihood(self, trajectories: Trajectories) -> float:
        """Log-likelihood of all recordings together, in nats."""
        return filtered(self.kalman(), records(trajectories.values - self.mean, trajectories)).log_likelihood

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Mean + C A^j s_t."""
        ahead = self.states(trajectories) @ observability(self.A, self.C, horizon).T
        return np.asarray(ahead.reshape(len(ahead), horizon, -1) + self.mean)

    def in_units(self, scaling: Scaling) -> "LinearGaussian":
        """This system of standardised observations as one of observations."""
        scale = scaling.scale
        R = scale[:, None] * self.R * scale
        return replace(self, C=scale[:, None] * self.C, R=R, S=self.S * scale, mean=scaling.undo(self.mean))

    def standardised(self, scaling: Scaling) -> "LinearGaussian":
        """This system of observations as one of standardised observations."""
        return self.in_units(Scaling(-scaling.mean / scaling.scale, 1 / scaling.scale))
