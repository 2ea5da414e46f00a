"""Linear filters as state-space models, and back.

A step of a linear filter, without its box, takes its memory S_t (`innovations.py`) to

    S_{t+1} = F S_t + G x_t + B u_t + N u_{t+1} + c,        x_t = H S_t + e_t

With A = F + G H and s_t = S_t - N u_t this is an innovations model:

    s_{t+1} = A s_t + (B + A N) u_t + G e_t + c,            x_t = H s_t + H N u_t + e_t

Back, by the paper's proposition: let O = [C; CA; ..; CA^{k-1}]. The belief O s_t is the expected next k observations,
and a left inverse of O reads the state from it, so the next belief is linear in the belief and the observation.
"""

from dataclasses import replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter.features import Stack
from psimlearn.filter.filter import Filter
from psimlearn.filter.innovations import Innovations, has_innovations, innovations, memory, received_instead
from psimlearn.filter.learnt import Learnt, start
from psimlearn.filter.opening import Opening
from psimlearn.filter.regressors import Linear
from psimlearn.filter.scaling import Scaling
from psimlearn.filter.step import Feedback
from psimlearn.filter.system import Start, System, reduced
from psimlearn.filter.uncertainty import LEVELS, Calibration
from psimlearn.shapes import Float

__all__ = ["fields_of", "filter_of"]

BEYOND = 20
"""How many steps beyond the window a filter states the size of its errors."""
NOTHING = 1e-12
"""States whose Hankel singular value is below this share of the largest are rounding."""
FAINT = 1e-7
"""A direction of the state that moves beliefs by less than this share of the strongest cannot be read from them."""
CLOSE = 1e-8
"""How closely a belief must determine the state."""


def fields_of(filter: Learnt) -> dict[str, Any]:
    """The fields of the state-space model of a linear filter, with the state S_t - N u_t."""
    if not has_innovations(filter) or not isinstance(filter.regressors[0], Linear):
        raise SettingsError(
            "state space: required a linear filter, trained for all times by one regressor, received "
            f"{received_instead(filter, repr('ridge'))}"
        )
    filter = replace(filter, hinting=None)
    model = innovations(filter)
    inputs = Scaling(np.empty(0), np.empty(0)) if filter.input_scaling is None else filter.input_scaling
    F, G, B, N, c = _step(model, len(inputs.mean))
    x, u, A = filter.scaling.scale, inputs.scale, F + G @ model.H
    first = memory(filter, model, start(filter))[0]
    covariance = np.zeros((model.s, model.s)) if model.opened is None else model.first_covariances[0]
    return {
        "A": A,
        "B": (B + A @ N) / u,
        "C": x[:, None] * model.H,
        "D": x[:, None] * (model.H @ N) / u,
        "K": G / x,
        "V": _noise(filter) * np.outer(x, x),
        "scaling": filter.scaling,
        "input_scaling": inputs,
        "drift": c,
        "start": Start(first, _first_gains(filter, model) / x, -N / u, covariance),
        "names": filter.names,
        "time_step": filter.time_step,
    }


def _noise(filter: Learnt) -> Float[np.ndarray, "n n"]:
    """The covariance of one-step errors, with the floors of channels that were constant in training."""
    if filter.still is None:
        return filter.covariance
    floor = filter.still.floor
    still = np.isfinite(floor)
    return np.where(still[:, None] | still, np.diag(np.where(still, floor**2, 0.0)), filter.covariance)


def _first_gains(filter: Learnt, model: Innovations) -> Float[np.ndarray, "rows s n"]:
    """How the memory moves with innovations of first rows, but for the expected row, which the step does not use."""
    n, opened = model.n, model.opened
    if opened is None:
        older = np.tile(np.eye(n), (filter.lags - 1, 1))
        return np.vstack([np.zeros((model.s - len(older), n)), older])[None]  # rows before row 1 equal it
    gains = opened.gain.copy()
    gains[:, model.r : model.r + n] = 0.0
    return gains


def _step(model: Innovations, p: int) -> tuple[np.ndarray, ...]:
    """F, G, B, N and c of a linear filter with p inputs."""
    assert isinstance(model.map, Linear)  # as the regressor is
    F, G = np.split(model.transition(np.empty((1, 0)), np.array([False])), [model.s], axis=1)
    B, N, c = np.zeros((model.s, p)), np.zeros((model.s, p)), np.zeros(model.s)
    W, top = model.map.weights.T, slice(len(model.map.intercept))
    first = len(model.feedback.mean) + model.n * model.lags
    B[top], c[top] = W[:, first : first + p], model.map.intercept
    if W.shape[1] > first + p:  # feed-through
        N[top] = W[:, first + p :]
    return F, G, B, N, c


def filter_of(model: System, window: int | None = None) -> Filter:
    """The filter with the predictions of a model.

    Predictions are those of the model from row 1 on, with two exceptions, which the filter forgets. If inputs act at
    once, row 1 is predicted without its inputs. And if the model came from a filter with several lags, rows after row 1
    differ if inputs act at once, or if so many states were left out that the model forgot the last row.

    Intervals are Gaussian, of the variances that K and V imply.

    Args:
        model: a linear model.
        window: how many observations a belief describes; None for the fewest that determine the state.
    """
    # in balanced coordinates a belief shows each state as clearly as it can
    unit = _standardised(reduced(model, NOTHING))
    O, J, level, read = _beliefs(unit, window)
    held, gain = _held(unit)
    fed = read - held @ read  # s_t = fed (m_t - level) + gain x_{t-1} - fed J u_t
    forgetting = O @ (unit.A - unit.K @ unit.C)
    lagged = [forgetting @ gain] if gain.any() else []
    inputs = [O @ (unit.B - unit.K @ unit.D) - forgetting @ fed @ J, *([J] if _acts_at_once(unit) else [])]
    weights = np.hstack([forgetting, O @ unit.K, *lagged, *inputs])
    k = len(O) // len(unit.C)
    return Filter(
        features=Stack(k),
        regressors=(Linear(weights.T, O @ unit.drift + level),),
        initial=O @ unit.start.mean + level,
        scaling=unit.scaling,
        feedback=Feedback(fed @ level, np.ones(unit.order), 1.0, fed.T),
        centre=np.zeros(len(O)),
        covariance=unit.V,
        lags=1 + len(lagged),
        input_scaling=unit.input_scaling if unit.B.shape[1] else None,
        feedthrough=_acts_at_once(unit),
        calibration=_calibration(unit, k + BEYOND),
        names=unit.names,
        time_step=unit.time_step,
        opening=_opening(unit, O, len(lagged)),
    )


