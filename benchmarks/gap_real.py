"""Section `real` of `gaps.py`: intervals inside and after gaps of one channel, on real recordings and a pendulum."""

from collections.abc import Callable, Iterator

import numpy as np

from gap_measures import COVERAGE, Row, learnt
from psimlearn import Trajectories
from psimlearn.datasets import noisy_pendulum, ocean, pixels, principal_components, snap_assembly, walking
from psimlearn.evaluate import folds

OUT, COPIES = 20, 6
"""Rows of a gap, and gaps cut from each test recording, each in a copy of the recording."""


def projected(data: Trajectories, n_components: int) -> Iterator[tuple[Trajectories, Trajectories]]:
    for train, test in folds(data, 5, np.random.default_rng(0)):
        components = principal_components(train, n_components)
        yield components.project(train), components.project(test)


def pendulum() -> Iterator[tuple[Trajectories, Trajectories]]:
    return folds(noisy_pendulum(200, 100, np.random.default_rng(0)), 5, np.random.default_rng(0))


SETS: dict[str, Callable[[], Iterator[tuple[Trajectories, Trajectories]]]] = {
    "pendulum": pendulum,
    "pendulum, rff": pendulum,
    "HIRO assembly": lambda: folds(snap_assembly("S-22..S-46"), 5, np.random.default_rng(0)),
    "walking": lambda: projected(walking(), 25),
    "ocean": lambda: projected(pixels(ocean()).blocks(69, 5), 20),
}


def real_gaps(task: tuple[str, bool]) -> Row:
    """All entries of the given rows and channels of all copies count alike; five folds; one if quick or slow."""
    name, quick = task
    inside: dict[str, list[np.ndarray]] = {"gap": [], "gap, seen": [], "after": [], "before": []}
    errors: dict[str, list[np.ndarray]] = {"error in gap": [], "error after": []}
    rng, seconds, learner = np.random.default_rng(1), 0.0, "rff" if name.endswith("rff") else "ridge"
    for train, test in list(SETS[name]())[: 1 if quick or learner == "rff" else None]:
        model, took = learnt(train, learner=learner)
        truth = [part.values for part in test for _ in range(COPIES)]
        gaps = [(int(rng.integers(10, len(x) - 2 * OUT)), int(rng.integers(test.n_channels))) for x in truth]
        gappy = [x.copy() for x in truth]
        for x, (first, channel) in zip(gappy, gaps, strict=True):
            x[first : first + OUT, channel] = np.nan
        means, (lows, highs) = model.predict(gappy), model.predict_interval(gappy, coverage=COVERAGE)
        for i, (first, channel) in enumerate(gaps):
            within, last = (lows[i] <= truth[i]) & (truth[i] <= highs[i]), first + OUT
            inside["gap"].append(within[first:last, channel])
            inside["gap, seen"].append(np.delete(within[first:last], channel, axis=1).ravel())
            inside["after"].append(within[last : last + OUT].ravel())
            inside["before"].append(within[10:first].ravel())
            off = ((means[i] - truth[i]) / train.values.std(axis=0)) ** 2
            errors["error in gap"].append(off[first:last, channel])
            errors["error after"].append(off[last : last + OUT].ravel())
        seconds += took
    shares = {f"held {rows}": float(np.mean(np.concatenate(parts))) for rows, parts in inside.items()}
    means_of_errors = {rows: float(np.mean(np.concatenate(parts))) for rows, parts in errors.items()}
    return {"family": name, "seed": 0, "seconds": seconds} | means_of_errors | shares


def print_real(rows: list[Row]) -> None:
    print(
        f"\nOne channel out for {OUT} rows: share held by 90 % intervals; squared errors of the missing channel, "
        "and of all channels after the gap"
    )
    names = ("held gap", "held gap, seen", "held after", "held before", "error in gap", "error after", "seconds")
    print(f"{'set':15}" + "".join(f"{name:>16}" for name in names))
    for row in rows:
        print(f"{row['family']:15}" + "".join(f"{row[name]:16.4g}" for name in names))
