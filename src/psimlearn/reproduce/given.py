"""Recordings that a method learns from, and the outcome."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psimlearn.baselines.tuned import Split
from psimlearn.evaluate import folds
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["Given", "given"]


class Given(NamedTuple):
    """The recordings of a fold that a method may learn from, and how it will be scored."""

    everything: Trajectories
    train: Trajectories
    """A part of everything."""
    held: Trajectories
    """The rest of everything, by which settings are chosen."""
    window: int
    skip: int
    """Rows at the beginning of a recording that are not scored."""
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """A generator that is the same for every method."""
        return np.random.default_rng(self.seed)

    @property
    def split(self) -> Split:
        """The recordings alone."""
        return Split(*self[:3])

    def in_units_of(self, unit: float) -> "Given":
        """The same recordings, divided by this unit."""
        everything, train, held = (replace(part, values=part.values / unit) for part in self[:3])
        return self._replace(everything=everything, train=train, held=held)


def given(everything: Trajectories, share: float, window: int, skip: int, seed: int) -> Given:
    """Hold a share of the recordings out, at least one."""
    n_folds = min(max(2, round(1 / share)), len(everything))
    train, held = next(folds(everything, n_folds, np.random.default_rng([seed, 1])))
    return Given(everything, train, held, window, skip, seed)
