"""Sensors that fall out, and first rows: how far learnt filters are from the Kalman filter that knows the system.

    python benchmarks/gaps.py systems starts [--quick] [--jobs 2] [--out results.json]

Sections: `systems` one sensor out for 50 of 160 rows; `starts` the first rows of recordings. Sections that need the
same fits share them if they are named in one command.

Only public names of psimlearn are used, so that one file measures two versions: run it twice, with another PYTHONPATH.
The systems, their recordings and their Kalman filter are in `gap_systems.py`. Errors are squared, of predictions of the
next row, in standard deviations of the training data, compared with the observation that was made, or would have been
made by the missing sensor. A ratio divides them by those of the Kalman filter.
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import psimlearn
from gap_systems import FAMILIES, System, kalman
from psimlearn import PSIM

LENGTH, N_TEST = 100, 100
ROWS, GAP = 160, slice(60, 110)
BEFORE, AFTER = slice(10, 60), slice(110, 160)
COVERAGE, NORMAL = 0.9, 1.6448536269514722
"""The share that intervals are asked to hold, and the half width of such an interval of a standard normal."""
Row = dict[str, Any]


class Options(NamedTuple):
    sections: tuple[str, ...]
    quick: bool
    jobs: int


class Case(NamedTuple):
    """One system, its training recordings and the model learnt from them."""

    family: str
    seed: int
    system: System
    train: np.ndarray
    model: PSIM
    seconds: float

    def rng(self, purpose: int) -> np.random.Generator:
        return FAMILIES[self.family].rng(self.seed, purpose)

    @property
    def scale(self) -> np.ndarray:
        return np.asarray(self.train.std(axis=(0, 1)))

    @property
    def facts(self) -> Row:
        s = self.system
        found = {"family": self.family, "seed": self.seed, "states": len(s.A), "outputs": s.n}
        return found | {"radius": s.radius, "noise": s.noise, "seconds": self.seconds}


def learnt(recordings: Any, window: int | None = None) -> tuple[PSIM, float]:
    """PSIM() with a fixed seed, and the seconds of its fit."""
    began = time.perf_counter()
    settings: Row = {} if window is None else {"window": window}
    return PSIM(random_state=0, **settings).fit(recordings), time.perf_counter() - began


def case(family: str, seed: int) -> Case:
    f = FAMILIES[family]
    system = f.system(seed)
    train = system.simulate(f.n_recordings, LENGTH, f.rng(seed, 1))
    return Case(family, seed, system, train, *learnt(train, f.window))


def ratio(prediction: np.ndarray, best: np.ndarray, truth: np.ndarray, scale: np.ndarray) -> float:
    """Squared errors divided by those of the best prediction; infinite if a prediction is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        mine, least = (np.sum(((p - truth) / scale) ** 2) for p in (prediction, best))
        found = float(mine / least)
    return found if np.isfinite(found) else float("inf")


