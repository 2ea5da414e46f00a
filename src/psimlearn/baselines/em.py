"""Maximum likelihood for a linear dynamical system, by expectation maximisation over many recordings with gaps.

s_{t+1} = A s_t + w_t,    x_t = mean + C s_t + v_t,    cov(w, v) = [Q S; S' R],    s_0 ~ N(initial, covariance)

The two noises may be correlated: without that, a system of few states could not stay what subspace identification
found it to be, and expectation maximisation would start from something worse.

How sure one is of a state depends on what was seen and not on its values: recordings that show and miss the same
entries, such as all those of one length without gaps, share their covariances. They are of one kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float, Int

from psimlearn.baselines.kalman import Kalman
from psimlearn.baselines.n4sid import InnovationsModel, n4sid, observability, settled, standardising
from psimlearn.errors import DivergedError, SettingsError
from psimlearn.filter.gaps import conditional_fill
from psimlearn.filter.layout import Scaling
from psimlearn.recordings.schedule import Schedule, schedule
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["LinearGaussian", "em"]

FLOOR = 1e-8
"""The least variance of any noise, in standardised units. To maximise under such a bound is to clip eigenvalues, so
that the likelihood still rises."""
CHUNK = 1_000_000
"""Matrix entries at a time where many patterns are missing."""
SLACK = 1e-9
"""A fall of the likelihood that rounding explains, relative to its size."""


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """A linear dynamical system learnt by maximum likelihood.

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
    """Of the observations, where the state is zero."""
    initial: Float[np.ndarray, " s"]
    """Mean of the state before the first row."""
    covariance: Float[np.ndarray, "s s"]
    """Of the state before the first row."""
    log_likelihoods: tuple[float, ...] = ()
    """Of the training recordings at the start and after each iteration, in nats."""
    converged: bool = False
    """Whether the last iteration gained less than the tolerance."""

    @property
    def order(self) -> int:
        """How many states."""
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
        """E[s_t | what was seen of x_0 .. x_{t-1}] at every row."""
        records = _records(trajectories.values, trajectories)
        return records.plan.packed(_filtered(self, records).before)

    def log_likelihood(self, trajectories: Trajectories) -> float:
        """Of recordings, in nats."""
        return _filtered(self, _records(trajectories.values, trajectories)).log_likelihood

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Mean + C A^j s_t."""
        ahead = self.states(trajectories) @ observability(self.A, self.C, horizon).T
        return np.asarray(ahead.reshape(len(ahead), horizon, -1) + self.mean)


def em(
    train: Trajectories,
    order: int | None = None,
    *,
    validation: Trajectories | None = None,
    block_rows: int | Sequence[int] = 10,
    start: LinearGaussian | InnovationsModel | None = None,
    n_iter: int = 100,
    tolerance: float = 1e-6,
) -> LinearGaussian:
    """Learn a linear dynamical system, started from subspace identification.

    Args:
        train: recordings of any lengths; what is missing is averaged over, not filled in.
        order: the number of states; by default the one that `n4sid` chooses on `validation`.
        validation: recordings to choose the order by.
        block_rows: of `n4sid`.
        start: a system to start from instead.
        n_iter: the most iterations.
        tolerance: stop when an iteration gains less than this many nats per row.
    """
    if n_iter < 0:
        raise SettingsError(f"n_iter: required at least 0, received {n_iter}.")
    if start is None:
        start = n4sid(train, order, validation=validation, block_rows=block_rows)
    if isinstance(start, InnovationsModel):
        start = _opened(start)
    scaling = standardising(train)
    records = _records(scaling(train.values), train)
    found = _iterated(_bounded(_standardised(start, scaling)), records, n_iter, tolerance * len(train.values))
    change = np.log(scaling.scale) @ np.count_nonzero(~np.isnan(train.values), axis=0)
    history = tuple(float(each - change) for each in found.log_likelihoods)
    return replace(_in_units(found, scaling), log_likelihoods=history)


def _iterated(model: LinearGaussian, records: "_Records", n_iter: int, least_gain: float) -> LinearGaussian:
    """Expectation and maximisation in turn, for as long as the likelihood rises."""
    seen = _filtered(model, records)
    if not np.isfinite(seen.log_likelihood):
        raise DivergedError("required a start with a finite likelihood, received none. Use a smaller order.")
    history = [seen.log_likelihood]
    for _ in range(n_iter):
        better = _maximised(model, records, seen)
        seen = _filtered(better, records)
        gain = seen.log_likelihood - history[-1]
        if not gain > -SLACK * abs(history[-1]):  # rounding has the last word: keep what was better
            return replace(model, log_likelihoods=tuple(history))
        model = better
        history.append(seen.log_likelihood)
        if gain < least_gain:
            return replace(model, log_likelihoods=tuple(history), converged=True)
    return replace(model, log_likelihoods=tuple(history))


class _Records(NamedTuple):
    """Recordings scheduled, with the patterns in which they show and miss entries."""

    plan: Schedule
    x: Float[np.ndarray, "rows n"]
    """Zero where missing."""
    mask: Int[np.ndarray, " rows"]
    """Which pattern each row shows."""
    masks: Bool[np.ndarray, "patterns n"]
    """The channels seen in each pattern."""
    kind: Int[np.ndarray, " m"]
    """The kind of each trajectory, longest trajectories first."""
    example: Int[np.ndarray, " kinds"]
    """One trajectory of each kind."""

    def patterns(self, block: slice) -> Int[np.ndarray, " running"]:
        """The pattern that each kind shows at a time. Kinds that still run are a prefix, as trajectories are."""
        running = self.example[self.example < block.stop - block.start]
        patterns: np.ndarray = self.mask[block.start + running]
        return patterns

    def rows(self) -> list[Int[np.ndarray, " some"]]:
        """The rows that show each pattern."""
        rows: list[np.ndarray] = np.split(np.argsort(self.mask, kind="stable"), np.cumsum(np.bincount(self.mask))[:-1])
        return rows


def _records(values: Float[np.ndarray, "rows n"], trajectories: Trajectories) -> _Records:
    plan = schedule(trajectories.offsets)
    x = values[plan.order]
    seen = ~np.isnan(x)
    _, first, mask = np.unique(np.packbits(seen, axis=1), axis=0, return_index=True, return_inverse=True)
    mask = mask.reshape(-1)
    by_trajectory = mask[np.argsort(plan.stream, kind="stable")]
    numbers: dict[bytes, int] = {}
    shown = np.split(by_trajectory, np.cumsum(np.bincount(plan.stream))[:-1])
    kind = np.array([numbers.setdefault(each.tobytes(), len(numbers)) for each in shown])
    return _Records(plan, np.where(seen, x, 0.0), mask, seen[first], kind, np.unique(kind, return_index=True)[1])


class _Told(NamedTuple):
    """What each row says of the state before and after it, over the channels seen. G is R^-1 among those channels."""

    pull: Float[np.ndarray, "rows s"]
    """C'G (x - mean)."""
    push: Float[np.ndarray, "rows s"]
    """S G (x - mean)."""
    information: Float[np.ndarray, "patterns s s"]
    """C'G C."""
    transition: Float[np.ndarray, "patterns s s"]
    """A - S G C: what is left of A once the noise seen in the observation is accounted for."""
    noise: Float[np.ndarray, "patterns s s"]
    """Q - S G S'."""
    constant: float
    """What minus twice the log-likelihood would be, were all states known to be zero."""


