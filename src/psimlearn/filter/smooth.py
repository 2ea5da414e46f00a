"""Smoothing: missing entries estimated from the rows before and after them.

A linear filter is an innovations model of the recordings that it was learnt from. Let e_t be the expected observation,
S_t = [fed_t; e_t; x_{t-1}; ..; x_{t-lags+1}], H the rows that pick e_t from S_t, V the covariance of one-step errors:

    x_t = H S_t + noise ~ N(0, V)               S_{t+1} = T [S_t; x_t] + inputs + constant

So w_t = [S_t; x_t] has a mean and a covariance J_t, given the entries seen up to t. J_t is zero until an entry is
missing, and dies away after the last one. With o the entries seen at t, v_t their innovations, P_t the covariance of
S_t and E = [I; H]:

    forward     D = H_o P_t H_o' + V_oo         K = cov(w_t, x_o) D^-1
                J_t = cov(w_t) - K D K'         P_{t+1} = T J_t T'              M = T (E - K H_o)
    backward    a_t = H_o' D^-1 v_t + M' a_{t+1}                N_t = H_o' D^-1 H_o + M' N_{t+1} M
    smoothed    w_t + J_t T' a_{t+1}, with the covariance J_t - J_t T' N_{t+1} T J_t

Covariances are kept as square roots with few columns, and only those of seen entries are inverted. For random features
T is the Jacobian at the mean, as in an extended Kalman smoother. The box bounds the mean only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from psimlearn.errors import SettingsError
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.folded import Map, foldable, folded_map
from psimlearn.filter.layout import lay_out
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.predict import Prediction, Spread
from psimlearn.filter.regressors import Linear
from psimlearn.filter.step import Feedback, expected
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["impute", "smooth"]

NOTHING = 1e-12
"""A covariance of S below this share of the noise is zero."""


@dataclass(frozen=True, eq=False)
class Machine:
    """A folded filter as an innovations model."""

    map: Map
    """From z to [fed; e] of the next row."""
    first: Float[np.ndarray, " s"]
    """S before the first row."""
    noise: Float[np.ndarray, "n n"]
    """V."""
    feedback: Feedback
    """Its box bounds the mean."""
    n: int
    lags: int

    @property
    def r(self) -> int:
        """The number of coordinates that are fed back."""
        return len(self.feedback.mean)

    @property
    def s(self) -> int:
        """The number of coordinates of S."""
        return self.r + self.n * self.lags

    @cached_property
    def H(self) -> Float[np.ndarray, "n s"]:
        """Picks the expected observation from S."""
        return np.eye(self.n, self.s, self.r)

    @cached_property
    def noise_root(self) -> Float[np.ndarray, "n n"]:
        """A square root of V."""
        return np.linalg.cholesky(self.noise)

    def z(self, w: Float[np.ndarray, " joint"], u: Float[np.ndarray, " p"], start: bool) -> Float[np.ndarray, "1 q"]:
        """The input of the map; at the start the first row stands for the rows before it."""
        fed, x = self.feedback.boxed(w[: self.r]), w[self.s :]
        older = np.tile(x, self.lags - 1) if start else w[self.r + self.n : self.s]
        return np.concatenate([fed, x, older, u])[None]

    def following(self, w: Float[np.ndarray, " joint"], u: Float[np.ndarray, " p"], start: bool) -> np.ndarray:
        """S_{t+1}."""
        z = self.z(w, u, start)
        return np.concatenate([self.map(z)[0], z[0, self.r : self.r + self.n * (self.lags - 1)]])  # x_t is a lag now

    def transition(
        self, w: Float[np.ndarray, " joint"], u: Float[np.ndarray, " p"], start: bool
    ) -> Float[np.ndarray, "s joint"]:
        """T at a mean."""
        r, n, s, q = self.r, self.n, self.s, self.lags
        slope = jacobian(self.map, self.z(w, u, start))
        T = np.zeros((s, s + n))
        T[: r + n, :r], T[: r + n, s:] = slope[:, :r], slope[:, r : r + n]
        older = slope[:, r + n : r + n * q]
        if start:  # all lags are the first row
            T[: r + n, s:] += older.reshape(r + n, q - 1, n).sum(axis=1)
            T[r + n :, s:] = np.tile(np.eye(n), (q - 1, 1))
        else:
            T[: r + n, r + n : s] = older
            T[r + n :, r + n : s] = np.eye(n * (q - 1), k=-n)  # x_{t-1} becomes x_{t-2}, ..
            T[r + n : r + 2 * n, s:] = np.eye(n)[: s - r - n]  # and x_t becomes x_{t-1}
        return T


def jacobian(map: Map, z: Float[np.ndarray, "1 p"]) -> Float[np.ndarray, "q p"]:
    """The derivative of a folded map at z."""
    if isinstance(map, Linear):
        slope: np.ndarray = map.weights.T
        return slope
    half = map.directions.shape[1]
    angle, weights = (z @ map.directions)[0], map.linear.weights
    waves = np.cos(angle)[:, None] * weights[half : 2 * half] - np.sin(angle)[:, None] * weights[:half]
    slope = map.directions @ waves
    return np.asarray((slope + weights[2 * half :]).T if map.raw_inputs else slope.T)


def machine(filter: Learnt) -> Machine:
    """The innovations model of a filter, if it is linear in the belief or of random features."""
    if not foldable(filter) or not isinstance(filter.features, Stack | StackSquares | SecondMoment):
        raise SettingsError(
            "smoothing: required a linear filter or one of random features, trained for all times by one regressor, "
            f"received {len(filter.regressors)} of {type(filter.regressors[0]).__name__} with "
            f"{type(filter.features).__name__} features. Learn with learner='ridge' or 'rff' and the trainer 'dagger'."
        )
    feedback, n = filter.feedback, len(filter.scaling.mean)
    both = folded_map(
        filter,
        lambda m: np.concatenate([feedback.linear(m), filter.features.observations(m)[:, 0]], axis=1),
        np.concatenate([feedback.shift, np.zeros(n)]),
    )
    start = [feedback(filter.initial[None])[0], expected(filter.recursion, filter.initial[None])[0]]
    first = np.concatenate([*start, np.zeros(n * (filter.lags - 1))])
    return Machine(both, first, filter.covariance, feedback, n, filter.lags)


class Seen(NamedTuple):
    """[S_t; x_t] once the seen entries of a row are known."""

    w: Float[np.ndarray, " joint"]
    """Its mean."""
    root: Float[np.ndarray, "joint k"]
    """A square root of its covariance, J_t = root root': one column for each direction that is still uncertain."""
    gain: Float[np.ndarray, "joint seen"]
    """K."""
    seen: Bool[np.ndarray, " n"]
    weighed: Float[np.ndarray, "seen seen"]
    """D^-1."""
    innovation: Float[np.ndarray, " seen"]


