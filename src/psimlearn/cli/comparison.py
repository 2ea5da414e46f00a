"""Methods fitted and scored on the same folds, with a progress bar."""

from collections.abc import Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np

from psimlearn.cli.methods import METHODS
from psimlearn.cli.progress import bar, left_in_words
from psimlearn.evaluate import Comparison, Forecaster, folds, time_folds
from psimlearn.evaluate.compare import Fit, scores
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["compared", "time_left", "timed"]


def compared(
    data: Trajectories, titles: Mapping[str, str], settings: Mapping[str, Any]
) -> tuple[Comparison, dict[str, float]]:
    """Errors of every method on every fold, infinite where a method failed; and the seconds that one fit takes.

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
    seconds: dict[str, list[float]] = {title: [] for title in titles.values()}
    methods = {title: timed(METHODS[name](steps, window, seed), seconds[title]) for name, title in titles.items()}
    scale = standardisation(data.values).scale
    begun = count()
    with bar() as progress:
        task = progress.add_task("", total=n_folds * len(methods), left="")

        def tell(title: str) -> None:
            left = left_in_words(time_left(seconds, n_folds))
            progress.update(task, description=title, completed=next(begun), left=left)

        found = Comparison.of(scores(methods, splits, steps, skip=1, scale=scale, tell=tell))
    return found, {title: float(np.mean(spent)) for title, spent in seconds.items()}


def timed(fit: Fit, seconds: list[float]) -> Fit:
    """The same method, which notes how long each fit takes."""

    def fitted(train: Trajectories) -> Forecaster:
        began = perf_counter()
        try:
            return fit(train)
        finally:
            seconds.append(perf_counter() - began)

    return fitted


def time_left(seconds: Mapping[str, Sequence[float]], n_folds: int) -> float | None:
    """Seconds left of all folds, once each method was fitted once: methods differ a thousandfold in time."""
    if not all(seconds.values()):
        return None
    return float(sum((n_folds - len(spent)) * np.mean(spent) for spent in seconds.values()))
