"""Whole recordings: a filter rolled over all of them at once, one time index after the other, in closed loop.

Runners take turns. The folded runner computes the feedback only, and beliefs when they are asked for. Recordings with
gaps need the runner that keeps the covariance of what is missing. The textbook serves filters that cannot be folded,
and fills their gaps in.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from psimlearn.filter.beliefs import before, left_by
from psimlearn.filter.chunked import at_once
from psimlearn.filter.doubt import Doubt
from psimlearn.filter.feeding import fill
from psimlearn.filter.folded import fold, foldable
from psimlearn.filter.gapped import Reading, roll_in_doubt
from psimlearn.filter.innovations import opens, treats_exactly
from psimlearn.filter.layout import Layout, controls
from psimlearn.filter.learnt import Learnt, laid_out, start
from psimlearn.filter.openloop import open_rows
from psimlearn.filter.step import State, advance, expected, following, following_at, inputs
from psimlearn.filter.threads import for_products
from psimlearn.recordings.schedule import RowIndex
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import (
    ages_after,
    beliefs_before,
    late_before,
    unseen_before,
)
from psimlearn.shapes import Float

__all__ = ["Reading", "Rollout", "Table", "inputs_at", "laid_out", "roll", "rolled", "room", "table"]


@dataclass(frozen=True, eq=False)
class Table:
    """A layout with room for a filter to roll over it."""

    layout: Layout
    n_fed: int
    """The columns of z that come from the belief."""

    @cached_property
    def z(self) -> Float[np.ndarray, "rows p"]:
        """Work space: observations and inputs are filled in, the rest is overwritten by every rollout.

        It is made when the first rollout needs it: most settings of a search are never rolled over their training rows.
        """
        return self.layout.beside(self.n_fed)


def table(filter: Learnt, trajectories: Trajectories) -> Table:
    """Lay recordings out for `roll`."""
    return room(filter, laid_out(filter, trajectories))


def room(filter: Learnt, layout: Layout) -> Table:
    """Make room to roll over a layout; filters with the same lags and the same width of feedback may share it."""
    return Table(layout, len(filter.feedback.mean))


@dataclass(frozen=True, eq=False)
class Rollout:
    """The rows that a filter met, as scheduled; `z` is valid until the next rollout over the same table."""

    filter: Learnt
    layout: Layout
    x: Float[np.ndarray, "rows n"]
    """Observations with the missing ones filled in."""
    z: Float[np.ndarray, "rows p"]
    stored: Float[np.ndarray, "rows d"] | None
    """Beliefs, if the runner computed them."""
    hints: Float[np.ndarray, "rows h"] | None = None
    """The part of the hints that is read from the belief m_t, corrected by the row, if it was in doubt: in gaps, and
    in the first scheduled rows."""
    ends: Doubt | None = None
    """The doubt after each trajectory, in the order of the recordings; None if there is none."""
    read: Float[np.ndarray, "rows *rest"] | None = None
    """A reading of the doubt after each scheduled row; None if there never was any, or nothing was to be read."""

    @cached_property
    def beliefs(self) -> Float[np.ndarray, "rows d"]:
        """m_{t+1}, the belief after each scheduled row."""
        if self.stored is not None:
            return self.stored
        plan = self.layout.plan
        after, last = self.held.take(plan.place(1), axis=0), plan.last()
        after[last] = self.left_by(last)
        return after

    @cached_property
    def held(self) -> Float[np.ndarray, "rows d"]:
        """m_t, the belief before each scheduled row."""
        return self._before(len(self.filter.initial))

    @property
    def read_before(self) -> Float[np.ndarray, "rows *rest"] | None:
        """The reading of the doubt before each scheduled row; zero at first rows."""
        if self.read is None:
            return None
        nothing = np.zeros_like(self.read[0])
        return beliefs_before(self.read, nothing, self.layout.plan)

    def blocks(self, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """The first blocks of the stacked beliefs before each row, in the order and units of the recordings.

        The other blocks are not computed.
        """
        d = horizon * len(self.filter.scaling.mean)
        blocks = self._before(d, packed=True)
        self.filter.scaling.revert(blocks.reshape(-1, len(self.filter.scaling.mean)))
        return blocks.reshape(len(self.x), horizon, -1)

    def left_by(self, rows: RowIndex) -> Float[np.ndarray, "some d"]:
        """The beliefs after some scheduled rows."""
        if self.stored is not None:
            return self.stored[rows]
        return left_by(self.filter, self.z[rows], len(self.filter.initial))

    def packed_held(self) -> Float[np.ndarray, "rows d"]:
        """m_t, the belief before each row, in the order of the recordings."""
        return self._before(len(self.filter.initial), packed=True)

    def _before(self, d: int, packed: bool = False) -> Float[np.ndarray, "rows d"]:
        """The first d coordinates of the belief before each row."""
        if self.stored is None:
            return before(self.filter, self.layout, self.z, d, packed)
        held = beliefs_before(self.stored[:, :d], self.filter.initial[:d], self.layout.plan)
        return self.layout.plan.packed(held) if packed else held

    def given_inputs(self, rows: RowIndex, u: np.ndarray, next_u: np.ndarray) -> Float[np.ndarray, "some d"]:
        """The belief after some rows, if their inputs and the next ones are these."""
        filter, z, x = self.filter, self.z[rows].copy(), self.x[rows]
        assert filter.input_scaling is not None
        columns = controls(filter.input_scaling, u, next_u, filter.feedthrough)
        z[:, z.shape[1] - columns.shape[1] :] = columns
        return following_at(filter.recursion, z, x, self.layout.plan.time[rows])

    def observed(self, rows: RowIndex = slice(None)) -> Float[np.ndarray, "some lags n"]:
        """(x_t, .., x_{t-lags+1}) at some scheduled rows, missing entries at their mean given all rows up to it."""
        first, lags, n = len(self.filter.feedback.mean), self.filter.lags, self.x.shape[1]
        return self.z[rows, first : first + n * lags].reshape(-1, lags, n)

    @cached_property
    def before(self) -> State:
        """The state before every scheduled row, as if each row were a stream; `read_before` tells its doubt."""
        plan, unseen = self.layout.plan, unseen_before(self.layout.x, self.layout.plan)
        late = late_before(self.layout.x, plan)
        return State(self.held, self.observed(plan.place(-1)), plan.time, unseen, late, None, self._unrest)

    @property
    def after(self) -> State:
        """The state after every scheduled row; `read` tells its doubt."""
        x, plan, unrest = self.layout.x, self.layout.plan, self.unrest_left_by(slice(None))
        unseen, clock = np.where(np.isnan(x).all(axis=1), unseen_before(x, plan) + 1, 0), plan.time + 1
        return State(self.beliefs, self.observed(), clock, unseen, clock - ages_after(x, plan), None, unrest)

    @cached_property
    def _unrest(self) -> Float[np.ndarray, "rows n"] | None:
        """The unrest before each scheduled row; None if none is kept."""
        local, plan = self.filter.local, self.layout.plan
        if local is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverged
            errors = plan.packed(self.layout.x - expected(self.filter.recursion, self.held))
        starts = np.append(np.sort(plan.order[plan.block(0)]), len(errors))
        return np.asarray(local.unrest_before(errors, starts)[plan.order])

    def unrest_left_by(self, rows: RowIndex) -> Float[np.ndarray, "some n"] | None:
        """The unrest after some scheduled rows; None if none is kept."""
        if self._unrest is None:
            return None
        mean = expected(self.filter.recursion, self.held[rows])
        return self.filter.unrest_after(self._unrest[rows], self.layout.x[rows], mean)

    @property
    def known(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The knowledge once x_t was seen, at every scheduled row: m_t, (x_t, .., x_{t-lags+1}) and the inputs."""
        return self.held, self.observed().reshape(len(self.x), -1), self.layout.u


