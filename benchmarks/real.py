"""The defaults on real recordings, compared with usual methods: the tables of docs/real-data.md.

    PSIMLEARN_DATA=folder python benchmarks/real.py [set ..] [--methods name ..]

Every method is fitted on the same folds and scored on the same rows: at least 10 rows into a test recording, 1 to 5
steps ahead, squared errors summed over channels. HIRO and walking are in standard deviations of the training data,
channel by channel; the videos in shares of the total variance of 20 principal components of the training blocks.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neural_network import MLPRegressor

from psimlearn.baselines import Lagged, LastObservation, TrainingMean
from psimlearn.datasets import beach, flag, ocean, pixels, principal_components, snap_assembly, walking
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import Forecaster, errors_by_horizon, folds
from psimlearn.recordings.trajectories import Trajectories

WINDOW, SKIP, N_FOLDS, N_COMPONENTS = 5, 10, 5, 20
HORIZONS = (1, 3, 5)


class Fold(NamedTuple):
    train: Trajectories
    test: Trajectories
    scale: np.ndarray


def by_recording(recordings: Trajectories) -> Iterator[Fold]:
    for train, test in folds(recordings, N_FOLDS, np.random.default_rng(0)):
        yield Fold(train, test, train.values.std(axis=0))


def by_block(frames: np.ndarray, stride: int) -> Iterator[Fold]:
    """Blocks of `stride` frames; the last frames of each block are left out as a gap."""
    blocks = pixels(frames).blocks(stride - WINDOW, WINDOW)
    for train, test in folds(blocks, N_FOLDS, np.random.default_rng(0)):
        components = principal_components(train, N_COMPONENTS)
        train, test = components.project(train), components.project(test)
        yield Fold(train, test, np.full(N_COMPONENTS, np.sqrt(train.values.var(axis=0).sum())))


SETS: dict[str, Callable[[], Iterator[Fold]]] = {
    "HIRO assembly": lambda: by_recording(snap_assembly("S-22..S-46")),  # S-02..S-21 are near copies of each other
    "walking": lambda: by_recording(walking()),
    "flag": lambda: by_block(flag(), 50),
    "ocean": lambda: by_block(ocean(), 74),
    "beach swash": lambda: by_block(beach(), 50),
}


def learnt(**settings: Any) -> Callable[[Trajectories], Forecaster]:
    return lambda train: PSIM(WINDOW, random_state=0, **settings).fit(train).filter_


def autoregression(lags: int, prior: str) -> Callable[[Trajectories], Forecaster]:
    """Direct multi-step ridge regression on lags: the filter without a belief; its ridge is chosen in the same way."""
    return learnt(lags=lags, prior=prior, belief_weight=0.0, level_weight=None)


def trees(train: Trajectories, lags: int = 5) -> Forecaster:
    """Fewer trees for wide data: the cost of a split is inputs times outputs."""
    wide = train.n_channels > 50
    size: dict[str, Any] = (
        {"n_estimators": 30, "max_features": 30, "min_samples_leaf": 2} if wide else {"n_estimators": 200}
    )
    return Lagged.fit(train, ExtraTreesRegressor(**size, random_state=0), lags)


METHODS: dict[str, Callable[[Trajectories], Forecaster]] = {
    "training mean": TrainingMean.fit,
    "last observation": LastObservation.fit,
    "AR-5": autoregression(5, "mean"),
    "AR-5, persistence prior": autoregression(5, "last"),
    "AR-10": autoregression(10, "mean"),
    "AR-10, persistence prior": autoregression(10, "last"),
    "ExtraTrees, 5 lags": trees,
    "ExtraTrees, 10 lags": lambda train: trees(train, 10),
    "MLP, 5 lags": lambda train: Lagged.fit(
        train, MLPRegressor(hidden_layer_sizes=(100, 100), early_stopping=True, max_iter=500, random_state=0)
    ),
    "PSIM()": learnt(),
    'PSIM(learner="trees")': learnt(learner="trees"),
    'PSIM(learner="auto")': learnt(learner="auto"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="set", help=f"of {', '.join(SETS)}")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    chosen = parser.parse_args()
    for name in chosen.sets:
        parts = list(SETS[name]())
        print(f"\n| {name} | 1 step | 3 steps | 5 steps | seconds a fit |\n|---|---|---|---|---|", flush=True)
        for method in chosen.methods:
            began = time.perf_counter()
            forecasters = [METHODS[method](fold.train) for fold in parts]
            seconds = (time.perf_counter() - began) / len(parts)
            errors = np.array(
                [
                    errors_by_horizon(forecaster, fold.test, max(HORIZONS), skip=SKIP, scale=fold.scale)
                    for forecaster, fold in zip(forecasters, parts, strict=True)
                ]
            )[:, np.array(HORIZONS) - 1]
            cells = " | ".join(
                f"{mean:.3g} +- {std:.1g}" for mean, std in zip(errors.mean(0), errors.std(0, ddof=1), strict=True)
            )
            print(f"| {method} | {cells} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
