"""The filter: a frozen value that takes a belief and an observation to the next belief."""

import numpy as np
from jaxtyping import Float

from psimlearn.filter import learnt, predict, rollout
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.likelihood import hints_at, log_likelihoods
from psimlearn.filter.predict import Prediction
from psimlearn.filter.step import State
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["Filter"]


class Filter(Learnt):
    """A learnt filter. Trainers make it; it can be stepped, rolled over recordings and asked for forecasts."""

    def start(self, n_streams: int = 1) -> State:
        """The state of streams of which nothing was seen yet."""
        return learnt.start(self, n_streams)

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
        return learnt.step(self, state, x, u, next_u)

    def ahead(
        self, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
    ) -> Float[np.ndarray, "b steps n"]:
        """Predict the next observations of every stream.

        Predictions are read from the belief, and beyond its window from the last block of the belief, which is advanced
        by its predictions. A belief averages over inputs that are yet to come; where these are given, the belief is
        advanced by its predictions and the given inputs from the first step on, and every prediction is read from
        block 1.

        Args:
            state: of b streams.
            steps: how many rows ahead; the first is the row that `step` would take next.
            future_inputs: known inputs at these rows. Required beyond the window of a filter learnt with inputs.
        """
        return predict.ahead(self, state, steps, future_inputs)

    def predict(
        self, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
    ) -> Prediction:
        """`ahead` with standard deviations and intervals, for a calibrated filter."""
        return predict.predict(self, state, steps, future_inputs)

    def run(
        self, trajectories: Trajectories, next_inputs: Float[np.ndarray, "m p"] | None = None
    ) -> tuple[Float[np.ndarray, "rows d"], State]:
        """The belief before every row, in the order of the recordings, and the state after each trajectory.

        Args:
            trajectories: recordings.
            next_inputs: the input that follows each trajectory, which a filter with feed-through needs to know; the
                last one is held if it is not given.
        """
        return rollout.run(self, trajectories, next_inputs)

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Predictions made before each row for that row and the rows after it.

        Entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}, and from the inputs up to then where there are any; it
        may lie beyond the end of the recording, where inputs are held at their last value.
        """
        return predict.forecast(self, trajectories, horizon)

    def log_likelihood(self, trajectories: Trajectories) -> Float[np.ndarray, " rows"]:
        """The log-likelihood of every row given the rows before it; 0 where nothing was observed.

        It is in nats and the units of the recordings. Channels are correlated as the filter's one-step errors are.
        """
        return log_likelihoods(self, trajectories)

    def hints(self, trajectories: Trajectories) -> Float[np.ndarray, "rows h"]:
        """E[h_t | x_0 .. x_t]: the filtered estimate of quantities that were measured in training only."""
        rolled = rollout.rolled(self, trajectories)
        return rolled.layout.plan.packed(hints_at(self, *rolled.known))
