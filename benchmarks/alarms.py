"""Alarms at a promised rate on sets with labels, beside simple detectors: precision, recall and false alarms.

    python benchmarks/alarms.py rates                  # false alarms on new recordings of three sets, a few minutes
    python benchmarks/alarms.py labels FOLDER ..       # sets with labels; FOLDERs hold the packages aeon and sktime

Every detector gets its threshold in the same way: from the scores of normal rows that it was not fitted to, with the
same tail as the thresholds of psimlearn; and alarms begin and end in the same way. HIRO needs PSIMLEARN_DATA. The sets
of aeon and sktime are read from the packages: `pip install --no-deps --target FOLDER aeon sktime`.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import Ridge as Regression

from psimlearn import PSIM, Trajectories
from psimlearn.datasets import long_memory_system, noisy_pendulum, snap_assembly
from psimlearn.evaluate.folds import folds
from psimlearn.filter.alarms import Bell, Scored, ringing
from psimlearn.filter.thresholds import thresholds_of

RATE = 1e-3
LAGS = 10
SETTLE = 20
"""Rows after a labelled stretch in which an alarm is neither right nor wrong: a filter recovers from the fault."""
Parts = list[np.ndarray]
Detector = Callable[[Parts], Callable[[Parts], Parts]]
"""Learns from normal recordings, and returns a function from recordings to scores."""


class Labelled(NamedTuple):
    """A set with labels."""

    name: str
    normal: Parts
    new: Parts
    labels: Parts
    """1 for rows of a fault."""


# -- detectors: low scores are unusual ---------------------------------------------------------------------------------


def distance(normal: Parts) -> Callable[[Parts], Parts]:
    """The squared distance from the mean, in units of the covariance."""
    return gaussian(np.concatenate(normal), lambda part: part)


def residuals(normal: Parts) -> Callable[[Parts], Parts]:
    """The squared distance of the errors of an autoregression."""
    z, x = (np.concatenate(side) for side in zip(*map(lagged, normal), strict=True))
    model = Regression(1e-3 * len(z)).fit(z, x)

    def errors(z: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray(x - model.predict(z).reshape(x.shape))

    return gaussian(errors(z, x), lambda part: errors(*lagged(part)))


def forest(normal: Parts) -> Callable[[Parts], Parts]:
    """An isolation forest on rows with their lags."""
    rows = np.concatenate([np.hstack(lagged(part)) for part in normal])
    model = IsolationForest(n_estimators=200, random_state=0).fit(rows)
    return lambda parts: [model.score_samples(np.hstack(lagged(part))) for part in parts]


def gaussian(errors: np.ndarray, of: Callable[[np.ndarray], np.ndarray]) -> Callable[[Parts], Parts]:
    """Minus half the squared distance of errors from their mean."""
    mean = errors.mean(axis=0)
    covariance = np.atleast_2d(np.cov(errors.T)) + 1e-9 * np.eye(errors.shape[1]) * errors.var()
    precision = np.linalg.inv(covariance)
    return lambda parts: [-0.5 * np.einsum("ti,ij,tj->t", of(p) - mean, precision, of(p) - mean) for p in parts]


def lagged(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last rows before each row, the first row repeated before the start, and the row."""
    padded = np.concatenate([np.tile(part[:1], (LAGS, 1)), part])
    return np.hstack([padded[LAGS - lag : len(padded) - lag] for lag in range(1, LAGS + 1)]), part


DETECTORS: dict[str, Detector] = {
    "AR residuals": residuals,
    "IsolationForest on lags": forest,
    "distance from the mean": distance,
}


# -- sets --------------------------------------------------------------------------------------------------------------


def faulty(name: str, simulate: Callable[[int, np.random.Generator], Trajectories], unit: np.ndarray) -> Labelled:
    """Simulated recordings, half of them with one fault: a sensor that jumps, sticks or becomes noisy for 10 rows."""
    rng = np.random.default_rng(0)
    normal, new = ([part.values.copy() for part in simulate(m, rng)] for m in (250, 400))
    labels = [np.zeros(len(part)) for part in new]
    for i in range(0, len(new), 2):
        rows, channel = slice(40, 50), int(rng.integers(new[i].shape[1]))
        if i % 3 == 0:
            new[i][rows, channel] += 3 * unit[channel]
        elif i % 3 == 1:
            new[i][rows, channel] = new[i][40, channel]
        else:
            new[i][rows, channel] += 2 * unit[channel] * rng.standard_normal(10)
        labels[i][rows] = 1
    return Labelled(name, normal, new, labels)


def simulated() -> Iterator[Labelled]:
    system = long_memory_system()
    unit = system.simulate(100, 100, np.random.default_rng(1)).values.std(axis=0)
    yield faulty("linear system, faults", lambda m, rng: system.simulate(m, 100, rng), unit)
    unit = noisy_pendulum(100, 100, np.random.default_rng(1)).values.std(axis=0)
    yield faulty("pendulum, faults", lambda m, rng: noisy_pendulum(m, 100, rng), unit)


def hiro() -> Iterator[Labelled]:
    """Every row of a failed trial counts as a fault; the five last successful trials are new and normal."""
    good, bad = ([part.values.copy() for part in snap_assembly(which)] for which in ("S-22..S-46", "E-02..E-17"))
    labels = [np.full(len(part), float(i >= 5)) for i, part in enumerate(good[20:] + bad)]
    yield Labelled("HIRO, failed trials", good[:20], good[20:] + bad, labels)


