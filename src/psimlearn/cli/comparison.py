"""Methods fitted and scored on the same folds, while the person watches."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from psimlearn.cli.methods import METHODS, Attempt
from psimlearn.cli.progress import bar
from psimlearn.evaluate.horizons import Comparison, errors_by_horizon, folds, time_folds
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["compared"]


def compared(
    data: Trajectories, titles: Mapping[str, str], settings: Mapping[str, Any]
) -> tuple[Comparison, dict[str, str]]:
    """Errors of every method on every fold, and why methods failed; a failure counts as an infinite error.

    Args:
        data: all recordings.
        titles: what each method is called, by its short name.
        settings: steps, folds, window and seed.
    """
    steps, window, seed = settings["steps"], settings["window"], settings["seed"]
    rng = np.random.default_rng(seed)
    n_folds = settings["folds"] if len(data) == 1 else min(settings["folds"], len(data))
    pairs = time_folds(data, n_folds, gap=max(window, steps)) if len(data) == 1 else folds(data, n_folds, rng)
    attempts = {title: Attempt(METHODS[name](steps, window, seed)) for name, title in titles.items()}
    std = np.nanstd(data.values, axis=0)
    scale = np.where(std > 0, std, 1.0)
    errors = []
    with bar() as progress:
        task = progress.add_task("", total=n_folds * len(attempts))
        for train, test in pairs:
            own = []
            for title, attempt in attempts.items():
                progress.update(task, description=title)
                own.append(errors_by_horizon(attempt(train), test, steps, skip=1, scale=scale))
                progress.advance(task)
            errors.append(own)
    reasons = {title: attempt.reasons[0] for title, attempt in attempts.items() if attempt.reasons}
    return Comparison(tuple(attempts), np.swapaxes(np.array(errors), 0, 1)), reasons
