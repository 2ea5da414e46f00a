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
        """Return the state of streams before their first row."""
        return learnt.start(self, n_streams)

    def step(
        self,
        state: State,
        x: Float[np.ndarray, "b n"],
        u: Float[np.ndarray, "b p"] | None = None,
        next_u: Float[np.ndarray, "b p"] | None = None,
    ) -> State:
        """Take one row of every stream; NaN where a channel, or the whole row, did not arrive.

        Args:
            state: the state of b streams.
            x: observations, in the units of the recordings.
            u: inputs that acted at this row, if the filter was learnt with inputs.
            next_u: inputs that act at the next row, for a filter with feed-through; held at u if not given.
        """
        return learnt.step(self, state, x, u, next_u)

    def ahead(
        self, state: State, steps: int, future_inputs: Float[np.ndarray, "b steps p"] | None = None
    ) -> Float[np.ndarray, "b steps n"]:
        """Predict the next observations of every stream.

        Within the window, predictions are blocks of the belief. Beyond it, the belief takes its predictions as if they
        were observed, and its last block is read. A belief averages over unknown future inputs. If `future_inputs` are
        given, the belief takes its predictions and these inputs from the first step on, and its first block is read.

        Args:
            state: the state of b streams.
            steps: the number of rows ahead; the first is the row that `step` would take next.
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
        """Return the belief before every row, in the order of the recordings, and the state after each trajectory.

        Args:
            trajectories: recordings.
            next_inputs: the inputs that follow each trajectory, for a filter with feed-through; the last inputs are
                held if not given.
        """
        return rollout.run(self, trajectories, next_inputs)

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Predict, before each row, that row and the rows after it.

        Entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}, and from the inputs up to row t + j if there are inputs.
        Row t + j may lie beyond the end of the recording; there, inputs are held at their last value.
        """
        return predict.forecast(self, trajectories, horizon)

    def log_likelihood(self, trajectories: Trajectories) -> Float[np.ndarray, " rows"]:
        """Return the log-likelihood of every row given the rows before it; 0 where nothing was observed.

        It is in nats and in the units of the recordings. Channels are correlated as the filter's one-step errors are.
        """
        return log_likelihoods(self, trajectories)

    def hints(self, trajectories: Trajectories) -> Float[np.ndarray, "rows h"]:
        """Return E[h_t | x_0 .. x_t], the filtered estimate of quantities that were measured in training only."""
        rolled = rollout.rolled(self, trajectories)
        return rolled.layout.plan.packed(hints_at(self, *rolled.known))