def _told(model: LinearGaussian, records: _Records) -> _Told:
    A, C, Q, R, S = model.A, model.C, model.Q, model.R, model.S
    rows, sizes = records.rows(), np.bincount(records.mask)
    pull, push = np.empty((2, len(records.x), len(A)))
    information, transition, noise = np.empty((3, len(sizes), *A.shape))
    constant = np.log(2 * np.pi) * (sizes @ records.masks.sum(axis=1))
    for part in _parts(records.masks, len(R)):
        both = records.masks[part][:, :, None] & records.masks[part][:, None, :]
        L = np.linalg.cholesky(np.where(both, R, np.eye(len(R))))  # missing channels are idle
        W = np.where(both, np.linalg.inv(L), 0.0)
        WC, WS = W @ C, W @ S.T
        information[part] = _turned(WC) @ WC
        transition[part] = A - _turned(WS) @ WC
        noise[part] = Q - _turned(WS) @ WS
        constant += 2 * sizes[part] @ np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        for i, pattern in enumerate(range(*part.indices(len(sizes)))):
            white = (records.x[rows[pattern]] - model.mean) @ W[i].T
            pull[rows[pattern]], push[rows[pattern]] = white @ WC[i], white @ WS[i]
            constant += np.vdot(white, white)
    return _Told(pull, push, information, transition, noise, float(constant))


