"""Whether first rows teach: they do where lags before the first row may be taken for it, and where rows are few."""

import warnings
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

from psimlearn.baselines import Autoregression
from psimlearn.datasets import long_memory_system
from psimlearn.errors import DataError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Stack
from psimlearn.learners import Ridge
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, dagger

RNG = np.random.default_rng
GIVEN: dict[str, Any] = {"window": 3, "lags": 6, "n_rounds": 2, "init": "history", "random_state": 0}


def swinging(n: int, seed: int, length: int = 60, rest: int = 0) -> Trajectories:
    """Smooth motion of four channels in which recordings begin; with `rest`, nothing moves for so many rows before."""
    rng = RNG(seed)
    mix = RNG(0).standard_normal((6, 4))
    recordings = []
    for _ in range(n):
        time = np.maximum(np.arange(length) - rest, 0)[:, None]
        phase = rng.uniform(0, 2 * np.pi, 6) + np.array([0.11, 0.17, 0.23, 0.31, 0.37, 0.41]) * time
        waves = rng.uniform(0.5, 1.5, 6) * np.sin(phase)
        recordings.append(waves @ mix + 0.01 * rng.standard_normal((length, 4)))
    return Trajectories.of(recordings)


@cache
def in_motion(opening: bool = True) -> PSIM:
    return PSIM(**GIVEN, opening=opening).fit(swinging(20, 1))


@cache
def at_rest() -> PSIM:
    return PSIM(**GIVEN).fit(swinging(20, 1, rest=12))


def skipped(model: PSIM) -> int:
    return int(model.report_["choices"]["skip"])


def test_recordings_that_begin_in_motion_are_learnt_from_later_rows() -> None:
    model, all_rows = in_motion(), in_motion(opening=False)
    assert (skipped(model), skipped(all_rows)) == (10, 0)
    test = swinging(50, 2)
    ours, theirs = (errors_by_horizon(each.filter_, test, 3, skip=10) for each in (model, all_rows))
    assert (ours < 0.98 * theirs).all()


def test_beliefs_that_remember_for_long_are_learnt_from_all_rows() -> None:
    """Lags mislead there too, but a filter that has not seen how beliefs begin is 9 % above the optimum."""
    system = long_memory_system()
    model = PSIM(window=2, random_state=0).fit(system.simulate(100, 80, RNG(0)))
    assert skipped(model) == 0
    assert (
        errors_by_horizon(model.filter_, system.simulate(300, 80, RNG(1)), 1, skip=10)[0] < 1.03 * system.errors(1)[0]
    )


def test_recordings_that_begin_at_rest_are_learnt_from_all_rows() -> None:
    assert skipped(at_rest()) == 0


@pytest.mark.parametrize(
    "given", [{"recipe": Recipe(lags=6, prior="last")}, {"trainer": "forward"}, {"belief_weight": 1.0}]
)
def test_settings_that_leave_no_choice_keep_all_rows(given: dict[str, Any]) -> None:
    settings = {**GIVEN, "lags": "auto"} if "recipe" in given else GIVEN
    assert skipped(PSIM(**settings, **given).fit(swinging(20, 1))) == 0


def test_short_recordings_keep_all_rows() -> None:
    assert skipped(PSIM(**GIVEN).fit(swinging(20, 1, length=40))) == 0


def test_a_split_with_short_recordings_only_keeps_all_rows() -> None:
    """The long one is held out on one of the splits: there, no recording has a later row."""
    long, short = swinging(1, 1, length=400), swinging(2, 2, length=14)
    model = PSIM(**GIVEN, validation=0.34).fit([each.values for each in (*long, *short)])
    assert skipped(model) == 0


def test_shards_learn_as_the_sample_chose() -> None:
    model = PSIM(**GIVEN).fit(Shards.cut(swinging(40, 1), 2), sample_rows=1600)
    assert skipped(model) == 10
    test = swinging(50, 2)
    ours, theirs = (errors_by_horizon(each.filter_, test, 1, skip=10)[0] for each in (model, in_motion()))
    assert ours < 1.02 * theirs  # there are more recordings in the shards


def test_more_recordings_are_learnt_from_in_the_same_way() -> None:
    """Of long ones later rows, of short ones all rows: else these would teach nothing, in silence."""
    model, test = deepcopy(in_motion()), swinging(50, 2)
    before = errors_by_horizon(model.filter_, test, 1, skip=10)
    model.partial_fit(swinging(10, 3))
    assert 0.9 < errors_by_horizon(model.filter_, test, 1, skip=10) / before < 1.0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.partial_fit(swinging(10, 4, length=12))
    assert any("the error on the earlier examples rose by" in str(each.message) for each in said)


def test_without_first_rows_the_filter_is_an_autoregression() -> None:
    """Two ways to one number: the baseline sums its own examples, and takes those alone that have all their lags."""
    data, test = swinging(20, 1), swinging(5, 2)
    recipe = Recipe(lags=6, prior="last", belief_weight=0.0, skip=5)
    (first, *_) = dagger(data, test, Stack(3), Ridge(1e-4), rng=RNG(0), n_rounds=0, recipe=recipe)
    ours = first.filter.forecast(test, 3)
    theirs = Autoregression.fit(data, 6, 3, alpha=1e-4, prior="last").forecast(test, 3)
    later = np.concatenate(
        [np.arange(6, length) + start for start, length in zip(test.offsets, test.lengths, strict=False)]
    )
    np.testing.assert_allclose(ours[later], theirs[later], rtol=0, atol=1e-9)


def test_recordings_without_later_rows_are_refused() -> None:
    data = swinging(5, 1, length=12)
    with pytest.raises(DataError, match=r"skip: required a trajectory with .* at least 14, received at most 12"):
        list(dagger(data, data, Stack(3), Ridge(), rng=RNG(0), n_rounds=1, recipe=Recipe(skip=10)))


def test_files_remember_the_rows(tmp_path: Any) -> None:
    in_motion().save(tmp_path / "model.psim")
    assert skipped(PSIM.load(tmp_path / "model.psim")) == 10


def test_the_summary_tells_of_rows_left_out() -> None:
    assert "examples   without the first 10 rows of each recording, which misled" in in_motion().summary()
    assert "misled" not in at_rest().summary()
