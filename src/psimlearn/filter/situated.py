"""Predictions that follow the situation: which of them do, and by how much it widens or narrows them."""

import numpy as np

from psimlearn.filter.learnt import Learnt
from psimlearn.filter.step import State
from psimlearn.shapes import Bool, Float, Int

__all__ = ["situation"]


def situation(
    filter: Learnt, state: State, horizon: Int[np.ndarray, "b steps"], share: Float[np.ndarray, "b steps n"] | None
) -> tuple[Bool[np.ndarray, "b steps"] | None, Float[np.ndarray, "*b n"] | float]:
    """Whether predictions follow the situation, and the factor of their variance; (None, 1) if the filter has no scale.

    First rows and rows after rows without any observation keep the one calibration for all situations, and so does the
    part of the variance that is doubt.
    """
    local, calibration = filter.local, filter.calibration
    if local is None or state.unrest is None or calibration is None:
        return None, 1.0
    ages = 0 if filter.starting is None else len(filter.starting.ratio)
    settled = np.broadcast_to((state.age >= ages) & (np.asarray(state.unseen) == 0), len(horizon))
    follows = settled[:, None] & (horizon <= len(local.power))
    sizes = local.sizes(state.unrest, filter.features.observations(state.belief))
    factor = local.factor(sizes, horizon)
    factor = factor if share is None else factor ** (1 - share)
    return follows, np.where(follows[..., None], factor, 1.0)
