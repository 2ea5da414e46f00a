"""Subspace identification of a linear system from outputs alone, over many recordings (N4SID and CVA).

What the past tells of the future passes through the state: the map from one to the other has the rank of the system,
and its singular vectors give the states. Two rows of states, one step apart, give the system by least squares.

s_{t+1} = A s_t + K e_t,    x_t = mean + C s_t + e_t,    cov(e) = V,    s_0 ~ N(initial, covariance)
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy.linalg
from jaxtyping import Float

from psimlearn.baselines.kalman import Kalman
from psimlearn.errors import DataError, DivergedError, SettingsError
from psimlearn.evaluate.horizons import errors_by_horizon
from psimlearn.filter.gaps import conditional_fill
from psimlearn.filter.layout import Scaling
from psimlearn.recordings.schedule import Schedule, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import carried_forward, futures, histories

__all__ = [
    "FLOOR",
    "InnovationsModel",
    "System",
    "Weighting",
    "begun",
    "columns",
    "identified",
    "n4sid",
    "observability",
    "one_or_several",
    "orders_to_try",
    "settled",
    "stabilised",
    "standardising",
]

Weighting = Literal["cva", "n4sid"]
FLOOR = 1e-9
"""The least variance of an innovation, in units of its channel's variance: constant channels have none of their own."""
BLOWN_UP = 1e6
"""A filter has diverged if an error is this many times larger than anything observed."""
LARGEST_POLE = 0.999
"""What eigenvalues of A on or outside the unit circle are shrunk to."""
N_REFILLS = 2
"""How often what is missing is filled in by the system identified, to identify it again."""