def rolled(filter: Learnt, trajectories: Trajectories, reading: Reading | None = None) -> Rollout:
    """Lay recordings out and roll a filter over them."""
    return roll(filter, table(filter, trajectories), reading)


def roll(filter: Learnt, table: Table, reading: Reading | None = None) -> Rollout:
    """Filter all trajectories at once, one time index after the other, in closed loop.

    Args:
        filter: a learnt filter.
        table: the recordings, laid out.
        reading: read from the doubt after each row, where entries are missing: doubt itself is too large to be kept.
    """
    of_a_step = at_once(table.layout.plan) * table.z.shape[1] * len(filter.feedback.mean)
    with np.errstate(over="ignore", invalid="ignore"):  # one that diverges is no crash
        if foldable(filter) and not table.layout.gappy:
            return _roll_folded(filter, table, of_a_step)
        with for_products(of_a_step):
            if not table.layout.gappy:
                return _roll_textbook(filter, table)
            return _roll_gapped(filter, table, reading) if treats_exactly(filter) else _roll_filling(filter, table)


def _roll_folded(filter: Learnt, table: Table, of_a_step: int) -> Rollout:
    """Fill the columns of z that are fed back; nothing else of a belief is computed."""
    layout, z = table.layout, table.z
    machine, plan, first, hints = fold(filter), layout.plan, 0, None
    r = len(machine.first)
    z[slice(None) if not filter.feedback.weight else plan.block(0), :r] = machine.first  # without weight it stays
    if opens(filter):
        z = z.copy()  # other filters use the table, and lags before the first row are written
        met = open_rows(filter, layout, z)
        first, hints = met.rows, met.hints
    later = plan.from_time(first)
    if filter.feedback.weight and len(later.order):
        fill(machine, z[len(z) - len(later.order) :], later, of_a_step)
    return Rollout(filter, layout, layout.x, z, None, hints)


