"""Recordings in which every sensor was there."""

import numpy as np

from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Bool

__all__ = ["complete"]


def complete(data: Trajectories) -> Bool[np.ndarray, " m"]:
    """Mark the recordings in which every channel was observed at least once."""
    seen = np.logical_or.reduceat(~np.isnan(data.values), data.offsets[:-1], axis=0)
    return np.asarray(seen.all(axis=1))
