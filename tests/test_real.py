"""Real recordings, where they are at hand (PSIMLEARN_DATA): errors in standardised units, trajectories held out."""

from pathlib import Path

import numpy as np
import pytest

from psimlearn.baselines import LastObservation
from psimlearn.evaluate import errors_by_horizon, folds
from psimlearn.features import Stack
from psimlearn.filter import Filter
from psimlearn.learners import Ridge
from psimlearn.train import Recipe, best, dagger
from psimlearn.trajectories import Trajectories


def walking(folder: Path) -> Trajectories:
    """48 tracks of 300 frames: 30 body parts relative to the root, 90 channels."""
    positions = np.load(folder / "mocap_cmu_walk" / "walk48_positions.npz")["positions"].astype(np.float64)
    return Trajectories.of((positions[:, :, 1:] - positions[:, :, :1]).reshape(48, 300, 90))


def tuned(train: Trajectories, validation: Trajectories, recipe: Recipe) -> Filter:
    """The best round of the best of two ridges on the validation trajectories."""
    rng = np.random.default_rng(0)
    return best(
        best(dagger(train, validation, Stack(5), Ridge(alpha), rng=rng, n_rounds=8, recipe=recipe))
        for alpha in (1e-4, 1e-3)
    ).filter


@pytest.mark.slow
def test_a_compressed_belief_loses_nothing_on_walking(data_folder: Path) -> None:
    """30 of 450 directions fed back: within 3 % of the full belief, and far ahead of the last observation."""
    rng = np.random.default_rng(1)
    rest, test = next(folds(walking(data_folder), 3, rng))
    train, validation = rest.split(0.15, rng)
    scale = train.values.std(axis=0)
    errors = {
        rank: errors_by_horizon(
            tuned(train, validation, Recipe(lags=5, prior="last", rank=rank)), test, 5, skip=5, scale=scale
        )
        for rank in (None, 30)
    }
    last = errors_by_horizon(LastObservation.fit(train), test, 5, skip=5, scale=scale)
    assert errors[30][0] <= 1.03 * errors[None][0]
    assert np.all(errors[30] <= 0.6 * last)