def _roll_textbook(filter: Learnt, table: Table) -> Rollout:
    """Nothing is missing: the contribution of known columns is computed ahead, time by time if regressors differ."""
    layout, z = table.layout, table.z
    recursion, plan, r = filter.recursion, layout.plan, len(filter.feedback.mean)
    belief, after = start(filter, plan.block(0).stop).belief, np.empty((len(z), len(filter.initial)))
    ahead = recursion.regressor(0).drive(z[:, r:]) if len(filter.regressors) == 1 else None
    for t, block in enumerate(plan.blocks()):
        drive = recursion.regressor(t).drive(z[block, r:]) if ahead is None else tuple(part[block] for part in ahead)
        belief = belief[: block.stop - block.start]
        z[block, :r], belief = advance(recursion, belief, drive, layout.x[block], t)
        after[block] = belief
    return Rollout(filter, layout, layout.x, z, after)


def _roll_gapped(filter: Learnt, table: Table, reading: Reading | None) -> Rollout:
    """Something is missing: its distribution, given the entries seen, is kept beside the mean of the memory."""
    met = roll_in_doubt(filter, table.layout, table.z, reading)
    return Rollout(filter, table.layout, met.x, table.z, None, met.hints, met.ends, met.read)


def _roll_filling(filter: Learnt, table: Table) -> Rollout:
    """Something is missing: the belief before a row fills in its missing entries."""
    layout, z = table.layout, table.z
    recursion, plan, x, fill = filter.recursion, layout.plan, layout.x.copy(), filter.fill
    belief, after = start(filter, plan.block(0).stop).belief, np.empty((len(z), len(filter.initial)))
    for t, block in enumerate(plan.blocks()):
        belief = belief[: block.stop - block.start]
        x[block] = fill(x[block], expected(recursion, belief))
        z[block] = inputs_at(filter, belief, x, layout, block)
        belief = after[block] = following(recursion, z[block], x[block], t)
    return Rollout(filter, layout, x, z, after)


def inputs_at(
    filter: Learnt, belief: Float[np.ndarray, "b d"], x: Float[np.ndarray, "rows n"], layout: Layout, rows: RowIndex
) -> Float[np.ndarray, "b p"]:
    """z at some rows of a layout, given the beliefs before them and the filled observations."""
    observed = x.take(layout.places[rows], axis=0).reshape(len(belief), -1)
    z: np.ndarray = inputs(filter.recursion, belief, observed, layout.u[rows])
    return z
