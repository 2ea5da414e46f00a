"""Forward Training (Alg. 1 of the paper): one regressor for each time step, fitted in turn."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from psimlearn.checks import generator, switch
from psimlearn.errors import DataError
from psimlearn.filter import Features, Filter, Regressor
from psimlearn.filter.rollout import inputs_at
from psimlearn.filter.step import following
from psimlearn.learners import Learner, Stats
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_blocks
from psimlearn.shapes import Int
from psimlearn.train.ground import ground
from psimlearn.train.losses import Loss, Squared
from psimlearn.train.recipe import Recipe
from psimlearn.train.score import Criterion, Round, held_out, scored
from psimlearn.train.start import Beginning, begin

__all__ = ["forward", "step_by_step"]


def forward(
    train: Trajectories,
    validation: Trajectories,
    features: Features,
    learner: Learner[Stats],
    *,
    rng: np.random.Generator,
    disjoint: bool = False,
    recipe: Recipe = Recipe(),
    criterion: Criterion = "one-step",
    loss: Loss = Squared(),
) -> Iterator[Round]:
    """Fit F_1 to the first step of all trajectories, roll it out, fit F_2 to the second, and so on; yield the result.

    Each regressor has one example per trajectory, so this needs many: at least twice the width of the input. Where
    fewer trajectories are long enough the steps end, and the last regressor is held.

    Args:
        train: recordings to learn from.
        validation: recordings that score the filter in closed loop.
        features: what a belief is.
        learner: fits a regressor to examples.
        rng: for learners that draw random features or rows, and for disjoint splits.
        disjoint: fit each step on other trajectories, as in the paper's theorem.
        recipe: the choices around the algorithm.
        criterion: the closed-loop error by which the filter is scored.
        loss: measures that error.
    """
    switch(disjoint, "disjoint")
    begun = begin(ground(train, features, "history", recipe), learner, "history", recipe, generator(rng))
    steps = example_blocks(begun.training.table.layout.plan, features.window)
    turn = rng.permutation(len(train)) % len(steps) if disjoint else None
    filter = step_by_step(begun, turn)
    yield scored(0, filter, held_out(filter, validation, criterion, loss))


def step_by_step(begun: Beginning, turn: Int[np.ndarray, " m"] | None = None, *, tail: bool = False) -> Filter:
    """The filter of Forward Training: one regressor is fitted after the other.

    Args:
        begun: where training begins.
        turn: the step on which each trajectory is learnt from; None for every step.
        tail: whether F_0, fitted to the initial beliefs of all steps, takes over where trajectories become too few,
            instead of the last regressor.
    """
    blank, learner, _, training = begun[:4]
    layout, x = training.table.layout, training.x
    steps = example_blocks(layout.plan, blank.features.window)
    regressors: list[Regressor] = []
    beliefs = np.tile(blank.initial, (layout.plan.block(0).stop, 1))
    at = 0
    for t, block in enumerate(steps):
        beliefs = beliefs[: block.stop - block.start]
        z = inputs_at(blank, beliefs, x, layout, block)
        y = training.y[at : at + len(z)]
        at += len(z)
        taught = slice(None) if turn is None else turn[: len(z)] == t
        required = 2 * z.shape[1]
        if len(z[taught]) < required:
            break
        regressors.append(learner.solve(learner.summarise(z[taught], y[taught])))
        beliefs = following(replace(blank, regressors=(regressors[-1],)).recursion, z, x[block])
    if tail:
        regressors.append(blank.regressors[0])
    if not regressors:
        raise DataError(
            f"Forward Training: required at least {required} trajectories for each step (twice the {z.shape[1]} "
            f"inputs of a regressor), received {len(z[taught])}. Use dagger, a smaller window, or more recordings."
        )
    return replace(blank, regressors=tuple(regressors))
