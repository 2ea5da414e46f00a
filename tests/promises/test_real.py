"""Real recordings, where they are at hand (PSIMLEARN_DATA): errors in standardised units, trajectories held out."""

import os
from pathlib import Path

import numpy as np
import pytest

import real
from psimlearn import PSIM
from psimlearn.baselines import LastObservation
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Filter, Stack
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger


def tuned(train: Trajectories, validation: Trajectories, recipe: Recipe) -> Filter:
    """The best round of the best of two ridges on the validation trajectories."""
    rng = np.random.default_rng(0)
    return best(
        best(dagger(train, validation, Stack(5), Ridge(alpha), rng=rng, n_rounds=4, recipe=recipe))
        for alpha in (1e-4, 1e-3)
    ).filter


def test_a_compressed_belief_loses_nothing_on_walking(data_folder: Path) -> None:
    """30 of 450 directions fed back: within 3 % of the full belief, and far ahead of the last observation."""
    rng = np.random.default_rng(1)
    rest, test, scale, _ = next(real.SETS["walking"]())
    train, validation = rest.split(0.15, rng)
    errors = {
        rank: errors_by_horizon(
            tuned(train, validation, Recipe(lags=5, prior="last", rank=rank)), test, 5, skip=5, scale=scale
        )
        for rank in (None, 30)
    }
    last = errors_by_horizon(LastObservation.fit(train), test, 5, skip=5, scale=scale)
    assert errors[30][0] <= 1.03 * errors[None][0]
    assert np.all(errors[30] <= 0.6 * last)


SIMPLE = [name for name in real.METHODS if name.startswith(("training", "last", "AR"))]


def mean_errors(method: str, parts: list[real.Fold]) -> np.ndarray:
    errors = [
        errors_by_horizon(real.METHODS[method](part.train, 5), part.test, 5, skip=real.SKIP, scale=part.scale)[
            [0, 2, 4]
        ]
        for part in parts
    ]
    mean: np.ndarray = np.mean(errors, axis=0)
    return mean


@pytest.mark.parametrize("name", ["flag"])  # the others take minutes: docs/real-data.md has them
def test_defaults_keep_up_with_the_best_simple_method(name: str, data_folder: Path) -> None:
    """1, 3 and 5 steps ahead: at most 5 % worse than the best of mean, last, AR-5 and AR-10 at each, over five folds.

    Single folds have one recording, and differ by more than that.
    """
    parts = list(real.SETS[name]())
    simple = np.min([mean_errors(method, parts) for method in SIMPLE], axis=0)
    assert np.all(mean_errors("PSIM()", parts) <= 1.05 * simple)


# -- records of commands ----------------------------------------------------------------------------------------------

REAL = ("S-2", "P-11", "F-4", "F-7", "F-5", "D-14", "P-15", "T-4", "M-7", "T-5", "P-14", "M-5", "T-9", "M-6")
QUICKEST = ("S-2", "T-9", "T-5")
"""Records that take about ten seconds each; all take some minutes, and are asked for by PSIMLEARN_CAMPAIGN."""


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL if os.environ.get("PSIMLEARN_CAMPAIGN") else QUICKEST)
def test_real_records_of_commands_are_learnt(name: str, data_folder: Path) -> None:
    """Telemetry: one measured channel, commands, and in the rows to learn from many columns that never change."""
    with np.load(data_folder / "anomaly_nasa_msl" / "msl.npz") as archive:
        x, rows = archive[f"{name}.x"].astype(float), int(archive[f"{name}.train_rows"])
    x = x[:rows, x.std(axis=0) > 0]  # in the whole series every column moves
    model = PSIM(random_state=0).fit(x)
    assert np.isfinite(model.predict(x)).all()
