"""Examples in, a regressor out.

Learners that need scikit-learn (`blackbox`, `symbolic`) or an optimiser (`gaussian`) are imported from their files.
"""

from psimlearn.learners.apart import Apart, ByOutput
from psimlearn.learners.channels import OF_NONE, Channels
from psimlearn.learners.fourier import RandomFourierRidge
from psimlearn.learners.learner import BesideBelief, Counting, Learner, Stats
from psimlearn.learners.ridge import Coordinates, GramSums, InCoordinates, Ridge, generalised_alpha

__all__ = [
    "OF_NONE",
    "Apart",
    "BesideBelief",
    "ByOutput",
    "Channels",
    "Coordinates",
    "Counting",
    "GramSums",
    "InCoordinates",
    "Learner",
    "RandomFourierRidge",
]
__all__ += ["Ridge", "Stats", "generalised_alpha"]
