"""When a run ends because it trails a rival: by hand, from the errors of its rounds."""

from typing import Any, cast

import numpy as np
import pytest

import psimlearn.choose.runs
from psimlearn.choose.candidates import Candidate
from psimlearn.choose.runs import Lane, Run, _trails
from psimlearn.learners import Ridge
from psimlearn.train import Recipe, Round


def run(*errors: float, belief_weight: float = 1.0) -> Run:
    """A run whose rounds had these errors; on another course they are thrice as large, which changes no ratio."""
    nothing = cast(Any, None)
    lanes = [
        Lane(nothing, None, tuple(Round(i, nothing, factor * error, 0.0, 0) for i, error in enumerate(errors)))
        for factor in (1.0, 3.0)
    ]
    return Run(Candidate(Recipe(belief_weight=belief_weight), Ridge()), tuple(lanes))


FLAT = run(*[1.0] * 9)


@pytest.mark.parametrize(
    ("errors", "upto", "trails"),
    [
        # 8 % less each round: 1.38 x .92^k is above 1 after three rounds more, and below after four
        ((1.63, 1.5, 1.38), 5, True),
        ((1.63, 1.5, 1.38), 6, False),
        ((1.5, 1.5, 1.5), 99, True),
        ((1.5, 1.5, 1.6), 99, True),
        # no more than 5 % behind
        ((1.05, 1.05, 1.05), 9, False),
        ((1.06, 1.06, 1.06), 9, True),
        ((0.9, 0.8, 0.7), 9, False),
        # two rounds tell no pace, and what is not finite tells nothing
        ((1.5,), 9, False),
        ((1.5, 1.6), 9, False),
        ((1.5, np.inf, 1.5), 9, False),
    ],
)
def test_a_run_trails_if_it_would_not_catch_up_at_its_pace(errors: tuple[float, ...], upto: int, trails: bool) -> None:
    assert _trails(run(*errors), FLAT, upto) == trails


def test_the_same_round_of_the_rival_counts() -> None:
    behind = run(2.0, 1.9, 1.9)
    assert _trails(behind, run(9.0, 1.0, 1.0), 9)
    assert not _trails(behind, run(1.0, 1.0, 1.9), 9)
    assert not _trails(behind, run(1.0, 1.0), 9)  # it has not come so far
    assert _trails(behind, run(1.0, belief_weight=0.0), 9)  # nothing changes in it
    assert not _trails(behind, run(2.0, belief_weight=0.0), 9)
    assert not _trails(behind, run(1.0, np.inf, 1.0), 9)


@pytest.mark.parametrize(
    ("errors", "trails"),
    [
        ((1.5, 1.6), True),  # its error rose
        ((1.5, 1.5), False),
        ((1.04, 1.045), False),  # little behind
        ((1.002, 1.002, 1.002), True),
        ((1.0009, 1.0009, 1.0009), False),
    ],
)
def test_where_rounds_take_long_less_is_enough(
    errors: tuple[float, ...], trails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psimlearn.choose.runs, "_wide", lambda _: True)
    assert _trails(run(*errors), FLAT, 9) == trails
