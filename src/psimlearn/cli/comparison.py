"""Methods fitted and scored on the same folds, with a progress bar."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np

from psimlearn.cli.methods import METHODS
from psimlearn.cli.progress import bar
from psimlearn.evaluate import Comparison, folds, time_folds
from psimlearn.evaluate.compare import scores
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["compared"]


def compared(data: Trajectories, titles: Mapping[str, str], settings: Mapping[str, Any]) -> Comparison:
    """Errors of every method on every fold; infinite where a method failed.

    Args:
        data: all recordings.
        titles: the title of each method, by its short name.
        settings: steps, folds, window and seed.
    """
    steps, window, seed = settings["steps"], settings["window"], settings["seed"]
    n_folds = settings["folds"] if len(data) == 1 else min(settings["folds"], len(data))
    splits = (
        time_folds(data, n_folds, gap=max(window, steps))
        if len(data) == 1
        else folds(data, n_folds, np.random.default_rng(seed))
    )
    methods = {title: METHODS[name](steps, window, seed) for name, title in titles.items()}
    scale = standardisation(data.values).scale
    begun = count()
    with bar() as progress:
        task = progress.add_task("", total=n_folds * len(methods))

        def tell(title: str) -> None:
            progress.update(task, description=title, completed=next(begun))

        return Comparison.of(scores(methods, splits, steps, skip=1, scale=scale, tell=tell))
