"""A filter as a linear state-space model in innovations form, in the units of the recordings.

    x_t     = scaling.mean + C s_t + D (u_t - input_scaling.mean) + e_t,        cov(e_t) = V
    s_{t+1} = A s_t + B (u_t - input_scaling.mean) + K e_t + drift

K is the steady gain of a Kalman filter, and e_t is the error of the prediction of x_t from all rows before it. Rows are
counted from 1. The first state is start.mean + start.inputs (u_1 - input_scaling.mean). Since less is known of first
states, s_t moves by start.gains[t] e_t before each of the first steps.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from psimlearn.checks import share
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.balance import Reduction, balanced
from psimlearn.filter.scaling import Scaling
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Start", "System", "reduced"]

NEAR_SINGULAR = 1e-5
"""The drift is kept if I - A has a smaller singular value: the equilibrium would be far away, and cost digits."""


class Start(NamedTuple):
    """The first state, s_1."""

    mean: Float[np.ndarray, " s"]
    gains: Float[np.ndarray, "rows s n"]
    """Move the first states with their innovations, without a change of C s_t: of no rows, unless a filter has gains of
    its own for first rows, or takes the first row for all rows before it (lags)."""
    inputs: Float[np.ndarray, "s p"]
    """Moves s_1 with the first inputs: zero, unless a filter with feed-through predicts row 1 without its inputs."""
    covariance: Float[np.ndarray, "s s"]
    """Of s_1, from which gains of first rows follow; zero if they come from lags, or there are none."""

    def projected(self, into: Float[np.ndarray, "q s"]) -> "Start":
        """The start in other coordinates."""
        return Start(into @ self.mean, into @ self.gains, into @ self.inputs, into @ self.covariance @ into.T)


@dataclass(frozen=True, eq=False)
class System:
    """The matrices of a linear model in innovations form. `StateSpace` is this value with functions as methods."""

    A: Float[np.ndarray, "s s"]
    B: Float[np.ndarray, "s p"]
    C: Float[np.ndarray, "n s"]
    D: Float[np.ndarray, "n p"]
    K: Float[np.ndarray, "s n"]
    """The gain of the innovations."""
    V: Float[np.ndarray, "n n"]
    """The covariance of the innovations."""
    scaling: Scaling
    """The level of each channel, and the unit in which its errors count; matrices are in the units of recordings."""
    input_scaling: Scaling
    """The same for inputs; empty without inputs."""
    drift: Float[np.ndarray, " s"]
    """Added to the state at every row: zero, unless the model has no equilibrium, as a random walk with a trend."""
    start: Start
    names: tuple[str, ...] | None = None
    """The names of the channels."""
    time_step: float | None = None
    """Seconds from one row to the next, where known."""
    reduction_error: float = 0.0
    """The most that reductions change predictions: their change is at most this number times the size of observations,
    inputs and start. Sizes are root mean squares, in units of `scaling.scale` and `input_scaling.scale`."""

    @property
    def order(self) -> int:
        """The number of states."""
        return len(self.A)

    def predict(self, x: Any, u: Any = None) -> Float[np.ndarray, "rows n"]:
        """E[x_t | the rows before t] at every row of one recording without gaps, (rows, n); its inputs are (rows, p).

        `to_statsmodels` and `to_filter` take recordings with gaps.
        """
        x, u = self.deviations(x, u)
        missing = int(np.isnan(x).sum())
        if missing:
            raise DataError(f"x: required a recording without gaps, received {missing} missing; use to_statsmodels.")
        s, out, gains = self.start.mean + self.start.inputs @ u[0], np.empty_like(x), self.start.gains
        for t in range(len(x)):
            out[t] = self.C @ s + self.D @ u[t]
            if t < len(gains):
                s = s + gains[t] @ (x[t] - out[t])
            s = self.A @ s + self.B @ u[t] + self.K @ (x[t] - out[t]) + self.drift
        predictions: np.ndarray = out + self.scaling.mean
        return predictions

    def deviations(self, x: Any, u: Any) -> tuple[Float[np.ndarray, "rows n"], Float[np.ndarray, "rows p"]]:
        """Observations and inputs of one recording less their levels, checked."""
        data = Trajectories.of([x], None if u is None else [u])
        required, received = (len(self.C), self.B.shape[1]), (data.n_channels, data.n_inputs)
        if received != required:
            raise DataError(
                f"x, u: required {required[0]} channels and {required[1]} inputs, "
                f"received {received[0]} channels and {received[1]} inputs."
            )
        inputs = np.empty((len(data.values), 0)) if data.inputs is None else data.inputs
        return data.values - self.scaling.mean, inputs - self.input_scaling.mean


Model = TypeVar("Model", bound=System)


def reduced(model: Model, tolerance: float = 1e-12) -> Model:
    """Leave out the states that matter least, by balanced reduction of the filter.

    The predictions are reduced as a function of observations, inputs and start, which decides A - K C; A itself
    may be unstable. The bound on their change is added to `reduction_error`.

    Args:
        model: a linear model.
        tolerance: the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
    """
    if share(tolerance, "tolerance") == 0:
        return _at_rest(model)
    n_scale, p_scale, start = model.scaling.scale, model.input_scaling.scale, model.start
    K, C, B = model.K * n_scale, model.C / n_scale[:, None], (model.B - model.K @ model.D) * p_scale
    gains = [gain * n_scale for gain in start.gains]
    first = [start.mean[:, None], *gains, start.inputs * p_scale, model.drift[:, None]]
    found = balanced(model.A - K @ C, np.hstack([K, B, *first]), C, tolerance)
    if found is None:  # the filter does not forget; the system may
        found = balanced(model.A, np.hstack([K, model.B * p_scale, *first]), C, tolerance)
    if found is None:
        radius = np.abs(np.linalg.eigvals(model.A - model.K @ model.C)).max()
        raise SettingsError(
            "reduction: required eigenvalues of A - K C, or of A, inside the unit circle, received a filter that "
            f"does not forget (largest eigenvalue {radius:.6g}). Pass tolerance=0 to keep all states."
        )
    return _at_rest(_projected(model, found))


def _projected(model: Model, reduction: Reduction) -> Model:
    """The model in the coordinates of a reduction."""
    into, back, error = reduction
    return replace(
        model,
        A=into @ model.A @ back,
        B=into @ model.B,
        C=model.C @ back,
        K=into @ model.K,
        drift=into @ model.drift,
        start=model.start.projected(into),
        reduction_error=model.reduction_error + error,
    )


def _at_rest(model: Model) -> Model:
    """The model around its equilibrium, which needs no drift, if it has one."""
    moves = np.eye(len(model.A)) - model.A
    if not model.drift.any() or np.linalg.norm(moves, -2) < NEAR_SINGULAR:
        return model
    rest = np.linalg.solve(moves, model.drift)
    return replace(
        model,
        scaling=model.scaling._replace(mean=model.scaling.mean + model.C @ rest),
        drift=np.zeros_like(rest),
        start=model.start._replace(mean=model.start.mean - rest),
    )
