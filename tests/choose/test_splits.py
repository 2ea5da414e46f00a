"""Splits: nothing held out is trained on, and too little data is told."""

from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.errors import PsimlearnWarning
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon, time_folds
from psimlearn.filter import Stack
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger

RNG = np.random.default_rng


SMALL: dict[str, Any] = {"window": 2, "n_rounds": 2, "validation": 0.5, "random_state": 0}


def recordings(seed: int = 0, missing: float = 0.0, n: int = 2) -> Trajectories:
    return ragged([30, 25, 40, 18, 33, 27], n, RNG(seed), missing)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("rows", "n_folds", "window"), [(40, 5, 3), (31, 4, 1), (100, 2, 10), (12, 3, 2)])
def test_no_training_target_reaches_into_the_test(rows: int, n_folds: int, window: int, shuffled: bool) -> None:
    recording = Trajectories.of(np.arange(float(rows))[:, None])
    tested: list[float] = []
    for train, test in time_folds(recording, n_folds, window, RNG(0) if shuffled else None):
        held = set(test.values[:, 0])
        tested += held
        for part in train:
            times = part.values[:, 0]
            assert (np.diff(times) == 1).all()  # no recording jumps over the test
            for t in times:
                assert held.isdisjoint(t + np.arange(-window, window + 1))
    assert sorted(tested) == list(range(rows))


def test_a_single_recording_is_cut_in_time() -> None:
    fitted = PSIM(**SMALL | {"validation": 0.25}).fit(recordings(n=1)[2].values)
    assert fitted.report_["splits"] == "4 splits, 4 recordings held out"
    assert fitted.report_["data"]["recordings"] == 1


def test_many_rows_are_split_once() -> None:
    fitted = PSIM(**SMALL | {"lags": 1, "learner": Ridge(1e-2)}).fit(RNG(0).standard_normal((50, 100, 1)))
    assert fitted.report_["splits"] == "1 split, 25 recordings held out"


@pytest.mark.parametrize("rows", [3, 10, 29])
@pytest.mark.parametrize("learner", ["ridge", "rff", "auto"])
def test_too_few_rows_are_told(rows: int, learner: str) -> None:
    x = RNG(0).standard_normal((rows, 2))
    with pytest.warns(PsimlearnWarning, match=rf"fit: too few rows \({rows}\) .* training errors, which say nothing"):
        fitted = PSIM(**SMALL | {"learner": learner}).fit(x)
    text = fitted.summary()
    assert f"note: too few rows ({rows}) to hold any out" in text
    assert "training error by steps ahead" in text
    assert "held-out error" not in text
    assert "*" not in text  # no method is the best, and no share of its error is told
    assert "one step ahead" not in text
    card = fitted._repr_html_inner()
    assert "training error by steps ahead" in card
    assert "held-out error" not in card
    assert "one step ahead" not in card
    assert "font-weight: bold" not in card[card.index("<table") :]
    assert fitted.report_["splits"] == "nothing held out"
    assert np.isfinite(fitted.forecast(x, 5)).all()
    assert np.isfinite(fitted.predict_interval(x)[0]).all()


def test_thirty_rows_are_enough() -> None:
    fitted = PSIM(**SMALL | {"lags": 1, "prior": "mean", "validation": 0.2}).fit(RNG(0).standard_normal((30, 1)))
    assert "too few rows" not in fitted.summary()


def test_short_recordings_are_left_out_and_told() -> None:
    data = [part.values for part in recordings()]
    settings = SMALL | {"learner": Ridge(1e-2), "lags": 1}
    with_short, without = PSIM(**settings).fit([*data, data[0][:2], data[1][:1]]), PSIM(**settings).fit(data)
    assert "2 of 8 recordings are no longer than the window" in with_short.summary()
    np.testing.assert_array_equal(with_short.forecast(data, 3), without.forecast(data, 3))
    with pytest.raises(ValueError, match="required a recording with more rows than the window, at least 3"):
        PSIM(**settings).fit([part[:2] for part in data])


def test_own_validation_recordings_are_used_as_they_are() -> None:
    data, held = recordings(), recordings(1)
    recipe = Recipe(lags=2)
    settings = SMALL | {"learner": Ridge(1e-3), "recipe": recipe, "validation": held}
    fitted = PSIM(**settings).fit(data)
    rounds = list(dagger(data, held, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=2, recipe=recipe, criterion="window"))
    np.testing.assert_allclose([r.error for r in fitted.rounds_], [r.error for r in rounds], rtol=1e-9)
    np.testing.assert_allclose(
        fitted.filter_.forecast(held, 3), best(rounds).filter.forecast(held, 3), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(fitted.filter_.scaling.mean, data.values.mean(axis=0), rtol=1e-12)
    assert fitted.report_["splits"] == "1 split, 6 recordings held out"
    errors = errors_by_horizon(best(rounds).filter, held, 2, skip=1, scale=best(rounds).filter.scaling.scale)
    np.testing.assert_allclose(fitted.report_["errors"]["PSIM"], errors, rtol=1e-9)
