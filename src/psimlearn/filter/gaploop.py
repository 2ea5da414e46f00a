"""Recordings with gaps by a compiled loop, for small linear filters where numba is installed.

A missing entry opens doubt in one direction only, and a filter forgets. So the loop keeps a square root with few
columns (`spreads.py`), and each column costs as much as the mean.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.factors import eigh
from psimlearn.filter.compiling import IN_DOUBT, kernels_for, padded
from psimlearn.filter.doubt import NOTHING, Doubt
from psimlearn.filter.innovations import Innovations
from psimlearn.filter.layout import Layout
from psimlearn.filter.patterns import has_patterns, numbered
from psimlearn.filter.regressors import Linear
from psimlearn.filter.spreads import noise_given
from psimlearn.shapes import Bool, Float

__all__ = ["Looped", "roll_compiled"]

MOST_NUMBERS = 2**24
"""The numbers of the tables of all patterns, up to which the loop runs."""


class Looped(NamedTuple):
    """The doubt after each trajectory, in the order of the recordings; None if there is none."""

    ends: Doubt | None


def roll_compiled(
    model: Innovations,
    layout: Layout,
    z: Float[np.ndarray, "rows p"],
    x: Float[np.ndarray, "rows n"],
    hints: Float[np.ndarray, "rows h"],
    begin: Float[np.ndarray, " s"],
) -> Looped | None:
    """Fill z, x and hints of scheduled rows; None if numpy has to do it, and then they are of no use.

    Args:
        model: the innovations model of a filter.
        layout: the recordings.
        z: the inputs of its steps, of which the columns of inputs are filled.
        x: observations, NaN where missing.
        hints: work space for the part of the hints that is read from the belief.
        begin: the mean of the memory at the start.
    """
    if not has_patterns(model) or not isinstance(model.map, Linear):
        return None
    kernels = kernels_for(model.map.weights.size, IN_DOUBT, len(z))
    if kernels is None:
        return None
    pattern, seen = numbered(x)
    if 6 * len(seen) * model.n**2 > MOST_NUMBERS:
        return None
    noise = _tables(model, seen)
    if noise is None:
        return None
    feedback, r = model.feedback, model.r
    box = np.full((2, r), np.array([[-np.inf], [np.inf]]))
    if r and feedback.low is not None and feedback.high is not None:
        box = np.stack([feedback.low, feedback.high])
    W = padded(np.vstack([model.map.weights, model.map.intercept]), kernels.EIGHT)
    ends = np.zeros((layout.plan.block(0).stop, model.s, model.s))
    fed, negligible = len(feedback.mean), NOTHING * model.noise_level
    starts, first = layout.plan.starts, _first_rows(model)
    if not kernels.fill_in_doubt(z, x, hints, starts, pattern, noise, W, box, begin, *first, fed, negligible, ends):
        return None
    return Looped(_doubt(ends[np.argsort(layout.plan.trajectories())]))


def _tables(model: Innovations, seen: Bool[np.ndarray, "patterns n"]) -> Float[np.ndarray, "twice three n n"] | None:
    """What each pattern leaves of the noise, for all rows and again for first rows; None if that is singular."""
    try:
        given = [np.stack(noise_given(V, seen), axis=1) for V in (model.noise, model.first_noise)]
    except np.linalg.LinAlgError:
        return None
    return np.concatenate(given)


def _first_rows(model: Innovations) -> tuple[Float[np.ndarray, "ages s n"], Float[np.ndarray, "ages k s"]]:
    """The gains of first rows, and roots of their covariances, one row for each column; of no ages without them."""
    if model.opened is None:
        return np.empty((0, model.s, model.n)), np.empty((0, 0, model.s))
    values, vectors = eigh(model.opened.spread)
    roots = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]).swapaxes(1, 2)
    return model.opened.gain, np.ascontiguousarray(roots)


def _doubt(covariances: Float[np.ndarray, "m s s"]) -> Doubt | None:
    """The doubt of streams whose covariances are given, zero for none."""
    alive = covariances.any(axis=(1, 2))
    if not alive.any():
        return None
    return Doubt(np.where(alive, np.cumsum(alive) - 1, -1), covariances[alive])
