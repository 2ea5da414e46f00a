"""Sensors that fall out, and first rows: how far learnt filters are from the Kalman filter that knows the system.

    python benchmarks/gaps.py section .. [--quick] [--jobs 2] [--out new.json] [--against old.json]

systems   one sensor out for 50 of 160 rows, on four families of systems
starts    the first rows of recordings, on the same systems (the fits are shared if both are asked for), on the noisy
          pendulum, and learnt from hundreds of short recordings or from one recording
random    20 and 50 % of all entries missing at random, in training and in use, or in use alone
halves    half of the training recordings without one sensor
live      a million live rows with gaps, and the cost of a row with a gap open, beside filterpy (`gap_live.py`)
real      intervals inside and after gaps of one channel, on real recordings (PSIMLEARN_DATA) and the pendulum

Only public names of psimlearn are used, so that one file measures two versions: run it twice, with another PYTHONPATH.
The systems, their recordings and their Kalman filter are in `gap_systems.py`. Errors are squared, of predictions of the
next row, in standard deviations of the training data, compared with the observation that was made, or would have been
made by the missing sensor. A ratio divides them by those of the Kalman filter; an excess is a ratio less one, in %.
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gap_live
import psimlearn
from gap_linear import OTHER_STARTS, STARTS, one_sensor_out, other_start, print_starts, print_systems, start_of_case
from gap_measures import Case, Row, by_family, case
from gap_real import SETS, print_real, real_gaps
from gap_systems import FAMILIES, HALVES, RANDOM, Family
from gap_training import missing_at_random, print_halves, print_random, without_one_sensor


class Options(NamedTuple):
    sections: tuple[str, ...]
    quick: bool
    jobs: int
    families: tuple[str, ...]

    def has(self, family: str) -> bool:
        """Whether this family or set is asked for; all are, if none is named."""
        return not self.families or family in self.families


MEASURES: dict[str, Callable[[Case], Row]] = {"systems": one_sensor_out, "starts": start_of_case}
"""Sections on the families of systems, which share their fits."""
PRINTERS: dict[str, Callable[[list[Row]], None]] = {
    "systems": print_systems,
    "starts": print_starts,
    "random": print_random,
    "halves": print_halves,
    "live": gap_live.print_live,
    "real": print_real,
}
NAMES = [*FAMILIES, *OTHER_STARTS, *RANDOM, *SETS]
ERRORS = ("gap", "gap, seen", "after", "before", *STARTS, "excess", "excess, all rows", "error in gap", "error after")
"""Numbers that should not grow from one version to the next."""


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
    tasks = [(name, seed, sections) for name, seed in chosen(FAMILIES, options)] if sections else []
    found: dict[str, list[Row]] = {section: [] for section in sections}
    for rows in mapped(on_case, tasks, options.jobs):
        for section, row in rows.items():
            found[section].append(row)
    return found


def chosen(families: dict[str, Family], options: Options) -> list[tuple[str, int]]:
    """Families and seeds."""
    few = 3 if families is FAMILIES else 1
    sizes = {name: few if options.quick else f.n_systems for name, f in families.items() if options.has(name)}
    return [(name, seed) for name, size in sizes.items() for seed in range(size)]


def on_others(section: str, options: Options) -> list[Row]:
    """The rows of a section beside those on the families of systems."""
    quick, jobs = options.quick, options.jobs
    if section == "starts":
        sizes = {name: 1 if quick else size for name, (_, size) in OTHER_STARTS.items() if options.has(name)}
        return list(mapped(other_start, [(name, seed) for name, size in sizes.items() for seed in range(size)], jobs))
    if section == "random":
        tasks = [(*one, quick) for one in chosen(RANDOM, options)]
        return [row for rows in mapped(missing_at_random, tasks, jobs) for row in rows]
    if section == "halves":
        seeds = range(2 if quick else HALVES.n_systems)
        return [row for rows in mapped(without_one_sensor, [(seed, quick) for seed in seeds], jobs) for row in rows]
    if section == "real":
        return list(mapped(real_gaps, [(name, quick) for name in SETS if options.has(name)], jobs))
    return gap_live.measured(quick) if section == "live" else []


def compare(section: str, new: list[Row], old: list[Row]) -> None:
    """Errors of this run divided by those of an earlier run, system by system; for excesses, their difference."""
    before = {_identity(row): row for row in old}
    print(f"\n{section}, compared with the earlier run (ratios; differences of excesses)")
    print(f"{'family':15}{'error':18}{'systems':>8}{'median':>10}{'worst':>10}{'worse':>7}{'seed':>6}")
    for family, group in by_family([row for row in new if _identity(row) in before]):
        for name in (name for name in ERRORS if name in group[0]):
            pairs = [(row[name], before[_identity(row)][name]) for row in group]
            differs = name.startswith("excess")
            found = np.array([a - b if differs else a / b for a, b in pairs])
            n_worse, seed = np.sum(found > (0.0 if differs else 1.0005)), group[int(found.argmax())]["seed"]
            print(f"{family:15}{name:18}{len(group):8}{np.median(found):10.4f}{found.max():10.4f}{n_worse:7}{seed:6}")


def _identity(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("family", "seed", "missing", "trained"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="+", choices=list(PRINTERS), metavar="section")
    parser.add_argument("--quick", action="store_true", help="few systems, to see that everything runs")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--families",
        nargs="+",
        default=(),
        choices=NAMES,
        metavar="name",
        help="only these families or sets of the tables",
    )
    parser.add_argument("--out", type=Path, help="also write every number, as JSON")
    parser.add_argument("--against", type=Path, help="JSON of an earlier run, to compare with")
    given = parser.parse_args()
    options = Options(tuple(given.sections), given.quick, given.jobs, tuple(given.families))
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # a filter that diverges overflows
    began = time.perf_counter()
    print(f"psimlearn of {Path(psimlearn.__file__).parents[1]}", flush=True)
    old = {} if given.against is None else json.loads(given.against.read_text())
    found = on_families(options)
    for section in options.sections:
        found[section] = found.get(section, []) + on_others(section, options)
        PRINTERS[section](found[section])
        if section in old:
            compare(section, found[section], old[section])
        if given.out is not None:
            given.out.write_text(json.dumps(found, indent=1))
    print(f"\n{time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
