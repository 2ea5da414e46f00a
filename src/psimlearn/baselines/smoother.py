"""The Kalman filter and smoother of many recordings with gaps, as expectation maximisation needs them.

How sure one is of a state depends on which entries were seen and not on their values: recordings that show and miss
the same entries, such as all recordings of one length without gaps, share their covariances. They are of one kind.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.baselines.kalman import Kalman
from psimlearn.recordings.schedule import Schedule, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Filtered", "Records", "Smoothed", "filtered", "parts", "records", "smoothed", "symmetric", "turned"]

CHUNK = 1_000_000
"""Matrix entries at a time where many patterns are missing."""


class Records(NamedTuple):
    """Recordings scheduled, with the patterns in which they show and miss entries."""

    plan: Schedule
    x: Float[np.ndarray, "rows n"]
    """Observations less their mean; zero where missing."""
    mask: Int[np.ndarray, " rows"]
    """Which pattern each row shows."""
    masks: Bool[np.ndarray, "patterns n"]
    """The channels seen in each pattern."""
    kind: Int[np.ndarray, " m"]
    """The kind of each trajectory, longest trajectories first."""
    example: Int[np.ndarray, " kinds"]
    """One trajectory of each kind."""

    def less(self, mean: Float[np.ndarray, " n"]) -> "Records":
        """The same recordings, with this subtracted from all observations."""
        return self._replace(x=np.where(self.masks[self.mask], self.x - mean, 0.0))

    def patterns(self, block: slice) -> Int[np.ndarray, " running"]:
        """The pattern that each kind shows at a time. Kinds that still run are a prefix, as trajectories are."""
        running = self.example[self.example < block.stop - block.start]
        patterns: np.ndarray = self.mask[block.start + running]
        return patterns

    def rows(self) -> list[Int[np.ndarray, " some"]]:
        """The rows that show each pattern."""
        rows: list[np.ndarray] = np.split(np.argsort(self.mask, kind="stable"), np.cumsum(np.bincount(self.mask))[:-1])
        return rows


def records(values: Float[np.ndarray, "rows n"], trajectories: Trajectories) -> Records:
    """Schedule values that belong to the rows of trajectories, and sort out which entries are missing."""
    plan = schedule(trajectories.offsets)
    x = values[plan.order]
    seen = ~np.isnan(x)
    _, first, mask = np.unique(np.packbits(seen, axis=1), axis=0, return_index=True, return_inverse=True)
    mask = mask.reshape(-1)
    by_trajectory = mask[np.argsort(plan.stream, kind="stable")]
    numbers: dict[bytes, int] = {}
    shown = np.split(by_trajectory, np.cumsum(np.bincount(plan.stream))[:-1])
    kind = np.array([numbers.setdefault(each.tobytes(), len(numbers)) for each in shown])
    return Records(plan, np.where(seen, x, 0.0), mask, seen[first], kind, np.unique(kind, return_index=True)[1])


class _Told(NamedTuple):
    """Evidence of each row about the state before and after it. G is R^-1 among the channels seen, x is centred."""

    pull: Float[np.ndarray, "rows s"]
    """C'G x."""
    push: Float[np.ndarray, "rows s"]
    """S G x."""
    information: Float[np.ndarray, "patterns s s"]
    """C'G C."""
    transition: Float[np.ndarray, "patterns s s"]
    """A - S G C: the transition once the noise seen in the observation is accounted for."""
    noise: Float[np.ndarray, "patterns s s"]
    """Q - S G S'."""
    constant: float
    """Minus twice the log-likelihood, if all states were known to be zero."""


def _told(model: Kalman, records: Records) -> _Told:
    A, C, Q, R, S = model.A, model.C, model.Q, model.R, model.S
    rows, sizes = records.rows(), np.bincount(records.mask)
    pull, push = np.empty((2, len(records.x), len(A)))
    information, transition, noise = np.empty((3, len(sizes), *A.shape))
    constant = np.log(2 * np.pi) * (sizes @ records.masks.sum(axis=1))
    for part in parts(records.masks, len(R)):
        both = records.masks[part][:, :, None] & records.masks[part][:, None, :]
        L = np.linalg.cholesky(np.where(both, R, np.eye(len(R))))  # missing channels are idle
        W = np.where(both, np.linalg.inv(L), 0.0)
        WC, WS = W @ C, W @ S.T
        information[part] = turned(WC) @ WC
        transition[part] = A - turned(WS) @ WC
        noise[part] = Q - turned(WS) @ WS
        constant += 2 * sizes[part] @ np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        for i, pattern in enumerate(range(*part.indices(len(sizes)))):
            white = records.x[rows[pattern]] @ W[i].T
            pull[rows[pattern]], push[rows[pattern]] = white @ WC[i], white @ WS[i]
            constant += np.vdot(white, white)
    return _Told(pull, push, information, transition, noise, float(constant))