@dataclass(frozen=True, eq=False)
class InnovationsModel:
    """A linear system in innovations form: its own stationary Kalman filter, with gain K.

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
    """Of the observations, where the state is zero."""
    initial: Float[np.ndarray, " s"]
    """Mean of the state before the first row."""
    covariance: Float[np.ndarray, "s s"]
    """Of the state before the first row; it makes the first gains larger than K."""
    stabilised: bool = False
    """Whether eigenvalues of A had to be shrunk into the unit circle."""

    @property
    def order(self) -> int:
        """How many states."""
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
        return _radius(self.A)

    @property
    def filter_radius(self) -> float:
        """rho(A - KC): below 1 if the filter forgets."""
        return _radius(self.A - self.K @ self.C)

    def kalman(self) -> Kalman:
        """The same system as a time-varying Kalman filter of the observations less their mean."""
        return Kalman(self.A, self.C, self.Q, self.R, self.S, self.initial, self.covariance)

    def states(self, trajectories: Trajectories) -> Float[np.ndarray, "rows s"]:
        """E[s_t | what was seen of x_0 .. x_{t-1}] at every row."""
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
        """Where nothing is missing, all trajectories share their gains, K + (A - KC) P C' (C P C' + V)^-1."""
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
                P = F @ np.linalg.solve(np.eye(self.order) + P @ CV @ self.C, P)  # F times what remains after x_t
                gain = self.K + P @ CV
                P = P @ F.T
                P = P if np.abs(P).max() > 1e-300 else np.zeros_like(P)
            s = s @ self.A.T + (x[block] - s @ self.C.T) @ gain.T
        return plan.packed(out)


def n4sid(
    train: Trajectories,
    order: int | None = None,
    *,
    validation: Trajectories | None = None,
    block_rows: int | Sequence[int] = 10,
    weighting: Weighting = "cva",
    ridge: float = 1e-6,
    standardise: bool = True,
) -> InnovationsModel:
    """Identify a linear system from recordings of its outputs.

    Args:
        train: recordings; no column of the data matrices spans two of them. Missing entries are carried forward, then
            filled in by the system identified, which is identified again.
        order: the number of states; by default the one with the least one-step error on `validation`.
        validation: recordings to choose the order by.
        block_rows: how many rows of past and of future are related, or several such numbers to choose from as well.
        weighting: "cva" relates them by canonical correlations; "n4sid" weights the future by its variance.
        ridge: added to the variances of the standardised observations.
        standardise: measure every channel in its own standard deviation. Otherwise all have one unit, and those that
            vary most count most: right for principal components.
    """
    if weighting not in get_args(Weighting):
        raise SettingsError(f"weighting: required one of {get_args(Weighting)}, received {weighting!r}.")
    tried = [
        (rows, orders_to_try(order, validation, (rows - 1) * train.n_channels, "order"))
        for rows in one_or_several(block_rows, validation, 2, "block_rows")
    ]

    def candidates(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Iterator[InnovationsModel]:
        for rows, orders in tried:
            found = _subspace(*columns(x, plan, rows, rows), train.n_channels, weighting, ridge)
            yield from (begun(_system(found, order), x, plan, 2 * rows) for order in orders)

    return identified(train, validation, candidates, standardise)


def columns(
    x: Float[np.ndarray, "rows n"], plan: Schedule, past: int, future: int
) -> tuple[Float[np.ndarray, "columns pn"], Float[np.ndarray, "columns fn"]]:
    """(x_{t-1}, .., x_{t-past}) and (x_t, .., x_{t+future-1}) at the rows where both lie within one trajectory."""
    whole = plan.reaches(-past) & plan.reaches(future - 1)
    required = past * x.shape[1] + 1
    if np.count_nonzero(whole) < required:
        raise DataError(
            f"too little data: required {required} stretches of {past + future} rows within trajectories, to relate "
            f"{past} rows of past with {future} rows of future in {x.shape[1]} channels; received "
            f"{np.count_nonzero(whole)}. Use more or longer recordings, fewer channels or fewer rows."
        )
    return histories(x, plan, past)[whole], futures(x, plan, future)[whole].reshape(np.count_nonzero(whole), -1)


def orders_to_try(given: int | None, validation: Trajectories | None, most: int, what: str) -> list[int]:
    """The given number of states, or a range of them for validation recordings to choose from."""
    if given is None and validation is None:
        raise SettingsError(f"{what}: required a number, or validation recordings to choose it by; received neither.")
    if given is None:
        spread = {round(2 ** (j / 2)) for j in range(14)}  # 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91
        return sorted(number for number in spread if number <= most) or [most]
    if not 1 <= given <= most:
        raise SettingsError(f"{what}: required 1 to {most}, as the rows and channels allow; received {given}.")
    return [given]


def one_or_several(given: int | Sequence[int], validation: Trajectories | None, least: int, what: str) -> Sequence[int]:
    """Numbers of rows to try: several only where validation recordings can choose among them."""
    several = [given] if isinstance(given, int) else list(given)
    if not several or min(several) < least or (len(several) > 1 and validation is None):
        raise SettingsError(
            f"{what}: required a number of at least {least}, or several and validation recordings to choose by; "
            f"received {given}."
        )
    return several


def standardising(train: Trajectories, apart: bool = True) -> Scaling:
    """Means and deviations of what was observed; constant channels keep their scale.

    Args:
        train: recordings.
        apart: every channel has its own unit. Otherwise all have one.
    """
    unseen = np.flatnonzero(np.isnan(train.values).all(axis=0))
    if len(unseen):
        raise DataError(
            f"channel {unseen[0]}: required at least one observed value, received none. Leave the channel out."
        )
    mean, deviation = np.nanmean(train.values, axis=0), np.nanstd(train.values, axis=0)
    scale = np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)
    return Scaling(mean, scale if apart else np.full_like(scale, _common(scale)))


def identified(
    train: Trajectories,
    validation: Trajectories | None,
    candidates: Callable[[np.ndarray, Schedule], Iterable[InnovationsModel]],
    standardise: bool,
) -> InnovationsModel:
    """The best candidate for standardised recordings, in the units of the recordings."""
    scaling, plan = standardising(train, standardise), schedule(train.offsets)
    x = carried_forward(scaling(train.values)[plan.order], plan)
    model = _best((_in_units(each, scaling) for each in candidates(x, plan)), validation, scaling)
    for _ in range(N_REFILLS if np.isnan(train.values).any() else 0):
        expected = model.forecast(train, 1)[:, 0]
        if not np.isfinite(expected).all():
            raise DivergedError(
                "required a filter that stays finite to fill in what is missing, received one that diverged. Use "
                "fewer states, a larger ridge or validation recordings to choose by."
            )
        x = scaling(conditional_fill(train.values, expected, model.V))[plan.order]
        model = _best((_in_units(each, scaling) for each in candidates(x, plan)), validation, scaling)
    return model


def _common(scale: Float[np.ndarray, " n"]) -> float:
    """One unit for all channels; taken from their ratios, lest squares of large ones overflow."""
    return float(scale.max() * np.sqrt(np.mean((scale / scale.max()) ** 2)))


def stabilised(A: Float[np.ndarray, "s s"]) -> tuple[Float[np.ndarray, "s s"], bool]:
    """A with no eigenvalue on or outside the unit circle, and whether there were any.

    In the real Schur form an eigenvalue, or a pair of conjugate ones, is a block of the diagonal: no eigenvectors
    are needed, which two equal eigenvalues need not have.
    """
    if _radius(A) < 1:
        return A, False
    T, Z = scipy.linalg.schur(A, output="real")
    start = 0
    while start < len(T):
        pair = start + 1 < len(T) and T[start + 1, start] != 0
        block = slice(start, start + 1 + pair)
        radius = _radius(T[block, block])
        T[block, block] *= LARGEST_POLE / max(radius, LARGEST_POLE)  # those just inside too: rounding moves them
        start = block.stop
    return Z @ T @ Z.T, True


def settled(A: Float[np.ndarray, "s s"], Q: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
    """P = APA' + Q by its series Q + AQA' + .., twice as many terms at a time: never indefinite, however slow A."""
    P, power = Q, A
    for _ in range(40):
        P = P + power @ P @ power.T
        power = power @ power
        if not 1e-20 < np.abs(power).max() < 1e8:  # done, or beyond what rounding leaves of a slow, skewed A
            break
    return P


def begun(system: "System", x: Float[np.ndarray, "rows n"], plan: Schedule, first_rows: int) -> InnovationsModel:
    """Complete a system by the mean of its observations and by where its state begins.

    The one-step errors of its filter are linear in both: least squares. How much beginnings differ is seen in the
    errors of the first rows; with few recordings, it is taken to be as much as states differ at any time.
    """
    A, C, K, V, shrunk = system
    e = _innovations(system, x, plan)
    if not np.abs(e).max() < BLOWN_UP * np.abs(x).max():  # a filter that diverged has no beginning: its errors tell
        return InnovationsModel(A, C, K, V, np.zeros(len(C)), np.zeros(len(A)), np.zeros_like(A), shrunk)
    root = np.linalg.cholesky(V)
    e = np.linalg.solve(root, e.T).T
    D = np.linalg.solve(root, _sensitivities(system, len(plan.starts) - 1))
    theta = _level(D, e, plan)
    own, m = _spread(D[:first_rows], e - (D @ theta)[plan.time], plan)
    usual = settled(A, K @ V @ K.T)
    weight = m / (m + len(A) + 1)
    covariance = weight * own + (1 - weight) * usual
    return InnovationsModel(A, C, K, V, theta[len(A) :], theta[: len(A)], covariance, shrunk)


class System(NamedTuple):
    """An innovations form without its beginning."""

    A: Float[np.ndarray, "s s"]
    C: Float[np.ndarray, "n s"]
    K: Float[np.ndarray, "s n"]
    V: Float[np.ndarray, "n n"]
    stabilised: bool


class _Subspace(NamedTuple):
    """What past and future have to do with each other. Vectors are w = (x_t, .., x_{t+i-1}, x_{t-1}, .., x_{t-i})."""

    n: int
    moments: Float[np.ndarray, "w w"]
    now: Float[np.ndarray, "f w"]
    """Takes w to what its past tells of the weighted future from time t on."""
    following: Float[np.ndarray, "g w"]
    """Takes w to what its past and x_t tell of the weighted future from time t + 1 on."""
    vectors: Float[np.ndarray, "f f"]
    values: Float[np.ndarray, " f"]


def _subspace(
    past: Float[np.ndarray, "columns p"],
    future: Float[np.ndarray, "columns f"],
    n: int,
    weighting: Weighting,
    ridge: float,
) -> _Subspace:
    """The singular vectors of W1 R_fp R_pp^-1 R_pp^{1/2}."""
    w = np.concatenate([future, past], axis=1)
    w -= w.mean(axis=0)
    moments = w.T @ w / len(w)
    f = future.shape[1]
    regular = moments + ridge * np.eye(len(moments))
    root = np.linalg.cholesky(regular[:f, :f]) if weighting == "cva" else np.eye(f)  # W1^-1, lower triangular
    now, following = np.zeros((f, len(moments))), np.zeros((f - n, len(moments)))
    now[:, f:] = np.linalg.solve(regular[f:, f:], np.linalg.solve(root, moments[:f, f:]).T).T
    known, less = np.r_[:n, f : len(moments)], slice(f - n)
    cross = np.linalg.solve(root[less, less], moments[n:f, known])
    following[:, known] = np.linalg.solve(regular[np.ix_(known, known)], cross.T).T
    vectors, values, _ = np.linalg.svd(now[:, f:] @ np.linalg.cholesky(regular[f:, f:]))
    return _Subspace(n, moments, now, following, vectors, values)


def _system(found: _Subspace, order: int) -> System:
    """Least squares from the states at time t to those at time t + 1, and to x_t."""
    U, roots = found.vectors[:, :order], np.sqrt(np.maximum(found.values[:order], 1e-12))
    gamma = U * roots
    now = (U / roots).T @ found.now
    following = np.linalg.pinv(gamma[: len(found.following)]) @ found.following
    target = np.concatenate([following, np.eye(found.n, len(found.moments))])
    seen = now @ found.moments
    AC = np.linalg.lstsq(seen @ now.T, seen @ target.T, rcond=1e-12)[0].T
    A, shrunk = stabilised(AC[:order])
    residual = target - np.concatenate([A, AC[order:]]) @ now
    noise = residual @ found.moments @ residual.T
    return System(A, AC[order:], *_gain(A, AC[order:], noise), shrunk)


def _gain(
    A: Float[np.ndarray, "s s"], C: Float[np.ndarray, "n s"], noise: Float[np.ndarray, "sn sn"]
) -> tuple[Float[np.ndarray, "s n"], Float[np.ndarray, "n n"]]:
    """K and V from the Riccati equation with cross term; where it has no solution, K = S R^-1 and V = R."""
    order, n = len(A), len(C)
    noise = (noise + noise.T) / 2  # or the solver refuses it
    Q, S, R = noise[:order, :order], noise[:order, order:], noise[order:, order:] + FLOOR * np.eye(n)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a solution in doubt is none
            P = scipy.linalg.solve_discrete_are(A.T, C.T, Q, R, s=S)
        V = C @ P @ C.T + R
        K = np.linalg.solve(V, (A @ P @ C.T + S).T).T
        np.linalg.cholesky(V)
        if _radius(A - K @ C) < 1:
            return K, V
    except (np.linalg.LinAlgError, ValueError, Warning):
        pass
    return np.linalg.solve(R, S.T).T, R


def _innovations(system: System, x: Float[np.ndarray, "rows n"], plan: Schedule) -> Float[np.ndarray, "rows n"]:
    """One-step errors of the stationary filter from state zero."""
    A, C, K = system[:3]
    e = np.empty_like(x)
    s = np.zeros((len(plan.last()), len(A)))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in plan.blocks():
            s = s[: block.stop - block.start]
            e[block] = x[block] - s @ C.T
            s = s @ A.T + e[block] @ K.T
    return e


def _sensitivities(system: System, times: int) -> Float[np.ndarray, "times n p"]:
    """How much a one-step error at each time falls with the first state and with the mean of the observations."""
    A, C, K = system[:3]
    F, n = A - K @ C, len(C)
    response = np.concatenate([np.eye(len(A)), np.zeros((len(A), n))], axis=1)  # of the state
    direct = np.concatenate([np.zeros_like(C), np.eye(n)], axis=1)
    out = np.empty((times, n, len(A) + n))
    for t in range(times):
        out[t] = C @ response + direct
        response = F @ response - K @ direct
    return out


def _level(
    D: Float[np.ndarray, "times n p"], e: Float[np.ndarray, "rows n"], plan: Schedule
) -> Float[np.ndarray, " p"]:
    """The first state and the mean that leave the least squared errors; the smallest where several do."""
    running = np.diff(plan.starts)
    normal = np.tensordot(D * running[:, None, None], D, axes=([0, 1], [0, 1]))
    right = np.tensordot(np.add.reduceat(e, plan.starts[:-1]), D, axes=2)
    return np.asarray(np.linalg.lstsq(normal, right, rcond=1e-10)[0])


def _spread(
    D: Float[np.ndarray, "first n p"], e: Float[np.ndarray, "rows n"], plan: Schedule
) -> tuple[Float[np.ndarray, "s s"], int]:
    """The covariance of first states that the errors of the first rows show beyond their own, and from how many."""
    D = D[:, :, : D.shape[2] - D.shape[1]]
    blocks = plan.blocks()[: len(D)]
    m = blocks[-1].stop - blocks[-1].start
    pull = sum(e[block.start : block.start + m] @ d for block, d in zip(blocks, D, strict=True))
    values, vectors = np.linalg.eigh(np.tensordot(D, D, axes=([0, 1], [0, 1])))
    kept = values > 1e-9 * values[-1]
    B = vectors[:, kept] / np.sqrt(values[kept])
    excess, directions = np.linalg.eigh((pull @ B).T @ (pull @ B) / m - np.eye(B.shape[1]))
    root = B @ (directions * np.sqrt(np.maximum(excess, 0.0)))
    return root @ root.T, m


def _in_units(model: InnovationsModel, scaling: Scaling) -> InnovationsModel:
    """A model of standardised observations as one of observations."""
    scale = scaling.scale
    V = scale[:, None] * model.V * scale
    return replace(model, C=scale[:, None] * model.C, K=model.K / scale, V=V, mean=scaling.undo(model.mean))


def _best(models: Iterable[InnovationsModel], validation: Trajectories | None, scaling: Scaling) -> InnovationsModel:
    """The model with the least one-step error, in standardised units, on validation recordings.

    One that does not forget has it only if all are such: on other recordings it may diverge.
    """
    if validation is None:
        return next(iter(models))
    scored = [(_error(model, validation, scaling), model) for model in models]
    error, winner = min(scored, key=lambda pair: (pair[1].filter_radius >= 1, pair[0]))
    if not np.isfinite(error):
        raise DivergedError(
            "required one number of states with a finite one-step error on the validation recordings, received none. "
            "Use a larger ridge or more recordings."
        )
    return winner


def _error(model: InnovationsModel, validation: Trajectories, scaling: Scaling) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(errors_by_horizon(model, validation, scale=scaling.scale)[0])


def observability(A: Float[np.ndarray, "s s"], C: Float[np.ndarray, "n s"], rows: int) -> Float[np.ndarray, "rn s"]:
    """[C; CA; ..; CA^{rows-1}]."""
    blocks = [C]
    for _ in range(rows - 1):
        blocks.append(blocks[-1] @ A)
    return np.concatenate(blocks)


def _radius(A: Float[np.ndarray, "s s"]) -> float:
    return float(np.abs(np.linalg.eigvals(A)).max())
