"""Masked means not observed: the mask and NaN say the same, whichever way an array comes in."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from psimlearn.errors import DataError
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.scaler import TrajectoryScaler
from psimlearn.recordings.forms import received
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.trajectory import Trajectory
from small import ONE, model, with_inputs

FILL = 1e6
"""The value behind the mask, which nobody may read."""


def gappy(n_rows: int = 60, n: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.cumsum(rng.standard_normal((n_rows, n)), axis=0)
    rows[rng.random((n_rows, n)) < 0.2] = np.nan
    return rows


def masked(rows: np.ndarray) -> Any:
    return np.ma.masked_array(np.where(np.isnan(rows), FILL, rows), np.isnan(rows))


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "table": masked,
    "integers": lambda rows: masked(np.round(rows)).astype(int),
    "objects": lambda rows: masked(rows).astype(object),
    "rows in a list": lambda rows: [list(row) for row in masked(rows)],
    "several tables": lambda rows: [masked(rows), masked(rows)],
    "a table of rows in a list": lambda rows: [list(masked(rows))],
    "cube": lambda rows: masked(rows[None]),
    "array of objects": lambda rows: np.array([masked(rows), None], dtype=object)[:1],
    "trajectory": lambda rows: [Trajectory(masked(rows))],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_recordings(form: str) -> None:
    rows = gappy()
    expected = np.round(rows) if form == "integers" else rows
    np.testing.assert_array_equal(received(FORMS[form](rows)).trajectories[0].values, expected)


def test_the_constructor_and_channels_first() -> None:
    rows = gappy()
    np.testing.assert_array_equal(Trajectories(masked(rows), np.array([0, len(rows)])).values, rows)
    np.testing.assert_array_equal(Trajectories.from_channels_first(masked(rows.T)).values, rows)
    np.testing.assert_array_equal(Trajectories.of(rows[:, :1] * 0, hints=masked(rows)).hints, rows)


def test_masked_inputs_are_refused_as_missing_inputs_are() -> None:
    inputs = masked(np.array([[1.0], [np.nan], [2.0]]))
    for given in (inputs, inputs[None], [list(inputs)]):
        with pytest.raises(DataError, match="inputs are known"):
            Trajectories.of(np.zeros((1, 3, 1)), given)
    with pytest.raises(DataError, match="inputs are known"):
        Trajectories(np.zeros((3, 1)), np.array([0, 3]), inputs)
    fitted = PSIM(**ONE).fit(with_inputs())
    for given in (inputs, [inputs]):
        with pytest.raises(DataError, match="future_inputs: required finite numbers"):
            fitted.forecast(with_inputs(1), 3, future_inputs=given)


def answers(same: Any) -> list[Any]:
    """What every method says of rows with gaps, in any form; each fits, or is asked."""
    rows, fitted = gappy(seed=1), PSIM(**ONE).fit(same)
    return [
        fitted.predict(same),
        fitted.transform(same),
        fitted.score(same),
        fitted.score_samples(same),
        fitted.forecast(same, 3),
        fitted.predict_interval(same)[0],
        PSIM(**ONE | {"validation": same}).fit(rows).predict(rows),
        TrajectoryScaler().fit(same).mean_,
        TrajectoryScaler().fit(rows).transform(same),
        fitted.partial_fit(same).predict(rows),
    ]


@cache
def answers_to_nan() -> list[Any]:
    return answers(gappy(seed=1))


@pytest.mark.filterwarnings(
    "ignore:partial_fit:psimlearn.errors.PsimlearnWarning"
)  # as many rows again: a refit is due
@pytest.mark.parametrize("form", ["table", "rows in a list"])
def test_every_method(form: str) -> None:
    for plain, behind in zip(answers_to_nan(), answers(FORMS[form](gappy(seed=1))), strict=True):
        np.testing.assert_array_equal(plain, behind)


def test_a_bank_of_streams_takes_masked_rows_in_a_list() -> None:
    fitted = model()
    lives = [fitted.start(2) for _ in range(2)]
    n = fitted.n_features_in_
    rows = np.array([[1.0] * n, [np.nan] + [2.0] * (n - 1)])
    lives[0].update(rows)
    lives[1].update(list(masked(rows)))
    np.testing.assert_array_equal(lives[0].predict(), lives[1].predict())
