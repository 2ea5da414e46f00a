"""Gaps filled: `PSIM.impute` beside usual imputers, on recordings from which gaps were cut: the table of the docs.

    PSIMLEARN_DATA=folder python benchmarks/impute.py [set ..]

A fifth of the recordings is held out, and each of these loses one channel for 5 to 50 rows, or all channels for 5 rows.
Every method sees the training recordings whole and the others with their gaps. Errors are squared, in standard
deviations of the training data, averaged over the missing entries.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy.interpolate import CubicSpline
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from psimlearn import PSIM, Trajectories
from psimlearn.datasets import noisy_pendulum, ocean, pixels, principal_components, snap_assembly, walking
from psimlearn.evaluate import folds

N_COMPONENTS, LONGEST, WHOLE = 20, 50, 5
Recordings = list[np.ndarray]
Method = Callable[[Recordings, Recordings], Recordings]


def recordings_of(data: Trajectories) -> tuple[Trajectories, Trajectories]:
    return next(folds(data, 5, np.random.default_rng(0)))


def film() -> tuple[Trajectories, Trajectories]:
    train, test = recordings_of(pixels(ocean()).blocks(69, 5))
    components = principal_components(train, N_COMPONENTS)
    return components.project(train), components.project(test)


SETS: dict[str, Callable[[], tuple[Trajectories, Trajectories]]] = {
    "pendulum": lambda: recordings_of(noisy_pendulum(200, 100, np.random.default_rng(0))),
    "HIRO assembly": lambda: recordings_of(snap_assembly("S-22..S-46")),
    "walking": lambda: recordings_of(walking()),
    "ocean": film,
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
    def run(_: Recordings, gappy: Recordings) -> Recordings:
        filled = []
        for part in gappy:
            rows, now = np.arange(len(part)), part.copy()
            for c in range(part.shape[1]):
                seen = ~np.isnan(part[:, c])
                now[~seen, c] = fill(rows[~seen], rows[seen], part[seen, c])
            filled.append(now)
        return filled

    return run


def rowwise(make: Callable[[], IterativeImputer | KNNImputer]) -> Method:
    """An imputer of tables: a row with the row before and the row after it."""

    def wide(part: np.ndarray) -> np.ndarray:
        return np.concatenate([part, np.roll(part, 1, axis=0), np.roll(part, -1, axis=0)], axis=1)

    def run(train: Recordings, gappy: Recordings) -> Recordings:
        table = np.concatenate([wide(part) for part in train])
        some = table[np.random.default_rng(0).permutation(len(table))[:3000]]
        imputer = make().fit(some)
        return [imputer.transform(wide(part))[:, : part.shape[1]] for part in gappy]

    return run


def psim(train: Recordings, gappy: Recordings) -> Recordings:
    return list(PSIM(random_state=0).fit(train).impute(gappy))


METHODS: dict[str, Method] = {
    "linear interpolation": each_channel(lambda missing, seen, values: np.interp(missing, seen, values)),
    "cubic spline": each_channel(lambda missing, seen, values: CubicSpline(seen, values)(missing)),
    "KNNImputer": rowwise(lambda: KNNImputer(n_neighbors=5)),
    "IterativeImputer": rowwise(lambda: IterativeImputer(max_iter=5, n_nearest_features=30, random_state=0)),
    "PSIM.impute": psim,
}


def errors(name: str) -> Iterator[tuple[str, float, float, float]]:
    train, test = SETS[name]()
    scale = train.values.std(axis=0)
    parts = [part / scale for part in train.unpacked(train.values)]
    truth = [part / scale for part in test.unpacked(test.values)]
    rng = np.random.default_rng(1)
    gappy = [[cut(truth, whole, rng) for _ in range(3)] for whole in (False, True)]
    for method, run in METHODS.items():
        began, found = time.perf_counter(), []
        for cuts in gappy:
            every = [part for gaps in cuts for part in gaps]
            filled = run(parts, every)
            off = [(f - t)[np.isnan(g)] for f, t, g in zip(filled, truth * 3, every, strict=True)]
            found.append(float(np.mean(np.concatenate(off) ** 2)))
        yield method, found[0], found[1], time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    warnings.filterwarnings("ignore", module="sklearn")  # IterativeImputer says that it has not converged
    for name in parser.parse_args().sets:
        print(f"\n{name:24}{'one channel':>14}{'all channels':>14}{'seconds':>10}", flush=True)
        for method, one, all_channels, seconds in errors(name):
            print(f"{method:24}{one:14.4g}{all_channels:14.4g}{seconds:10.1f}", flush=True)


if __name__ == "__main__":
    main()