class _Filtered(NamedTuple):
    """What a Kalman filter found: means at each row, covariances at each time for each kind."""

    before: Float[np.ndarray, "rows s"]
    """E[s_t | what was seen before row t]."""
    at: Float[np.ndarray, "rows s"]
    """E[s_t | what was seen up to row t]."""
    after: Float[np.ndarray, "rows s"]
    """E[s_{t+1} | what was seen up to row t]."""
    sure: list[Float[np.ndarray, "_ s s"]]
    """Covariances of s_t given what was seen up to row t."""
    unsure: list[Float[np.ndarray, "_ s s"]]
    """Covariances of s_{t+1} given what was seen up to row t."""
    told: _Told
    log_likelihood: float


def _filtered(model: LinearGaussian, records: _Records) -> _Filtered:
    """The Kalman filter in information form."""
    told, counts = _told(model, records), np.bincount(records.kind)
    before, at, after = np.empty((3, *told.pull.shape))
    sure, unsure, total = [], [], told.constant
    s, P = np.tile(model.initial, (len(records.kind), 1)), np.tile(model.covariance, (len(counts), 1, 1))
    for block in records.plan.blocks():
        shown, kind = records.patterns(block), records.kind[: block.stop - block.start]
        information, T = told.information[shown], told.transition[shown]
        before[block], P = s[: len(kind)], P[: len(shown)]
        spread = np.eye(model.order) + P @ information
        total += counts[: len(shown)] @ np.linalg.slogdet(spread)[1]
        U = _symmetric(np.linalg.solve(spread, P))
        at[block] = before[block] + _applied(U, kind, told.pull[block] - _applied(information, kind, before[block]))
        s = after[block] = _applied(T, kind, at[block]) + told.push[block]
        P = T @ U @ _turned(T) + told.noise[shown]
        sure.append(U)
        unsure.append(P)
    between = np.einsum("ri,rij,rj->", before, told.information[records.mask], at, optimize=True)
    total += between - np.vdot(told.pull, before + at)
    return _Filtered(before, at, after, sure, unsure, told, float(-total / 2))


class _Smoothed(NamedTuple):
    """What all observations of a trajectory say of its states, the one after its last row included."""

    s: Float[np.ndarray, "rows s"]
    following: Float[np.ndarray, "rows s"]
    """s_{t+1}."""
    first: Float[np.ndarray, "s s"]
    """Covariances of first states, summed."""
    joint: Float[np.ndarray, "patterns u u"]
    """Covariances of (s_t, s_{t+1}), summed over the rows that show each pattern."""


