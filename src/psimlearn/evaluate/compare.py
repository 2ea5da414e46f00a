"""Several methods on the same folds: one loop fits and scores them, a `Comparison` holds their errors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import PsimlearnError
from psimlearn.evaluate.folds import folds
from psimlearn.evaluate.horizons import Forecaster, errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Comparison", "Difference", "Failure", "Fit", "Score", "attempted", "compare", "scores"]

Fit = Callable[[Trajectories], Forecaster]
"""Fits a method to training recordings."""
Value = TypeVar("Value")


class Failure(NamedTuple):
    """The error of a method that could not be fitted."""

    error: Exception


def attempted(work: Callable[..., Value], *args: object) -> Value | Failure:
    """The value of `work(*args)`, or its `Failure` if the data or the numbers did not allow it."""
    try:
        return work(*args)
    except (PsimlearnError, np.linalg.LinAlgError) as error:
        return Failure(error)


class Score(NamedTuple):
    """The errors of one method on one fold."""

    method: str
    errors: Float[np.ndarray, " horizon"]
    """Infinite if the method failed."""
    failure: Failure | None


def scores(
    methods: Mapping[str, Fit],
    splits: Iterable[tuple[Trajectories, Trajectories]],
    horizon: int = 1,
    *,
    skip: int = 0,
    scale: Float[np.ndarray, " n"] | None = None,
    tell: Callable[[str], object] = str,
) -> Iterator[Score]:
    """Fit every method on every fold and score it, one after the other. A failed method does not stop the others.

    Args:
        methods: by name, functions from training trajectories to a forecaster.
        splits: training and test sets.
        horizon: score 1 to `horizon` steps ahead.
        skip: as in `errors_by_horizon`.
        scale: as in `errors_by_horizon`.
        tell: called with the name of a method before it is fitted, to show progress.
    """
    for train, test in splits:
        for name, fit in methods.items():
            tell(name)
            fitted = attempted(fit, train)
            if isinstance(fitted, Failure):
                yield Score(name, np.full(horizon, np.inf), fitted)
            else:
                yield Score(name, errors_by_horizon(fitted, test, horizon, skip=skip, scale=scale), None)


class Difference(NamedTuple):
    """How the errors of two methods differ on the same folds."""

    mean: float
    standard_error: float
    wins: int
    """Folds on which the first method had the lower error."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of several methods on the same folds."""

    methods: tuple[str, ...]
    errors: Float[np.ndarray, "methods folds horizon"]
    failures: Mapping[str, str] = field(default_factory=dict)
    """For each method that failed on some fold, the first reason."""

    @classmethod
    def of(cls, scores: Iterable[Score]) -> "Comparison":
        """Collect the scores of every method on every fold."""
        by_method: dict[str, list[Score]] = {}
        for score in scores:
            by_method.setdefault(score.method, []).append(score)
        reasons = {name: [str(s.failure.error) for s in several if s.failure] for name, several in by_method.items()}
        errors = np.array([[score.errors for score in several] for several in by_method.values()])
        return cls(tuple(by_method), errors, {name: first[0] for name, first in reasons.items() if first})

    def mean(self) -> Float[np.ndarray, "methods horizon"]:
        """Mean error over folds."""
        return np.asarray(self.errors.mean(axis=1))

    def std(self) -> Float[np.ndarray, "methods horizon"]:
        """Standard deviation over folds: the +- of the paper's tables."""
        return np.asarray(self.errors.std(axis=1, ddof=1))

    def paired(self, first: str, second: str, horizon: int = 1) -> Difference:
        """The error of `first` minus that of `second`, fold by fold."""
        self._check(horizon)
        a, b = (self.errors[self.methods.index(name), :, horizon - 1] for name in (first, second))
        gap = a - b
        return Difference(float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap))), int((gap < 0).sum()))

    def table(self, horizons: Sequence[int] = (1,)) -> str:
        """Mean +- std over folds as text, one line per method."""
        self._check(*horizons)
        width = max(map(len, self.methods))
        lines = [f"{'':{width}}" + "".join(f"{f'{h} step' + 's' * (h > 1):>22}" for h in horizons)]
        for name, mean, std in zip(self.methods, self.mean(), self.std(), strict=True):
            lines.append(f"{name:{width}}" + "".join(f"{mean[h - 1]:12.5g} +- {std[h - 1]:6.2g}" for h in horizons))
        return "\n".join(lines)

    def _check(self, *horizons: int) -> None:
        """Refuse horizons that were not compared; 0 would otherwise read the last one."""
        known = self.errors.shape[2]
        for h in horizons:
            whole(h, "horizon", 1, known)


def compare(
    methods: Mapping[str, Fit],
    trajectories: Trajectories,
    horizon: int = 1,
    *,
    n_folds: int = 10,
    rng: np.random.Generator,
    skip: int = 0,
    scale: Float[np.ndarray, " n"] | None = None,
) -> Comparison:
    """Fit every method on the same folds and score it on the same rows. The error of a failed method is raised.

    Args:
        methods: by name, functions from training trajectories to a forecaster.
        trajectories: all recordings.
        horizon: score 1 to `horizon` steps ahead.
        n_folds: whole trajectories are held out, each once.
        rng: shuffles the trajectories into folds.
        skip: as in `errors_by_horizon`.
        scale: as in `errors_by_horizon`.
    """
    found = scores(methods, folds(trajectories, n_folds, rng), horizon, skip=skip, scale=scale)
    return Comparison.of(map(_sound, found))


def _sound(score: Score) -> Score:
    """The score; the error of its method if that failed."""
    if score.failure is not None:
        raise score.failure.error
    return score
