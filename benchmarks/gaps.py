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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gap_live
import psimlearn
from gap_systems import FAMILIES, HALVES, RANDOM, SHORT, Family, System, kalman
from psimlearn import PSIM, Trajectories
from psimlearn.datasets import noisy_pendulum, ocean, pixels, principal_components, snap_assembly, walking
from psimlearn.evaluate import folds

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
    families: tuple[str, ...]

    def has(self, family: str) -> bool:
        """Whether this family or set is asked for; all are, if none is named."""
        return not self.families or family in self.families


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
    ratios(by_family(rows), ("gap", "gap, seen", "after", "before"))
    print("\nLargest prediction, in largest training values; share held by 90 % intervals: mean (least .. most)")
    print(f"{'family':15}{'furthest':>10}" + "".join(f"{name:>24}" for name in SHARES))
    for family, group in by_family(rows):
        cells = "".join(f"{spread([row[name] for row in group]):>24}" for name in SHARES)
        print(f"{family:15}{max(row['furthest'] for row in group):10.3g}{cells}")
    print("\nSystems beyond 1.1 in the gap or after it, or with the missing channel held in less than 80 %")
    print(
        f"{'family':15}{'seed':>5}{'states':>7}{'outputs':>8}{'radius':>8}{'noise':>9}" + "".join(map(heading, DETAILS))
    )
    for row in rows:
        if max(row["gap"], row["after"]) > 1.1 or row["held in gap, missing"] < 0.8:
            facts = f"{row['states']:7}{row['outputs']:8}{row['radius']:8.4f}{row['noise']:9.2g}"
            print(f"{row['family']:15}{row['seed']:5}{facts}" + "".join(f"{row[name]:12.4g}" for name in DETAILS))


SHARES = ("held in gap, missing", "held in gap, seen", "held after", "held before", "Kalman held in gap")
DETAILS = ("gap", "gap, seen", "after", "before", "furthest", "held in gap, missing", "held after")


def ratios(groups: Iterable[tuple[str, list[Row]]], names: Sequence[str]) -> None:
    print(f"{'family':15}{'rows':12}{'systems':>8}{'median':>11}{'95 %':>11}{'worst':>11}{'> 1.1':>7}{'seed':>6}")
    for family, group in groups:
        for name in names:
            found = np.array([row[name] for row in group])
            cells = "".join(f"{number:11.4g}" for number in (np.median(found), np.quantile(found, 0.95), found.max()))
            worst = group[int(found.argmax())]["seed"]
            print(f"{family:15}{name:12}{len(group):8}{cells}{np.sum(found > 1.1):7}{worst:6}")


def heading(name: str) -> str:
    return f"{name.removesuffix(', missing').replace('held in gap', 'held gap'):>12}"


def spread(shares: Sequence[float]) -> str:
    return f"{np.mean(shares):.3f} ({min(shares):.3f} .. {max(shares):.3f})"


