"""Recordings laid out for a filter: scheduled, standardised, with their inputs and lags beside them."""

from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.filter.scaling import Scaling
from psimlearn.recordings.schedule import Schedule, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import lag_places, next_rows
from psimlearn.shapes import Float, Int

__all__ = ["Layout", "check_channels", "controls", "gappy", "lay_out", "packed_controls"]


class Layout(NamedTuple):
    """Trajectories scheduled and standardised."""

    plan: Schedule
    x: Float[np.ndarray, "rows n"]
    u: Float[np.ndarray, "rows p"]
    """The input columns of z at each row; of width 0 if there are no inputs."""
    places: Int[np.ndarray, "rows lags"]
    """The rows of the last observations before and at each row, newest first."""
    gappy: bool
    """Whether any observation is missing."""

    @property
    def observed(self) -> Float[np.ndarray, "rows q"]:
        """The columns of z that do not depend on a belief, if no observation is missing."""
        if self.places.shape[1] == 1 and not self.u.shape[1]:
            return self.x
        return self.beside(0)

    def beside(self, n_fed: int) -> Float[np.ndarray, "rows p"]:
        """Room for so many columns, which are not filled in, and the observed columns after them."""
        n, lags = self.x.shape[1], self.places.shape[1]
        z = np.empty((len(self.x), n_fed + lags * n + self.u.shape[1]))
        for lag in range(lags):  # one lag at a time stays in cache
            z[:, n_fed + lag * n : n_fed + (lag + 1) * n] = self.x.take(self.places[:, lag], axis=0)
        z[:, n_fed + lags * n :] = self.u
        return z


def lay_out(
    trajectories: Trajectories, scaling: Scaling, input_scaling: Scaling | None, lags: int, feedthrough: bool
) -> Layout:
    """Schedule and standardise recordings."""
    plan = schedule(trajectories.offsets)
    u = np.empty((len(plan.order), 0))
    if input_scaling is not None and trajectories.inputs is not None:
        inputs = trajectories.inputs[plan.order]
        u = controls(input_scaling, inputs, inputs[plan.place(1)], feedthrough)
    x = trajectories.values.take(plan.order, axis=0)
    scaling.apply(x)
    return Layout(plan, x, u, lag_places(plan, lags), gappy(x))


def check_channels(trajectories: Trajectories, scaling: Scaling, input_scaling: Scaling | None) -> None:
    """Check that recordings have the channels and inputs of the training data."""
    n_inputs = 0 if input_scaling is None else len(input_scaling.mean)
    received = (trajectories.n_channels, trajectories.n_inputs)
    if received != (len(scaling.mean), n_inputs):
        raise DataError(
            f"required {len(scaling.mean)} channels and {n_inputs} inputs as in training, "
            f"received {received[0]} channels and {received[1]} inputs. Use recordings with the same columns."
        )


def gappy(x: Float[np.ndarray, "rows n"]) -> bool:
    """Whether any entry is missing; a sum of squares of finite numbers may be infinite, and is never NaN."""
    entries = np.ravel(x)
    with np.errstate(over="ignore"):
        return bool(np.isnan(entries.dot(entries)))


def packed_controls(
    trajectories: Trajectories, input_scaling: Scaling | None, feedthrough: bool
) -> Float[np.ndarray, "rows q"]:
    """The input columns of z at each row, in the order of the recordings; of width 0 without inputs."""
    u = trajectories.inputs
    if input_scaling is None or u is None:
        return np.empty((len(trajectories.values), 0))
    return controls(input_scaling, u, u[next_rows(trajectories.offsets)] if feedthrough else u, feedthrough)


def controls(
    scaling: Scaling, u: Float[np.ndarray, "b p"], next_u: Float[np.ndarray, "b p"], feedthrough: bool
) -> Float[np.ndarray, "b q"]:
    """The input columns of z, standardised: u_t, and u_{t+1} if inputs act at once."""
    return np.concatenate([scaling(u), scaling(next_u)], axis=1) if feedthrough else scaling(u)
