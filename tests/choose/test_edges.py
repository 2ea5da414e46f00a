"""Grids of random features grow beyond their edges, and no further than their ends."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.edges import BANDWIDTHS, RIDGES, Axis, Point, around, at_the_end
from psimlearn.choose.report import on_the_edge
from psimlearn.estimator.psim import PSIM
from psimlearn.learners import RandomFourierRidge
from psimlearn.train.recipe import Recipe

GRID = [Point(a, b) for a, b in product((1e-7, 1e-5, 1e-3), (1.0, 4.0))]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2.0, (1.0, 4.0)), (1.0, (0.25, 2.0)), (4.0, (2.0, 16.0)), (0.25, (0.25, 1.0)), (100.0, (4.0, 128.0))],
)
def test_an_axis_goes_on_a_factor_beyond_the_values_tried(value: float, expected: tuple[float, float]) -> None:
    tried = {1.0, 2.0, 4.0, value}
    assert Axis(0.25, 128.0, 4.0).beside(value, tried) == pytest.approx(expected)


def test_beyond_a_corner_both_settings_change() -> None:
    beyond = around(Point(1e-7, 4.0), GRID)
    assert {(f"{a:.0e}", b) for a, b in beyond} == {("1e-09", 4.0), ("1e-07", 16.0), ("1e-09", 16.0)}
    (stronger,) = [p for p in around(Point(1e-3, 4.0), GRID) if p.bandwidth_factor == 4.0]
    assert stronger.alpha == pytest.approx(0.1)


def test_nothing_is_tried_beside_a_point_inside() -> None:
    grid = [*GRID, *(Point(a, 16.0) for a in (1e-7, 1e-5, 1e-3))]
    assert around(Point(1e-5, 4.0), grid) == []


@pytest.mark.parametrize("best", [(1e-9, 64.0), (1e-30, 1e9), (1e9, 1e-9), (1e-5, 2.0)])
def test_growing_ends_at_the_best_point_or_at_an_end(best: tuple[float, float]) -> None:
    """An error with one minimum, in a valley where a wider bandwidth wants a weaker ridge."""

    def error(point: Point) -> float:
        a, b = np.log10(point) - np.log10(best)
        return float((a + 2 * b) ** 2 + 0.1 * b**2)

    tried = list(GRID)
    while added := around(min(tried, key=error), tried):
        tried += added
    found = min(tried, key=error)
    assert all(RIDGES.least <= p.alpha <= RIDGES.most for p in tried)
    assert all(BANDWIDTHS.least <= p.bandwidth_factor <= BANDWIDTHS.most for p in tried)
    assert len(tried) < 60
    assert at_the_end(found) or error(found) < 1.2


def test_a_fit_of_random_features_ends_inside_the_points_tried() -> None:
    """Whatever was best before the first round: all points beside it were tried, or it lies at an end."""
    rng = np.random.default_rng(0)
    model = PSIM(2, learner="rff", n_rounds=2, validation=0.5, random_state=0).fit(ragged([60, 50, 70, 40], 2, rng))
    first = [t for t in model.trials_ if t["learner"] == "RandomFourierRidge" and t["n_rounds"] == 0]
    best = min(first, key=lambda t: t["error"])
    tried = [_point(t) for t in first if t["lags"] == best["lags"] and t["belief_weight"] == best["belief_weight"]]
    assert len({p.bandwidth_factor for p in tried}) >= 2
    assert around(_point(best), tried) == []


def _point(trial: dict[str, Any]) -> Point:
    return Point(trial["alpha"], trial["bandwidth_factor"])


@pytest.mark.parametrize(
    ("alpha", "factor", "said"),
    [
        (1e-11, 4.0, "the ridge 1e-11 of the random features lies at the end"),
        (1e-11, 128.0, "the ridge 1e-11 and the bandwidth factor 128 of the random features lie at the end"),
        (1e-5, 0.25, "the bandwidth factor 0.25 of the random features lies at the end"),
        (1e-5, 4.0, None),
    ],
)
def test_the_summary_says_if_the_choice_lies_at_the_end(alpha: float, factor: float, said: str | None) -> None:
    learner = RandomFourierRidge(10, alpha, bandwidth_factor=factor)
    notes = on_the_edge(Trial(Candidate(Recipe(), learner), 1, 1, 0.5, 10))
    assert [note.startswith(said or "") for note in notes] == [True] * (said is not None)


def test_a_learner_that_was_given_stays_as_it_is() -> None:
    data = ragged([30, 25, 40], 1, np.random.default_rng(0))
    model = PSIM(2, learner=RandomFourierRidge(10, 1e-11), n_rounds=1, random_state=0).fit(data)
    assert {(t["alpha"], t["bandwidth_factor"]) for t in model.trials_} == {(1e-11, 1.0)}
    assert "end of the grid" not in model.summary()  # it was not chosen there
