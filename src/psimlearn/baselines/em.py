"""Maximum likelihood for a linear dynamical system, by expectation maximisation over many recordings with gaps."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.baselines.gaussian import LinearGaussian
from psimlearn.baselines.innovations import InnovationsModel
from psimlearn.baselines.n4sid import n4sid
from psimlearn.checks import number, whole
from psimlearn.errors import DivergedError
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.likelihood import bounded, expected, maximised, opened
from psimlearn.train.smoother import Records, filtered, records
from psimlearn.train.systems import NoisySystem, System

__all__ = ["em"]

SLACK = 1e-9
"""A fall of the likelihood that rounding explains, relative to its size."""


def em(
    train: Trajectories,
    order: int | None = None,
    *,
    validation: Trajectories | None = None,
    block_rows: int | Sequence[int] = 10,
    start: LinearGaussian | InnovationsModel | None = None,
    n_iter: int = 100,
    tolerance: float = 1e-6,
) -> LinearGaussian:
    """Learn a linear dynamical system, started from subspace identification.

    Args:
        train: recordings of any lengths; missing entries are averaged over, not filled in.
        order: the number of states; by default the one that `n4sid` chooses on `validation`.
        validation: recordings to choose the order by.
        block_rows: as in `n4sid`.
        start: a system to start from instead.
        n_iter: the most iterations.
        tolerance: stop when an iteration gains less than this many nats per row.
    """
    whole(n_iter, "n_iter", 0)
    number(tolerance, "tolerance")
    if start is None:
        start = n4sid(train, order, validation=validation, block_rows=block_rows)
    if isinstance(start, InnovationsModel):
        system = System(start.A, start.C, start.K, start.V, start.stabilised)
        start = LinearGaussian(*opened(system, start.mean, start.initial, start.covariance))
    scaling = standardisation(train.values)
    rows, begun = records(scaling(train.values), train.offsets), bounded(start.standardised(scaling).noisy())
    found = _iterated(begun, rows, n_iter, tolerance * len(train.values))
    change = np.log(scaling.scale) @ np.count_nonzero(~np.isnan(train.values), axis=0)
    history = tuple(float(each - change) for each in found.log_likelihoods)
    return replace(found.in_units(scaling), log_likelihoods=history)


def _iterated(model: NoisySystem, records: Records, n_iter: int, least_gain: float) -> LinearGaussian:
    """Expectation and maximisation in turn, for as long as the likelihood rises."""
    seen = filtered(model, records)
    if not np.isfinite(seen.log_likelihood):
        raise DivergedError(
            f"required a start with a finite likelihood, received {seen.log_likelihood}. Use a smaller order."
        )
    history, converged = [seen.log_likelihood], False
    for _ in range(n_iter):
        better = maximised(model, expected(model, records, seen))
        seen = filtered(better, records)
        gain = seen.log_likelihood - history[-1]
        if not gain > -SLACK * abs(history[-1]):  # only rounding can lower it: keep the better model
            break
        model = better
        history.append(seen.log_likelihood)
        converged = gain < least_gain
        if converged:
            break
    return LinearGaussian(*model, log_likelihoods=tuple(history), converged=converged)
