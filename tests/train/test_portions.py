"""Shards of several portions: recordings that are held out have no part in a fit, wherever they stand."""

from typing import Any

import numpy as np
import pytest

from psimlearn.filter import Filter, Stack
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings import passes
from psimlearn.recordings.catalogue import catalogued
from psimlearn.recordings.order import one_order
from psimlearn.recordings.passes import InTurn, Portion, in_pairs, plus, portions
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, dagger
from psimlearn.train.dagger import first_round, next_round
from psimlearn.train.portions import Known, scales
from psimlearn.train.score import held_out
from psimlearn.train.sharded import Places, begin_sharded, settings_known

RNG = np.random.default_rng
HELD = [1, 4, 5, 11, 17, 22]
LENGTHS = [(7 * i) % 40 + 8 for i in range(24)]
CASES: dict[str, tuple[Any, Recipe, float]] = {
    "ridge": (Ridge(1e-2), Recipe(lags=2), 0.0),
    "gaps": (Ridge(1e-2), Recipe(lags=2), 0.1),
    "random features": (RandomFourierRidge(40, 1e-2), Recipe(), 0.0),
    "level weight": (Ridge(1e-2), Recipe(lags=2, prior="last", level_weight=0.1), 0.0),
    "system": (Ridge(1e-2), Recipe(states=2, past=4), 0.0),
}


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three to eight recordings each."""
    monkeypatch.setattr(passes, "PORTION", 200)


def recordings(missing: float = 0.0, wild: float = 0.0) -> Trajectories:
    """A rotation seen with noise; those that are held out may be something else."""
    rng, parts = RNG(0), []
    for i, length in enumerate(LENGTHS):
        angle = rng.uniform(0, 6) + 0.3 * np.arange(length)
        x = np.column_stack([np.sin(angle), 10 * np.cos(angle)]) + 0.3 * rng.standard_normal((length, 2))
        x[1:][rng.random((length - 1, 2)) < missing] = np.nan
        parts.append(x + wild * RNG(i).standard_normal(x.shape) if i in HELD else x)
    return Trajectories.of(parts)


def known(held: list[tuple[int, int]]) -> Known:
    return Known(Stack(2), Recipe(), "history", 1, False, np.array(held, dtype=np.int64).reshape(-1, 2))


def test_held_out_recordings_by_hand() -> None:
    """They are named by their shard and their place in it; a portion begins anywhere in its shard."""
    data = recordings()[[0, 1, 2]]
    held = known([(0, 4), (1, 3), (1, 6), (1, 7), (1, 2)])
    assert held.learns_from(Portion(data, 0, 3)).tolist() == [True, False, True]
    assert held.learns_from(Portion(data, 1, 4)).tolist() == [True, True, False]
    assert held.learns_from(Portion(data, 1, 0)).tolist() == [True, True, False]
    assert held.learns_from(Portion(data, 2, 3)).tolist() == [True, True, True]
    assert held.usable(Portion(data[:1], 1, 6)) is None


def test_sums_of_portions_are_numpys_over_the_recordings_that_are_left() -> None:
    data = recordings()
    some = [scales((known([(1, i) for i in HELD]),), portion) for portion in portions(data, 1)]
    assert len(some) > 4
    total = in_pairs(some, plus)
    assert total is not None
    left, found = np.concatenate([part.values for i, part in enumerate(data) if i not in HELD]), total.channels
    np.testing.assert_array_equal(found.seen, len(left))
    np.testing.assert_allclose(found.mean * found.largest, left.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.std * found.largest, left.std(axis=0), rtol=1e-10)
    np.testing.assert_array_equal([found.low, found.high], [left.min(axis=0), left.max(axis=0)])


def trained(name: str, data: Trajectories, n_shards: int) -> Filter:
    """After one more round, on shards."""
    learner, recipe, _ = CASES[name]
    catalogue = catalogued(Shards.cut(data, n_shards), InTurn(), passes.silent)
    learnt, settings = settings_known(catalogue, Stack(3), "history", recipe, HELD)
    begun = begin_sharded(Places(learnt, InTurn(), passes.silent), settings, learner, RNG(1))
    held = held_out(begun.filter, recordings(), "one-step")
    return next_round(first_round(begun, held), begun, held).filter


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n_shards", [1, 3])
def test_what_held_out_recordings_hold_changes_no_bit(name: str, n_shards: int) -> None:
    plain, wild = (trained(name, recordings(CASES[name][2], wild), n_shards) for wild in (0.0, 50.0))
    others = recordings()
    np.testing.assert_array_equal(plain.forecast(others, 3), wild.forecast(others, 3))
    np.testing.assert_array_equal(plain.covariance, wild.covariance)
    np.testing.assert_array_equal(plain.scaling.scale, wild.scaling.scale)


@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_that_in_memory_without_them(name: str) -> None:
    learner, recipe, missing = CASES[name]
    data = recordings(missing)
    left = data[[i for i in range(len(data)) if i not in HELD]]
    left = left[one_order(left)]
    rounds = dagger(left, recordings(), Stack(3), learner, rng=RNG(1), n_rounds=1, recipe=recipe)
    expected = list(rounds)[-1].filter
    found, wanted = (filter.forecast(recordings(), 3) for filter in (trained(name, data, 2), expected))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
