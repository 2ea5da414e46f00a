"""The first rows of whole recordings, by a filter whose first rows have gains of their own (`opening.py`)."""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.innovations import innovations, memory
from psimlearn.filter.layout import Layout
from psimlearn.filter.learnt import Learnt, start
from psimlearn.shapes import Float

__all__ = ["FirstRows", "open_rows"]


class FirstRows(NamedTuple):
    """First rows that were taken."""

    rows: int
    """How many rows of each recording; shorter ones ended before."""
    hints: Float[np.ndarray, "some h"] | None
    """The part of the hints that is read from the belief, corrected by these rows; None without hints."""
    S: Float[np.ndarray, "some s"]
    """The memory of the recordings that go on, after these rows."""


def open_rows(filter: Learnt, layout: Layout, z: Float[np.ndarray, "rows p"]) -> FirstRows:
    """Take the first rows of all recordings, in which nothing is missing.

    Args:
        filter: a filter that opens.
        layout: the recordings.
        z: the inputs of its steps: those of first rows are filled, and the feedback of the rows after them.
    """
    model, plan = innovations(filter), layout.plan
    assert model.opened is not None  # see opens
    S, blocks = np.tile(memory(filter, model, start(filter)), (plan.block(0).stop, 1)), plan.blocks()
    ages, r, g, running = min(model.opened.ages, len(blocks)), model.r, model.r + model.n, np.zeros(len(S), dtype=bool)
    hints = np.empty((blocks[ages - 1].stop, model.n_hints)) if model.n_hints else None
    for gain, now in zip(model.opened.gain, blocks[:ages], strict=False):
        S, x = S[: now.stop - now.start], layout.x[now]
        S = S + (x - model.expected(S)) @ gain.T
        if hints is not None:
            hints[now] = S[:, g : g + model.n_hints]
        z[now] = model.z(np.concatenate([S, x], axis=1), layout.u[now], running[: len(S)])
        S = model.following(z[now])
    now = blocks[ages] if ages < len(blocks) else slice(0)
    S = S[: now.stop - (now.start or 0)]
    z[now, :r] = S[:, :r]
    return FirstRows(ages, hints, S)
