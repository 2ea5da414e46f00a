"""Back-propagation: descend the closed-loop loss of a filter through time, from random weights or from a learnt one."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from psimlearn.checks import generator, number, optional, switch, whole
from psimlearn.errors import SettingsError
from psimlearn.filter import Features, Filter
from psimlearn.learners import Learner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.descent import Descent, Optimiser, check_optimiser, descend, patient
from psimlearn.train.ground import ground
from psimlearn.train.recipe import Recipe
from psimlearn.train.score import Criterion, Round, held_out, scored
from psimlearn.train.start import begin
from psimlearn.train.unrolled import Part, closed_loop, fixed_of, form_of, parts_of, weights_of, whitened, with_weights

__all__ = ["Epoch", "backprop", "epochs", "random_start", "randomised"]

SMALL = 0.01
"""Random weights are uniform between plus and minus this."""


class Epoch(NamedTuple):
    """A round, and the state of the descent: hand it back to `epochs` to go on from there."""

    round: Round
    state: Descent

    @property
    def error(self) -> float:
        """The closed-loop error on the validation trajectories."""
        return self.round.error


def backprop(train: Trajectories, validation: Trajectories, start: Filter, **options: Any) -> Iterator[Round]:
    """Yield the filter after every epoch, `start` first; `best` picks one, which is never worse than `start`.

    Args:
        train: recordings to learn from.
        validation: recordings that score each epoch in closed loop.
        start: from `random_start`, or any learnt filter with a linear or random-feature regressor.
        options: as for `epochs`.
    """
    return (epoch.round for epoch in epochs(train, validation, start, **options))


def epochs(
    train: Trajectories,
    validation: Trajectories,
    start: Filter,
    *,
    optimiser: Optimiser = "lbfgs",
    n_epochs: int = 400,
    batch: int | None = 1,
    rate: float | None = None,
    halving: int | None = 100,
    clip: float | None = 10.0,
    intercept: bool = True,
    patience: int = 20,
    criterion: Criterion = "one-step",
    seed: int = 0,
    state: Descent | None = None,
) -> Iterator[Epoch]:
    """`backprop` with the state of the descent beside every round.

    The training loss of every round is at most that of `start`: epochs that raise it above are undone and steps halved.
    A missing observation is filled in with the covariance of `start`, which training leaves alone.

    Args:
        train: recordings to learn from.
        validation: recordings that score each epoch in closed loop.
        start: the filter to begin with.
        optimiser: "gd", "adagrad", "adadelta", "rmsprop" or "adam", which step from batch to batch; or "lbfgs", which
            knows no rate and no batches: each epoch is one step with a line search over all recordings, in
            coordinates in which the inputs of the regressor are uncorrelated.
        n_epochs: the most epochs.
        batch: trajectories to a step; None for all. The paper takes one.
        rate: the step size; None for a usual one.
        halving: halve the steps every so many epochs; None never.
        clip: the largest norm of a gradient; None for any.
        intercept: learn the intercept too; False for filters that have none and are to have none.
        patience: stop when the validation error has not fallen for so many epochs.
        criterion: the closed-loop error that ranks epochs.
        seed: decides the order of batches.
        state: of an earlier descent with the same recordings and options, to go on from.
    """
    check_optimiser(optimiser)
    whole(n_epochs, "n_epochs", 0)
    whole(patience, "patience")
    whole(seed, "seed", 0)
    switch(intercept, "intercept")
    optional(whole, batch, "batch")
    optional(whole, halving, "halving")
    optional(number, rate, "rate", above=True)
    optional(number, clip, "clip", above=True)
    if not intercept and weights_of(start)[-1].any():
        raise SettingsError(
            "intercept=False: required a start without an intercept, received one with an intercept. Learn it with "
            "Ridge(intercept=False), or use intercept=True."
        )
    form, fixed, parts = form_of(start, intercept), fixed_of(start), tuple(parts_of(start, train))
    weights = weights_of(start, intercept)
    if optimiser == "lbfgs":
        batch, rate, halving, clip = None, None, None, None
        fixed, weights = whitened(form, fixed, parts, weights, start.feedback.weight)
    root = fixed.root
    batches = _batches(parts, batch)
    problem = (closed_loop(form).loss, weights, fixed, batches, parts)
    descent = descend(*problem, seed=seed, optimiser=optimiser, rate=rate, halving=halving, clip=clip, state=state)
    held = held_out(start, validation, criterion)

    def epoch(state: Descent) -> Epoch:
        weights = state.parameters if root is None else root @ state.parameters
        filter = with_weights(start, weights, intercept)
        dropped = sum(int(part.weight.any(axis=2).sum()) for i in state.rejected for part in batches[i])
        return Epoch(scored(state.epoch, filter, held, dropped)._replace(filter=filter), state)

    first = 0 if state is None else state.epoch + 1
    return patient(map(epoch, islice(descent, max(0, n_epochs + 1 - first))), patience)


def random_start(
    train: Trajectories,
    features: Features,
    learner: Learner[Any],
    *,
    rng: np.random.Generator,
    recipe: Recipe = Recipe(),
    scale: float = SMALL,
) -> Filter:
    """A filter with small random weights: all else is as where DAgger begins.

    Args:
        train: recordings that set scaling, box and first belief.
        features: what a belief is.
        learner: `Ridge` for a linear filter, `RandomFourierRidge` for random features.
        rng: draws weights and features.
        recipe: the choices around the algorithm.
        scale: weights are uniform between plus and minus this.
    """
    number(scale, "scale")
    begun = begin(ground(train, features, "history", recipe), learner, "history", recipe, generator(rng))
    return randomised(begun.filter, rng, scale)


def randomised(filter: Filter, rng: np.random.Generator, scale: float = SMALL) -> Filter:
    """The filter with small random weights in place of the learnt ones, and no intercept."""
    form_of(filter, intercept=False)
    shape = weights_of(filter, intercept=False).shape
    return with_weights(filter, rng.uniform(-scale, scale, shape), intercept=False)


def _batches(parts: tuple[Part, ...], size: int | None) -> list[tuple[Part, ...]]:
    """Trajectories of similar length taken together, each batch with the weight of all of them."""
    if size is None:
        return [parts]
    cut = [(part.some(slice(i, i + size)),) for part in parts for i in range(0, part.x.shape[1], size)]
    return [(part._replace(weight=part.weight * len(cut)),) for (part,) in cut]
