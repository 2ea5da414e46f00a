"""Fits, measures and tables that the sections of `gaps.py` share."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gap_systems import FAMILIES, System
from psimlearn import PSIM

LENGTH = 100
"""Rows of a training recording."""
COVERAGE = 0.9
"""The share that intervals are asked to hold."""
Row = dict[str, Any]
"""The numbers of one fit, or of one fit and one kind of gaps."""


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


def learnt(recordings: Any, **settings: Any) -> tuple[PSIM, float]:
    """PSIM() with a fixed seed, and the seconds of its fit."""
    began = time.perf_counter()
    return PSIM(random_state=0, **settings).fit(recordings), time.perf_counter() - began


def case(family: str, seed: int) -> Case:
    f = FAMILIES[family]
    system = f.system(seed)
    train = system.simulate(f.n_recordings, LENGTH, f.rng(seed, 1))
    return Case(family, seed, system, train, *learnt(train, window=f.window or "auto"))


def ratio(prediction: np.ndarray, best: np.ndarray, truth: np.ndarray, scale: np.ndarray) -> float:
    """Squared errors divided by those of the best prediction; infinite if a prediction is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        mine, least = (np.sum(((p - truth) / scale) ** 2) for p in (prediction, best))
        found = float(mine / least)
    return found if np.isfinite(found) else float("inf")


def held(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    """The share of observations inside their intervals."""
    return float(np.mean((low <= truth) & (truth <= high)))


def excess(mean: np.ndarray, best: np.ndarray, truth: np.ndarray, scale: np.ndarray, rows: slice) -> float:
    """In %."""
    return 100 * (ratio(mean[:, rows], best[:, rows], truth[:, rows], scale) - 1)


def ratios(groups: Iterable[tuple[str, list[Row]]], names: Sequence[str]) -> None:
    print(f"{'family':15}{'rows':12}{'systems':>8}{'median':>11}{'95 %':>11}{'worst':>11}{'> 1.1':>7}{'seed':>6}")
    for family, group in groups:
        for name in names:
            found = np.array([row[name] for row in group])
            cells = "".join(f"{number:11.4g}" for number in (np.median(found), np.quantile(found, 0.95), found.max()))
            worst = group[int(found.argmax())]["seed"]
            print(f"{family:15}{name:12}{len(group):8}{cells}{np.sum(found > 1.1):7}{worst:6}")


def spread(shares: Sequence[float]) -> str:
    return f"{np.mean(shares):.3f} ({min(shares):.3f} .. {max(shares):.3f})"


def by_family(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    for family in dict.fromkeys(row["family"] for row in rows):
        yield family, [row for row in rows if row["family"] == family]
