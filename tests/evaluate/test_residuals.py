"""Errors of a filter on recordings it has not seen: correlations, coverage of intervals, surprises."""

from dataclasses import replace

import numpy as np
import pytest
from statsmodels.tsa.stattools import acf

from models import gappy, model_of_gappy
from psimlearn import PSIM, Trajectories
from psimlearn.evaluate import residuals as measures
from psimlearn.evaluate.calibrate import with_calibration
from small import driven, with_inputs


@pytest.fixture
def data() -> Trajectories:
    return gappy(1)


@pytest.fixture
def model() -> PSIM:
    return model_of_gappy()


def test_autocorrelation_is_that_of_statsmodels() -> None:
    x = np.random.default_rng(0).standard_normal((300, 2)).cumsum(axis=0)
    ours = measures.autocorrelation([x], 5)
    for c in range(2):
        theirs = acf(x[:, c], adjusted=True, nlags=5)[1:]
        np.testing.assert_allclose(ours[:, c], theirs, rtol=1e-10)


def test_autocorrelation_stays_within_recordings_and_skips_gaps() -> None:
    first, second = np.array([[1.0], [-1.0], [1.0]]), np.array([[-1.0], [np.nan], [-1.0], [1.0]])
    assert np.nanmean(np.concatenate([first, second])) == 0
    # one row apart: 1 -1, -1 1 | -1 1; two apart: 1 1 | -1 -1, and the pair of which one is missing does not count
    np.testing.assert_allclose(measures.autocorrelation([first, second], 2)[:, 0], [-1.0, 1.0], atol=1e-12)
    still = np.zeros((4, 1))
    assert np.isnan(measures.autocorrelation([still], 1)).all()


def test_correlation_is_that_of_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((50, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0], [0.2, 0, 1]])
    np.testing.assert_allclose(measures.correlation([x[:20], x[20:]]), np.corrcoef(x.T), rtol=1e-10)
    x[3, 1] = np.nan
    np.testing.assert_allclose(measures.correlation([x]), np.corrcoef(np.delete(x, 3, 0).T), rtol=1e-10)
    assert measures.correlation([x[3:4]]).tolist() == np.eye(3).tolist()


def test_coverage_is_counted(model: PSIM, data: Trajectories) -> None:
    low, high = model.predict_interval(data, 2, 0.5)
    inside = [
        (part.values[2:] >= low[i][2:])[~np.isnan(part.values[2:])]
        & (part.values[2:] <= high[i][2:])[~np.isnan(part.values[2:])]
        for i, part in enumerate(data)
    ]
    np.testing.assert_allclose(measures.coverage(model.filter_, data, 2, [0.5]), [np.concatenate(inside).mean()])


def test_nothing_is_calibrated_where_it_is_judged(model: PSIM) -> None:
    crossed = measures.cross_calibrated(model.held_out_)
    assert len(crossed) == 2 * len(model.held_out_)
    for (bare, _), (filter, here), (_, there) in zip(model.held_out_, crossed[::2], crossed[1::2], strict=True):
        assert set(here.ids or ()).isdisjoint(there.ids or ())
        expected = with_calibration(bare, [(bare, there)]).calibration
        assert expected is not None
        assert filter.calibration is not None
        np.testing.assert_array_equal(filter.calibration.base, expected.base)


def test_the_row_that_was_pushed_is_the_most_surprising(model: PSIM, data: Trajectories) -> None:
    values = [part.values.copy() for part in data]
    values[4][20, 1] += 50
    values[7][30, 1] -= 20
    pushed = Trajectories.of(values, names=data.names)
    first, second = measures.surprises(model.filter_, pushed, 2, apart=3)
    assert (first.recording, first.row, first.channel) == (4, 20, 1)
    assert (second.recording, second.row, second.channel) == (7, 30, 1)
    assert first.deviations > 0 > second.deviations
    np.testing.assert_allclose(first.nats, model.score_samples(pushed)[4][20])


@pytest.mark.parametrize(("gaps", "longest"), [([1, 2], 0), ([1, None, None, 2, None], 2), ([None, None], 2)])
def test_longest_gap(gaps: list[float | None], longest: int) -> None:
    assert measures.longest_gap(np.array([np.nan if g is None else g for g in gaps], dtype=float)) == longest


def test_coverage_without_the_coming_inputs_is_known_for_filters_that_fill_gaps_in() -> None:
    """Their spreads have a part for rows just before that were not seen, which is nothing here."""
    filter, data = driven().filter_, with_inputs(6, seed=3)
    filled = measures.coverage(replace(filter, gaps="filled"), data, 2, [0.5, 0.9], inputs_known=False)
    np.testing.assert_allclose(filled, measures.coverage(filter, data, 2, [0.5, 0.9], inputs_known=False))
    assert 0 < filled[0] < filled[1] <= 1
