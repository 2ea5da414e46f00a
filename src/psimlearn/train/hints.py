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
"""The column number of each hint, and the sums of its regression on the rows where it was measured.

Each has sums of its own, also where hints were measured at the same rows: its penalty follows from its own variance,
and other recordings may measure hints at other rows.
"""


def with_hints(filter: Filter, sums: HintSums) -> Filter:
    """The filter with a read-out of its hints, each fitted to the rows where it was measured."""
    if not sums:
        return filter
    weights, intercept = np.zeros((len(sums[0][1].z), len(sums))), np.zeros(len(sums))
    for which, own in sums:
        if not own.n:
            raise DataError(f"hint {which[0]}: required at least one measured value, received none. Leave it out.")
        fitted = Ridge(generalised_alpha(own)).solve(own)
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
    sums: dict[int, GramSums] = {}
    for i, rows in enumerate(patterns.T):
        which = np.flatnonzero(group.ravel() == i)
        y = hints[np.ix_(rows, which)]
        together = Ridge().summarise(z[rows], y)
        for j, column in enumerate(which.tolist()):
            own = float(y[:, j] @ y[:, j])
            sums[column] = together._replace(y=together.y[[j]], zy=together.zy[:, [j]], yy=own)
    return [((column,), sums[column]) for column in sorted(sums)]


def merged_hints(a: HintSums, b: HintSums) -> HintSums:
    """Both sums together."""
    if not (a and b):  # recordings without hints say nothing about them
        return a or b
    if len(a) != len(b):
        raise DataError(f"required {len(a)} hints as in fit, or none, received {len(b)}.")
    return [(which, Ridge().merge(one, other)) for (which, one), (_, other) in zip(a, b, strict=True)]