def _smoothed(model: LinearGaussian, records: _Records, seen: _Filtered) -> _Smoothed:
    """The Rauch-Tung-Striebel smoother, backwards from the end of each trajectory."""
    counts, blocks = np.bincount(records.kind), records.plan.blocks()
    s, following = seen.at.copy(), seen.after.copy()
    joint = np.zeros((len(records.masks), 2 * model.order, 2 * model.order))
    later, P = slice(0, 0), np.empty((0, model.order, model.order))
    for block, U, predicted in zip(reversed(blocks), reversed(seen.sure), reversed(seen.unsure), strict=True):
        shown, kind = records.patterns(block), records.kind[: block.stop - block.start]
        known = np.concatenate([P, predicted[len(P) :]])  # what ends here knows no more of s_{t+1} than the filter
        following[block.start : block.start + later.stop - later.start] = s[later]
        J = _turned(np.linalg.solve(predicted, seen.told.transition[shown] @ U))
        s[block] += _applied(J, kind, following[block] - seen.after[block])
        P = U + J @ (known - predicted) @ _turned(J)
        cross = J @ known
        both = np.concatenate([np.concatenate([P, cross], 2), np.concatenate([_turned(cross), known], 2)], 1)
        np.add.at(joint, shown, counts[: len(shown), None, None] * both)
        later = block
    return _Smoothed(s, following, np.tensordot(counts, P, axes=1), joint)


def _maximised(model: LinearGaussian, records: _Records, seen: _Filtered) -> LinearGaussian:
    """The parameters that make what is expected of states and observations most likely; the mean first, then the rest.

    Next states and observations, y, are regressed on states: y = E s_t + noise, E = [A; C], cov(noise) = N.
    """
    known = _smoothed(model, records, seen)
    s, p = known.s, model.order
    E = np.concatenate([model.A, model.C])
    N = np.block([[model.Q, model.S], [model.S.T, model.R]])
    x = np.where(records.masks[records.mask], records.x - model.mean, np.nan)
    y = conditional_fill(np.concatenate([known.following, x], axis=1), s @ E.T, N)
    error = (y - s @ E.T).mean(axis=0)
    shift = error[p:] - model.S.T @ np.linalg.solve(model.Q, error[:p])
    y[:, p:] -= shift
    ys, yy = _covariances(E, N, records, known.joint)
    ss, ys, yy = s.T @ s + known.joint[:, :p, :p].sum(axis=0), y.T @ s + ys, y.T @ y + yy
    E = np.linalg.lstsq(ss, ys.T, rcond=None)[0].T
    N = _definite((yy - E @ ys.T - ys @ E.T + E @ ss @ E.T) / len(y))
    first = s[records.plan.block(0)]
    initial = first.mean(axis=0)
    covariance = _definite((known.first + (first - initial).T @ (first - initial)) / len(first))
    return LinearGaussian(E[:p], E[p:], N[:p, :p], N[p:, p:], N[:p, p:], model.mean + shift, initial, covariance)


def _covariances(
    E: Float[np.ndarray, "y s"],
    N: Float[np.ndarray, "y y"],
    records: _Records,
    joint: Float[np.ndarray, "patterns u u"],
) -> tuple[Float[np.ndarray, "y s"], Float[np.ndarray, "y y"]]:
    """Covariances of y with s_t and of y with itself, given all observations, summed over rows.

    What is missing of y follows what is seen and the state: y = E s_t + F (y_seen - E s_t), F = N N_seen^-1, with
    variance N - F N.
    """
    p, sizes = E.shape[1], np.bincount(records.mask)
    ys, yy = np.zeros_like(E), np.zeros_like(N)
    for part in _parts(records.masks, len(N)):
        F = _fills(N, records.masks[part])
        M = np.concatenate([E - F @ E, F[:, :, :p]], axis=2)  # takes (s_t, s_{t+1}) to y
        MJ = M @ joint[part]
        ys += MJ[:, :, :p].sum(axis=0)
        yy += np.tensordot(MJ, M, axes=([0, 2], [0, 2])) + np.tensordot(sizes[part], N - F @ N, axes=1)
    return ys, yy


