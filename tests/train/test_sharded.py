"""Training over shards is training in memory, however the recordings are cut."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psimlearn.filter import Stack
from psimlearn.filter.features import StackSquares
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.catalogue import catalogued
from psimlearn.recordings.order import one_order
from psimlearn.recordings.passes import InTurn
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, dagger
from psimlearn.train.dagger import Aggregation, first_round, next_round
from psimlearn.train.score import Round, held_out
from psimlearn.train.sharded import Places, begin_sharded, settings_known

N_ROUNDS = 2
Case = tuple[dict[str, Any], Any, Any, Recipe, Any]


def silent(_: int, __: int) -> None:
    """Progress that nobody needs."""


def recordings(m: int = 24, inputs: int = 0, missing: float = 0.0) -> Trajectories:
    """A linear system of four states, seen in three channels of other units; some recordings are too short."""
    rng = np.random.default_rng(0)
    A, C = 0.95 * np.linalg.qr(rng.standard_normal((4, 4)))[0], rng.standard_normal((3, 4))
    B = rng.standard_normal((4, max(inputs, 1))) * (inputs > 0)
    xs, us = [], []
    for i in range(m):
        T = 3 + (7 * i) % 40
        s, x, u = rng.standard_normal(4), np.empty((T, 3)), rng.standard_normal((T, max(inputs, 1)))
        for t in range(T):
            x[t] = C @ s + 0.3 * rng.standard_normal(3)
            s = A @ s + B @ u[t] + 0.3 * rng.standard_normal(4)
        x = x * [1, 10, 0.1] + [0, 5, 0]
        x[1:][rng.random((T - 1, 3)) < missing] = np.nan
        xs.append(x)
        us.append(u)
    return Trajectories.of(xs, us if inputs else None)


# ridges are large enough that no filter of so few rows is nearly unstable: such a filter magnifies rounding, see below
CASES: dict[str, Case] = {
    "ridge": ({}, Stack(4), Ridge(1e-2), Recipe(lags=2), "history"),
    "random features": ({}, Stack(3), RandomFourierRidge(40, 1e-3), Recipe(), "history"),
    "inputs": ({"inputs": 2}, Stack(4), Ridge(1e-4), Recipe(lags=2, feedthrough=True), "history"),
    "gaps": ({"missing": 0.1}, Stack(4), Ridge(1e-3), Recipe(lags=2), "history"),
    "squares with gaps": ({"missing": 0.1}, StackSquares(3), Ridge(1e-3), Recipe(), "history"),
    "rank": ({}, Stack(4), Ridge(1e-2), Recipe(lags=2, rank=5), "history"),
    "level weight": ({}, Stack(4), Ridge(1e-3), Recipe(lags=3, prior="last", level_weight=0.1), "history"),
    "cross weight": ({}, Stack(4), Ridge(1e-2), Recipe(lags=3, cross_weight=0.3), "history"),
    "cross weight, level weight": (
        {},
        Stack(4),
        Ridge(1e-3),
        Recipe(lags=3, prior="last", level_weight=0.1, cross_weight=0.3),
        "history",
    ),
    "random features, level weight": (
        {},
        Stack(3),
        RandomFourierRidge(40, 1e-3),
        Recipe(lags=2, prior="last", level_weight=0.1),
        "history",
    ),
    "first rows skipped": ({}, Stack(4), Ridge(1e-2), Recipe(lags=4, prior="last", skip=3), "history"),
    "random features, first rows skipped": (
        {},
        Stack(3),
        RandomFourierRidge(40, 1e-3),
        Recipe(lags=2, prior="last", level_weight=0.1, skip=5),
        "history",
    ),
    "system, first rows skipped": ({}, Stack(4), Ridge(1e-4), Recipe(states=4, past=4, skip=5), "history"),
    "rank, first rows skipped": ({}, Stack(4), Ridge(1e-2), Recipe(lags=2, rank=5, skip=5), "history"),
    "zero": ({}, Stack(4), Ridge(1e-4), Recipe(lags=2), "zero"),
    "teacher": ({}, Stack(4), Ridge(1e-2), Recipe(), "teacher"),
    "system": ({}, Stack(4), Ridge(1e-4), Recipe(states=4, past=4), "history"),
    "published": ({}, Stack(4), Ridge(1e-2, intercept=False), Recipe.as_published(), "zero"),
}


def trained_in_memory(data: Trajectories, test: Trajectories, case: Case) -> list[Round]:
    _, features, learner, recipe, init = case
    rng = np.random.default_rng(1)
    return list(dagger(data, test, features, learner, rng=rng, n_rounds=N_ROUNDS, recipe=recipe, init=init))


def trained_on_shards(data: Trajectories, test: Trajectories, case: Case, n_shards: int) -> Iterator[Aggregation]:
    _, features, learner, recipe, init = case
    catalogue = catalogued(Shards.cut(data, n_shards), InTurn(), silent)
    learnt, known = settings_known(catalogue, features, init, recipe)
    begun = begin_sharded(Places(learnt, InTurn(), silent), known, learner, np.random.default_rng(1))
    held = held_out(begun.filter, test, "one-step")
    current = first_round(begun, held)
    yield current
    for _ in range(N_ROUNDS):
        current = next_round(current, begun, held)
        yield current


def drawn_for(case: Case) -> tuple[Trajectories, Trajectories, Trajectories]:
    """Recordings, those of them that are long enough, in one order, and others for a test."""
    data, test = recordings(**case[0]), recordings(8, **case[0])
    long = data[data.lengths > case[1].window]
    return data, long[one_order(long)], test[test.lengths > 8]  # random features compare rows in this order


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n_shards", [1, 7, 64])
def test_shards_train_as_memory_does(name: str, n_shards: int) -> None:
    data, long, test = drawn_for(CASES[name])
    in_memory = trained_in_memory(long, test, CASES[name])
    for current, expected in zip(trained_on_shards(data, test, CASES[name], n_shards), in_memory, strict=True):
        wanted = expected.filter.forecast(test, 3)
        close = {"rtol": 1e-10, "atol": 1e-10 * np.abs(wanted).max()}
        np.testing.assert_allclose(current.filter.forecast(test, 3), wanted, **close)
        np.testing.assert_allclose(current.filter.covariance, expected.filter.covariance, rtol=1e-9, atol=1e-10)
        assert current.dropped == expected.dropped


@pytest.mark.parametrize("name", ["ridge", "rank", "teacher", "published"])
def test_a_filter_near_instability_differs_by_magnified_rounding_alone(name: str) -> None:
    """With a small ridge, shards move predictions up to 1e-9; so does, in memory, the last bit of the recordings."""
    given, features, learner, recipe, init = CASES[name]
    case = given, features, replace(learner, alpha=1e-4), recipe, init
    data, long, test = drawn_for(case)
    nearly = replace(
        long,
        values=np.where(
            np.random.default_rng(0).random(long.values.shape) < 0.5, long.values, np.nextafter(long.values, np.inf)
        ),
    )
    rounds = zip(
        trained_on_shards(data, test, case, 7),
        trained_in_memory(long, test, case),
        trained_in_memory(nearly, test, case),
        strict=True,
    )
    for current, expected, other in rounds:
        wanted = expected.filter.forecast(test, 3)
        size = np.abs(wanted).max()
        by_last_bits = np.abs(other.filter.forecast(test, 3) - wanted).max() / size
        by_shards = np.abs(current.filter.forecast(test, 3) - wanted).max() / size
        assert by_shards <= 10 * by_last_bits + 1e-10
        assert by_shards <= 1e-7
