"""Sections `systems` and `starts` of `gaps.py`: a sensor that falls out, and first rows, on linear systems."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gap_measures import COVERAGE, Case, Row, by_family, held, learnt, ratio, ratios, spread
from gap_systems import FAMILIES, SHORT, System, kalman
from psimlearn import PSIM
from psimlearn.datasets import noisy_pendulum

N_TEST, ROWS = 100, 160
BEFORE, GAP, AFTER = slice(10, 60), slice(60, 110), slice(110, 160)
NORMAL = 1.6448536269514722
"""The half width of a 90 % interval of a standard normal."""


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


def heading(name: str) -> str:
    return f"{name.removesuffix(', missing').replace('held in gap', 'held gap'):>12}"


# -- first rows ----------------------------------------------------------------------------------------------------

EARLY = 10
AGES = (0, 1, 2, 5)


def first_rows(model: PSIM, system: System | None, test: np.ndarray, scale: np.ndarray) -> Row:
    """Errors and intervals of the first rows of complete recordings (m, T, n); no ratios without a system."""
    mean = np.asarray(model.predict(test))
    low, high = (np.asarray(bound) for bound in model.predict_interval(test, horizon=1, coverage=COVERAGE))
    found: Row = {"errors": np.mean(((mean - test)[:, :EARLY] / scale) ** 2, axis=(0, 2)).tolist()}
    if system is not None:
        reference = kalman(system, test)
        best = reference.mean
        for name, rows in STARTS.items():
            found[name] = ratio(mean[:, rows], best[:, rows], test[:, rows], scale)
        found["first of Kalman"] = first_among_lowest(reference.nats)
    for age in AGES:
        found[f"held {age}"] = held(low[:, age], high[:, age], test[:, age])
    found["held later"] = held(low[:, EARLY:], high[:, EARLY:], test[:, EARLY:])
    found["first"] = first_among_lowest(np.asarray(model.score_samples(test)).reshape(test.shape[:2]))
    found["first, relative"] = first_among_lowest(
        np.asarray(model.score_samples(test, relative=True)).reshape(test.shape[:2])
    )
    return found


def first_among_lowest(scores: np.ndarray) -> float:
    """The share of first rows among the lowest 1 % of scores, over their share of all rows."""
    lowest = scores <= np.quantile(scores, 0.01)
    return float(lowest[:, 0].sum() / lowest.sum() * scores.shape[1])


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
        "\nShare held by 90 % intervals: mean (least .. most); first rows among the lowest 1 % of scores, over their\n"
        "share: log-likelihoods, those of the Kalman filter, and scores less their expectation (most)"
    )
    print(
        f"{'family':15}" + "".join(f"{name:>24}" for name in names) + f"{'nats':>8}{'Kalman':>8}{'less':>8}{'most':>8}"
    )
    for family, group in by_family(rows):
        cells = "".join(f"{spread([row[name] for row in group]):>24}" for name in names)
        plain, kalman, relative = (
            [row.get(name, np.nan) for row in group] for name in ("first", "first of Kalman", "first, relative")
        )
        print(
            f"{family:15}{cells}{np.mean(plain):8.2f}{np.mean(kalman):8.2f}{np.mean(relative):8.2f}{max(relative):8.2f}"
        )
