"""Errors: squared, summed over channels, averaged over rows, by horizon; the same rows for every method."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures

__all__ = [
    "Comparison",
    "Difference",
    "Forecaster",
    "Measure",
    "compare",
    "errors_by_horizon",
    "folds",
    "mean_square",
    "power",
    "time_folds",
]


Measure = Callable[[Float[np.ndarray, "rows horizon n"], Float[np.ndarray, "rows horizon n"]], np.ndarray]
"""From predictions and truth, NaN where not observed, to one number for each horizon."""


@runtime_checkable
class Forecaster(Protocol):
    """Anything that predicts: a filter, a baseline, a guess."""

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}."""


def mean_square(residuals: Float[np.ndarray, "rows *rest n"]) -> Float[np.ndarray, "*rest"]:
    """Squared residuals, averaged over the rows where they exist (not NaN), summed over channels."""
    seen = ~np.isnan(residuals)
    if seen.all():
        return np.asarray(np.mean(np.square(residuals), axis=0).sum(axis=-1))
    total = np.sum(np.square(residuals, where=seen, out=np.zeros_like(residuals)), axis=0)
    with np.errstate(invalid="ignore"):
        means: np.ndarray = total / seen.sum(axis=0)
    return np.asarray(np.nansum(means, axis=-1))


def errors_by_horizon(
    forecaster: Forecaster,
    trajectories: Trajectories,
    horizon: int = 1,
    *,
    skip: int = 0,
    scale: Float[np.ndarray, " n"] | None = None,
    measure: Measure | None = None,
) -> Float[np.ndarray, " horizon"]:
    """Mean squared error of the 1- to `horizon`-step predictions, summed over channels.

    All horizons are scored on predictions made before the same rows: those at least `skip` rows into a trajectory
    and at least `horizon` rows from its end. Entries that were not observed are left out.

    Args:
        forecaster: what to score.
        trajectories: recordings it has not been fitted on.
        horizon: the largest number of steps ahead.
        skip: rows at the beginning of each trajectory from which no prediction is scored.
        scale: divide each channel by this first, for channels of different units.
        measure: of predictions and truth, instead of squared errors: `LogLoss().nats` for symbols.
    """
    plan = schedule(trajectories.offsets)
    rows = (plan.time >= skip) & plan.reaches(horizon - 1)
    if not rows.any():
        raise DataError(
            f"nothing to score: required a trajectory longer than {skip + horizon - 1} rows (skip {skip}, horizon "
            f"{horizon}), received at most {trajectories.lengths.max()}. Use a smaller horizon or skip."
        )
    truth = futures(trajectories.values[plan.order], plan, horizon)[rows]
    if np.isnan(truth).all(axis=(0, 2)).any():
        raise DataError(
            f"nothing to score: required an observed entry at each of {horizon} horizons, received only NaN at one. "
            "Leave out recordings in which nothing was observed, or use a smaller skip."
        )
    predicted = forecaster.forecast(trajectories, horizon)[plan.order][rows]
    residuals = truth - predicted
    if not np.isfinite(predicted).all():
        return np.full(horizon, np.inf)
    if measure is not None:
        return measure(predicted, truth)
    return mean_square(residuals if scale is None else residuals / scale)


def power(trajectories: Trajectories) -> float:
    """Mean ||x_t||^2, the error of always predicting zero."""
    return float(mean_square(trajectories.values))


def folds(
    trajectories: Trajectories, n_folds: int, rng: np.random.Generator
) -> Iterator[tuple[Trajectories, Trajectories]]:
    """Training and test sets by whole trajectories; each trajectory is tested once."""
    if not 2 <= n_folds <= len(trajectories):
        raise SettingsError(
            f"folds: required 2 to {len(trajectories)} folds, one trajectory each at least; received {n_folds}."
        )
    order = rng.permutation(len(trajectories))
    for part in np.array_split(order, n_folds):
        yield trajectories[np.sort(np.setdiff1d(order, part))], trajectories[np.sort(part)]


def time_folds(
    recording: Trajectories, n_folds: int, gap: int, rng: np.random.Generator | None = None
) -> Iterator[tuple[Trajectories, Trajectories]]:
    """Training and test sets from one long recording: each stretch of time is tested once.

    What lies before and after the tested stretch trains, less `gap` rows on either side of it: with a gap of the
    window at least, no training target reaches into the test. The stretches follow in time, or shuffled by `rng`.
    """
    rows = len(recording.values)
    if len(recording) != 1 or not 2 <= n_folds <= rows:
        raise SettingsError(
            f"time folds: required one recording and 2 to as many folds as it has rows, received {len(recording)} "
            f"recordings, {rows} rows and {n_folds} folds. Use folds() for several recordings."
        )
    stretches = np.array_split(np.arange(rows), n_folds)
    for i in range(n_folds) if rng is None else rng.permutation(n_folds):
        test = stretches[i]
        before, after = np.arange(test[0] - gap), np.arange(test[-1] + 1 + gap, rows)
        training = [part for part in (before, after) if len(part)]
        if not training:
            raise SettingsError(f"time folds: a gap of {gap} rows leaves nothing of {rows} rows to train on.")
        yield recording.stretches(training), recording.stretches([test])


class Difference(NamedTuple):
    """Of two methods on the same folds."""

    mean: float
    standard_error: float
    wins: int
    """Folds on which the first method had the lower error."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of several methods on the same folds."""

    methods: tuple[str, ...]
    errors: Float[np.ndarray, "methods folds horizon"]

    def mean(self) -> Float[np.ndarray, "methods horizon"]:
        """Over folds."""
        return np.asarray(self.errors.mean(axis=1))

    def std(self) -> Float[np.ndarray, "methods horizon"]:
        """Over folds: the +- of the paper's tables."""
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
        """Horizon 0 would otherwise read the last one."""
        known = self.errors.shape[2]
        if not all(1 <= h <= known for h in horizons):
            raise SettingsError(f"horizon: required 1 to {known}, as compared; received {list(horizons)}.")


def compare(
    methods: Mapping[str, Callable[[Trajectories], Forecaster]],
    trajectories: Trajectories,
    horizon: int = 1,
    *,
    n_folds: int = 10,
    rng: np.random.Generator,
    skip: int = 0,
    scale: Float[np.ndarray, " n"] | None = None,
) -> Comparison:
    """Fit every method on the same folds and score it on the same rows.

    Args:
        methods: by name, functions from training trajectories to a forecaster.
        trajectories: all recordings.
        horizon: score 1 to `horizon` steps ahead.
        n_folds: whole trajectories are held out, each once.
        rng: shuffles the trajectories into folds.
        skip: as in `errors_by_horizon`.
        scale: as in `errors_by_horizon`.
    """
    errors = [
        [errors_by_horizon(fit(train), test, horizon, skip=skip, scale=scale) for fit in methods.values()]
        for train, test in folds(trajectories, n_folds, rng)
    ]
    return Comparison(tuple(methods), np.swapaxes(np.array(errors), 0, 1))