def _fills(N: Float[np.ndarray, "y y"], masks: Bool[np.ndarray, "patterns n"]) -> Float[np.ndarray, "patterns y y"]:
    """N N_seen^-1 for each pattern, zero in the columns of what is missing: takes what was seen to all."""
    seen = np.concatenate([np.ones((len(masks), len(N) - masks.shape[1]), dtype=bool), masks], axis=1)
    both = seen[:, :, None] & seen[:, None, :]
    F = _turned(np.linalg.solve(np.where(both, N, np.eye(len(N))), np.where(seen[:, :, None], N, 0.0)))
    return np.where(seen[:, :, None], np.eye(len(N)), F)  # exact where seen


def _parts(masks: Bool[np.ndarray, "patterns n"], width: int) -> list[slice]:
    """A few patterns at a time, to bound the memory of matrices of some width for each."""
    size = max(1, CHUNK // width**2)
    return [slice(start, start + size) for start in range(0, len(masks), size)]


def _opened(model: InnovationsModel) -> LinearGaussian:
    """The same system with noise of its own in every state, for expectation maximisation to have room.

    To a filter, states with an uncertainty P = F P F' + .., F = A - KC, that stays after any past are the same as
    innovations V, if noises are R = V - C P C', S = K V - A P C' and Q = P - A P A' + K V K'.
    """
    A, C, K, V = model.A, model.C, model.K, model.V
    Q, F = K @ V @ K.T, A - K @ C
    P = np.zeros_like(A)
    if model.filter_radius < 1:
        P = settled(F, Q + 1e-3 * np.trace(Q) / len(A) * np.eye(len(A)))
    for share in 0.5 ** np.arange(12):
        D = share * P
        N = np.block([[D - A @ D @ A.T + Q, K @ V - A @ D @ C.T], [(K @ V - A @ D @ C.T).T, V - C @ D @ C.T]])
        if np.linalg.eigvalsh(N)[0] > 0 and np.linalg.eigvalsh(N[len(A) :, len(A) :] - 0.5 * V)[0] > 0:
            break
    p = len(A)
    return LinearGaussian(A, C, N[:p, :p], N[p:, p:], N[:p, p:], model.mean, model.initial, model.covariance + D)


def _bounded(model: LinearGaussian) -> LinearGaussian:
    """The system with no noise below the floor: a start below it could only lose likelihood."""
    p = model.order
    N = _definite(np.block([[model.Q, model.S], [model.S.T, model.R]]))
    return replace(model, Q=N[:p, :p], R=N[p:, p:], S=N[:p, p:], covariance=_definite(model.covariance))


def _standardised(model: LinearGaussian, scaling: Scaling) -> LinearGaussian:
    return _in_units(model, Scaling(-scaling.mean / scaling.scale, 1 / scaling.scale))


def _in_units(model: LinearGaussian, scaling: Scaling) -> LinearGaussian:
    """A system of standardised observations as one of observations."""
    scale = scaling.scale
    R = scale[:, None] * model.R * scale
    return replace(model, C=scale[:, None] * model.C, R=R, S=model.S * scale, mean=scaling.undo(model.mean))


def _definite(covariance: Float[np.ndarray, "d d"], least: float = FLOOR) -> Float[np.ndarray, "d d"]:
    """The covariance with no eigenvalue below the least."""
    values, vectors = np.linalg.eigh(_symmetric(covariance))
    return np.asarray((vectors * np.maximum(values, max(least, FLOOR))) @ vectors.T)


def _symmetric(P: Float[np.ndarray, "*b d d"]) -> Float[np.ndarray, "*b d d"]:
    return np.asarray((P + np.swapaxes(P, -1, -2)) / 2)


def _turned(P: Float[np.ndarray, "*b c d"]) -> Float[np.ndarray, "*b d c"]:
    return np.swapaxes(P, -1, -2)


def _applied(
    matrices: Float[np.ndarray, "k s s"], kind: Int[np.ndarray, " b"], s: Float[np.ndarray, "b s"]
) -> Float[np.ndarray, "b s"]:
    """To each row, the matrix of its kind."""
    if len(matrices) == 1:
        return np.asarray(s @ matrices[0].T)
    return np.asarray((matrices[kind] @ s[:, :, None])[:, :, 0])
