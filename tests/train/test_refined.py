"""Training on with gaps as they are: nearer to the Kalman filter, round by round."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from psimlearn.datasets import LinearSystem, noisy_pendulum, random_system
from psimlearn.filter import Filter, Stack
from psimlearn.filter.innovations import has_innovations
from psimlearn.learners import ByOutput, GramSums, RandomFourierRidge, Ridge
from psimlearn.learners.gaussian import GaussianLearner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.dagger import Aggregation, first_round, next_round
from psimlearn.train.ground import ground
from psimlearn.train.recipe import Recipe
from psimlearn.train.refined import FADING, can_be_refined, refined
from psimlearn.train.score import forgets, held_out
from psimlearn.train.start import Beginning, begin

RNG = np.random.default_rng
SEEDS, ROUNDS = [2, 4, 5, 7], 6


def cut(data: Trajectories, share: float, rng: np.random.Generator) -> Trajectories:
    """The recordings without a share of their entries."""
    values = data.values.copy()
    values[rng.random(values.shape) < share] = np.nan
    return Trajectories.of(np.split(values, len(data)))


class Course(NamedTuple):
    system: LinearSystem
    begun: Beginning
    test: Trajectories
    filled: Aggregation
    rounds: list[Aggregation]

    def distance(self, filter: Filter) -> float:
        """The mean squared distance to the Kalman filter that skips, in standard deviations of each channel."""
        kalman = self.system.time_varying_kalman().forecast(self.test, 1)[:, 0]
        return float(np.mean(((filter.forecast(self.test, 1)[:, 0] - kalman) / filter.scaling.scale) ** 2))


def error_of(round: Aggregation) -> float:
    return round.error


@cache
def course(seed: int) -> Course:
    """A linear system of which half of the entries are missing, in training and in use."""
    system, rng = random_system(RNG(seed)), RNG(100 + seed)
    train, validation, test = (cut(system.simulate(m, 40, rng), 0.5, rng) for m in (200, 100, 100))
    begun = begin(ground(train, Stack(2), "history", Recipe()), Ridge(1e-4), "history", Recipe(), RNG(0))
    held = held_out(begun.filter, validation, "one-step")
    filled = first_round(begun, held)
    for _ in range(2):
        filled = min(filled, next_round(filled, begun, held), key=error_of)
    return Course(system, begun, test, filled, list(refined(filled.filter, begun, held, ROUNDS)))


def test_refined_filters_are_nearer_to_the_kalman_filter() -> None:
    """Measured: .47, .11, .18 and .29 times the squared distance of filters whose gaps are filled in."""
    ratios = []
    for seed in SEEDS:
        each = course(seed)
        best = min((round for round in each.rounds if forgets(round.filter)), key=error_of)
        assert each.filled.filter.gaps == "filled"
        assert best.filter.gaps == "exact"
        ratios.append(each.distance(best.filter) / each.distance(each.filled.filter))
    assert max(ratios) < 0.9, ratios
    assert np.median(ratios) < 0.6, ratios


@pytest.mark.parametrize("seed", SEEDS)
def test_the_covariance_of_errors_settles(seed: int) -> None:
    """It is measured with the gaps that it says itself: it must not swing between too small and too large."""
    each = course(seed)
    unit = each.filled.filter.scaling.scale
    true = np.linalg.inv(np.linalg.cholesky(each.system.stationary.V / np.outer(unit, unit)))
    for round in each.rounds[1:]:
        relative = np.linalg.eigvalsh(true @ round.filter.covariance @ true.T)
        assert relative.min() > 0.5, (round.number, relative)
        assert relative.max() < 2.0, (round.number, relative)


def test_rounds_go_on_from_the_start_and_fade() -> None:
    each = course(SEEDS[0])
    assert [round.number for round in each.rounds] == list(range(ROUNDS + 1))
    begun, first, second = each.begun, *each.rounds[1:3]
    assert isinstance(begun.sums, GramSums)
    assert isinstance(second.sums, ByOutput)
    seen = [part.n - FADING * begun.sums.n for part in first.sums.parts]  # the rows in which each output was seen
    share = np.array(seen) / begun.sums.n
    np.testing.assert_allclose(share, 0.5, atol=0.03)
    np.testing.assert_allclose(
        [part.n for part in second.sums.parts], np.array(seen) * (1 + FADING) + FADING**2 * begun.sums.n
    )


def test_only_some_filters_can_be_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    each = course(SEEDS[0])
    filter, begun = each.filled.filter, each.begun
    assert can_be_refined(filter, begun)
    assert not can_be_refined(filter, begun._replace(learner=GaussianLearner()))
    in_turn = replace(filter, regressors=filter.regressors * 2)
    assert not has_innovations(in_turn)
    assert not can_be_refined(in_turn, begun)
    monkeypatch.setattr("psimlearn.train.refined.MOST_ENTRIES", 6**2 * 4 - 1)  # 6 inputs, 4 outputs
    assert not can_be_refined(filter, begun)
    monkeypatch.setattr("psimlearn.train.refined.MOST_ENTRIES", 6**2 * 4)
    assert can_be_refined(filter, begun)


def test_random_features_are_refined_as_well() -> None:
    rng = RNG(0)
    train, validation = (cut(noisy_pendulum(m, 30, rng), 0.3, rng) for m in (60, 30))
    learner = RandomFourierRidge(20, 1e-3)
    begun = begin(ground(train, Stack(2), "history", Recipe()), learner, "history", Recipe(), RNG(0))
    held = held_out(begun.filter, validation, "one-step")
    filled = next_round(first_round(begun, held), begun, held)
    rounds = list(refined(filled.filter, begun, held, 3))
    assert min(round.error for round in rounds) < 1.05 * filled.error
    assert all(np.isfinite(round.error) for round in rounds)
    assert isinstance(rounds[-1].sums, ByOutput)