def shipped(folders: list[Path]) -> Iterator[Labelled]:
    """Sets in the packages aeon (KDD-TSAD 135) and sktime (mitdb, yahoo): one recording each, cut in time."""
    kdd = "aeon/datasets/data/KDD-TSAD_135/135_UCR_Anomaly_InternalBleeding16_{}.csv"
    for folder in folders:
        if (folder / kdd.format("TEST")).exists():
            train, new = (columns(folder / kdd.format(part)) for part in ("TRAIN", "TEST"))
            yield Labelled("KDD-TSAD 135", [train[:, 1:2]], [new[:, 1:2]], [new[:, 2]])
        for name, cut in (("mitdb", 4000), ("yahoo", 400)):
            if (path := folder / f"sktime/datasets/data/{name}/{name}.csv").exists():
                rows = columns(path)
                yield Labelled(name, [rows[:cut, :1]], [rows[cut:, :1]], [rows[cut:, 1]])


def columns(path: Path) -> np.ndarray:
    return np.genfromtxt(path, delimiter=",", skip_header=1)


# -- measures ----------------------------------------------------------------------------------------------------------


def thresholded(name: str, normal: Parts) -> tuple[Callable[[Parts], Parts], Bell]:
    """Scores and a bell. PSIM's come from `fit`; others are measured on five folds, then fitted to everything."""
    if name == "PSIM":
        model = PSIM(random_state=0).fit(normal)
        assert model.filter_.thresholds is not None
        return lambda parts: list(model.alarms(parts).score), Bell.of(model.filter_.thresholds, RATE, 1)
    parts = normal if len(normal) > 1 else np.array_split(normal[0], 5)
    held_out = []
    for fold in range(5):
        scores = DETECTORS[name]([part for i, part in enumerate(parts) if i % 5 != fold])
        held_out += scores(parts[fold::5])
    found = thresholds_of(np.concatenate(held_out))
    assert found is not None
    return DETECTORS[name](normal), Bell.of(found, RATE, 1)


def stretches(label: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], label > 0, [0]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def measured(name: str, data: Labelled) -> str:
    """Of the faults, the share with an alarm; of the alarms, the share that began in a fault or just after it."""
    scores, bell = thresholded(name, data.normal)
    found = faults = right = wrong = low = rows = 0
    for score, label in zip(scores(data.new), data.labels, strict=True):
        seen = np.ones(len(score), dtype=bool)
        alarm = ringing(bell, Scored(score, seen), np.array([0, len(score)]))
        near = np.zeros(len(score), dtype=bool)
        for first, last in stretches(label):
            near[first : last + SETTLE] = True
            faults, found = faults + 1, found + int(alarm[first:last].any())
        begun = alarm & ~np.concatenate([[False], alarm[:-1]])
        right, wrong = right + int((begun & near).sum()), wrong + int((begun & ~near).sum())
        before = np.cumsum(label) == 0  # after a fault a filter needs time, which is no error of its threshold
        low, rows = low + int(((score < bell.threshold) & before).sum()), rows + int(before.sum())
    precision = f"{right / (right + wrong):.2f}" if right + wrong else "-"
    rate = f"{low / rows:.1e}" if rows else "-"
    return f"| {data.name} | {name} | {precision} | {found / faults:.2f} ({found} of {faults}) | {wrong} | {rate} |"


def labels(folders: list[Path]) -> None:
    print("| set | detector | precision | recall | false alarms | low rows before faults |\n|---|---|---|---|---|---|")
    for sets in (simulated(), shipped(folders), hiro()):
        for data in sets:
            for name in ("PSIM", *DETECTORS):
                print(measured(name, data), flush=True)


def rates() -> None:
    """The share of rows of new recordings below the threshold, and of first rows, at several rates."""
    print("| set | rate | rows measured on | low rows | low first rows | alarms begun |\n|---|---|---|---|---|---|")
    rng, system = np.random.default_rng(0), long_memory_system()
    cases = {
        "linear system": [(system.simulate(250, 100, rng), system.simulate(2000, 100, rng))],
        "pendulum": [(noisy_pendulum(250, 100, rng), noisy_pendulum(2000, 100, rng))],
        "HIRO, 5 folds": list(folds(snap_assembly(), 5, rng)),
    }
    for name, pairs in cases.items():
        models = [(PSIM(random_state=0).fit(train), new) for train, new in pairs]
        for rate in (1e-2, 1e-3, 1e-4):
            try:
                print(f"| {name} | {rate:g} | {of_rate(models, rate)} |", flush=True)
            except ValueError as error:
                print(f"| {name} | {rate:g} | {error} |")


def of_rate(models: list[tuple[PSIM, Trajectories]], rate: float) -> str:
    low, first, begun, measured_on = [], [], [], 0
    for model, new in models:
        threshold = model.alarm_threshold(rate=rate)
        measured_on = int(model.filter_.thresholds.rows[0])  # type: ignore[union-attr]
        alarm, _, score = model.alarms(new, rate)
        for a, s in zip(alarm, score, strict=True):
            low.append(s < threshold)
            first.append(s[0] < threshold)
            begun.append(a & ~np.concatenate([[False], a[:-1]]))
    shares = [np.mean(np.concatenate(low)), np.mean(first), np.mean(np.concatenate(begun))]
    return f"{measured_on} | " + " | ".join(f"{share:.2e}" for share in shares)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rates"]:
        rates()
    else:
        labels([Path(folder) for folder in sys.argv[2:]])
