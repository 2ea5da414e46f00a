"""Hints: quantities measured in training only, regressed on beliefs, recent observations and inputs."""

from dataclasses import replace

import numpy as np

from psimlearn.errors import DataError
from psimlearn.filter import Filter, Linear
from psimlearn.filter.rollout import rolled
from psimlearn.learners import GramSums, Ridge, generalised_alpha
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["HintSums", "hint_sums", "merged_hints", "with_hints"]

HintSums = list[tuple[tuple[int, ...], GramSums]]
"""Groups of hints that were measured at the same rows: their column numbers and the sums of their regression."""


def with_hints(filter: Filter, sums: HintSums) -> Filter:
    """The filter with a read-out of its hints, each fitted to the rows where it was measured."""
    if not sums:
        return filter
    width, n_hints = len(sums[0][1].z), sum(len(which) for which, _ in sums)
    weights, intercept = np.zeros((width, n_hints)), np.zeros(n_hints)
    for which, group in sums:
        if not group.n:
            raise DataError(f"hint {which[0]}: required at least one measured value, received none. Leave it out.")
        fitted = Ridge(generalised_alpha(group)).solve(group)
        weights[:, which], intercept[list(which)] = fitted.weights, fitted.intercept
    return replace(filter, hinting=Linear(weights, intercept))


def hint_sums(filter: Filter, train: Trajectories) -> HintSums:
    """Sums of the regression of hints on the knowledge of a filter that has seen their row."""
    if train.hints is None:
        return []
    rollout = rolled(filter, train)
    z, hints = np.concatenate(rollout.known, axis=1), train.hints[rollout.layout.plan.order]
    measured = ~np.isnan(hints)
    patterns, group = np.unique(measured, axis=1, return_inverse=True)
    sums: HintSums = []
    for i, rows in enumerate(patterns.T):
        which = tuple(np.flatnonzero(group.ravel() == i).tolist())
        sums.append((which, Ridge().summarise(z[rows], hints[np.ix_(rows, np.array(which))])))
    return sums


def merged_hints(a: HintSums, b: HintSums) -> HintSums:
    """Both sums together; hints that one of them groups and the other does not are taken apart."""
    if not (a and b):  # recordings without hints say nothing about them
        return a or b
    n_hints, received = (sum(len(which) for which, _ in sums) for sums in (a, b))
    if n_hints != received:
        raise DataError(f"required {n_hints} hints as in fit, or none, received {received}.")
    if [which for which, _ in a] != [which for which, _ in b]:
        a, b = _one_by_one(a), _one_by_one(b)
    return [(which, Ridge().merge(one, other)) for (which, one), (_, other) in zip(a, b, strict=True)]


def _one_by_one(sums: HintSums) -> HintSums:
    """Sums for every single hint; the yy of a group, which no solution needs, is left whole."""
    singles = {
        (column,): group._replace(y=group.y[[i]], zy=group.zy[:, [i]])
        for which, group in sums
        for i, column in enumerate(which)
    }
    return sorted(singles.items())
