"""The closed loop of a filter, unrolled over recordings, as a differentiable function of its weights (JAX).

The step is the textbook's (`filter/step.py`), for regressors that are linear in their weights W: with e_t the inputs
that W multiplies (z itself, or random features of it) and y_t = W'e_t + prior the beliefs that follow,

    loss   = sum over examples of ||y_t - phi(f_{t+1})||^2 / examples, entry by entry where phi was observed
    dloss/dW = sum over t of e_t (dloss/dy_t)'

so that one pass back through time gives dloss/dy_t, without the weights, and one matrix product does the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.extras import imported
from psimlearn.factors import cholesky, solve
from psimlearn.filter import Feedback, Filter, Linear, RandomFourier, SecondMoment, Stack, StackSquares, State
from psimlearn.filter.fourier import fourier_features
from psimlearn.filter.gaps import gain_fill, pattern_gains
from psimlearn.filter.rollout import table
from psimlearn.filter.step import Recursion, advance, inputs, take
from psimlearn.recordings.schedule import gridded, grids
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_rows, futures
from psimlearn.shapes import Float

__all__ = ["Fixed", "Form", "Part", "closed_loop", "fixed_of", "form_of", "parts_of", "weights_of", "whitened"]
__all__ += ["with_weights"]

Differentiable = Stack | StackSquares | SecondMoment
NEGLIGIBLE = 1e-6
"""Directions in which inputs vary less than this, relative to the mean, are not magnified when they are whitened."""


class Form(NamedTuple):
    """The shape of the computation: filters of one form share a compiled one."""

    features: Differentiable
    lags: int
    raw_inputs: bool
    intercept: bool


class Fixed(NamedTuple):
    """The numbers of a filter that training leaves alone."""

    initial: Any
    feedback: Feedback
    centre: Any
    frequencies: Any
    """The directions of random features; None for a linear filter."""
    root: Any = None
    """Weights are this matrix times the parameters; None for the identity."""
    span: Any = None
    """Filled-in values stay within it; None for no bounds."""


class Part(NamedTuple):
    """Some trajectories of similar length, (time, trajectory, ..), zero beyond their ends."""

    x: Any
    """Observations, NaN where missing."""
    u: Any
    known: Any
    """The columns of z that no belief enters; None where something is missing."""
    pattern: Any
    gains: Any
    """Where something is missing: the pattern of each row, and for each pattern the matrix that fills in the rest."""
    y: Any
    """phi(f_{t+1})."""
    weight: Any
    """How much each entry of it counts: 0 where it was not observed."""

    def each(self, cut: Callable[[Any], Any]) -> "Part":
        """The part with every array of rows cut; gains belong to no row."""
        return Part(*(a if a is None or name == "gains" else cut(a) for name, a in self._asdict().items()))

    def some(self, which: slice) -> "Part":
        """Some of the trajectories."""
        return self.each(lambda rows: rows[:, which])


def form_of(filter: Filter, intercept: bool) -> Form:
    """The form of a filter, if there is a gradient for it."""
    regressor, features = filter.regressors[0], filter.features
    single = len(filter.regressors) == 1
    if not (single and isinstance(regressor, Linear | RandomFourier) and isinstance(features, Differentiable)):
        raise SettingsError(
            "back-propagation: required one linear or random-feature regressor for all times and Stack, StackSquares "
            f"or SecondMoment features, received {len(filter.regressors)} of {type(regressor).__name__} and "
            f"{type(features).__name__}. Train with dagger and Ridge or RandomFourierRidge first."
        )
    return Form(features, filter.lags, isinstance(regressor, Linear) or regressor.raw_inputs, intercept)


def fixed_of(filter: Filter) -> Fixed:
    """Everything of a filter but its weights."""
    regressor = filter.regressors[0]
    frequencies = regressor.directions if isinstance(regressor, RandomFourier) else None
    return Fixed(filter.initial, filter.feedback, filter.centre, frequencies, span=filter.span)


def weights_of(filter: Filter, intercept: bool = True) -> Float[np.ndarray, "width d"]:
    """The weights of a filter, the intercept last."""
    regressor = filter.regressors[0]
    linear = regressor.linear if isinstance(regressor, RandomFourier) else regressor
    assert isinstance(linear, Linear)
    return np.concatenate([linear.weights, linear.intercept[None]]) if intercept else linear.weights


def with_weights(filter: Filter, weights: Float[np.ndarray, "width d"], intercept: bool = True) -> Filter:
    """The filter with other weights."""
    linear = Linear(weights[:-1], weights[-1]) if intercept else Linear(weights, np.zeros(weights.shape[1]))
    regressor = filter.regressors[0]
    fitted = replace(regressor, linear=linear) if isinstance(regressor, RandomFourier) else linear
    return replace(filter, regressors=(fitted,))


def parts_of(filter: Filter, trajectories: Trajectories) -> list[Part]:
    """Recordings laid out for `closed_loop`: the rows that make examples, padded to rectangles."""
    layout = table(filter, trajectories).layout
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
    pattern, gains = pattern_gains(~np.isnan(layout.x), filter.covariance) if layout.gappy else (None, None)
    known = None if layout.gappy else layout.observed
    whole = Part(layout.x, layout.u, known, pattern, gains, np.nan_to_num(phi), weight)
    return [whole.each(partial(gridded, grid)) for grid in grids(plan, rows)]


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
            met = np.asarray(jax.jit(closed_loop(form).rolled)(weights, fixed, part, np.zeros_like(part.y))[1])
            counted = met[part.weight.any(axis=2)]
            gram += counted.T @ counted
            n += len(counted)
    if not np.isfinite(gram).all():
        return fixed, weights
    gram /= n
    if form.raw_inputs:
        n_waves = 0 if fixed.frequencies is None else 2 * fixed.frequencies.shape[1]
        fed = n_waves + np.arange(len(fixed.feedback.mean))
        gram[fed, fed] += np.maximum(usual**2 - gram[fed, fed], 0.0)
    factor = cholesky(gram + NEGLIGIBLE * np.trace(gram) / width * np.eye(width))
    return fixed._replace(root=solve(factor, np.eye(width)).T), factor.T @ weights


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

    def rolled(weights: Any, fixed: Fixed, part: Part, nudges: Any) -> tuple[Any, Any]:
        recursion = _recursion(form, fixed, weights)
        first = jnp.tile(fixed.initial, (part.x.shape[1], 1))
        scanned = _rolled_whole if part.known is not None else partial(_rolled_filling, span=fixed.span)
        beliefs, known = scanned(jax, form, recursion, first, part, nudges)
        held = jnp.concatenate([first[None], beliefs[:-1]])
        z = inputs(recursion, _flat(held), _flat(known))
        if fixed.frequencies is not None:
            z = fourier_features(z, fixed.frequencies, form.raw_inputs)
        multiplied = jnp.concatenate([z, jnp.ones((len(z), 1))], axis=1) if form.intercept else z
        return beliefs, multiplied.reshape(*beliefs.shape[:2], -1)

    def misfit(nudges: Any, weights: Any, fixed: Fixed, part: Part) -> tuple[Any, Any]:
        beliefs, multiplied = rolled(weights, fixed, part, nudges)
        return jnp.sum(part.weight * (beliefs - part.y) ** 2), multiplied

    def loss_and_gradient(parameters: Any, fixed: Fixed, parts: Any) -> tuple[Any, Any]:
        weights = parameters if fixed.root is None else fixed.root @ parameters
        value, gradient = 0.0, jnp.zeros_like(weights)
        for part in parts:
            differentiated = jax.value_and_grad(misfit, has_aux=True)
            (loss_of_part, multiplied), adjoint = differentiated(jnp.zeros_like(part.y), weights, fixed, part)
            value += loss_of_part
            gradient += jnp.einsum("tbp,tbd->pd", multiplied, adjoint)
        return value, gradient if fixed.root is None else fixed.root.T @ gradient

    def loss(parameters: Any, fixed: Fixed, parts: Any) -> Any:
        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def value(parameters: Any) -> Any:
            weights = parameters if fixed.root is None else fixed.root @ parameters
            return sum((misfit(jnp.zeros_like(part.y), weights, fixed, part)[0] for part in parts), jnp.zeros(()))

        value.defvjp(lambda w: loss_and_gradient(w, fixed, parts), lambda gradient, ct: (ct * gradient,))
        return value(parameters)

    return _Loop(loss, rolled)


def _recursion(form: Form, fixed: Fixed, weights: Any) -> Recursion:
    """The recursion of a filter with these weights, the intercept last."""
    linear = Linear(weights[:-1], weights[-1]) if form.intercept else Linear(weights, 0.0 * weights[0])
    regressor = linear if fixed.frequencies is None else RandomFourier(fixed.frequencies, form.raw_inputs, linear)
    return Recursion(form.features, (regressor,), fixed.feedback, fixed.centre)


def _rolled_whole(jax: Any, form: Form, recursion: Recursion, first: Any, part: Part, nudges: Any) -> tuple[Any, Any]:
    """Nothing is missing: what the known columns contribute is computed ahead, for all rows at once."""
    drive = recursion.regressors[0].drive(_flat(part.known))
    drive = tuple(rows.reshape(*part.x.shape[:2], -1) for rows in drive)

    def step(belief: Any, now: Any) -> Any:
        x, drive, nudge = now
        after = advance(recursion, belief, drive, x)[1] + nudge
        return after, after

    return jax.lax.scan(step, first, (part.x, drive, nudges))[1], part.known


def _rolled_filling(
    jax: Any, form: Form, recursion: Recursion, first: Any, part: Part, nudges: Any, span: Any
) -> tuple[Any, Any]:
    """Something is missing: the belief before a row fills in its missing entries."""
    b, n = part.x.shape[1:]
    nothing = jax.numpy.zeros(b, dtype=int)
    start = State(first, jax.numpy.zeros((b, form.lags, n)), nothing, nothing, nothing)

    def step(state: State, now: Any) -> Any:
        x, u, pattern, nudge = now
        after = take(recursion, state, x, u, lambda x, expected: gain_fill(x, expected, part.gains[pattern], span))
        after = after._replace(belief=after.belief + nudge)
        return after, (after.belief, jax.numpy.concatenate([after.recent.reshape(b, -1), u], axis=1))

    _, (beliefs, known) = jax.lax.scan(step, start, (part.x, part.u, part.pattern, nudges))
    return beliefs, known


def _flat(rows: Any) -> Any:
    """Rows of (time, trajectory, ..) as rows of one axis."""
    return rows.reshape(-1, rows.shape[-1])
