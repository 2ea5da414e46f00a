"""Gaps filled: `PSIM.impute` beside usual imputers, on recordings from which gaps were cut: the table of the docs.

    PSIMLEARN_DATA=folder python benchmarks/impute.py [set ..] [--methods name ..]

Recordings are held out. Copies of these lose one channel for 5 to 50 rows, or all channels for 5 rows. Every method
sees the training recordings whole, and the copies with their gaps. Errors are squared, in standard deviations of the
training data, averaged over the missing entries, +- a standard error over gaps. `held` is the share of the missing
entries inside 90 % bands.

- Interpolation sees one channel of one copy.
- Imputers of tables see, beside each row, the rows 1, 2 and 5 before it and after it. They are fitted to 3000 rows of
  the training recordings, into which gaps of the same kind were cut: without any, IterativeImputer would not iterate.
  IterativeImputer is also given each row alone: with the rows beside it, it hardly moves a long gap from the mean.
- statsmodels fits by maximum likelihood, or EM, to training recordings laid end to end with missing rows between them,
  as many as it can take in about a minute: a vector autoregression of 5 rows (VARMAX) for 2 channels, for more
  channels a dynamic factor model (DynamicFactorMQ) of 6 factors with 2 lags, and autoregressive noise in each channel.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from statsmodels.tsa.api import VARMAX
from statsmodels.tsa.statespace.dynamic_factor_mq import DynamicFactorMQ

from psimlearn import PSIM, Trajectories
from psimlearn.datasets import noisy_pendulum, ocean, pixels, principal_components, snap_assembly, walking
from psimlearn.evaluate import folds

LONGEST, WHOLE, COVERAGE = 50, 5, 0.9
COPIES, GAPS = 6, 30
"""At least so many copies of a recording, and so many gaps of each kind in a fold."""
BESIDE = (0, -1, 1, -2, 2, -5, 5)
"""The rows that imputers of tables see beside each row."""
TABLE_ROWS, STATSMODELS_ROWS = 3000, 1500
Recordings = list[np.ndarray]
Fold = tuple[Trajectories, Trajectories]


class Filled(NamedTuple):
    means: Recordings
    bands: tuple[Recordings, Recordings] | None = None
    """The lower and the upper ends of 90 % bands, if the method has any."""


Method = Callable[[Recordings], Callable[[Recordings], Filled]]
"""Training recordings in, a function out that fills the gaps of others."""


def of_folds(data: Trajectories, n_used: int, n_components: int | None = None) -> Iterator[Fold]:
    """Some of five folds; principal components are those of the training recordings."""
    for train, test in list(folds(data, 5, np.random.default_rng(0)))[:n_used]:
        if n_components is None:
            yield train, test
        else:
            components = principal_components(train, n_components)
            yield components.project(train), components.project(test)


SETS: dict[str, Callable[[], Iterator[Fold]]] = {
    "pendulum": lambda: of_folds(noisy_pendulum(200, 100, np.random.default_rng(0)), 1),
    "HIRO assembly": lambda: of_folds(snap_assembly("S-22..S-46"), 2),
    "walking": lambda: of_folds(walking(), 1, 25),
    "ocean": lambda: of_folds(pixels(ocean()).blocks(69, 5), 5, 20),
}


def cut(parts: Recordings, whole: bool, rng: np.random.Generator) -> Recordings:
    """Each recording with one gap, away from its ends, where interpolation has something to hold on to."""
    out = []
    for part in parts:
        length = WHOLE if whole else int(rng.integers(5, min(LONGEST, len(part) // 2) + 1))
        first = int(rng.integers(2, len(part) - length - 2))
        gappy = part.copy()
        gappy[first : first + length, slice(None) if whole else int(rng.integers(part.shape[1]))] = np.nan
        out.append(gappy)
    return out


def each_channel(fill: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Method:
    def run(gappy: Recordings) -> Filled:
        filled = []
        for part in gappy:
            rows, now = np.arange(len(part)), part.copy()
            for c in range(part.shape[1]):
                seen = ~np.isnan(part[:, c])
                now[~seen, c] = fill(rows[~seen], rows[seen], part[seen, c])
            filled.append(now)
        return Filled(filled)

    return lambda train: run


def wide(part: np.ndarray, beside: tuple[int, ...]) -> np.ndarray:
    """Each row with the rows beside it; NaN beyond the ends."""
    most = max(beside)
    padded = np.pad(part, ((most, most), (0, 0)), constant_values=np.nan)
    return np.concatenate([padded[most + d : most + d + len(part)] for d in beside], axis=1)


def of_tables(make: Callable[[], IterativeImputer | KNNImputer], beside: tuple[int, ...] = BESIDE) -> Method:
    def fit(train: Recordings) -> Callable[[Recordings], Filled]:
        rng = np.random.default_rng(0)
        table = np.concatenate([wide(part, beside) for whole in (False, True) for part in cut(train, whole, rng)])
        imputer = make().fit(table[rng.permutation(len(table))[:TABLE_ROWS]])

        def run(gappy: Recordings) -> Filled:
            every, n = np.concatenate(gappy), gappy[0].shape[1]
            rows = np.isnan(every).any(axis=1)
            every[rows] = imputer.transform(np.concatenate([wide(part, beside) for part in gappy])[rows])[:, :n]
            return Filled(np.split(every, np.cumsum([len(part) for part in gappy])[:-1]))

        return run

    return fit


def statsmodels(train: Recordings) -> Callable[[Recordings], Filled]:
    n, mean = train[0].shape[1], np.concatenate(train).mean(axis=0)
    laid: Recordings = []
    for part in train:
        if sum(map(len, laid)) < STATSMODELS_ROWS:
            laid += [part - mean, np.full((10, n), np.nan)]
    rows = np.concatenate(laid)
    if n <= 3:
        fitted = VARMAX(rows, order=(5, 0), trend="n").fit(disp=False, maxiter=100)
    else:
        model = DynamicFactorMQ(rows, factors=min(n // 2, 6), factor_orders=2, standardize=False)
        fitted = model.fit(disp=False, maxiter=30)

    def run(gappy: Recordings) -> Filled:
        filled = []
        for part in gappy:
            smoothed = fitted.apply(part - mean).smoother_results.smoothed_forecasts.T + mean
            filled.append(np.where(np.isnan(part), smoothed, part))
        return Filled(filled)

    return run


def psim(learner: str) -> Method:
    def fit(train: Recordings) -> Callable[[Recordings], Filled]:
        model = PSIM(learner=learner, random_state=0).fit(train)

        def run(gappy: Recordings) -> Filled:
            mean, low, high = model.smooth(gappy, coverage=COVERAGE)
            return Filled(mean, (low, high))

        return run

    return fit


METHODS: dict[str, Method] = {
    "linear interpolation": each_channel(lambda missing, seen, values: np.interp(missing, seen, values)),
    "cubic spline": each_channel(lambda missing, seen, values: CubicSpline(seen, values)(missing)),
    "KNNImputer": of_tables(lambda: KNNImputer(n_neighbors=5)),
    "IterativeImputer": of_tables(lambda: IterativeImputer(max_iter=5, random_state=0)),
    "IterativeImputer, row": of_tables(lambda: IterativeImputer(max_iter=5, random_state=0), (0,)),
    "statsmodels": statsmodels,
    "PSIM()": psim("ridge"),
    "PSIM(auto)": psim("auto"),
}


class Missing(NamedTuple):
    """The missing entries of one gap."""

    off: np.ndarray
    held: np.ndarray


def missing(filled: Filled, gappy: Recordings, truth: Recordings) -> list[Missing]:
    found = []
    for i, (mean, part, true) in enumerate(zip(filled.means, gappy, truth, strict=True)):
        gap = np.isnan(part)
        held = np.full(int(gap.sum()), np.nan)
        if filled.bands is not None:
            low, high = (band[i][gap] for band in filled.bands)
            held = ((low <= true[gap]) & (true[gap] <= high)).astype(float)
        found.append(Missing((mean - true)[gap], held))
    return found


def measured(method: Method, used: list[Fold]) -> Iterator[tuple[list[Missing], list[Missing]]]:
    for train, test in used:
        mean, scale = train.values.mean(axis=0), train.values.std(axis=0)
        parts = [(part - mean) / scale for part in train.unpacked(train.values)]
        copies = max(COPIES, -(-GAPS // len(test)))
        truth = [(part - mean) / scale for part in test.unpacked(test.values) for _ in range(copies)]
        run, rng = method(parts), np.random.default_rng(1)
        one, every = (cut(truth, whole, rng) for whole in (False, True))
        yield missing(run(one), one, truth), missing(run(every), every, truth)


def cells(gaps: list[Missing]) -> str:
    """The mean squared error, its standard error over gaps, and the share held."""
    sums, sizes = (np.array(column) for column in zip(*[(np.sum(g.off**2), len(g.off)) for g in gaps], strict=True))
    mean = sums.sum() / sizes.sum()
    error = np.std(sums - mean * sizes) / sizes.mean() / np.sqrt(len(gaps))
    return f"{mean:12.4g} +-{error:8.2g}{np.mean(np.concatenate([g.held for g in gaps])):8.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")  # IterativeImputer says that it has not converged
    warnings.filterwarnings("ignore", module="statsmodels")  # and so does EM
    for name in chosen.sets:
        used = list(SETS[name]())
        print(
            f"\n{name:24}{'one channel':>23}{'held':>8}{'all channels':>23}{'held':>8}{'seconds a fold':>16}",
            flush=True,
        )
        for method in chosen.methods:
            began = time.perf_counter()
            kinds = zip(*measured(METHODS[method], used), strict=True)
            columns = "".join(cells([gap for fold in kind for gap in fold]) for kind in kinds)
            seconds = (time.perf_counter() - began) / len(used)
            print(f"{method:24}{columns}{seconds:16.1f}", flush=True)


if __name__ == "__main__":
    main()