def forward(
    machine: Machine, x: Float[np.ndarray, "rows n"], u: Float[np.ndarray, "rows p"]
) -> list[tuple[Seen, Float[np.ndarray, "s joint"]]]:
    """[S_t; x_t] at every row of one recording, given the entries seen up to it, and T there."""
    S, root, steps = machine.first, np.zeros((machine.s, 0)), []
    for t, row in enumerate(x):
        seen = conditioned(machine, S, root, row)
        if t < 2 or not isinstance(machine.map, Linear):  # from the second row on, a linear filter moves alike
            T = machine.transition(seen.w, u[t], start=t == 0)
        steps.append((seen, T))
        S, root = machine.following(seen.w, u[t], start=t == 0), _kept(T @ seen.root, machine)
    return steps


def conditioned(
    machine: Machine, S: Float[np.ndarray, " s"], root: Float[np.ndarray, "s k"], x: Float[np.ndarray, " n"]
) -> Seen:
    """Condition [S; x] on the seen entries of a row.

    The rows of the square root that belong to seen entries are A, so that D = A A'. What A does not see, a basis of its
    null space by QR, remains uncertain.
    """
    s, n, k, seen = machine.s, machine.n, root.shape[1], ~np.isnan(x)
    joint = np.zeros((s + n, k + n))
    joint[:s, :k], joint[s:, :k], joint[s:, k:] = root, machine.H @ root, machine.noise_root
    mean = np.concatenate([S, machine.H @ S])
    A = joint[s:][seen]
    basis, triangle = np.linalg.qr(A.T, mode="complete")
    inverse = np.linalg.solve(triangle[: len(A)], np.eye(len(A)))  # of a triangle, and D = triangle' triangle
    gain = joint @ basis[:, : len(A)] @ inverse.T
    innovation = x[seen] - mean[s:][seen]
    w, left = mean + gain @ innovation, joint @ basis[:, len(A) :]
    w[s:][seen], left[s:][seen] = x[seen], 0.0  # without rounding
    return Seen(w, left, gain, seen, inverse @ inverse.T, innovation)


