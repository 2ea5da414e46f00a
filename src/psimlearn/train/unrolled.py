"""The closed loop of a filter, unrolled over recordings, as a differentiable function of its weights (JAX).

The step is that of `filter.Filter`, for regressors that are linear in their weights W: with e_t the inputs that W
multiplies (z itself, or random features of it) and y_t = W'e_t + prior the beliefs that follow,

    loss   = sum over examples of ||y_t - phi(f_{t+1})||^2 / examples, entry by entry where phi was observed
    dloss/dW = sum over t of e_t (dloss/dy_t)'

so that one pass back through time gives dloss/dy_t, without the weights, and one matrix product does the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from psimlearn.errors import DataError, SettingsError
from psimlearn.extras import imported
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.filter import Filter
from psimlearn.filter.gaps import among_seen
from psimlearn.filter.regressors import Linear, RandomFourier
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_rows, futures, gridded, grids

__all__ = [
    "Fixed",
    "Form",
    "Part",
    "closed_loop",
    "fixed_of",
    "form_of",
    "parts_of",
    "weights_of",
    "whitened",
    "with_weights",
]

NEGLIGIBLE = 1e-6
"""Directions in which inputs vary less than this, relative to the mean, are not magnified when they are whitened."""


class Form(NamedTuple):
    """What decides the shape of the computation, so that filters of one form share a compiled one."""

    features: Stack | StackSquares | SecondMoment
    lags: int
    fourier: bool
    raw_inputs: bool
    intercept: bool


class Fixed(NamedTuple):
    """The numbers of a filter that training leaves alone."""

    initial: Any
    gain: Any
    shift: Any
    low: Any
    high: Any
    directions: Any
    centre: Any
    frequencies: Any
    root: Any = None
    """Weights are this matrix times the parameters; None for the identity."""


class Part(NamedTuple):
    """Some trajectories of similar length, (time, trajectory, ..), zero beyond their ends."""

    x: Any
    u: Any
    known: Any
    """The columns of z that no belief enters; None where something is missing."""
    seen: Any
    pattern: Any
    gains: Any
    """Where something is missing: what was seen, and the matrix of each pattern that takes innovations to all."""
    y: Any
    """phi(f_{t+1})."""
    weight: Any
    """How much each entry of it counts: 0 where it was not observed."""

    def some(self, which: slice) -> "Part":
        """Some of the trajectories."""
        return Part(*(a if a is None or name == "gains" else a[:, which] for name, a in self._asdict().items()))


# -- from filters and back -------------------------------------------------------------------------------------------


def form_of(filter: Filter, intercept: bool) -> Form:
    """The form of a filter, if there is a gradient for it."""
    regressor, features = filter.regressors[0], filter.features
    if (
        len(filter.regressors) != 1
        or not isinstance(regressor, Linear | RandomFourier)
        or not isinstance(features, Stack | StackSquares | SecondMoment)
    ):
        raise SettingsError(
            "back-propagation: required one linear or random-feature regressor for all times and Stack, StackSquares "
            f"or SecondMoment features, received {len(filter.regressors)} of {type(regressor).__name__} and "
            f"{type(features).__name__}. Train with dagger and Ridge or RandomFourierRidge first."
        )
    fourier = isinstance(regressor, RandomFourier)
    return Form(
        features, filter.lags, fourier, isinstance(regressor, RandomFourier) and regressor.raw_inputs, intercept
    )


def fixed_of(filter: Filter) -> Fixed:
    """Everything of a filter but its weights."""
    feedback, regressor = filter.feedback, filter.regressors[0]
    frequencies = regressor.directions if isinstance(regressor, RandomFourier) else None
    gain = feedback.weight / feedback.scale
    box = (feedback.low, feedback.high)
    return Fixed(filter.initial, gain, feedback.shift, *box, feedback.directions, filter.centre, frequencies)


def weights_of(filter: Filter, intercept: bool = True) -> Float[np.ndarray, "width d"]:
    """The weights of a filter, the intercept last."""
    regressor = filter.regressors[0]
    linear = regressor.linear if isinstance(regressor, RandomFourier) else regressor
    assert isinstance(linear, Linear)
    return np.concatenate([linear.weights, linear.intercept[None]]) if intercept else linear.weights


def with_weights(filter: Filter, weights: Float[np.ndarray, "width d"], intercept: bool = True) -> Filter:
    """The filter with other weights."""
    constant = weights[-1] if intercept else np.zeros(weights.shape[1])
    linear = Linear(weights[:-1] if intercept else weights, constant)
    regressor = filter.regressors[0]
    fitted = replace(regressor, linear=linear) if isinstance(regressor, RandomFourier) else linear
    return replace(filter, regressors=(fitted,))


def parts_of(filter: Filter, trajectories: Trajectories) -> list[Part]:
    """Recordings laid out for `closed_loop`: the rows that make examples, padded to rectangles."""
    layout = filter.table(trajectories).layout
    plan, features = layout.plan, filter.features
    rows, targets = example_rows(plan, features.window)
    if not plan.reaches(features.window).any():
        raise DataError(
            f"back-propagation: required a recording with more rows than the window, at least {features.window + 1}, "
            f"received at most {trajectories.lengths.max()}. Use longer recordings or a smaller window."
        )
    phi = np.full((len(layout.x), len(filter.initial)), np.nan)
    phi[rows] = features(futures(layout.x, plan, features.window)[targets])
    observed = ~np.isnan(phi)
    weight = observed / np.maximum(observed.sum(axis=0), 1)
    seen = ~np.isnan(layout.x)
    pattern, gains = _gains(seen, filter.covariance) if layout.gappy else (None, None)
    return [
        Part(
            gridded(grid, np.nan_to_num(layout.x)),
            gridded(grid, layout.u),
            None if layout.gappy else gridded(grid, layout.observed),
            gridded(grid, seen) if layout.gappy else None,
            None if pattern is None else gridded(grid, pattern),
            gains,
            gridded(grid, np.nan_to_num(phi)),
            gridded(grid, weight),
        )
        for grid in grids(plan, rows)
    ]


def _gains(
    seen: np.ndarray, covariance: Float[np.ndarray, "n n"]
) -> tuple[Int[np.ndarray, " rows"], Float[np.ndarray, "patterns n n"]]:
    """The pattern of what each row saw, and for each the matrix S_oo^-1 S that fills in the rest."""
    patterns, pattern = np.unique(seen, axis=0, return_inverse=True)
    gains = np.empty((len(patterns), *covariance.shape))
    for some, among in among_seen(patterns, np.arange(len(patterns)), covariance):
        gains[some] = np.linalg.solve(among, np.broadcast_to(covariance, among.shape))
    return pattern.ravel(), gains


def whitened(
    form: Form, fixed: Fixed, parts: Sequence[Part], weights: Float[np.ndarray, "width d"], usual: float
) -> tuple[Fixed, Float[np.ndarray, "width d"]]:
    """Parameters that multiply uncorrelated inputs of unit size, instead of weights: in them the loss is nearly round.

    The inputs are those that a filter with these weights meets, as in a round of DAgger. Beliefs that hardly move yet
    will move later: what they feed back is taken to vary as usual, which is this much.
    """
    jax = imported("jax", "grad")
    width = len(weights)
    gram, n = np.zeros((width, width)), 0
    with jax.enable_x64(True):
        for part in parts:
            inputs = np.asarray(jax.jit(closed_loop(form).rolled)(weights, fixed, part, np.zeros_like(part.y))[1])
            counted = inputs[part.weight.any(axis=2)]
            gram += counted.T @ counted
            n += len(counted)
    if not np.isfinite(gram).all():
        return fixed, weights
    gram /= n
    if not form.fourier or form.raw_inputs:
        fed = np.arange(len(fixed.gain)) + (2 * fixed.frequencies.shape[1] if form.fourier else 0)
        gram[fed, fed] += np.maximum(usual**2 - gram[fed, fed], 0.0)
    factor = np.linalg.cholesky(gram + NEGLIGIBLE * np.trace(gram) / width * np.eye(width))
    root = np.linalg.solve(factor, np.eye(width)).T
    return fixed._replace(root=root), factor.T @ weights


# -- the loop --------------------------------------------------------------------------------------------------------


class _Loop(NamedTuple):
    loss: Callable[..., Any]
    """(parameters, fixed, parts) -> the loss, with its gradient."""
    rolled: Callable[..., Any]
    """(weights, fixed, part, nudges) -> the beliefs that follow each row, and the inputs that weights multiply."""


@cache
def closed_loop(form: Form) -> _Loop:
    """The loop for filters of one form, made once: JAX compiles for the function that it is given."""
    jax = imported("jax", "grad")
    jnp = jax.numpy

    def persist(x: Any) -> Any:
        f = jnp.tile(x, (1,) * (x.ndim - 1) + (form.features.window,))
        if isinstance(form.features, Stack):
            return f
        if isinstance(form.features, StackSquares):
            return jnp.concatenate([f, f**2], axis=-1)
        row, column = np.triu_indices(f.shape[-1])
        return jnp.concatenate([f, f[..., row] * f[..., column]], axis=-1)

    def rolled(weights: Any, fixed: Fixed, part: Part, nudges: Any) -> tuple[Any, Any]:
        r, n, d = len(fixed.gain), part.x.shape[2], weights.shape[1]
        intercept = weights[-1] if form.intercept else 0.0
        wave_weights, raw_weights = weights[:0], weights[: len(weights) - form.intercept]
        if fixed.frequencies is not None:
            wave_weights, raw_weights = jnp.split(raw_weights, [2 * fixed.frequencies.shape[1]])
        linear = not form.fourier or form.raw_inputs

        def driven(known: Any, x: Any) -> tuple[Any, Any]:
            """What the known columns of z contribute to outputs and to angles."""
            prior = persist(x) if fixed.centre is None else jnp.broadcast_to(fixed.centre, (*x.shape[:-1], d))
            output = intercept + prior + (known @ raw_weights[r:] if linear else 0.0)
            return output, known @ fixed.frequencies[r:] if form.fourier else None

        def respond(fed: Any, drive: tuple[Any, Any]) -> tuple[Any, Any]:
            """The next belief, and the waves in it."""
            output, angle = drive
            output = output + fed @ raw_weights[:r] if linear else output
            if not form.fourier:
                return output, None
            angle = angle + fed @ fixed.frequencies[:r]
            waves = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=-1)
            return output + waves @ wave_weights, waves

        def feed(belief: Any) -> Any:
            projected = belief if fixed.directions is None else belief @ fixed.directions
            fed = projected * fixed.gain + fixed.shift
            return fed if fixed.low is None else jnp.minimum(jnp.maximum(fed, fixed.low), fixed.high)

        def step_whole(belief: Any, now: Any) -> Any:
            drive, nudge = now
            fed = feed(belief)
            output, waves = respond(fed, drive)
            return output + nudge, (output + nudge, fed, waves)

        def step_filling(carry: Any, now: Any) -> Any:
            belief, recent, first = carry
            x, u, seen, pattern, nudge = now
            expected = belief[:, :n]
            innovation = jnp.where(seen, x - expected, 0.0)
            x = jnp.where(seen, x, expected + jnp.einsum("bi,bij->bj", innovation, part.gains[pattern]))
            older = jnp.concatenate([x, recent[:, :-n]], axis=1)
            recent = jnp.where(first, jnp.tile(x, (1, form.lags)), older)
            known = jnp.concatenate([recent, u], axis=1)
            fed = feed(belief)
            output, waves = respond(fed, driven(known, x))
            return (output + nudge, recent, False), (output + nudge, fed, waves, known)

        start = jnp.tile(fixed.initial, (part.x.shape[1], 1))
        if part.known is not None:
            known = part.known
            _, (beliefs, fed, waves) = jax.lax.scan(step_whole, start, (driven(known, part.x), nudges))
        else:
            carry = (start, jnp.zeros((len(start), form.lags * n)), True)
            rows = (part.x, part.u, part.seen, part.pattern, nudges)
            _, (beliefs, fed, waves, known) = jax.lax.scan(step_filling, carry, rows)
        columns = ([waves] if form.fourier else []) + ([fed, known] if linear else [])
        columns += [jnp.ones((*fed.shape[:2], 1))] if form.intercept else []
        return beliefs, jnp.concatenate(columns, axis=-1)

    def valued(parameters: Any, fixed: Fixed, parts: Any) -> tuple[Any, Any]:
        """The loss and its gradient."""
        weights = parameters if fixed.root is None else fixed.root @ parameters
        value, gradient = 0.0, jnp.zeros_like(weights)
        for part in parts:

            def misfit(nudges: Any, part: Part = part) -> tuple[Any, Any]:
                beliefs, inputs = rolled(weights, fixed, part, nudges)
                return jnp.sum(part.weight * (beliefs - part.y) ** 2), inputs

            (own, inputs), adjoint = jax.value_and_grad(misfit, has_aux=True)(jnp.zeros_like(part.y))
            value += own
            gradient += jnp.einsum("tbp,tbd->pd", inputs, adjoint)
        return value, gradient if fixed.root is None else fixed.root.T @ gradient

    def loss(parameters: Any, fixed: Fixed, parts: Any) -> Any:
        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def value(parameters: Any) -> Any:
            weights = parameters if fixed.root is None else fixed.root @ parameters
            misfits = (
                jnp.sum(part.weight * (rolled(weights, fixed, part, jnp.zeros_like(part.y))[0] - part.y) ** 2)
                for part in parts
            )
            return sum(misfits, jnp.zeros(()))

        value.defvjp(lambda parameters: valued(parameters, fixed, parts), lambda gradient, ct: (ct * gradient,))
        return value(parameters)

    return _Loop(loss, rolled)
