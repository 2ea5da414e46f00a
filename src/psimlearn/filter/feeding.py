"""The feedback of whole recordings without gaps, by the fastest runner for a folded filter and its recordings.

Small filters run compiled where numba is installed. Otherwise few long recordings are cut into chunks, and many
recordings run at once, one time index after the other.
"""

from bisect import bisect_right

import numpy as np

from psimlearn.filter.chunked import chunk_length, roll_in_chunks
from psimlearn.filter.compiling import ALONE, AT_ONCE, kernels_for, padded
from psimlearn.filter.folded import Folded
from psimlearn.filter.regressors import Linear
from psimlearn.filter.threads import for_one_product, for_products
from psimlearn.recordings.schedule import Schedule
from psimlearn.shapes import Float

__all__ = ["fill"]

DRIVEN = 4096
"""The rows for which the contribution of known columns is computed at once."""


def fill(machine: Folded, z: Float[np.ndarray, "rows p"], plan: Schedule, of_a_step: int) -> None:
    """Fill the columns of z that are fed back; the others are filled, and so is the feedback of first rows.

    Args:
        machine: a folded filter.
        z: the inputs of its steps.
        plan: the schedule of the rows.
        of_a_step: the multiplications of a step of all recordings, or of all chunks.
    """
    length = chunk_length(plan)
    if not _compiled(machine, z, plan, long=length is not None) and (
        length is None or not _in_chunks(machine, z, plan, length, of_a_step)
    ):
        _in_turn(machine, z, plan, of_a_step)


def _in_chunks(machine: Folded, z: Float[np.ndarray, "rows p"], plan: Schedule, length: int, of_a_step: int) -> bool:
    with for_products(of_a_step):
        return roll_in_chunks(machine, z, plan, length)


def _compiled(machine: Folded, z: Float[np.ndarray, "rows p"], plan: Schedule, long: bool) -> bool:
    """Fill the columns by a compiled loop; return whether there is one that pays."""
    feed = machine.feed
    if not isinstance(feed, Linear):
        return False
    kernels = kernels_for(feed.weights.size, ALONE if long else AT_ONCE, len(z))
    if kernels is None:
        return False
    W = padded(np.vstack([feed.weights, feed.intercept]), kernels.EIGHT)
    kernels.fill_feedback(z, plan.starts, W, np.stack(machine.bounds))
    return True


def _in_turn(machine: Folded, z: Float[np.ndarray, "rows p"], plan: Schedule, of_a_step: int) -> None:
    """Fill the columns of z that are fed back, one time index after the other."""
    r, feed, boxed = len(machine.first), machine.feed, machine.boxes(plan.block(0).stop)
    moves, done = plan.moves(), 0
    while done < len(moves):
        # the contribution of known columns, for a few thousand rows at once
        begin = moves[done][0].start
        upto = max(done + 1, bisect_right(moves, begin + DRIVEN, key=lambda move: move[0].stop))
        known = z[begin : moves[upto - 1][0].stop, r:]
        with for_one_product(known.size * r):
            drive = feed.drive(known)[0]
        with for_products(of_a_step):
            for now, later in moves[done:upto]:
                z[later, :r] = boxed(feed.respond(z[now, :r], (drive[now.start - begin : now.stop - begin],)))
        done = upto