def _kept(root: Float[np.ndarray, "s k"], machine: Machine) -> Float[np.ndarray, "s few"]:
    """A square root without the directions that have died away."""
    if not root.shape[1]:
        return root
    _, values, turned = np.linalg.svd(root, full_matrices=False)
    alive = values**2 > NOTHING * np.trace(machine.noise)
    kept: np.ndarray = root @ turned[alive].T
    return kept


def backward(
    machine: Machine, steps: Sequence[tuple[Seen, Float[np.ndarray, "s joint"]]], with_variance: bool = True
) -> tuple[Float[np.ndarray, "rows n"], Float[np.ndarray, "rows n"]]:
    """The mean and variance of x_t at every row, given the whole recording; without variances in much less time."""
    s, n, H = machine.s, machine.n, machine.H
    a, N = np.zeros(s), np.zeros((s, s) if with_variance else (0, 0))
    mean, variance = np.array([seen.w[s:] for seen, _ in steps]), np.zeros((len(steps), n))
    first = next((t for t, (seen, _) in enumerate(steps) if seen.root.shape[1]), len(steps))
    for t in range(len(steps) - 1, first - 1, -1):
        (_, root, gain, seen, weighed, innovation), T = steps[t]
        own, later, back, H_o = root[s:], T @ root, T.T @ a, H[seen]
        mean[t] += own @ (later.T @ a)
        # M' a = (E - K H_o)' T' a, with E = [I; H]
        a = H_o.T @ (weighed @ innovation - gain.T @ back) + back[:s] + H.T @ back[s:]
        if with_variance:
            variance[t] = np.sum(own**2, axis=1) - np.einsum("ij,ij->i", own @ (later.T @ N @ later), own)
            M = T[:, :s] + T[:, s:] @ H - T @ gain @ H_o
            N = H_o.T @ weighed @ H_o + M.T @ N @ M
    return mean, np.maximum(variance, 0.0)


def smooth(filter: Learnt, trajectories: Trajectories) -> Prediction:
    """E[x_t | the whole recording] at every row, with standard deviations: zero for entries that were seen."""
    if filter.calibration is None:
        raise SettingsError("smoothing: required a calibrated filter, as PSIM.fit makes it, received one without.")
    mean, variance = _smoothed(filter, trajectories, with_variance=True)
    std = np.sqrt(variance) * filter.scaling.scale
    return Prediction(mean, "known", Spread(std, np.ones(len(mean), dtype=np.int64), filter.calibration))


def impute(filter: Learnt, trajectories: Trajectories) -> Float[np.ndarray, "rows n"]:
    """The recordings with their gaps filled from both sides; entries that were seen stay as they are."""
    return _smoothed(filter, trajectories, with_variance=False)[0]


def _smoothed(
    filter: Learnt, trajectories: Trajectories, with_variance: bool
) -> tuple[Float[np.ndarray, "rows n"], Float[np.ndarray, "rows n"]]:
    """Means in the units of the recordings and standardised variances; recordings without a gap cost nothing."""
    model = machine(filter)
    layout = lay_out(trajectories, filter.scaling, filter.input_scaling, filter.lags, filter.feedthrough)
    x, u = layout.plan.packed(layout.x), layout.plan.packed(layout.u)
    mean, variance = trajectories.values.copy(), np.zeros_like(trajectories.values)
    for start, end in pairwise(trajectories.offsets.tolist()):
        rows = slice(start, end)
        missing = np.isnan(x[rows])
        if missing.any():
            values, variances = backward(model, forward(model, x[rows], u[rows]), with_variance)
            mean[rows] = np.where(missing, filter.scaling.undo(values), mean[rows])
            variance[rows] = np.where(missing, variances, 0.0)
    return mean, variance
