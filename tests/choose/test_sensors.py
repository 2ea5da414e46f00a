"""Recordings in which a sensor is absent throughout: learnt from only where that is clearly better."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Ridge, Shards, Trajectories
from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.report import Choice
from psimlearn.choose.sensors import all_or_complete
from psimlearn.choose.splits import Split
from psimlearn.datasets import random_system
from psimlearn.filter import Filter
from psimlearn.recordings.completeness import complete
from psimlearn.train.recipe import Recipe
from psimlearn.train.score import Round

RNG = np.random.default_rng
SYSTEM = random_system(RNG(0))


def recordings(m: int, absent: int, seed: int = 0) -> Trajectories:
    """Recordings of 30 rows; the first `absent` of them lack channel 1 throughout, the last of them lacks some rows."""
    x = np.stack([part.values for part in SYSTEM.simulate(m, 30, RNG(seed))])
    x[:absent, :, 1] = np.nan
    x[-1, 3:6] = np.nan
    return Trajectories.of(x)


def worse(factor: float) -> Filter:
    """The filter that knows the system, with predictions that are off by a factor."""
    known = SYSTEM.predictive_filter(2)
    return replace(known, scaling=known.scaling._replace(scale=known.scaling.scale * factor))


def choice_of(filter: Filter, splits: list[Split]) -> Choice:
    trial = Trial(Candidate(Recipe(), Ridge()), 0, 0, 0.5, 10)
    return Choice(trial, [trial], [], [Round(0, filter, 0.5, 0.0, 0) for _ in splits], splits, {}, "")


def test_a_recording_is_complete_if_each_channel_was_seen_once() -> None:
    assert complete(recordings(5, 2)).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(("ours", "others", "kept"), [(1.0, 1.0, 6), (1.0, 0.5, 10), (0.5, 1.0, 6)])
def test_all_recordings_are_learnt_from_if_that_is_clearly_better(ours: float, others: float, kept: int) -> None:
    data, held = recordings(10, 4), recordings(6, 3, seed=1)
    asked: list[list[Split]] = []

    def choose(splits: list[Split]) -> Choice:
        asked.append(splits)
        return choice_of(worse(others), splits)

    before = choice_of(worse(ours), [Split(data, held)])
    choice, everything, notes = all_or_complete(before, data, choose)
    (((train, scored),),) = asked
    assert (len(train), len(scored)) == (6, 3)
    assert len(everything) == kept
    assert (choice is before) == (kept == 10)
    assert [note[:21] for note in notes] == ([] if kept == 10 else ["left out 4 recordings"])


def test_without_complete_recordings_nothing_else_is_tried() -> None:
    def refuses(splits: list[Split]) -> Any:
        raise AssertionError("required no other choice, received splits")

    for data, held in ((recordings(10, 0), recordings(6, 3)), (recordings(10, 10), recordings(6, 3))):
        before = choice_of(worse(1.0), [Split(data, held)])
        assert all_or_complete(before, data, refuses) == (before, data, [])
    data = recordings(10, 4)
    before = choice_of(worse(1.0), [Split(data, data)])  # nothing was held out
    assert all_or_complete(before, data, refuses) == (before, data, [])


def test_a_fit_says_which_recordings_it_left_out() -> None:
    data = recordings(40, 20)
    model = PSIM(window=2, lags=1, prior="mean", n_rounds=2, random_state=0).fit(data)
    alone = PSIM(window=2, lags=1, prior="mean", n_rounds=2, random_state=0).fit(data[20:])
    test = recordings(30, 0, seed=2)
    truth = test.values[:, None]
    errors = [np.nanmean((each.filter_.forecast(test, 1) - truth) ** 2) for each in (model, alone)]
    assert errors[0] == pytest.approx(errors[1], rel=0.02)
    left_out = [note for note in model.report_["notes"] if "missing throughout" in note]
    assert [note.split(" in ")[0] for note in left_out] == ["left out 20 recordings"]


def test_a_fit_on_shards_leaves_them_out_of_all_shards() -> None:
    data, given = recordings(80, 40), {"learner": Ridge(1e-3), "recipe": Recipe(lags=1), "n_rounds": 1}
    model = PSIM(window=2, validation=0.5, random_state=0, **given).fit(Shards.cut(data, 3), sample_rows=1500)
    (note,) = (note for note in model.report_["notes"] if "missing throughout" in note)
    assert note.startswith("left out 40 recordings ")  # of all shards, not of the sample
    examples = model.sums_.n / (model.n_rounds_ + 1)
    assert examples == 40 * (30 - 2)
