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

Only covariances of seen entries are inverted, so that singular ones of beliefs do no harm. For random features T is the
Jacobian at the mean, as in an extended Kalman smoother. The box bounds the mean only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from psimlearn.errors import SettingsError
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.folded import Map, foldable, folded_map
from psimlearn.filter.layout import lay_out
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.predict import Prediction
from psimlearn.filter.regressors import Linear
from psimlearn.filter.step import expected
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
    low: Float[np.ndarray, " r"] | None
    high: Float[np.ndarray, " r"] | None
    r: int
    n: int
    lags: int

    @property
    def s(self) -> int:
        """The number of coordinates of S."""
        return self.r + self.n * self.lags

    @cached_property
    def H(self) -> Float[np.ndarray, "n s"]:
        """Picks the expected observation from S."""
        return np.eye(self.n, self.s, self.r)

    @cached_property
    def pull(self) -> Float[np.ndarray, "s n"]:
        """H' V^-1."""
        return np.linalg.solve(self.noise, self.H).T

    def z(self, w: Float[np.ndarray, " joint"], u: Float[np.ndarray, " p"], start: bool) -> Float[np.ndarray, "1 q"]:
        """The input of the map; at the start the first row stands for the rows before it."""
        fed, x = w[: self.r], w[self.s :]
        if self.low is not None and self.high is not None:
            fed = np.minimum(np.maximum(fed, self.low), self.high)
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
    return Machine(both, first, filter.covariance, feedback.low, feedback.high, len(feedback.mean), n, filter.lags)


class Seen(NamedTuple):
    """[S_t; x_t] once the seen entries of a row are known."""

    w: Float[np.ndarray, " joint"]
    """Its mean."""
    J: Float[np.ndarray, "joint joint"] | None
    """Its covariance; None if it is zero."""
    left: Float[np.ndarray, "joint s"] | None
    """E - K H_o; None for [I; 0]."""
    pull: Float[np.ndarray, " s"]
    """H_o' D^-1 v_t."""
    weight: Float[np.ndarray, "s s"]
    """H_o' D^-1 H_o."""


class Step(NamedTuple):
    """One row on the way forward, as the way back needs it."""

    seen: Seen
    T: Float[np.ndarray, "s joint"]
    M: Float[np.ndarray, "s s"]


def forward(machine: Machine, x: Float[np.ndarray, "rows n"], u: Float[np.ndarray, "rows p"]) -> list[Step]:
    """The mean and covariance of [S_t; x_t] at every row of one recording, given the entries seen up to it."""
    S, P, steps = machine.first, None, []
    for t, row in enumerate(x):
        certain = P is None and not np.isnan(row).any()
        seen = _certain(machine, S, row) if certain else _conditioned(machine, S, P, row)
        if t < 2 or not isinstance(machine.map, Linear):  # from the second row on, a linear filter moves alike
            T = machine.transition(seen.w, u[t], start=t == 0)
        steps.append(Step(seen, T, T[:, : machine.s] if seen.left is None else T @ seen.left))
        S = machine.following(seen.w, u[t], start=t == 0)
        P = None if seen.J is None else _kept(T @ seen.J @ T.T, machine)
    return steps


def _certain(machine: Machine, S: Float[np.ndarray, " s"], x: Float[np.ndarray, " n"]) -> Seen:
    """A whole row after which nothing is uncertain."""
    innovation = x - S[machine.r : machine.r + machine.n]
    return Seen(np.concatenate([S, x]), None, None, machine.pull @ innovation, machine.pull @ machine.H)


