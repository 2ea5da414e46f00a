"""Beliefs of whole recordings, read from the inputs z of the steps of a foldable filter.

Feedback that is not compressed holds every coordinate of the belief before a row, shifted and scaled: where it lies
inside the box, no product is needed. Rows are taken a few at a time, so that they stay in cache and answers are the
only large array.
"""

from collections.abc import Iterator

import numpy as np

from psimlearn.filter.folded import Map, folded_map
from psimlearn.filter.innovations import opening_rows
from psimlearn.filter.layout import Layout
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.regressors import Linear
from psimlearn.filter.threads import for_one_product
from psimlearn.shapes import Float, Int

__all__ = ["before", "left_by"]

CACHED, MULTIPLIED = 1 << 15, 1024
"""The numbers that are worked on at a time where no product is needed, and the rows that are multiplied at a time."""


def left_by(filter: Learnt, z: Float[np.ndarray, "b p"], d: int) -> Float[np.ndarray, "b d"]:
    """The first d coordinates of the belief m_{t+1}, given z_t."""
    return _mapped(_part(filter, d), z)


def before(
    filter: Learnt, layout: Layout, z: Float[np.ndarray, "rows p"], d: int, packed: bool = False
) -> Float[np.ndarray, "rows d"]:
    """The first d coordinates of the belief before each row.

    Args:
        filter: a foldable filter.
        layout: the recordings.
        z: the inputs that the filter met there.
        d: how many coordinates.
        packed: return rows in the order of the recordings, not as scheduled.
    """
    out, order = np.empty((len(z), d)), layout.plan.order
    invertible = filter.feedback.directions is None and filter.feedback.weight != 0 and not layout.gappy
    parts = _inverted(filter, layout, z, d) if invertible else _computed(filter, layout, z, d)
    with for_one_product(z.size * d):
        for rows, beliefs in parts:
            out[order[rows] if packed else rows] = beliefs
    n_first = layout.plan.block(0).stop
    out[order[:n_first] if packed else slice(n_first)] = filter.initial[:d]
    return out


def _computed(
    filter: Learnt, layout: Layout, z: np.ndarray, d: int
) -> Iterator[tuple[slice | Int[np.ndarray, " some"], np.ndarray]]:
    """Yield some rows and the beliefs before them, computed from the rows before."""
    part, place = _part(filter, d), layout.plan.place(-1)
    if not filter.feedback.weight and isinstance(part, Linear):  # feedback is zero: its columns need no product
        r = len(filter.feedback.mean)
        part, z = Linear(part.weights[r:], part.intercept), z[:, r:]
    for rows in _some(z, MULTIPLIED):
        yield rows, _mapped(part, z.take(place[rows], axis=0))


def _inverted(
    filter: Learnt, layout: Layout, z: np.ndarray, d: int
) -> Iterator[tuple[slice | Int[np.ndarray, " some"], np.ndarray]]:
    """Yield some rows and the beliefs before them: read from feedback inside the box; at last, first rows and its edge.

    On the edge beliefs are computed, many rows in one product: the weights of a wide filter take long to read.
    """
    feedback, part, place = filter.feedback, _part(filter, d), layout.plan.place(-1)
    starts = layout.plan.starts
    opening = np.arange(starts[min(opening_rows(filter), len(starts) - 1)])  # these rows have corrected their feedback
    n_rows = max(
        1, CACHED // z.shape[1]
    )  # numpy combines arrays of one shape much faster than rows with many short ones
    scale, mean = (np.tile(part[:d], (n_rows, 1)) for part in (feedback.scale / feedback.weight, feedback.mean))
    low, high = (None if bound is None else np.tile(bound[:d], (n_rows, 1)) for bound in (feedback.low, feedback.high))
    on_edge: list[np.ndarray] = [opening]
    for rows in _some(z, n_rows):
        fed = np.ascontiguousarray(z[rows, :d])
        b = len(fed)
        if low is not None and high is not None:
            edge = (fed <= low[:b]) | (fed >= high[:b])
            if edge.any():
                on_edge.append(rows.start + np.flatnonzero(edge.any(axis=1)))
        beliefs = fed * scale[:b]
        beliefs += mean[:b]
        yield rows, beliefs
    clipped = np.concatenate(on_edge)
    for some in _some(clipped, MULTIPLIED):
        yield clipped[some], _mapped(part, z[place[clipped[some]]])


def _part(filter: Learnt, d: int) -> Map:
    """The map from z_t to the first d coordinates of m_{t+1}."""
    return folded_map(filter, lambda m: m[:, :d])


def _mapped(map: Map, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverges is a value, not a crash
        return np.asarray(map(z))


def _some(z: np.ndarray, n_rows: int) -> Iterator[slice]:
    """Slices of so many rows."""
    for i in range(0, len(z), n_rows):
        yield slice(i, i + n_rows)
