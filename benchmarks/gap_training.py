"""Sections `random` and `halves` of `gaps.py`: gaps in the training recordings."""

import numpy as np

from gap_measures import COVERAGE, LENGTH, Row, excess, held, learnt
from gap_systems import HALVES, RANDOM, kalman

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
