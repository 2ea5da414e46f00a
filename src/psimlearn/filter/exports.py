"""State-space models for other libraries: python-control, filterpy, statsmodels.

filterpy and statsmodels run a Kalman filter of the state [s_t; w_t], where w_t is the part of x_t that s_t does not
predict. So the observation has no noise of its own, and the steady gain of this Kalman filter is K:

    [s_{t+1}; w_{t+1}] = [A K; 0 0] [s_t; w_t] + [0; e_{t+1}],        x_t = [C I] [s_t; w_t],        w_t = e_t

After a missing entry the covariance of the state grows and shrinks as it should.
"""

from typing import Any

import numpy as np

from psimlearn.errors import DataError
from psimlearn.extras import imported
from psimlearn.filter.system import System
from psimlearn.shapes import Float

__all__ = ["to_control", "to_filterpy", "to_statsmodels"]

EXTRA = "statespace"
"""The extra of psimlearn that installs these libraries."""


def to_control(model: System, dt: float | bool = True) -> Any:
    """A `control.StateSpace` with the inputs [u - input_scaling.mean; e] and the outputs x - scaling.mean.

    With a drift there is one more input at the end, which is held at 1.

    Args:
        model: a linear model.
        dt: the time between two rows; True leaves it open.
    """
    n, p, drifts = len(model.C), model.B.shape[1], bool(model.drift.any())
    inputs = [f"u{i}" for i in range(p)] + [f"e{i}" for i in range(n)] + ["one"] * drifts
    B = np.hstack([model.B, model.K, model.drift[:, None]])[:, : len(inputs)]
    D = np.hstack([model.D, np.eye(n), np.zeros((n, 1))])[:, : len(inputs)]
    named = {"inputs": inputs, "outputs": [f"x{i}" for i in range(n)]}  # names of channels may not be allowed there
    return imported("control", EXTRA).ss(model.A, B, model.C, D, dt, **named)


def to_filterpy(model: System, first_inputs: Any = None) -> Any:
    """A `filterpy.kalman.KalmanFilter` that takes and predicts observations as they are.

    At each row `kf.H @ kf.x` is the prediction; then `kf.update(x)` and `kf.predict()`. With inputs, it is
    `kf.predict(np.append(u, next_u))`. Its state is [s_t; w_t; 1], where w_t includes the levels and D u_t.

    Args:
        model: a linear model.
        first_inputs: the inputs of the first row, for a model whose inputs act at once.
    """
    s, n, p = model.order, len(model.C), model.B.shape[1]
    if first_inputs is None and (model.D.any() or model.start.inputs.any()):
        raise DataError(f"first_inputs: required the {p} inputs of the first row, which act at once; received none.")
    if first_inputs is not None and np.shape(first_inputs) != (p,):
        raise DataError(f"first_inputs: required {p} inputs, received {np.size(first_inputs)}.")
    u = np.zeros(p) if first_inputs is None else np.asarray(first_inputs) - model.input_scaling.mean
    kf = imported("filterpy.kalman", EXTRA).KalmanFilter(dim_x=s + n + 1, dim_z=n, dim_u=2 * p)
    F, B, w, one = np.zeros((s + n + 1, s + n + 1)), np.zeros((s + n + 1, 2 * p)), slice(s, s + n), s + n
    at_state = model.B - model.K @ model.D  # w_t includes D u_t, which is no innovation
    F[:s, :s], F[:s, w], F[one, one] = model.A, model.K, 1.0
    F[:s, one] = model.drift - at_state @ model.input_scaling.mean - model.K @ model.scaling.mean
    F[w, one] = model.scaling.mean - model.D @ model.input_scaling.mean
    B[:s, :p], B[w, p:] = at_state, model.D
    kf.F, kf.B, kf.H = F, B if p else None, np.hstack([model.C, np.eye(n), np.zeros((n, 1))])
    kf.R, kf.Q = np.zeros((n, n)), np.zeros_like(F)
    kf.Q[w, w] = model.V
    kf.P[:one, :one], kf.P[one], kf.P[:, one] = _first_covariance(model), 0.0, 0.0
    mean = [model.start.mean + model.start.inputs @ u, model.scaling.mean + model.D @ u, [1.0]]
    kf.x = np.concatenate(mean)
    return kf


def to_statsmodels(model: System, x: Any, u: Any = None) -> Any:
    """A statsmodels `MLEModel` of one recording, without parameters: call its `filter([])` or `smooth([])`.

    Args:
        model: a linear model.
        x: a recording, (rows, n), NaN where not observed.
        u: its inputs, (rows, p).
    """
    x, u = model.deviations(x, u)
    s, n = model.order, len(model.C)
    statespace = imported("statsmodels.tsa.statespace.mlemodel", EXTRA)
    other = statespace.MLEModel(x + model.scaling.mean, k_states=s + n, k_posdef=n)
    other["design"] = np.hstack([model.C, np.eye(n)])
    other["transition"] = np.block([[model.A, model.K], [np.zeros((n, s + n))]])
    other["selection"] = np.eye(s + n, n, -s)
    other["state_cov"] = model.V
    other["obs_intercept"] = model.scaling.mean[:, None] + model.D @ u.T
    drift = model.drift[:, None] + model.B @ u.T
    other["state_intercept"] = np.vstack([drift, np.zeros((n, len(x)))])
    mean = model.start.mean + (model.start.inputs @ u[0])
    other.ssm.initialize_known(np.append(mean, np.zeros(n)), _first_covariance(model))
    return other


def _first_covariance(model: System) -> Float[np.ndarray, "joint joint"]:
    """The covariance of [s_1; w_1], from which the gains of first rows follow."""
    (s, n), covariance = model.K.shape, model.start.covariance
    if covariance.any():
        return np.block([[covariance, np.zeros((s, n))], [np.zeros((n, s)), model.V]])
    gain = model.start.gains[0] if len(model.start.gains) else np.zeros((s, n))
    first = np.vstack([gain, np.eye(n)])
    return np.asarray(first @ model.V @ first.T)
