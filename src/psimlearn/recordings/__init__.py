"""Recordings: observations in any form, checked once, and all arithmetic on their time.

The names below need numpy only. Readers of files (`tables`) and the forms in which callers hold recordings (`forms`)
bring other libraries, so they are imported from their modules.
"""

from psimlearn.recordings.alphabet import Alphabet as Alphabet
from psimlearn.recordings.alphabet import Symbol as Symbol
from psimlearn.recordings.trajectories import Trajectories as Trajectories
from psimlearn.recordings.trajectories import as_trajectories as as_trajectories
from psimlearn.recordings.trajectory import Trajectory as Trajectory

__all__ = ["Alphabet", "Symbol", "Trajectories", "Trajectory", "as_trajectories"]
