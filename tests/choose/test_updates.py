"""The report after more recordings, by hand; what a model says of them is tested with `partial_fit`."""

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Trajectories
from psimlearn.choose.updates import error_on_sums, updated, warned
from psimlearn.errors import PsimlearnWarning
from psimlearn.filter import Filter, Linear
from psimlearn.learners import Ridge
from psimlearn.learners.blackbox import Stacked
from small import ONE, several

RNG = np.random.default_rng


@cache
def fitted() -> PSIM:
    return PSIM(**ONE).fit(several())


def mapping(weights: np.ndarray, intercept: np.ndarray) -> Filter:
    """A filter whose regressor is this one; nothing else of it counts here."""
    return replace(fitted().filter_, regressors=(Linear(np.zeros((6, 4)), np.zeros(4)), Linear(weights, intercept)))


def test_the_error_on_sums_is_that_on_the_examples() -> None:
    """Of the last regressor, from Gram sums and from the examples themselves; other sums do not tell."""
    rng = RNG(0)
    z, y, weights, intercept = (rng.standard_normal(shape) for shape in ((50, 6), (50, 4), (6, 4), 4))
    expected = np.mean(np.sum((y - z @ weights - intercept) ** 2, axis=1))
    filter = mapping(weights, intercept)
    assert error_on_sums(filter, Ridge().summarise(z, y)) == pytest.approx(expected, rel=1e-12)
    assert error_on_sums(filter, Stacked(z, y, np.zeros(50))) == pytest.approx(expected, rel=1e-12)
    assert error_on_sums(filter, None) is None
    assert error_on_sums(filter, Ridge().summarise(z[:, :5], y)) is None
    perfect = Ridge().summarise(z, z @ weights + intercept)
    assert 0 < (error_on_sums(filter, perfect) or 0) <= 1e-8 * perfect.yy / 50  # never less than rounding


def report_of(m: int, rows: int, errors: list[float], missing: float = 0.0) -> dict[str, Any]:
    data = {"recordings": m, "rows": rows, "shortest": 10, "longest": 15, "missing": missing, "channels": 2}
    report = {"data": data, "errors": {"PSIM": errors}, "units": "squares", "choices": {"best_round": 0}}
    return report | {"splits": "5 splits, 3 recordings held out"}


def more(*lengths: int, missing: int = 0) -> Trajectories:
    parts = [RNG(length).standard_normal((length, 2)) for length in lengths]
    parts[0][1 : 1 + missing, 0] = np.nan
    return Trajectories.of(parts)


def told(report: dict[str, Any], data: Trajectories, outside: float = 0.0, sums: Any = None) -> dict[str, Any]:
    filter = fitted().filter_
    return updated(report, filter, sums, filter, outside, data)


def test_recordings_are_counted_together() -> None:
    """6 rows of 2 channels, one entry missing, after 40 rows of which a tenth is missing; then 20 rows more."""
    once = told(report_of(3, 40, [1.0], 0.1), more(6, missing=1))
    assert once["data"]["recordings"] == 4
    assert once["data"]["rows"] == 46
    assert (once["data"]["shortest"], once["data"]["longest"]) == (6, 15)
    assert once["data"]["missing"] == pytest.approx((0.1 * 40 + 1 / 12 * 6) / 46)
    later = once["later"]
    assert (later["updates"], later["recordings"], later["rows"], later["chosen_on"]) == (1, 1, 6, 40)
    assert not later["due"]
    twice = told(once, more(16, 18))
    later = twice["later"]
    assert (later["updates"], later["recordings"], later["rows"], later["chosen_on"]) == (2, 3, 40, 40)
    assert later["due"]
    assert (twice["data"]["recordings"], twice["data"]["rows"], twice["data"]["longest"]) == (6, 80, 18)
    assert "settings and uncertainty come from the first 40 rows, and 40 rows came later" in later["notes"]["due"]


@pytest.mark.parametrize(
    ("errors", "lengths", "steps"), [([9.0], (9, 3), 1), ([9.0, 9.0], (9, 3), 2), ([9.0] * 5, (3, 2), 2)]
)
def test_errors_are_told_for_the_horizons_of_the_fit_that_recordings_reach(
    errors: list[float], lengths: tuple[int, ...], steps: int
) -> None:
    later = told(report_of(3, 400, errors), more(*lengths))["later"]
    assert len(later["errors"]) == steps
    assert np.isfinite(later["errors"]).all()


def test_notes_are_given_beyond_their_bounds_only() -> None:
    """Twice the held-out error, a twentieth outside, a tenth of harm."""
    data = more(12, 14)
    error = told(report_of(3, 400, [9.0]), data)["later"]["errors"][0]
    assert told(report_of(3, 400, [0.501 * error]), data, 0.05)["later"]["notes"] == {}
    found = told(report_of(3, 400, [0.499 * error]), data, 0.051)["later"]["notes"]
    assert sorted(found) == ["outside", "unlike"]
    assert found["outside"].startswith("5.1% of the new examples")
    z, y = RNG(0).standard_normal((50, 6)), RNG(1).standard_normal((50, 4))
    y -= y.mean(axis=0)
    sums, zero = Ridge().summarise(z, y), mapping(np.zeros((6, 4)), np.zeros(4))
    for factor, harmed in ((1.09, False), (1.11, True)):
        shift = np.sqrt((factor - 1) * np.mean(np.sum(y**2, axis=1)))  # adds its square to the mean
        worse = mapping(np.zeros((6, 4)), np.array([shift, 0.0, 0.0, 0.0]))
        later = updated(report_of(3, 400, [9.0]), zero, sums, worse, 0.0, data)["later"]
        assert later["harm"] == pytest.approx(factor, rel=1e-9)
        assert ("harm" in later["notes"]) == harmed


def test_that_a_refit_is_due_is_said_once() -> None:
    due = {"later": {"due": True, "notes": {"due": "b is due", "harm": "a did harm"}}}
    for before, expected in (({}, ["b is due", "a did harm"]), (due, ["a did harm"])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warned(due, before)
        assert [str(each.message) for each in caught] == [f"partial_fit: {text}." for text in expected]
        assert all(each.category is PsimlearnWarning for each in caught)
