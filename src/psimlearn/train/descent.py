"""Descent along the gradient of any loss, epoch by epoch, with any of several optimisers.

Everything is computed in double precision, which is switched on for each epoch and off again: the settings of JAX
belong to the user.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np

from psimlearn.checks import one_of
from psimlearn.errors import DivergedError
from psimlearn.extras import imported

__all__ = ["Descent", "Optimiser", "check_optimiser", "descend", "patient"]

Optimiser = Literal["gd", "adagrad", "adadelta", "rmsprop", "adam", "lbfgs"]
RATES: dict[str, float] = {"gd": 0.03, "adagrad": 0.03, "adadelta": 1.0, "rmsprop": 1e-3, "adam": 1e-3, "lbfgs": 1.0}
"""Step sizes for optimisers that need one; L-BFGS finds it by line search."""
LEAST_SHARE = 1e-6
"""The share of the first step size below which a descent that only rises has ended."""

Loss = Callable[[Any, Any, Any], Any]


class Descent(NamedTuple):
    """The state of a descent after an epoch, as plain values: hand it back to go on from there."""

    epoch: int
    parameters: Any
    memory: Any
    """The state of the optimiser."""
    share: float
    """The share of the step size that is left: it is halved whenever an epoch had to be undone."""
    loss: float
    first_loss: float
    rejected: tuple[int, ...]
    """Batches of the last epoch whose step was not finite and was not taken."""


class _Tools(NamedTuple):
    """The functions of a descent."""

    init: Callable[..., Any]
    step: Callable[..., Any]
    total: Callable[..., Any]


def descend(
    loss: Loss,
    parameters: Any,
    fixed: Any,
    batches: Sequence[Any],
    whole: Any,
    *,
    seed: int,
    optimiser: Optimiser = "rmsprop",
    rate: float | None = None,
    halving: int | None = None,
    clip: float | None = None,
    state: Descent | None = None,
) -> Iterator[Descent]:
    """Yield the state at the beginning, and after every epoch.

    An epoch after which the loss is higher than at the very beginning, or not finite, is undone, and the steps are
    halved. The descent ends where that no longer helps.

    Args:
        loss: (parameters, fixed, batch) -> the loss, in JAX.
        parameters: where to begin.
        fixed: further arguments of the loss.
        batches: a step each; the order is shuffled.
        whole: a batch of everything, on which losses are compared.
        seed: decides the order of batches.
        optimiser: one of the four in the paper, "adam", or "lbfgs", which takes `whole` at once and needs no rate.
        rate: the step size; None for a usual one.
        halving: halve the steps every so many epochs.
        clip: the largest norm of a gradient; None for any.
        state: of an earlier descent, to go on from.
    """
    check_optimiser(optimiser)
    jax = imported("jax", "grad")
    tools = _compiled(loss, optimiser, clip)
    rate = RATES[optimiser] if rate is None else rate
    with jax.enable_x64(True):
        fixed, batches, whole = jax.device_put((fixed, batches, whole))
    if state is None:
        with jax.enable_x64(True):
            first, memory = float(tools.total(parameters, fixed, whole)), jax.device_get(tools.init(parameters))
        if not np.isfinite(first):
            raise DivergedError(
                f"required a finite loss to begin a descent from, received {first}. Begin with smaller weights."
            )
        state = Descent(0, parameters, memory, 1.0, first, first, ())
        yield state
    while state.share > LEAST_SHARE:
        step = rate * state.share * (1.0 if halving is None else 0.5 ** (state.epoch // halving))
        order = np.random.default_rng([seed, state.epoch]).permutation(len(batches))
        after = _epoch(tools, state, fixed, [batches[i] for i in order], whole, step)
        if optimiser == "lbfgs" and not after.loss < state.loss:
            return
        if not after.loss <= state.first_loss:  # the optimiser keeps its memory of the size of gradients
            after = after._replace(parameters=state.parameters, loss=state.loss, share=state.share / 2)
        state = after._replace(rejected=tuple(sorted(int(order[i]) for i in after.rejected)))
        yield state


def _epoch(tools: _Tools, state: Descent, fixed: Any, batches: Sequence[Any], whole: Any, step: float) -> Descent:
    """A step for each batch, wherever that leads."""
    jax = imported("jax", "grad")
    parameters, memory, finite = state.parameters, state.memory, []
    with jax.enable_x64(True):
        for batch in batches:
            parameters, memory, taken = tools.step(parameters, memory, fixed, batch, step)
            finite.append(taken)
        loss = float(tools.total(parameters, fixed, whole))
        parameters, memory, finite = jax.device_get((parameters, memory, finite))
    rejected = tuple(i for i, taken in enumerate(finite) if not taken)
    return Descent(state.epoch + 1, parameters, memory, state.share, loss, state.first_loss, rejected)


def check_optimiser(optimiser: str) -> None:
    """Refuse an optimiser that there is not."""
    one_of(optimiser, get_args(Optimiser), "optimiser")


@cache
def _compiled(loss: Loss, optimiser: Optimiser, clip: float | None) -> _Tools:
    """Compiled when first called, and kept for the next descent."""
    jax, optax = imported("jax", "grad"), imported("optax", "grad")
    jnp = jax.numpy
    made = {"gd": optax.sgd, "lbfgs": lambda _: optax.lbfgs(None)}.get(optimiser) or getattr(optax, optimiser)
    clipping = optax.identity() if clip is None else optax.clip_by_global_norm(clip)
    method = optax.chain(clipping, made(1.0)) if optimiser != "lbfgs" else made(1.0)

    def step(parameters: Any, memory: Any, fixed: Any, batch: Any, rate: Any) -> tuple[Any, Any, Any]:
        def value_fn(parameters: Any) -> Any:
            return loss(parameters, fixed, batch)

        extra = {}
        if optimiser == "lbfgs":
            value, gradient = optax.value_and_grad_from_state(value_fn)(parameters, state=memory)
            extra = {"value": value, "grad": gradient, "value_fn": value_fn}
        else:
            value, gradient = jax.value_and_grad(value_fn)(parameters)
        updates, later = method.update(gradient, memory, parameters, **extra)
        moved = jax.tree.map(lambda p, d: p + rate * d, parameters, updates)
        finite = jnp.isfinite(value) & jnp.all(jnp.array([jnp.isfinite(p).all() for p in jax.tree.leaves(moved)]))

        def kept(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)

        return kept(moved, parameters), kept(later, memory), finite

    return _Tools(jax.jit(method.init), jax.jit(step), jax.jit(loss))


@runtime_checkable
class _Scored(Protocol):
    @property
    def error(self) -> float: ...


Some = TypeVar("Some", bound=_Scored)


def patient(scored: Iterable[Some], patience: int) -> Iterator[Some]:
    """Pass values on until the error has not fallen for `patience` of them."""
    least, waited = np.inf, 0
    for one in scored:
        yield one
        waited = 0 if one.error < least else waited + 1
        least = min(least, one.error)
        if waited >= patience:
            return