def _conditioned(
    machine: Machine, S: Float[np.ndarray, " s"], P: Float[np.ndarray, "s s"] | None, x: Float[np.ndarray, " n"]
) -> Seen:
    """Condition [S; x] on the seen entries of a row."""
    s, H, seen = machine.s, machine.H, ~np.isnan(x)
    E, o = np.concatenate([np.eye(s), H]), s + np.flatnonzero(seen)
    prior = np.zeros((s + machine.n, s + machine.n)) if P is None else E @ P @ E.T
    prior[s:, s:] += machine.noise
    mean, D = E @ S, prior[np.ix_(o, o)]
    K, weighed, v = np.linalg.solve(D, prior[o]).T, np.linalg.solve(D, H[seen]), x[seen] - mean[o]
    w, J = mean + K @ v, prior - K @ prior[o]
    w[o], J[o], J[:, o] = x[seen], 0.0, 0.0  # without rounding
    return Seen(w, J, E - K @ H[seen], weighed.T @ v, H[seen].T @ weighed)


def _kept(P: Float[np.ndarray, "s s"], machine: Machine) -> Float[np.ndarray, "s s"] | None:
    """A covariance, or None once it has died away."""
    return None if np.trace(P) <= NOTHING * np.trace(machine.noise) else (P + P.T) / 2


def backward(steps: Sequence[Step]) -> tuple[Float[np.ndarray, "rows n"], Float[np.ndarray, "rows n"]]:
    """The mean and variance of x_t at every row, given the whole recording."""
    s = len(steps[0].T)
    a, N = np.zeros(s), np.zeros((s, s))
    mean = np.array([step.seen.w[s:] for step in steps])
    variance = np.zeros_like(mean)
    first = next((t for t, step in enumerate(steps) if step.seen.J is not None), len(steps))
    for t in range(len(steps) - 1, first - 1, -1):
        (_, J, _, pull, weight), T, M = steps[t]
        if J is not None:
            toward = J[s:] @ T.T
            mean[t] += toward @ a
            variance[t] = np.diag(J)[s:] - np.einsum("ij,ij->i", toward @ N, toward)
        a, N = pull + M.T @ a, weight + M.T @ N @ M
    return mean, np.maximum(variance, 0.0)


def smooth(filter: Learnt, trajectories: Trajectories) -> Prediction:
    """E[x_t | the whole recording] at every row, with standard deviations: zero for entries that were seen."""
    if filter.calibration is None:
        raise SettingsError("smoothing: required a calibrated filter, as PSIM.fit makes it, received one without.")
    mean, std = trajectories.values.copy(), np.zeros_like(trajectories.values)
    for rows, values, variances in _gaps_filled(filter, trajectories):
        mean[rows], std[rows] = filter.scaling.undo(values), np.sqrt(variances) * filter.scaling.scale
    seen = ~np.isnan(trajectories.values)
    mean, std = np.where(seen, trajectories.values, mean), np.where(seen, 0.0, std)
    return Prediction(mean, std, np.ones(len(mean), dtype=np.int64), filter.calibration)


def impute(filter: Learnt, trajectories: Trajectories) -> Float[np.ndarray, "rows n"]:
    """The recordings with their gaps filled from both sides; entries that were seen stay as they are."""
    values = trajectories.values.copy()
    for rows, mean, _ in _gaps_filled(filter, trajectories):
        values[rows] = np.where(np.isnan(values[rows]), filter.scaling.undo(mean), values[rows])
    return values


def _gaps_filled(
    filter: Learnt, trajectories: Trajectories
) -> list[tuple[slice, Float[np.ndarray, "rows n"], Float[np.ndarray, "rows n"]]]:
    """Smoothed means and variances, standardised, of each recording that has a gap, with its rows."""
    model = machine(filter)
    layout = lay_out(trajectories, filter.scaling, filter.input_scaling, filter.lags, filter.feedthrough)
    x, u = layout.plan.packed(layout.x), layout.plan.packed(layout.u)
    found = []
    for start, end in zip(trajectories.offsets[:-1], trajectories.offsets[1:], strict=True):
        rows = slice(int(start), int(end))
        if np.isnan(x[rows]).any():
            found.append((rows, *backward(forward(model, x[rows], u[rows]))))
    return found
