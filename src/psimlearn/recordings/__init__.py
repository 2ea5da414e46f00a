"""Recordings: observations in any form, checked once, and all arithmetic on their time.

The names below need numpy only. Readers of files (`tables`) and the forms in which callers hold recordings (`forms`)
bring other libraries, so they are imported from their modules.
"""

from psimlearn.recordings.alphabet import Alphabet, Symbol
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories, as_trajectories
from psimlearn.recordings.trajectory import Trajectory

__all__ = ["Alphabet", "Shards", "Symbol", "Trajectories", "Trajectory", "as_trajectories"]
