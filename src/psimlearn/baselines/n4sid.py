"""Subspace identification of a linear system from outputs alone, over many recordings (N4SID and CVA).

The past tells of the future only through the state: the map from past to future has the rank of the system, and its
singular vectors give the states. Two rows of states, one step apart, give the system by least squares.
"""

from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np

from psimlearn.baselines.beginning import begun
from psimlearn.baselines.identify import identified, one_or_several, orders_to_try
from psimlearn.baselines.innovations import InnovationsModel
from psimlearn.checks import number, one_of, switch
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float
from psimlearn.train.subspace import Weighting, realised, related

__all__ = ["n4sid"]


def n4sid(
    train: Trajectories,
    order: int | None = None,
    *,
    validation: Trajectories | None = None,
    block_rows: int | Sequence[int] = 10,
    weighting: Weighting = "cva",
    ridge: float = 1e-6,
    standardise: bool = True,
) -> InnovationsModel:
    """Identify a linear system from recordings of its outputs.

    Args:
        train: recordings; no column of the data matrices spans two of them. Missing entries are carried forward, then
            filled in by the system identified, which is identified again.
        order: the number of states; by default the one with the least one-step error on `validation`.
        validation: recordings to choose the order by.
        block_rows: how many rows of past and of future are related, or several such numbers to choose from as well.
        weighting: "cva" relates them by canonical correlations; "n4sid" weights the future by its variance.
        ridge: added to the variances of the standardised observations.
        standardise: measure each channel in its standard deviation. Otherwise all channels have one unit, and
            channels that vary most count most: right for principal components.
    """
    one_of(weighting, get_args(Weighting), "weighting")
    number(ridge, "ridge")
    switch(standardise, "standardise")
    tried = [
        (rows, orders_to_try(order, validation, (rows - 1) * train.n_channels, "order"))
        for rows in one_or_several(block_rows, validation, 2, "block_rows")
    ]

    def candidates(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Iterator[InnovationsModel]:
        for rows, orders in tried:
            found = related(x, plan, rows, weighting, ridge)
            yield from (begun(realised(found, order), x, plan, 2 * rows) for order in orders)

    return identified(train, validation, candidates, standardise)