def by_family(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    for family in dict.fromkeys(row["family"] for row in rows):
        yield family, [row for row in rows if row["family"] == family]


# -- first rows ----------------------------------------------------------------------------------------------------

EARLY = 10
AGES = (0, 1, 2, 5)


def first_rows(model: PSIM, system: System | None, test: np.ndarray, scale: np.ndarray) -> Row:
    """Errors and intervals of the first rows of complete recordings (m, T, n); no ratios without a system."""
    mean = np.asarray(model.predict(test))
    low, high = (np.asarray(bound) for bound in model.predict_interval(test, horizon=1, coverage=COVERAGE))
    scores = np.asarray(model.score_samples(test)).reshape(test.shape[:2])
    lowest = scores <= np.quantile(scores, 0.01)
    found: Row = {"errors": np.mean(((mean - test)[:, :EARLY] / scale) ** 2, axis=(0, 2)).tolist()}
    if system is not None:
        best = kalman(system, test).mean
        for name, rows in STARTS.items():
            found[name] = ratio(mean[:, rows], best[:, rows], test[:, rows], scale)
    for age in AGES:
        found[f"held {age}"] = held(low[:, age], high[:, age], test[:, age])
    found["held later"] = held(low[:, EARLY:], high[:, EARLY:], test[:, EARLY:])
    found["first among lowest"] = float(lowest[:, 0].sum() / lowest.sum() * test.shape[1])
    return found


STARTS = {"rows 0-9": slice(0, EARLY), "row 0": slice(0, 1), "rows 1-9": slice(1, EARLY), "later": slice(EARLY, None)}


def start_of_case(c: Case) -> Row:
    return c.facts | first_rows(c.model, c.system, c.system.simulate(1000, 40, c.rng(3)), c.scale)


def start_of_pendulum(seed: int) -> Row:
    train, test = (noisy_pendulum(m, 80, np.random.default_rng([seed, p])) for p, m in ((0, 200), (1, 1000)))
    model, seconds = learnt(train)
    rows = np.stack([part.values for part in test])[:, :40]
    return {"family": "pendulum", "seed": seed, "seconds": seconds} | first_rows(
        model, None, rows, train.values.std(axis=0)
    )


def start_of_short(seed: int) -> Row:
    """300 recordings of 7 to 29 rows; the test recordings have 29 rows."""
    system, rng = SHORT.system(seed), SHORT.rng(seed, 1)
    whole = system.simulate(SHORT.n_recordings, 29, rng)
    train = [part[: rng.integers(7, 30)] for part in whole]
    model, seconds = learnt(train)
    test, scale = system.simulate(1000, 29, SHORT.rng(seed, 3)), np.concatenate(train).std(axis=0)
    return {"family": "short", "seed": seed, "seconds": seconds} | first_rows(model, system, test, scale)


def start_of_single(seed: int) -> Row:
    """One recording of 1000 rows, of a system of each of the first two families in turn."""
    family = FAMILIES[("noisy", "accurate")[seed % 2]]
    system = family.system(seed)
    train = system.simulate(1, 1000, family.rng(seed, 4))
    model, seconds = learnt(train)
    found = first_rows(model, system, system.simulate(1000, 40, family.rng(seed, 3)), train.std(axis=(0, 1)))
    return {"family": "one recording", "seed": seed, "seconds": seconds} | found


OTHER_STARTS: dict[str, tuple[Callable[[int], Row], int]] = {
    "pendulum": (start_of_pendulum, 3),
    "short": (start_of_short, SHORT.n_systems),
    "one recording": (start_of_single, 10),
}


def other_start(task: tuple[str, int]) -> Row:
    return OTHER_STARTS[task[0]][0](task[1])


def print_starts(rows: list[Row]) -> None:
    print("\nFirst rows of complete recordings: error / that of the Kalman filter that knows the system and the start")
    ratios(((family, group) for family, group in by_family(rows) if "row 0" in group[0]), tuple(STARTS))
    names = [*(f"held {age}" for age in AGES), "held later"]
    print(
        "\nShare held by 90 % intervals: mean (least .. most); first rows among the lowest 1 % of scores / their share"
    )
    print(f"{'family':15}" + "".join(f"{name:>24}" for name in names) + f"{'mean':>8}{'most':>8}")
    for family, group in by_family(rows):
        cells = "".join(f"{spread([row[name] for row in group]):>24}" for name in names)
        lowest = [row["first among lowest"] for row in group]
        print(f"{family:15}{cells}{np.mean(lowest):8.2f}{max(lowest):8.2f}")


# -- entries missing at random, and sensors missing in whole recordings ------------------------------------------------

SETTLED = slice(10, None)
"""Rows without the effect of the start."""
MISSING = (0.2, 0.5)


def without(x: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(x.shape) < share, np.nan, x)


def missing_at_random(task: tuple[str, int, bool]) -> list[Row]:
    name, seed, quick = task
    family = RANDOM[name]
    system = family.system(seed)
    train = system.simulate(300 if quick else family.n_recordings, LENGTH, family.rng(seed, 1))
    truth, scale = system.simulate(len(train), LENGTH, family.rng(seed, 2)), train.std(axis=(0, 1))
    whole = learnt(train)
    rows = []
    for share in MISSING:
        rng = family.rng(seed, 3)
        cut, gappy = without(train, share, rng), without(truth, share, rng)
        best = kalman(system, gappy).mean
        for trained, (model, seconds) in (("with gaps", learnt(cut)), ("whole", whole)):
            mean = np.asarray(model.predict(gappy))
            low, high = (np.asarray(bound) for bound in model.predict_interval(gappy, coverage=COVERAGE))
            row = {"family": name, "seed": seed, "missing": share, "trained": trained, "seconds": seconds}
            row["excess"] = excess(mean, best, truth, scale, SETTLED)
            row["excess, all rows"] = excess(mean, best, truth, scale, slice(None))
            row["held"] = held(low[:, SETTLED], high[:, SETTLED], truth[:, SETTLED])
            rows.append(row)
    return rows


def excess(mean: np.ndarray, best: np.ndarray, truth: np.ndarray, scale: np.ndarray, rows: slice) -> float:
    """In %."""
    return 100 * (ratio(mean[:, rows], best[:, rows], truth[:, rows], scale) - 1)


def print_random(rows: list[Row]) -> None:
    print(
        "\nEntries missing at random: excess over the Kalman filter that skips, in %, from row 10 on; all rows; seconds"
    )
    names = ("median", "worst", "each system")
    print(f"{'family':11}{'missing':>8}  {'trained':11}{'all rows':>9}{'seconds':>8}{'held':>7}" + EACH.format(*names))
    keys = dict.fromkeys((row["family"], row["missing"], row["trained"]) for row in rows)
    for family, missing, trained in keys:
        group = [row for row in rows if (row["family"], row["missing"], row["trained"]) == (family, missing, trained)]
        medians = [np.median([row[name] for row in group]) for name in ("excess, all rows", "seconds", "held")]
        cells = "{:9.3f}{:8.1f}{:7.3f}".format(*medians)
        print(f"{family:11}{missing:8.0%}  {trained:11}{cells}" + each([row["excess"] for row in group]))


EACH = "{:>9}{:>9}  {}"


def each(numbers: list[float]) -> str:
    """The median, the worst and all numbers, in order of their systems."""
    middle, worst = f"{np.median(numbers):.3f}", f"{max(numbers):.3f}"
    return EACH.format(middle, worst, " ".join(f"{number:7.3f}" for number in numbers))


def without_one_sensor(task: tuple[int, bool]) -> list[Row]:
    """Excess on complete recordings of three fits: sensor missing in half of the recordings; the rest; all complete."""
    seed, quick = task
    system = HALVES.system(seed)
    rng = HALVES.rng(seed, 1)
    train, sensor = system.simulate(HALVES.n_recordings, LENGTH, rng), int(rng.integers(system.n))
    cut = train.copy()
    cut[: len(cut) // 2, :, sensor] = np.nan
    truth = system.simulate(200 if quick else 1000, LENGTH, HALVES.rng(seed, 2))
    best, scale, rows = kalman(system, truth).mean, train.std(axis=(0, 1)), []
    for name, recordings in (("half without", cut), ("other half", cut[len(cut) // 2 :]), ("all complete", train)):
        model, seconds = learnt(recordings)
        found = excess(np.asarray(model.predict(truth)), best, truth, scale, SETTLED)
        rows.append({"family": "halves", "seed": seed, "trained": name, "seconds": seconds, "excess": found})
    return rows


def print_halves(rows: list[Row]) -> None:
    print("\nHalf of the recordings without one sensor: excess on complete recordings, in %, from row 10 on")
    print(f"{'trained on':15}{'seconds':>8}" + EACH.format("median", "worst", "each system"))
    for name in dict.fromkeys(row["trained"] for row in rows):
        group = [row for row in rows if row["trained"] == name]
        print(f"{name:15}{np.median([row['seconds'] for row in group]):8.1f}" + each([row["excess"] for row in group]))


# -- real recordings -----------------------------------------------------------------------------------------------

OUT, COPIES = 20, 6
"""Rows of a gap, and gaps cut from each test recording, each in a copy of the recording."""


def projected(data: Trajectories, n_components: int) -> Iterator[tuple[Trajectories, Trajectories]]:
    for train, test in folds(data, 5, np.random.default_rng(0)):
        components = principal_components(train, n_components)
        yield components.project(train), components.project(test)


SETS: dict[str, Callable[[], Iterator[tuple[Trajectories, Trajectories]]]] = {
    "pendulum": lambda: folds(noisy_pendulum(200, 100, np.random.default_rng(0)), 5, np.random.default_rng(0)),
    "HIRO assembly": lambda: folds(snap_assembly("S-22..S-46"), 5, np.random.default_rng(0)),
    "walking": lambda: projected(walking(), 25),
    "ocean": lambda: projected(pixels(ocean()).blocks(69, 5), 20),
}


def real_gaps(task: tuple[str, bool]) -> Row:
    """All entries of the given rows and channels of all copies count alike; five folds, or one if quick."""
    name, quick = task
    inside: dict[str, list[np.ndarray]] = {"gap": [], "gap, seen": [], "after": [], "before": []}
    errors, rng, seconds = [], np.random.default_rng(1), 0.0
    for train, test in list(SETS[name]())[: 1 if quick else None]:
        model, took = learnt(train)
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
            errors.append(((means[i] - truth[i])[first:last, channel] / train.values[:, channel].std()) ** 2)
        seconds += took
    shares = {f"held {rows}": float(np.mean(np.concatenate(parts))) for rows, parts in inside.items()}
    return {"family": name, "seed": 0, "seconds": seconds, "error in gap": float(np.mean(errors))} | shares


def print_real(rows: list[Row]) -> None:
    print(f"\nOne channel out for {OUT} rows: share held by 90 % intervals, squared error of the missing channel")
    names = ("held gap", "held gap, seen", "held after", "held before", "error in gap", "seconds")
    print(f"{'set':15}" + "".join(f"{name:>16}" for name in names))
    for row in rows:
        print(f"{row['family']:15}" + "".join(f"{row[name]:16.4g}" for name in names))


# -- the run -------------------------------------------------------------------------------------------------------

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
ERRORS = ("gap", "gap, seen", "after", "before", *STARTS, "excess", "excess, all rows", "error in gap")
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
    parser.add_argument("--families", nargs="+", default=(), help="only these families or sets of the tables")
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
