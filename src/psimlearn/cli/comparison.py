"""Methods fitted and scored on the same folds, with a progress bar."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np

from psimlearn.cli.methods import METHODS, Setup
from psimlearn.cli.progress import bar, left_in_words
from psimlearn.errors import DataError
from psimlearn.evaluate import Comparison, Forecaster, folds, time_folds
from psimlearn.evaluate.compare import Fit, scores
from psimlearn.evaluate.folds import group_folds
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.threads import mostly_one_thread

__all__ = ["compared", "time_left", "timed"]

FEWEST_GROUPS = 3


def compared(
    data: Trajectories,
    titles: Mapping[str, str],
    settings: Mapping[str, Any],
    group_of: Mapping[Any, int] | None = None,
) -> tuple[Comparison, dict[str, float]]:
    """Errors of every method on every fold, infinite where a method failed; and the seconds that one fit takes.

    Args:
        data: all recordings.
        titles: the title of each method, by its short name.
        settings: steps, folds, window and seed.
        group_of: the number of the group of each recording, by id; None without groups.
    """
    steps, setup = settings["steps"], Setup(settings["steps"], settings["window"], settings["seed"], group_of)
    n_folds, splits = _splits(data, settings["folds"], setup)
    seconds: dict[str, list[float]] = {title: [] for title in titles.values()}
    methods = {title: timed(METHODS[name](setup), seconds[title]) for name, title in titles.items()}
    scale = standardisation(data.values).scale
    begun = count()
    with bar() as progress:
        task = progress.add_task("", total=n_folds * len(methods), left="")

        def tell(title: str) -> None:
            left = left_in_words(time_left(seconds, n_folds))
            progress.update(task, description=title, completed=next(begun), left=left)

        found = Comparison.of(scores(methods, splits, steps, skip=1, scale=scale, tell=tell))
    return found, {title: float(np.mean(spent)) for title, spent in seconds.items()}


def _splits(data: Trajectories, n_folds: int, setup: Setup) -> tuple[int, Iterator[tuple[Trajectories, Trajectories]]]:
    """The number of folds, and their training and test sets: a single recording is cut in time, groups stay whole."""
    rng, groups = np.random.default_rng(setup.seed), setup.groups(data)
    if groups is not None:
        n_groups = len(np.unique(groups))
        if n_groups < FEWEST_GROUPS:
            raise DataError(
                f"--group: required at least {FEWEST_GROUPS} groups, since one is scored, one chooses settings and one "
                f"trains; received {n_groups}. Name another column, or leave --group out."
            )
        n_folds = min(n_folds, n_groups)
        return n_folds, group_folds(data, groups, n_folds, rng)
    if len(data) == 1:
        return n_folds, time_folds(data, n_folds, gap=max(setup.window, setup.horizon))
    n_folds = min(n_folds, len(data))
    return n_folds, folds(data, n_folds, rng)


def timed(fit: Fit, seconds: list[float]) -> Fit:
    """The same method, which notes how long each fit takes; all fits have the threads that those of PSIM have."""

    def fitted(train: Trajectories) -> Forecaster:
        began = perf_counter()
        try:
            with mostly_one_thread():
                return fit(train)
        finally:
            seconds.append(perf_counter() - began)

    return fitted


def time_left(seconds: Mapping[str, Sequence[float]], n_folds: int) -> float | None:
    """Seconds left of all folds, once each method was fitted once: methods differ a thousandfold in time."""
    if not all(seconds.values()):
        return None
    return float(sum((n_folds - len(spent)) * np.mean(spent) for spent in seconds.values()))
