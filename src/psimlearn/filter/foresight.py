"""The uncertainty of rows to come, as the innovations model of a filter tells it."""

import numpy as np

from psimlearn.filter.doubt import Doubt
from psimlearn.filter.innovations import Innovations
from psimlearn.filter.regressors import Linear
from psimlearn.shapes import Float, Int

__all__ = ["about_row", "ahead", "growth"]


def about_row(model: Innovations, doubt: Doubt, age: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b n n"]:
    """The covariance that doubt adds to the errors of the next row.

    The doubt of a start that lost no entry is no part of it: calibration measures errors by the age of a stream.
    """
    found = doubt.by_stream(model.kind.between(doubt.spread, model.H))
    if model.opened is None:
        return found
    return model.opened.less(found, model.kind.between(model.opened.spread, model.H), age)


def ahead(
    model: Innovations,
    doubt: Doubt,
    S: Float[np.ndarray, "b s"],
    u: Float[np.ndarray, "b q"],
    age: Int[np.ndarray, " b"],
    steps: int,
) -> Float[np.ndarray, "b steps n"]:
    """The variances that doubt adds to the errors of the next rows, if nothing more is seen; as in `about_row`."""
    members = doubt.members()
    outlook = _outlook(model, S[members], u[members], steps)
    outlook = outlook.reshape(*outlook.shape[:-3], steps * model.n, model.s)
    found = doubt.by_stream(model.kind.along(doubt.spread, outlook)).reshape(-1, steps, model.n)
    if model.opened is None:
        return found
    of_start = model.kind.along(model.opened.spread, outlook).reshape(-1, steps, model.n)
    return np.asarray(np.maximum(model.opened.less(found, of_start, age), 0.0))


def growth(
    model: Innovations, S: Float[np.ndarray, "b s"], u: Float[np.ndarray, "b q"], steps: int
) -> Float[np.ndarray, "*b steps n"]:
    """The variances of the errors of the next rows that the noise of the rows between brings."""
    noise = _forward(model, S, u)[..., model.s :] @ np.linalg.cholesky(model.noise)
    brought = np.sum((_outlook(model, S, u, steps - 1) @ noise[..., None, :, :]) ** 2, axis=-1)
    own = np.broadcast_to(np.diag(model.noise), (*brought.shape[:-2], 1, model.n))
    return np.cumsum(np.concatenate([own, brought], axis=-2), axis=-2)


def _outlook(
    model: Innovations, S: Float[np.ndarray, "b s"], u: Float[np.ndarray, "b q"], steps: int
) -> Float[np.ndarray, "*b steps n s"]:
    """The derivatives of the next expected rows by S, if each row comes as expected.

    A random-feature filter keeps the derivative at the present mean.
    """
    T, H = _forward(model, S, u), model.H
    if steps == 1:
        return np.broadcast_to(H, (*T.shape[:-2], 1, *H.shape))
    A = T[..., : model.s] + T[..., model.s :] @ H
    rows = [np.broadcast_to(H, (*A.shape[:-2], *H.shape))]
    for _ in range(steps - 1):
        rows.append(rows[-1] @ A)
    return np.stack(rows, axis=-3)


def _forward(
    model: Innovations, S: Float[np.ndarray, "b s"], u: Float[np.ndarray, "b q"]
) -> Float[np.ndarray, "*b s joint"]:
    """The derivative of the next S by [S; x], at the expected row."""
    running = np.zeros(len(S), dtype=bool)
    if isinstance(model.map, Linear):
        return model.transition(np.empty((1, 0)), running[:1])
    return model.transition(model.z(np.concatenate([S, model.expected(S)], axis=1), u, running), running)
