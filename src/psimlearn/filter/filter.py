"""The filter: a frozen value that takes a belief and an observation to the next belief.

All arithmetic happens in standardised units. With c the belief weight, B a regressor, P the fed-back directions:

    z_t     = [c * scaled(P m_t) boxed; x_t; x_{t-1}; ..; x_{t-lags+1}; u_t (; u_{t+1})]
    m_{t+1} = B(z_t) + (persist(x_t) or the mean of phi)

The belief m has full width and all predictions are read from it; only what is fed back is compressed and boxed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.features import Features, Persistent, Stack, Variances
from psimlearn.filter.feedback import Feedback
from psimlearn.filter.gaps import conditional_fill
from psimlearn.filter.layout import Layout, Scaling, controls, lay_out
from psimlearn.filter.onehot import OneHot
from psimlearn.filter.regressors import Linear, Regressor, block_by_block
from psimlearn.filter.uncertainty import Calibration, Correlation, log_likelihood
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import RowIndex, Schedule, beliefs_before, coming_places, unseen_before

__all__ = ["Filter", "Rollout", "Standing", "State", "Table"]


UNCALIBRATED = (
    "uncertainty needs a calibrated filter of numbers, as PSIM.fit makes it; received one without calibration. The "
    "uncertainty about symbols is their probability: predict_proba."
)


class State(NamedTuple):
    """All that a filter remembers of b streams."""

    belief: Float[np.ndarray, "b d"]
    recent: Float[np.ndarray, "b lags n"]
    """The last observations, newest first, standardised and filled."""
    clock: Int[np.ndarray, " b"]
    """How many observations each stream has had."""


class Table(NamedTuple):
    """A layout with room for a filter to roll over it."""

    layout: Layout
    z: Float[np.ndarray, "rows p"]
    """Work space: what does not depend on the filter is filled in, the rest overwritten by every rollout."""
    stays: Float[np.ndarray, "rows r"] | None
    """What the last observation, if it stays, adds to what is fed back."""


class Rollout(NamedTuple):
    """What a filter met on its way, one scheduled row each; valid until the next rollout over the same table."""

    layout: Layout
    x: Float[np.ndarray, "rows n"]
    """Observations with the missing ones filled in."""
    z: Float[np.ndarray, "rows p"]


class Standing(NamedTuple):
    """A filter before every scheduled row, as if each row were a stream of its own."""

    plan: Schedule
    state: State
    inputs: Float[np.ndarray, "rows horizon p"] | None
    """Those to come, the last of a recording held beyond its end."""
    unseen: Int[np.ndarray, " rows"]
    """How many rows just before had nothing observed."""


@dataclass(frozen=True, eq=False)
class Filter:
    """A learnt filter. Trainers make it; it can be stepped, rolled over recordings and asked for forecasts."""

    features: Features
    regressors: tuple[Regressor, ...]
    """One for all times, or one for each time step; the last is held beyond its end."""
    initial: Float[np.ndarray, " d"]
    """m_1, the belief before anything was seen."""
    scaling: Scaling
    feedback: Feedback
    centre: Float[np.ndarray, " d"] | None
    """What a regressor's zero means: this belief, or if None that the last observation stays."""
    covariance: Float[np.ndarray, "n n"]
    """Of one-step errors, standardised: it fills a missing channel from those that were seen."""
    lags: int = 1
    input_scaling: Scaling | None = None
    feedthrough: bool = False
    """Whether u_{t+1} acts on x_{t+1} at once, so that the next belief needs it."""
    calibration: Calibration | None = None
    """How far predictions were off by horizon, on recordings not fitted to."""
    hinting: Linear | None = None
    """From [m_t; x_t; ..; x_{t-lags+1}; u_t (; u_{t+1})] to the hints at t: a read-out, no part of the belief."""
    names: tuple[str, ...] | None = None
    """Of the channels."""
    alphabet: Alphabet | None = None
    """Of symbols, where the channels are their indicators."""

    # -- one observation at a time ---------------------------------------------------------------------------------

    def start(self, n_streams: int = 1) -> State:
        """Nothing seen yet."""
        return State(
            np.tile(self.initial, (n_streams, 1)),
            np.zeros((n_streams, self.lags, len(self.scaling.mean))),
            np.zeros(n_streams, dtype=np.int64),
        )

    def step(
        self,
        state: State,
        x: Float[np.ndarray, "b n"],
        u: Float[np.ndarray, "b p"] | None = None,
        next_u: Float[np.ndarray, "b p"] | None = None,
    ) -> State:
        """Take one observation of every stream; NaN where a channel, or the whole row, did not arrive.

        Args:
            state: of b streams.
            x: observations, in the units of the recordings.
            u: inputs that acted at this row, if the filter was learnt with inputs.
            next_u: inputs that act at the next row, for a filter with feed-through; held at u if not given.
        """
        seen = conditional_fill(self.scaling(x), self.expected(state.belief), self.covariance)
        recent = np.concatenate([seen[:, None], state.recent[:, :-1]], axis=1)
        recent = np.where((state.clock == 0)[:, None, None], seen[:, None], recent)
        z = np.concatenate(
            [self.feedback(state.belief), recent.reshape(len(x), -1), self._controls(u, next_u, len(x))], axis=1
        )
        belief = np.empty_like(state.belief)
        for t in np.unique(state.clock) if len(self.regressors) > 1 else [0]:
            now = state.clock == t if len(self.regressors) > 1 else slice(None)
            belief[now] = self.output(z[now], seen[now], int(t))
        return State(belief, recent, state.clock + 1)

    def ahead(
        self, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
    ) -> Float[np.ndarray, "b steps n"]:
        """Predict the next observations of every stream.

        They are read from the belief, and beyond its window from the last block of the belief advanced by its own
        predictions. A belief averages over inputs that are yet to come; where these are given, it is advanced by its
        own predictions and the given inputs from the first step on, and every prediction is read from block 1.

        Args:
            state: of b streams.
            steps: how many rows ahead; the first is the row that `step` would take next.
            future_inputs: known inputs at those rows. Required beyond the window of a filter learnt with inputs.
        """
        return self.scaling.undo(self._read(self.features.observations, state, steps, future_inputs))

    def deviation(
        self,
        state: State,
        steps: int,
        future_inputs: Float[np.ndarray, "b steps p"] | None = None,
        unseen: Int[np.ndarray, " b"] | int = 0,
    ) -> Float[np.ndarray, "b steps n"]:
        """The standard deviations of what `ahead` predicts, NaN beyond the horizons that calibration reached.

        Args:
            state: of b streams.
            steps: how many rows ahead.
            future_inputs: as for `ahead`.
            unseen: how many of the last rows of each stream had nothing observed: predictions are that much older.
        """
        if self.calibration is None:
            raise SettingsError(UNCALIBRATED)
        own = self.own_variance(state, steps, future_inputs)
        horizon = np.arange(1, steps + 1) + np.broadcast_to(unseen, len(state.clock))[:, None]
        deviation: np.ndarray = np.sqrt(self.calibration.variance(horizon, own)) * self.scaling.scale
        return deviation

    def multiples(
        self, steps: int, coverage: float, unseen: Int[np.ndarray, " b"] | int = 0
    ) -> Float[np.ndarray, "b steps n"]:
        """How many of those deviations intervals of this coverage reach."""
        if self.calibration is None:
            raise SettingsError(UNCALIBRATED)
        return self.calibration.reach(np.arange(1, steps + 1) + np.atleast_1d(unseen)[:, None], coverage)

    def own_variance(
        self, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
    ) -> Float[np.ndarray, "b steps n"] | None:
        """The variances that the beliefs themselves claim, standardised; None if their features claim none."""
        if not isinstance(self.features, Variances):
            return None
        return self._read(self.features.variance, state, steps, future_inputs)

    def _read(
        self,
        blocks: Callable[[Float[np.ndarray, "b d"]], Float[np.ndarray, "b window n"]],
        state: State,
        steps: int,
        future_inputs: Float[np.ndarray, "b steps p"] | None,
    ) -> Float[np.ndarray, "b steps n"]:
        """What beliefs say of the next rows, by a function that takes a belief to its blocks."""
        if future_inputs is None:
            inside = blocks(state.belief)[:, :steps]
            beyond = [blocks(m)[:, -1:] for m in self._advanced(state, steps - inside.shape[1], None)]
            return np.concatenate([inside, *beyond], axis=1)
        if future_inputs.shape[1] < steps:
            raise DataError(f"future_inputs: required {steps} rows ahead, received {future_inputs.shape[1]}.")
        after = self._advanced(state, steps - 1, future_inputs)
        return np.stack([blocks(state.belief)[:, 0], *(blocks(m)[:, 0] for m in after)], axis=1)

    def _advanced(
        self, state: State, steps: int, inputs: Float[np.ndarray, "b steps p"] | None
    ) -> Iterator[Float[np.ndarray, "b d"]]:
        """The beliefs after one, two, .. steps in which whatever was expected came."""
        for h in range(steps):
            u, next_u = (None, None) if inputs is None else inputs[:, h : h + 2].swapaxes(0, 1)
            state = self.step(state, self.scaling.undo(self.expected(state.belief)), u, next_u)
            yield state.belief

    # -- whole recordings ------------------------------------------------------------------------------------------

    def table(self, trajectories: Trajectories) -> Table:
        """Lay recordings out for `roll`."""
        return self.room(lay_out(trajectories, self.scaling, self.input_scaling, self.lags, self.feedthrough))

    def room(self, layout: Layout) -> Table:
        """Make room to roll over a layout."""
        observed = layout.observed
        z = np.empty((len(observed), len(self.feedback.mean) + observed.shape[1]))
        z[:, len(self.feedback.mean) :] = observed
        return self.refurnished(Table(layout, z, None))

    def refurnished(self, table: Table) -> Table:
        """The same room for a filter with another prior or belief weight; the work space is shared."""
        stays = None if self.centre is not None else self.feedback.linear(self.prior(table.layout.x))
        return table._replace(stays=stays)

    def roll(self, table: Table) -> Rollout:
        """Filter all trajectories at once, one time index after the other, in closed loop."""
        with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverges is a value, not a crash
            x = self._roll_filling(table) if table.layout.gappy else self._roll_whole(table)
        return Rollout(table.layout, x, table.z)

    def beliefs(self, rollout: Rollout) -> Float[np.ndarray, "rows d"]:
        """m_{t+1}, the belief that each scheduled row left behind."""
        plan, x, z = rollout.layout.plan, rollout.x, rollout.z
        with np.errstate(over="ignore", invalid="ignore"):
            if len(self.regressors) == 1:
                return self.output(z, x, 0)
            return np.concatenate([self.output(z[b], x[b], t) for t, b in enumerate(plan.blocks())])

    def held(self, rollout: Rollout) -> Float[np.ndarray, "rows d"]:
        """m_t, the belief held before each scheduled row."""
        return beliefs_before(self.beliefs(rollout), self.initial, rollout.layout.plan)

    def run(
        self, trajectories: Trajectories, next_inputs: Float[np.ndarray, "m p"] | None = None
    ) -> tuple[Float[np.ndarray, "rows d"], State]:
        """The belief before every row, in the order of the recordings, and the state after each trajectory.

        Args:
            trajectories: recordings.
            next_inputs: the input that follows each trajectory, which a filter with feed-through needs to know; the
                last one is held if it is not given.
        """
        rollout = self.roll(self.table(trajectories))
        plan, after = rollout.layout.plan, self.beliefs(rollout)
        before, ends = beliefs_before(after, self.initial, plan), plan.last()
        state = State(after[ends], rollout.x[rollout.layout.places[ends]], plan.length[ends])
        if self.feedthrough and next_inputs is not None and trajectories.inputs is not None:
            earlier = State(before[ends], rollout.x[rollout.layout.places[plan.before()[ends]]], plan.time[ends])
            last = trajectories.offsets[1:] - 1
            state = self.step(earlier, trajectories.values[last], trajectories.inputs[last], next_inputs)
        return plan.packed(before), state

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """What was predicted before each row for that row and those after it.

        Entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}, and from the inputs up to then where there are any; it
        may lie beyond the end of the recording, where inputs are held at their last value.
        """
        if trajectories.inputs is None and isinstance(self.features, Stack) and horizon <= self.features.window:
            rollout = self.roll(self.table(trajectories))
            blocks = self._narrowed(horizon).held(rollout).reshape(len(rollout.x), horizon, -1)
            return rollout.layout.plan.packed(self.scaling.undo(blocks))
        plan, state, inputs, _ = self.standing(trajectories, horizon)
        return plan.packed(self.ahead(state, horizon, inputs))

    def _narrowed(self, window: int) -> "Filter":
        """A filter that computes only the first blocks of the beliefs of this one, from what this one feeds back."""
        d = window * len(self.scaling.mean)
        return replace(
            self,
            features=Stack(window),
            regressors=tuple(regressor.through(lambda y: y[:, :d], np.zeros(d)) for regressor in self.regressors),
            initial=self.initial[:d],
            centre=None if self.centre is None else self.centre[:d],
        )

    def reach(self, trajectories: Trajectories, horizon: int, coverage: float) -> Float[np.ndarray, "rows horizon n"]:
        """How far either side of `forecast` intervals go that cover this share of observations."""
        plan, state, inputs, unseen = self.standing(trajectories, horizon)
        reach = self.deviation(state, horizon, inputs, unseen) * self.multiples(horizon, coverage, unseen)
        return plan.packed(reach)

    def standing(self, trajectories: Trajectories, horizon: int) -> Standing:
        """Where the filter stands before every row."""
        rollout = self.roll(self.table(trajectories))
        plan, places = rollout.layout.plan, rollout.layout.places
        state = State(self.held(rollout), rollout.x[places[plan.before()]], plan.time)
        inputs = None
        if trajectories.inputs is not None:
            inputs = trajectories.inputs[plan.order][coming_places(plan, horizon)]
        return Standing(plan, state, inputs, unseen_before(rollout.layout.x, plan))

    def log_likelihood(self, trajectories: Trajectories) -> Float[np.ndarray, " rows"]:
        """Of every row given those before it, in nats and the units of the recordings; 0 where nothing was observed.

        Correlations between channels are those of the filter's one-step errors.
        """
        rollout = self.roll(self.table(trajectories))
        layout, held = rollout.layout, self.held(rollout)
        return layout.plan.packed(self.surprise(held, layout.x, unseen_before(layout.x, layout.plan)))

    def surprise(
        self, belief: Float[np.ndarray, "b d"], x: Float[np.ndarray, "b n"], unseen: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, " b"]:
        """The log-likelihood of standardised observations under the beliefs held before them."""
        if isinstance(self.features, OneHot):
            return _log_probability(self.expected(belief), x)
        variance = np.broadcast_to(np.diag(self.covariance), x.shape)
        if self.calibration is not None:
            own = None if self._variances is None else self._variances.variance(belief)[:, 0]
            known = self.calibration.variance(np.minimum(unseen + 1, self.calibration.furthest), own)
            variance = np.where(np.isnan(known), variance, known)
        units = np.where(np.isnan(x), 0.0, np.log(self.scaling.scale))
        nats: np.ndarray = log_likelihood(x - self.expected(belief), self.correlation, variance) - units.sum(axis=1)
        return nats

    @cached_property
    def correlation(self) -> Correlation:
        """Of one-step errors between channels."""
        return Correlation.of(self.covariance)

    @cached_property
    def _variances(self) -> Variances | None:
        """The features, if their beliefs claim variances; to ask a protocol is slow."""
        return self.features if isinstance(self.features, Variances) else None

    def hints(self, trajectories: Trajectories) -> Float[np.ndarray, "rows h"]:
        """E[h_t | x_0 .. x_t]: the filtered estimate of what was measured in training only."""
        rollout = self.roll(self.table(trajectories))
        return rollout.layout.plan.packed(self.hint(*self.known(rollout)))

    def known(self, rollout: Rollout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Once x_t was seen, at every scheduled row: m_t, (x_t, .., x_{t-lags+1}) and the inputs."""
        layout = rollout.layout
        return self.held(rollout), rollout.x.take(layout.places, axis=0).reshape(len(rollout.x), -1), layout.u

    def hint(
        self, belief: Float[np.ndarray, "b d"], observed: Float[np.ndarray, "b q"], u: Float[np.ndarray, "b p"]
    ) -> Float[np.ndarray, "b h"]:
        """The hints of one row each, from what is `known` there."""
        if self.hinting is None:
            raise SettingsError("hints need a filter learnt from trajectories with hints; this one had none.")
        return self.hinting(np.concatenate([belief, observed, u], axis=1))

    # -- the parts of a step ---------------------------------------------------------------------------------------

    def _roll_whole(self, table: Table) -> Float[np.ndarray, "rows n"]:
        """Fill the belief columns of z when nothing is missing: only what is fed back is ever computed."""
        (plan, x, *_), z, stays = table
        r, constant = len(self.feedback.mean), self.feedback.shift
        if self.centre is not None:
            constant = constant + self.feedback.linear(self.centre[None])[0]
        folded = [regressor.through(self.feedback.linear, constant) for regressor in self.regressors]
        if len(folded) == 1:
            steps = [folded[0].recursion(z, r, stays)]
        else:
            steps = [block_by_block(regressor, z, stays) for regressor in folded]
        boxed = self.feedback.boxer(plan.block(0).stop)
        z[plan.block(0), :r] = self.feedback(self.initial[None])
        for t, (now, later) in enumerate(plan.moves()):
            z[later, :r] = boxed(steps[min(t, len(steps) - 1)](now))
        return x

    def _roll_filling(self, table: Table) -> Float[np.ndarray, "rows n"]:
        """Fill z, and the missing observations with what the belief before them expects."""
        layout, z, _ = table
        plan, x = layout.plan, layout.x.copy()
        belief = np.tile(self.initial, (plan.block(0).stop, 1))
        for t, block in enumerate(plan.blocks()):
            belief = belief[: block.stop - block.start]
            x[block] = conditional_fill(x[block], self.expected(belief), self.covariance)
            z[block] = self.inputs(belief, x, layout, block)
            belief = self.output(z[block], x[block], t)
        return x

    def inputs(
        self, belief: Float[np.ndarray, "b d"], x: Float[np.ndarray, "rows n"], layout: Layout, rows: RowIndex
    ) -> Float[np.ndarray, "b p"]:
        """z at some rows of a layout, given the beliefs before them and the filled observations."""
        observed = x.take(layout.places[rows], axis=0).reshape(len(belief), -1)
        return np.concatenate([self.feedback(belief), observed, layout.u[rows]], axis=1)

    def output(self, z: Float[np.ndarray, "b p"], x: Float[np.ndarray, "b n"], t: int) -> Float[np.ndarray, "b d"]:
        """B(z) and the prior: the next belief, at full width."""
        y: np.ndarray = self.regressors[min(t, len(self.regressors) - 1)](z) + self.prior(x)
        return y

    def prior(self, x: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "#b d"]:
        """What the next belief is if the regressor says zero."""
        if self.centre is not None:
            return self.centre[None]
        assert isinstance(self.features, Persistent)  # trainers check that prior="last" has what it needs
        return self.features.persist(x)

    def expected(self, belief: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b n"]:
        """Block 1: the next observation, standardised."""
        return self.features.observations(belief)[:, 0]

    def _controls(
        self, u: Float[np.ndarray, "b p"] | None, next_u: Float[np.ndarray, "b p"] | None, b: int
    ) -> Float[np.ndarray, "b q"]:
        """The input columns of z for one row of each stream."""
        if self.input_scaling is None:
            return np.empty((b, 0))
        if u is None:
            raise DataError("this filter was learnt with inputs: give the inputs of every row, and future_inputs.")
        return controls(self.input_scaling, u, u if next_u is None else next_u, self.feedthrough)


def _log_probability(probabilities: Float[np.ndarray, "b v"], x: Float[np.ndarray, "b v"]) -> Float[np.ndarray, " b"]:
    """Of the symbols of one-hot rows; 0 where none was observed."""
    with np.errstate(divide="ignore"):
        nats: np.ndarray = np.log(np.sum(np.where(x > 0, probabilities * x, 0.0), axis=1))
    return np.where(np.isnan(x).any(axis=1), 0.0, nats)