def held(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    """The share of observations inside their intervals."""
    return float(np.mean((low <= truth) & (truth <= high)))


# -- one sensor out ------------------------------------------------------------------------------------------------


def one_sensor_out(c: Case) -> Row:
    """Sensor drawn once for each system; the same rows of all test recordings."""
    rng, n = c.rng(2), c.system.n
    truth, sensor = c.system.simulate(N_TEST, ROWS, rng), int(rng.integers(n))
    others = [channel for channel in range(n) if channel != sensor]
    gappy = truth.copy()
    gappy[:, GAP, sensor] = np.nan
    mean, best = np.asarray(c.model.predict(gappy)), kalman(c.system, gappy)
    low, high = (np.asarray(bound) for bound in c.model.predict_interval(gappy, coverage=COVERAGE))

    def error(rows: slice, channels: Any = slice(None)) -> float:
        mine, least, true = (part[:, rows, channels] for part in (mean, best.mean, truth))
        return ratio(mine, least, true, c.scale[channels])

    def share(rows: slice, channels: Any = slice(None)) -> float:
        return held(low[:, rows, channels], high[:, rows, channels], truth[:, rows, channels])

    centre = c.train.mean(axis=(0, 1))
    reach = np.abs(c.train - centre).max(axis=(0, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        furthest = float(np.nan_to_num(np.abs(mean - centre) / reach, nan=np.inf).max())
        wide = NORMAL * np.sqrt(best.variance)
        off = np.abs(truth - best.mean) <= wide
    return c.facts | {
        "sensor": sensor,
        "gap": error(GAP),
        "gap, seen": error(GAP, others),
        "after": error(AFTER),
        "before": error(BEFORE),
        "furthest": furthest,
        "held in gap, missing": share(GAP, [sensor]),
        "held in gap, seen": share(GAP, others),
        "held after": share(AFTER),
        "held before": share(BEFORE),
        "Kalman held in gap": float(off[:, GAP, sensor].mean()),
    }


def print_systems(rows: list[Row]) -> None:
    print("\nOne sensor out for 50 of 160 rows: error / that of the Kalman filter that knows the system and skips")
    head = f"{'family':14}{'rows':12}{'systems':>9}{'median':>11}{'95 %':>11}{'worst':>11}{'> 1.1':>7}"
    print(head)
    for family, group in by_family(rows):
        for name in ("gap", "gap, seen", "after", "before"):
            found = np.array([row[name] for row in group])
            cells = "".join(f"{number:11.4g}" for number in (np.median(found), np.quantile(found, 0.95), found.max()))
            print(f"{family:14}{name:12}{len(group):9}{cells}{np.sum(found > 1.1):7}")
    print("\nLargest prediction, in largest training values; share held by 90 % intervals: mean (least .. most)")
    print(f"{'family':14}{'furthest':>10}" + "".join(f"{name:>24}" for name in SHARES))
    for family, group in by_family(rows):
        cells = "".join(f"{spread([row[name] for row in group]):>24}" for name in SHARES)
        print(f"{family:14}{max(row['furthest'] for row in group):10.3g}{cells}")
    print("\nSystems beyond 1.1 in the gap or after it, or with the missing channel held in less than 80 %")
    print(
        f"{'family':14}{'seed':>5}{'states':>7}{'outputs':>8}{'radius':>8}{'noise':>9}" + "".join(map(heading, DETAILS))
    )
    for row in rows:
        if max(row["gap"], row["after"]) > 1.1 or row["held in gap, missing"] < 0.8:
            facts = f"{row['states']:7}{row['outputs']:8}{row['radius']:8.4f}{row['noise']:9.2g}"
            print(f"{row['family']:14}{row['seed']:5}{facts}" + "".join(f"{row[name]:12.4g}" for name in DETAILS))


SHARES = ("held in gap, missing", "held in gap, seen", "held after", "held before", "Kalman held in gap")
DETAILS = ("gap", "gap, seen", "after", "before", "furthest", "held in gap, missing", "held after")


def heading(name: str) -> str:
    return f"{name.removesuffix(', missing').replace('held in gap', 'held gap'):>12}"


def spread(shares: Sequence[float]) -> str:
    return f"{np.mean(shares):.3f} ({min(shares):.3f} .. {max(shares):.3f})"


def by_family(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    for family in dict.fromkeys(row["family"] for row in rows):
        yield family, [row for row in rows if row["family"] == family]


# -- the run -------------------------------------------------------------------------------------------------------

MEASURES: dict[str, Callable[[Case], Row]] = {"systems": one_sensor_out}
"""Sections on the families of systems, which share their fits."""
PRINTERS: dict[str, Callable[[list[Row]], None]] = {"systems": print_systems}


def on_case(task: tuple[str, int, tuple[str, ...]]) -> dict[str, Row]:
    family, seed, sections = task
    now = case(family, seed)
    return {section: MEASURES[section](now) for section in sections}


def mapped(function: Callable[[Any], Any], tasks: Iterable[Any], jobs: int) -> Iterator[Any]:
    if jobs == 1:
        yield from map(function, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(function, tasks)


def on_families(options: Options) -> dict[str, list[Row]]:
    sections = tuple(name for name in options.sections if name in MEASURES)
    sizes = {name: 3 if options.quick else family.n_systems for name, family in FAMILIES.items()}
    tasks = [(name, seed, sections) for name, size in sizes.items() for seed in range(size)] if sections else []
    found: dict[str, list[Row]] = {section: [] for section in sections}
    for rows in mapped(on_case, tasks, options.jobs):
        for section, row in rows.items():
            found[section].append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="+", choices=list(PRINTERS), metavar="section")
    parser.add_argument("--quick", action="store_true", help="few systems, to see that everything runs")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="also write every number, as JSON")
    given = parser.parse_args()
    options = Options(tuple(given.sections), given.quick, given.jobs)
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # a filter that diverges overflows
    began = time.perf_counter()
    print(f"psimlearn of {Path(psimlearn.__file__).parents[1]}")
    found = on_families(options)
    for section in options.sections:
        PRINTERS[section](found[section])
    print(f"\n{time.perf_counter() - began:.0f} seconds")
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
