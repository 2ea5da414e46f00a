"""The differentiable loop and its gradients against numpy."""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from oracles import loop_beliefs, loss_by_hand, ragged
from psimlearn.filter import Filter, SecondMoment, Stack, StackSquares
from psimlearn.filter.rollout import roll
from psimlearn.filter.rollout import table as laid_out
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.schedule import grids, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_rows, futures
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.unrolled import closed_loop, fixed_of, form_of, parts_of, weights_of, with_weights

RNG = np.random.default_rng


CLOSE = Recipe(lags=3, prior="last", feedthrough=True, box=0.0)


FILTERS: dict[str, tuple[Any, Any, Recipe, float]] = {
    "linear, gaps, lags, last, box": (Stack(3), Ridge(1e-2), CLOSE, 0.2),
    "linear, squares, whole": (StackSquares(2), Ridge(1e-2), replace(CLOSE, prior="zero"), 0.0),
    "linear, moments, gaps": (SecondMoment(2), Ridge(1e-1), Recipe(prior="last", belief_weight=0.3), 0.1),
    "linear, rank, whole": (Stack(3), Ridge(1e-2), Recipe(rank=4, lags=2), 0.0),
    "features and inputs, gaps": (Stack(2), RandomFourierRidge(30, 1e-2), CLOSE, 0.2),
    "features alone, whole": (Stack(2), RandomFourierRidge(30, 1e-2, raw_inputs=False), Recipe(), 0.0),
}


def recordings(missing: float, seed: int = 0) -> Trajectories:
    rng = RNG(seed)
    data = ragged([30, 36, 45, 28, 44], 3, rng, missing)  # two rectangles: JAX compiles for each
    return Trajectories(data.values, data.offsets, inputs=rng.standard_normal((len(data.values), 2)))


@cache
def learnt(name: str) -> tuple[Filter, Trajectories]:
    features, learner, recipe, missing = FILTERS[name]
    data = recordings(missing)
    return best(dagger(data, data, features, learner, rng=RNG(1), n_rounds=2, recipe=recipe)).filter, data


@cache
def by_jax(name: str) -> tuple[float, np.ndarray, list[np.ndarray]]:
    """The loss, its gradient, and the beliefs of each rectangle of recordings, compiled together."""
    filter, data = learnt(name)
    loop = closed_loop(form_of(filter, True))

    @jax.jit
    def all_at_once(weights: Any, fixed: Any, parts: Any) -> tuple[Any, list[Any]]:
        beliefs = [loop.rolled(weights, fixed, part, jax.numpy.zeros_like(part.y))[0] for part in parts]
        return jax.value_and_grad(loop.loss)(weights, fixed, parts), beliefs

    with jax.enable_x64(True):
        (value, gradient), beliefs = all_at_once(weights_of(filter), fixed_of(filter), tuple(parts_of(filter, data)))
        return float(value), np.asarray(gradient), [np.asarray(each) for each in beliefs]


@pytest.mark.parametrize("name", FILTERS)
def test_the_loop_is_the_filters(name: str) -> None:
    filter, data = learnt(name)
    plan = schedule(data.offsets)
    rows = example_rows(plan, filter.features.window)[0]
    after = np.concatenate([loop_beliefs(filter, part.values, part.inputs)[1:] for part in data])[plan.order]
    parts = by_jax(name)[2]
    assert len(parts) > 1  # the recordings differ too much in length for one rectangle
    for beliefs, grid in zip(parts, grids(plan, rows), strict=True):
        np.testing.assert_allclose(beliefs[grid >= 0], after[grid[grid >= 0]], rtol=0, atol=1e-10)
    if name == "linear, gaps, lags, last, box":
        assert filter.feedback.clipped(filter.feedback(after)).any()  # the box was at work


@pytest.mark.parametrize("name", FILTERS)
def test_gradients_are_finite_differences_of_the_filters_loss(name: str) -> None:
    """To 1e-5, entry by entry: the largest ones, some others, and one direction through all."""
    filter, data = learnt(name)
    value, gradient, _ = by_jax(name)
    assert value == pytest.approx(loss_by_hand(filter, data), rel=1e-12)
    weights = weights_of(filter)

    table = laid_out(filter, data)
    rows, targets = example_rows(table.layout.plan, filter.features.window)
    phi = filter.features(futures(table.layout.x, table.layout.plan, filter.features.window)[targets])

    def numpy_loss(weights: np.ndarray) -> float:
        moved = with_weights(filter, weights)
        return float(np.nanmean((roll(moved, table).beliefs[rows] - phi) ** 2, axis=0).sum())

    def slope(direction: np.ndarray, h: float) -> float:
        return (numpy_loss(weights + h * direction) - numpy_loss(weights - h * direction)) / (2 * h)

    scale = np.abs(gradient).max()
    order = np.argsort(np.abs(gradient).ravel())
    for entry in [*order[-2:], *RNG(0).choice(order[:-2], 2, replace=False)]:
        unit = np.zeros(weights.size)
        unit[entry] = 1.0
        own = slope(unit.reshape(weights.shape), 1e-5)
        assert own == pytest.approx(gradient.ravel()[entry], rel=1e-5, abs=1e-5 * scale)
    direction = gradient / np.linalg.norm(gradient)
    assert slope(direction, 1e-5) == pytest.approx(np.linalg.norm(gradient), rel=1e-5)
