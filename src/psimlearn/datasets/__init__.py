"""Systems to learn from. Synthetic ones come with their truth."""

from psimlearn.datasets.hmm import HiddenMarkov as HiddenMarkov
from psimlearn.datasets.hmm import three_state_hmm as three_state_hmm
from psimlearn.datasets.hmm import two_state_hmm as two_state_hmm
from psimlearn.datasets.linear import LinearSystem as LinearSystem
from psimlearn.datasets.linear import hard_system as hard_system
from psimlearn.datasets.linear import long_memory_system as long_memory_system
from psimlearn.datasets.linear import random_system as random_system
from psimlearn.datasets.pendulum import PENDULUM_FLOOR as PENDULUM_FLOOR
from psimlearn.datasets.pendulum import noisy_pendulum as noisy_pendulum

__all__ = [
    "PENDULUM_FLOOR",
    "HiddenMarkov",
    "LinearSystem",
    "hard_system",
    "long_memory_system",
    "noisy_pendulum",
    "random_system",
    "three_state_hmm",
    "two_state_hmm",
]