class Filtered(NamedTuple):
    """States by a Kalman filter: means at each row, covariances at each time for each kind."""

    before: Float[np.ndarray, "rows s"]
    """E[s_t | the entries observed before row t]."""
    at: Float[np.ndarray, "rows s"]
    """E[s_t | the entries observed up to row t]."""
    after: Float[np.ndarray, "rows s"]
    """E[s_{t+1} | the entries observed up to row t]."""
    sure: list[Float[np.ndarray, "_ s s"]]
    """Covariances of s_t given the entries observed up to row t."""
    unsure: list[Float[np.ndarray, "_ s s"]]
    """Covariances of s_{t+1} given the entries observed up to row t."""
    told: _Told
    log_likelihood: float


def filtered(model: Kalman, records: Records) -> Filtered:
    """The Kalman filter in information form, of observations less their mean."""
    told, counts = _told(model, records), np.bincount(records.kind)
    before, at, after = np.empty((3, *told.pull.shape))
    sure, unsure, total = [], [], told.constant
    s, P = np.tile(model.mean, (len(records.kind), 1)), np.tile(model.covariance, (len(counts), 1, 1))
    for block in records.plan.blocks():
        shown, kind = records.patterns(block), records.kind[: block.stop - block.start]
        information, T = told.information[shown], told.transition[shown]
        before[block], P = s[: len(kind)], P[: len(shown)]
        spread = np.eye(len(model.A)) + P @ information
        total += counts[: len(shown)] @ np.linalg.slogdet(spread)[1]
        U = symmetric(np.linalg.solve(spread, P))
        at[block] = before[block] + _applied(U, kind, told.pull[block] - _applied(information, kind, before[block]))
        s = after[block] = _applied(T, kind, at[block]) + told.push[block]
        P = T @ U @ turned(T) + told.noise[shown]
        sure.append(U)
        unsure.append(P)
    between = np.einsum("ri,rij,rj->", before, told.information[records.mask], at, optimize=True)
    total += between - np.vdot(told.pull, before + at)
    return Filtered(before, at, after, sure, unsure, told, float(-total / 2))


class Smoothed(NamedTuple):
    """States given all observations of their trajectory, the state after its last row included."""

    s: Float[np.ndarray, "rows s"]
    following: Float[np.ndarray, "rows s"]
    """s_{t+1}."""
    first: Float[np.ndarray, "s s"]
    """Covariances of first states, summed."""
    joint: Float[np.ndarray, "patterns u u"]
    """Covariances of (s_t, s_{t+1}), summed over the rows that show each pattern."""


def smoothed(records: Records, seen: Filtered) -> Smoothed:
    """The Rauch-Tung-Striebel smoother, backwards from the end of each trajectory."""
    counts, blocks, order = np.bincount(records.kind), records.plan.blocks(), seen.at.shape[1]
    s, following = seen.at.copy(), seen.after.copy()
    joint = np.zeros((len(records.masks), 2 * order, 2 * order))
    later, P = slice(0, 0), np.empty((0, order, order))
    for block, U, predicted in zip(reversed(blocks), reversed(seen.sure), reversed(seen.unsure), strict=True):
        shown, kind = records.patterns(block), records.kind[: block.stop - block.start]
        known = np.concatenate(
            [P, predicted[len(P) :]]
        )  # a trajectory that ends here knows no more of s_{t+1} than the filter
        following[block.start : block.start + later.stop - later.start] = s[later]
        J = turned(np.linalg.solve(predicted, seen.told.transition[shown] @ U))
        s[block] += _applied(J, kind, following[block] - seen.after[block])
        P = U + J @ (known - predicted) @ turned(J)
        cross = J @ known
        both = np.concatenate([np.concatenate([P, cross], 2), np.concatenate([turned(cross), known], 2)], 1)
        np.add.at(joint, shown, counts[: len(shown), None, None] * both)
        later = block
    return Smoothed(s, following, np.tensordot(counts, P, axes=1), joint)


def parts(masks: Bool[np.ndarray, "patterns n"], width: int) -> list[slice]:
    """Ranges of a few patterns, to bound the memory of one matrix of this width for each."""
    size = max(1, CHUNK // width**2)
    return [slice(start, start + size) for start in range(0, len(masks), size)]


def symmetric(P: Float[np.ndarray, "*b d d"]) -> Float[np.ndarray, "*b d d"]:
    """(P + P') / 2."""
    return np.asarray((P + np.swapaxes(P, -1, -2)) / 2)


def turned(P: Float[np.ndarray, "*b c d"]) -> Float[np.ndarray, "*b d c"]:
    """P', matrix by matrix."""
    return np.swapaxes(P, -1, -2)


def _applied(
    matrices: Float[np.ndarray, "k s s"], kind: Int[np.ndarray, " b"], s: Float[np.ndarray, "b s"]
) -> Float[np.ndarray, "b s"]:
    """Multiply each row by the matrix of its kind."""
    if len(matrices) == 1:
        return np.asarray(s @ matrices[0].T)
    return np.asarray((matrices[kind] @ s[:, :, None])[:, :, 0])
