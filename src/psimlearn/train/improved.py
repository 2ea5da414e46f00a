"""A system that was identified, improved by some iterations of expectation maximisation.

Subspace identification is quick and close; maximum likelihood is closer where recordings are few or noisy. Most of the
gain comes with the first iterations, so a fixed number of them is a setting of a start like the number of states.
"""

from collections.abc import Callable

import numpy as np

from psimlearn.errors import DivergedError
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.windows import evenly_cut
from psimlearn.shapes import Float, Int
from psimlearn.train.likelihood import Expected, bounded, expected, maximised, opened
from psimlearn.train.smoother import Records, records
from psimlearn.train.subspace import Start
from psimlearn.train.systems import NoisySystem, System, settled, stabilised, steady_gain

__all__ = ["LONGEST", "improved", "improved_by", "pieces", "products"]

LONGEST = 200
"""The rows of the pieces into which recordings are cut: all pieces take a step at once, and share covariances."""


def pieces(x: Float[np.ndarray, "rows n"], plan: Schedule, offsets: Int[np.ndarray, " offsets"]) -> Records:
    """Scheduled rows of recordings with these offsets, cut into pieces."""
    return records(plan.packed(x), evenly_cut(offsets, LONGEST))


def improved(start: Start, rows: Records, n_iterations: int) -> System:
    """The system after so many iterations; DivergedError if it has no filter then.

    Args:
        start: an identified system of standardised observations, with its level and its first state.
        rows: these observations.
        n_iterations: how often to expect and maximise.
    """
    return improved_by(start, lambda model: expected(model, rows), n_iterations)


def improved_by(start: Start, expectation: Callable[[NoisySystem], Expected], n_iterations: int) -> System:
    """As `improved`, with the sums of all recordings from a function, such as a pass over shards."""
    system, level, state = start
    try:
        model = bounded(opened(system, level, state, settled(system.A, system.K @ system.V @ system.K.T)))
        for _ in range(n_iterations):
            model = maximised(model, expectation(model))
        if not all(np.isfinite(part).all() for part in model):
            raise DivergedError("required finite numbers after expectation maximisation, received others.")
        A, shrunk = stabilised(model.A)
        return System(A, model.C, *steady_gain(A, model.C, model.noise), shrunk)
    except np.linalg.LinAlgError as failure:
        raise DivergedError(f"expectation maximisation failed ({failure}). Use em_iterations=0.") from failure


def products(offsets: Int[np.ndarray, " offsets"], n_channels: int, n_states: int) -> float:
    """About how many multiplications an iteration takes: products of all rows, and solutions for all covariances."""
    lengths = np.unique(np.diff(evenly_cut(offsets, LONGEST)))  # pieces of one length share their covariances
    return float(4 * offsets[-1] * (n_channels + n_states) ** 2 + 20 * lengths.sum() * n_states**3)
