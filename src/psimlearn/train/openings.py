"""The opening of a filter, learnt: the distribution of its memory before the first row of a recording.

There are two ways to know it. If recordings begin at any moment, it is the distribution of the memory at all later
rows, of which there are many. If they begin in a way of their own, first rows tell. With S_1 = s_1 + d, the filter that
begins at s_1 and has no gain of first rows makes the errors

    x_t - H S_t = H F^t d + noise_t,        noise_t ~ N(0, V)          t = 0, 1, ..

where F takes one memory to the next. So d of each recording has a Gaussian posterior, and expectation maximisation
finds the mean and covariance of d over recordings, from the distribution at later rows on.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from psimlearn.evaluate.calibrate import first_rows, thinned
from psimlearn.factors import cholesky, eigh, solve
from psimlearn.filter import Filter, Linear
from psimlearn.filter.innovations import innovations, of_memory, treats_exactly
from psimlearn.filter.opening import Opening
from psimlearn.filter.rollout import Rollout, rolled
from psimlearn.filter.step import expected
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import settled
from psimlearn.shapes import Float

__all__ = ["Begins", "FirstErrors", "all_opened", "begins_as_well", "can_open", "first_errors"]
__all__ += ["of_openings", "opened_by", "with_opening"]

Begins = Literal["any moment", "first rows"]
"""How recordings begin: at any moment, or as first rows tell."""
WIDEST = 3000
"""Coordinates of a memory beyond which no opening is learnt: to find the directions takes their cube in time."""
MOST_DIRECTIONS = 128
"""Directions of a wide memory that are in doubt before the first row: those in which recordings differ most."""
MOST_ROWS, MOST_NUMBERS = 20_000, 500_000
"""Rows, and numbers in them, from which the distribution of memories is learnt: bounds the time."""
FIRST = 20
"""First rows that tell of the memory before them."""
FEWEST = 20
"""The fewest recordings whose first rows tell how recordings begin."""
SCORED = 10
"""First rows that are scored."""
STEPS = 20
"""Steps of expectation maximisation."""
WORSE = 1.05
"""Squared errors of first rows may be so many times larger: with tens of recordings, such a difference is noise."""
FAINT = 1e-10
"""Directions whose variance is a smaller share of the largest are left out."""


def can_open(filter: Filter) -> bool:
    """Tell whether a filter may have an opening: it is linear, treats gaps exactly, and has no wide memory."""
    linear = len(filter.regressors) == 1 and isinstance(filter.regressors[0], Linear)
    fed = len(filter.feedback.mean) if filter.feedback.weight else 0
    wide = fed + filter.lags * len(filter.scaling.mean) > WIDEST
    return linear and not wide and treats_exactly(filter)


def with_opening(filter: Filter, train: Trajectories, begins: Begins) -> Filter | None:
    """The filter with an opening learnt from recordings; None if they are too few or too short to tell.

    Args:
        filter: one that can open.
        train: recordings.
        begins: how recordings begin.
    """
    plain = replace(filter, opening=None)
    found = opened_by(plain, rolled(plain, of_openings(train)))
    if found is None or begins == "any moment":
        return found
    return _as_first_rows(found, filter, train)


def all_opened(filters: Sequence[Filter], trains: Sequence[Trajectories], begins: Begins) -> list[Filter] | None:
    """Filters of several splits with their openings; None if the recordings of one are too few or too short."""
    found = [with_opening(filter, train, begins) for filter, train in zip(filters, trains, strict=True)]
    opened = [filter for filter in found if filter is not None]
    return opened if len(opened) == len(found) else None


def of_openings(train: Trajectories) -> Trajectories:
    """The recordings that tell of openings: some of all, where there are many."""
    return thinned(train, min(MOST_ROWS, MOST_NUMBERS // train.n_channels))


def opened_by(filter: Filter, rollout: Rollout) -> Filter | None:
    """The filter whose memory begins as it is distributed at later rows of its rollout; None if there are too few."""
    plan, d, n = rollout.layout.plan, len(filter.initial), len(filter.scaling.mean)
    rows = np.flatnonzero(settled(plan, np.zeros(len(plan.time), dtype=np.int64))[0])
    if len(rows) < 2:
        return None
    older = rollout.observed(plan.place(-1)[rows])[:, : filter.lags - 1]
    both = np.concatenate([rollout.held[rows], older.reshape(len(rows), -1)], axis=1)
    if not np.isfinite(both).all():
        return None
    mean = both.mean(axis=0)
    return _opening(filter, mean[:d], mean[d:].reshape(-1, n), np.atleast_2d(np.cov(both.T, bias=True)))


def _as_first_rows(found: Filter, filter: Filter, train: Trajectories) -> Filter | None:
    """The filter whose memory begins as first rows tell; `found` has the distribution at later rows."""
    assert found.opening is not None
    whole = train[np.flatnonzero(train.lengths >= FIRST)] if (train.lengths >= FIRST).any() else None
    if whole is None:
        return None
    blind = replace(found, opening=found.opening._replace(root=0 * found.opening.root))  # no gain of first rows
    errors = _first_rows(blind, whole, FIRST)
    errors = errors[~np.isnan(errors).any(axis=(1, 2))]
    if len(errors) < FEWEST:
        return None
    model, d, n = innovations(found), len(filter.initial), len(filter.scaling.mean)
    R = found.opening.root
    move, covariance = _maximised(errors.reshape(len(errors), -1), _reads(found, R), model.noise)
    mean = np.concatenate([found.initial, found.opening.older.ravel()]) + R @ move
    return _opening(filter, mean[:d], mean[d:].reshape(-1, n), R @ covariance @ R.T)


def _maximised(
    errors: Float[np.ndarray, "m rows"], read: Float[np.ndarray, "rows k"], V: Float[np.ndarray, "n n"]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k k"]]:
    """The mean and covariance of coordinates d, standard normal at first, of which recordings show read d + noise.

    With A = read and C the covariance of d, both in units of the noise, d of a recording with errors e has the mean
    d + (e - A d) A P and the covariance P = (I + C A'A)^-1 C.
    """
    m, n, k = len(errors), len(V), read.shape[1]
    unit = cholesky(V)
    A = solve(unit, read.reshape(-1, n, k)).reshape(-1, k)
    e = solve(unit, errors.reshape(-1, n).T).T.reshape(m, -1)
    shown, told = A.T @ A, e @ A
    mean, covariance = np.zeros(k), np.eye(k)
    for _ in range(STEPS):
        left = solve(np.eye(k) + covariance @ shown, covariance)
        moved = mean + (told - mean @ shown) @ left
        mean, covariance = moved.mean(axis=0), np.atleast_2d(np.cov(moved.T, bias=True)) + 0.5 * (left + left.T)
    return mean, covariance


def _reads(filter: Filter, root: Float[np.ndarray, "both k"]) -> Float[np.ndarray, "rows k"]:
    """How errors of first rows depend on the coordinates of the memory before them, which multiply a root."""
    model = innovations(filter)
    F = model.transition(np.empty((1, 0)), np.zeros(1, dtype=bool))[:, : model.s]
    moved, rows = of_memory(filter, root), []
    for _ in range(FIRST):
        rows.append(model.H @ moved)
        moved = F @ moved
    return np.concatenate(rows)


def _opening(
    filter: Filter,
    initial: Float[np.ndarray, " d"],
    older: Float[np.ndarray, "earlier n"],
    covariance: Float[np.ndarray, "both both"],
) -> Filter | None:
    """The filter with this distribution of its memory before the first row; None if its memory never moved."""
    first = max(len(covariance) - MOST_DIRECTIONS, 0)  # all directions of a narrow memory
    values, vectors = eigh(0.5 * (covariance + covariance.T), first)
    rounding = (1e-12 * np.abs(np.concatenate([initial, older.ravel()])).max()) ** 2
    kept = values > max(FAINT * values.max(), rounding)
    if not kept.any():
        return None
    root = np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept]))  # as in a file: gains to the same bits
    return replace(filter, initial=initial, opening=Opening(older, root))


class FirstErrors(NamedTuple):
    """Errors of the first rows of recordings, standardised."""

    squares: Float[np.ndarray, "m rows"]
    """The sum of their squares over channels; NaN where a recording is shorter, or after a missing entry."""
    nats: Float[np.ndarray, " m"]
    """Their log-likelihood under the variances that the opening claims; NaN without an opening."""


def first_errors(filter: Filter, held: Trajectories) -> FirstErrors:
    """Errors of predictions of the first rows, of recordings in which these are complete."""
    errors = _first_rows(filter, held, SCORED)
    seen = ~np.isnan(errors).any(axis=2)
    squares = np.sum(errors**2, axis=2)
    if filter.opening is None:
        return FirstErrors(squares, np.full(len(squares), np.nan))
    model, nats = innovations(filter), np.zeros(len(squares))
    assert model.opened is not None
    for t in range(errors.shape[1]):
        D, now = model.noise, errors[seen[:, t], t]
        if t < model.opened.ages:
            D = D + model.kind.between(model.opened.spread[t : t + 1], model.H)[0]
        nats[seen[:, t]] -= 0.5 * (np.sum(now * solve(D, now.T).T, axis=1) + np.linalg.slogdet(D)[1])
    return FirstErrors(squares, nats)


def begins_as_well(opened: Float[np.ndarray, "m rows"], plain: Float[np.ndarray, "m rows"]) -> bool:
    """Whether squared errors are as small as without an opening: of the very first row, which is hard, and the rest."""
    ours, without = (np.nansum(squares, axis=0) for squares in (opened, plain))
    return bool(ours[0] <= WORSE * without[0] and ours[1:].sum() <= WORSE * without[1:].sum())


def _first_rows(filter: Filter, data: Trajectories, most: int) -> Float[np.ndarray, "m most n"]:
    """Errors of the first rows of recordings; NaN where a recording is shorter, or after a missing entry."""
    rollout = rolled(filter, first_rows(data, most))
    plan = rollout.layout.plan
    errors = np.full((plan.block(0).stop, most, len(filter.scaling.mean)), np.nan)
    errors[plan.stream, plan.time] = rollout.layout.x - expected(filter.recursion, rollout.held)
    gone = np.isnan(errors).any(axis=2)
    errors[np.logical_or.accumulate(gone, axis=1)] = np.nan
    return errors