def _opening(model: System, O: Float[np.ndarray, "d s"], lagged: int) -> Opening | None:
    """The opening of beliefs O s, whose first state has a covariance; None if it has none."""
    if not model.start.covariance.any():
        return None
    values, vectors = np.linalg.eigh(model.start.covariance)
    root = O @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    older = np.zeros((lagged, len(model.C)))
    return Opening(older, np.vstack([root, np.zeros((older.size, root.shape[1]))]))


def _held(model: System) -> tuple[Float[np.ndarray, "s s"], Float[np.ndarray, "s n"]]:
    """The map from s_t to gain x_{t-1}, and the gain of the first row; zeros if the state remembers too little x_{t-1}.

    A filter of two lags takes the first row for the row before it. So s_1 moves with x_1 by the gain if the step adds
    gain x_{t-1} to the state and the feedback leaves it out.
    """
    C, D, (first, gains, inputs, covariance) = model.C, model.D, model.start
    gain = np.zeros_like(model.K) if covariance.any() or not len(gains) else gains[0]
    comes = np.column_stack([model.A, model.K, model.B, model.drift, first, inputs])
    remembered = gain @ np.column_stack([C, np.eye(len(C)), D, np.zeros(len(C)), C @ first, C @ inputs + D])
    held = remembered @ np.linalg.pinv(comes, rcond=NOTHING)
    exact = np.allclose(held @ comes, remembered, rtol=0, atol=CLOSE)
    return (held, gain) if exact else (np.zeros_like(held), np.zeros_like(gain))


def _standardised(model: System) -> System:
    """The model of standardised observations and inputs; scalings stay as they are."""
    x, u = model.scaling.scale, model.input_scaling.scale
    return replace(
        model,
        B=model.B * u,
        C=model.C / x[:, None],
        D=model.D * u / x[:, None],
        K=model.K * x,
        V=model.V / np.outer(x, x),
        start=model.start._replace(gains=model.start.gains * x, inputs=model.start.inputs * u),
    )


class Beliefs(NamedTuple):
    """m_t = O s_t + J u_t + level; the belief before row 1 lacks J u_1."""

    O: Float[np.ndarray, "d s"]
    J: Float[np.ndarray, "d p"]
    level: Float[np.ndarray, " d"]
    read: Float[np.ndarray, "s d"]
    """A left inverse of O."""


def _beliefs(model: System, window: int | None) -> Beliefs:
    """The shortest beliefs that determine the state, from row 1 on if possible, of a standardised model."""
    s, p = model.B.shape
    at_start = np.hstack([np.eye(s), -model.start.inputs])
    settles = None
    for k in range(1, s + p + 2) if window is None else [window]:
        O, J, level = _futures(model, k)
        read = at_start @ np.linalg.pinv(np.hstack([O, J]), rcond=FAINT)
        if np.allclose(read @ np.hstack([O, J]), at_start, rtol=0, atol=CLOSE):
            return Beliefs(O, J, level, read)
        read = np.linalg.pinv(O, rcond=FAINT)
        if settles is None and np.allclose(read @ O, np.eye(s), rtol=0, atol=CLOSE):
            settles = Beliefs(O, J, level, read)
    if settles is None:
        raise SettingsError(
            f"window: required one that determines the {s} states, received {window or 'none that does'}. Pass a "
            "longer window, or leave out faint states: model.reduced(tolerance=1e-6).to_filter()."
        )
    return settles


def _futures(model: System, window: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """O, J and the level of beliefs: the parts of the next observations that s_t, u_t and the drift decide."""
    state, inputs, level, blocks = np.eye(model.order), np.zeros_like(model.B), np.zeros(model.order), []
    at_once = _acts_at_once(model)
    for j in range(window):
        at_row = model.D if j == 0 else model.C @ inputs
        blocks.append((model.C @ state, at_row * at_once, model.C @ level))
        inputs = model.B if j == 0 else model.A @ inputs
        state, level = model.A @ state, model.A @ level + model.drift
    O, J, levels = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return O, J, levels


def _acts_at_once(model: System) -> bool:
    """Whether beliefs know the inputs of their first row."""
    return bool(model.D.any() or model.start.inputs.any())


def _calibration(model: System, steps: int) -> Calibration:
    """The variance of Gaussian errors 1, 2, .. steps ahead, of a standardised model."""
    P, base = np.zeros_like(model.A), []
    for _ in range(steps):
        base.append(np.diag(model.C @ P @ model.C.T + model.V))
        P = model.A @ P @ model.A.T + model.K @ model.V @ model.K.T
    reach = [NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS]
    shape = (steps, len(model.C))
    return Calibration(np.array(base), np.zeros(shape), np.multiply.outer(reach, np.ones(shape)))
