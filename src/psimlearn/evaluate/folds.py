"""Recordings divided into training and test sets: by whole recordings, or one long recording by time."""

from collections.abc import Iterator

import numpy as np

from psimlearn.checks import generator, whole
from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int

__all__ = ["cut", "folds", "group_folds", "time_folds"]


def folds(
    trajectories: Trajectories, n_folds: int, rng: np.random.Generator
) -> Iterator[tuple[Trajectories, Trajectories]]:
    """Training and test sets by whole trajectories; each trajectory is tested once."""
    generator(rng)
    if not 2 <= whole(n_folds, "n_folds") <= len(trajectories):
        raise SettingsError(
            f"folds: required 2 to {len(trajectories)} folds, one trajectory each at least; received {n_folds}."
        )
    order = rng.permutation(len(trajectories))
    for part in np.array_split(order, n_folds):
        yield trajectories[np.sort(np.setdiff1d(order, part))], trajectories[np.sort(part)]


def group_folds(
    trajectories: Trajectories, groups: Int[np.ndarray, " m"], n_folds: int, rng: np.random.Generator
) -> Iterator[tuple[Trajectories, Trajectories]]:
    """Training and test sets by whole groups, given the number of the group of each trajectory; each is tested once."""
    order = rng.permutation(np.unique(groups))
    if len(order) < 2:
        raise DataError(
            "groups: required at least 2 groups with recordings longer than the window, so that one can be held out, "
            "received 1. Leave groups out, or pass validation= recordings."
        )
    for part in np.array_split(order, min(n_folds, len(order))):
        held = np.isin(groups, part)
        yield trajectories[~held], trajectories[held]


def time_folds(
    recording: Trajectories, n_folds: int, gap: int, rng: np.random.Generator | None = None
) -> Iterator[tuple[Trajectories, Trajectories]]:
    """Training and test sets from one long recording: each stretch of time is tested once.

    The rows before and after the tested stretch train, except `gap` rows on either side of it: with a gap of at least
    the window, no training target reaches into the test.

    Args:
        recording: one trajectory.
        n_folds: into how many stretches it is cut.
        gap: rows left out on either side of the tested stretch.
        rng: shuffles the order in which stretches are tested; by default they follow in time.
    """
    rows = len(recording.values)
    whole(gap, "gap", 0)
    if len(recording) != 1 or not 2 <= whole(n_folds, "n_folds") <= rows:
        raise SettingsError(
            f"time folds: required one recording and 2 to as many folds as it has rows, received {len(recording)} "
            f"recordings, {rows} rows and {n_folds} folds. Use folds() for several recordings."
        )
    stretches = np.array_split(np.arange(rows), n_folds)
    for i in range(n_folds) if rng is None else rng.permutation(n_folds):
        test = stretches[i]
        before, after = np.arange(test[0] - gap), np.arange(test[-1] + 1 + gap, rows)
        training = [part for part in (before, after) if len(part)]
        if not training:
            raise SettingsError(
                f"time folds: required a gap that leaves rows to train on, received a gap of {gap} rows and {rows} "
                "rows. Use a smaller gap or fewer folds."
            )
        yield recording.stretches(training), recording.stretches([test])


def cut(recording: Trajectories, row: int) -> tuple[Trajectories, Trajectories]:
    """The rows of one recording before a row, and the others."""
    before, after = np.split(np.arange(len(recording.values)), [row])
    return recording.stretches([before]), recording.stretches([after])
