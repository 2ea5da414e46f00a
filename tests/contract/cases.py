"""What engines are held to the textbook with: kinds of filters, their settings, and recordings with every kind of gap.

Filters are made of random numbers and not trained: the tests are about engines, and every combination is cheap.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import Any, Literal, NamedTuple

import numpy as np

from contract.readings import HORIZON
from psimlearn.filter import Features, Filter, Linear, RandomFourier, SecondMoment, Stack, StackSquares
from psimlearn.filter.ingaps import InGaps
from psimlearn.filter.localscale import SIGNS, LocalScale
from psimlearn.filter.thresholds import RATES, Thresholds
from psimlearn.filter.uncertainty import LEVELS, Calibration, Starting
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, made

__all__ = ["SETTINGS", "Case", "filter_of", "fixed", "product_of_all", "recordings"]

FEATURES: dict[str, Features] = {
    "stack": Stack(WINDOW),
    "squares": StackSquares(WINDOW),
    "moments": SecondMoment(WINDOW),
}


class Case(NamedTuple):
    """A filter in words."""

    kind: str
    features: str
    inputs: str
    lags: int
    prior: str
    weight: float
    """Of the belief in its feedback."""
    rank: bool
    box: bool
    """Whether a box bites, in doubt as well."""
    gaps: Literal["exact", "filled"]
    hints: bool
    level: float
    """Of the channels, in their standard deviations."""
    readings: str
    """What is calibrated: all rows alike; first rows and gaps apart, and claims of beliefs; each situation apart."""
    channels: int

    @property
    def exact(self) -> bool:
        """Whether gaps have a distribution."""
        return self.gaps == "exact" and self.foldable

    @property
    def foldable(self) -> bool:
        """Whether the step is one affine map of z or of random features."""
        affine = self.prior == "mean" or self.features == "stack"
        return affine and self.kind in ("linear", "opened", "waves", "waves and raw")

    @property
    def linear(self) -> bool:
        return self.kind in ("linear", "opened")

    @property
    def driven(self) -> bool:
        return self.inputs != "none"


SETTINGS: dict[str, list[Any]] = {
    "kind": [
        "linear",
        "opened",
        "waves",
        "waves and raw",
        "variances",
        "black box",
        "two in turn",
        "trees",
        "trees and waves",
    ],
    "features": list(FEATURES),
    "inputs": ["none", "inputs", "feedthrough"],
    "lags": [1, 3],
    "prior": ["mean", "last"],
    "weight": [0.7, 0.0],
    "rank": [False, True],
    "box": [False, True],
    "gaps": ["exact", "filled"],
    "hints": [False, True],
    "level": [0.0, 1e4],
    "readings": ["plain", "first rows", "situations"],
    "channels": [2, 3],
}


MODELS: dict[str, list[Any]] = SETTINGS | {
    "kind": ["linear", "opened", "waves", "waves and raw"],
    "gaps": ["exact"],
}
"""The settings of filters that are a Gaussian model, which all engines run."""


def exists(case: Case) -> bool:
    """Whether there is such a filter: only beliefs of squares hold a mean and a variance for each number."""
    return case.kind != "variances" or case.features == "squares"


def pairwise(settings: dict[str, list[Any]], possible: Callable[[Case], bool], seed: int = 0) -> list[Case]:
    """Cases in which each two values of any two settings meet, if they can; dealt out greedily, always the same."""
    names, rng = list(settings), RNG(seed)
    wanted = {
        pair
        for a, b in combinations(names, 2)
        for pair in product([(a, x) for x in settings[a]], [(b, y) for y in settings[b]])
    }
    cases: list[Case] = []
    while wanted:
        first = dict(min(wanted, key=repr))
        tried = [Case(**{name: each[rng.integers(len(each))] for name, each in settings.items()}) for _ in range(80)]
        tried = [case for each in tried if possible(case := each._replace(**first))]
        if not tried:  # these two values never meet
            wanted.discard(min(wanted, key=repr))
            continue
        cases.append(max(tried, key=lambda case: len(pairs_of(case) & wanted)))
        wanted -= pairs_of(cases[-1])
    return cases


def pairs_of(case: Case) -> set[Any]:
    """The pairs of settings that meet in a case."""
    return set(combinations(case._asdict().items(), 2))


def fixed() -> list[Case]:
    """The cases of every run of the tests: all pairs of settings, and all pairs among the filters that are models."""
    return [*pairwise(SETTINGS, exists), *pairwise(MODELS, lambda case: case.exact)]


def product_of_all() -> Iterator[Case]:
    """Every combination of what the step of a model is made of, and for other filters of what they take in.

    The settings that are no part of these are dealt out at random, always the same.
    """
    rng, others = RNG(1), [kind for kind in SETTINGS["kind"] if kind not in MODELS["kind"]]
    taken = ["kind", "features", "inputs", "lags", "prior"]
    for kinds, names in ((MODELS["kind"], [*taken, "weight", "box"]), (others, taken)):
        settings = {**SETTINGS, "kind": kinds}
        for values in product(*(settings[name] for name in names)):
            dealt = {name: each[rng.integers(len(each))] for name, each in settings.items()}
            case = Case(**{**dealt, **dict(zip(names, values, strict=True))})
            if exists(case):
                yield case


def filter_of(case: Case, seed: int = 0) -> Filter:
    """A random filter."""
    n, features = case.channels, FEATURES[case.features]
    filter = made(case.kind, features, case.inputs, case.lags, case.prior, case.rank, case.box, seed, n)
    rng, d = RNG([seed, 2]), len(filter.initial)
    waves = filter.regressors[0]
    if n > 3 and isinstance(waves, RandomFourier):  # steep waves of many numbers would enlarge rounding in any engine
        filter = replace(filter, regressors=(replace(waves, directions=waves.directions / n),))
    known = case.lags * n + {"none": 0, "inputs": 1, "feedthrough": 2}[case.inputs]
    hinting = Linear(rng.standard_normal((d + known, 2)), rng.standard_normal(2)) if case.hints else None
    mean = filter.scaling.mean + case.level * filter.scaling.scale
    filter = replace(
        filter,
        feedback=filter.feedback.weighted(case.weight / 0.7),
        scaling=filter.scaling._replace(mean=mean),
        gaps=case.gaps,
        span=np.array([[-0.5] * n, [0.5] * n]),
        hinting=hinting,
    )
    return calibrated(filter, case, rng)


def calibrated(filter: Filter, case: Case, rng: np.random.Generator) -> Filter:
    """The filter with random calibrations, for fewer steps than are asked for."""
    n, first, local = case.channels, case.readings == "first rows", case.readings == "situations"

    def quantiles(*shape: int) -> np.ndarray:
        return np.sort(rng.uniform(0, 3, (len(LEVELS), *shape)), axis=0)

    def calibration(horizon: int) -> Calibration:
        base, claims = np.sort(rng.uniform(0.5, 2.0, (horizon, n)), axis=0), first and case.features != "stack"
        return Calibration(base, np.full((horizon, n), 0.5 * claims), quantiles(horizon, n))

    known = calibration(HORIZON - 2)
    thresholds = Thresholds(np.sort(rng.uniform(-3, 0.5, len(RATES))), np.array([1e6]), np.array([1e-3]))
    filter = replace(
        filter,
        calibration=known,
        calibration_blind=calibration(WINDOW) if case.driven else None,
        calibration_next=calibration(WINDOW) if case.inputs == "feedthrough" else None,
        thresholds=thresholds,
    )
    if not first and not local:
        return filter
    starting = Starting(rng.uniform(0.5, 4.0, (3, 2, n)), quantiles(3, n), 3 * filter.covariance)
    if first:
        return replace(filter, starting=starting, in_gaps=InGaps(np.array([1.7]), quantiles()))
    scores, logs = np.sort(rng.standard_normal((2, 6)), axis=1)
    shape = (HORIZON - 1, n)
    scale = LocalScale(
        np.array([0.3]),
        rng.uniform(0.5, 2.0, n),
        rng.standard_normal(SIGNS),
        scores,
        logs,
        rng.uniform(0, 1, shape),
        rng.uniform(0.5, 2, shape),
        quantiles(*shape),
    )
    return replace(filter, starting=starting, local=scale)


LENGTH = 12
GAPS: dict[str, Any] = {
    "none": (),
    "single entries": (([2, 3, 5, 8, 10], [0, 1, 0, 1, 0]),),
    "one channel out": ((slice(2, 9), 0),),
    "all out": ((slice(3, 6), slice(None)),),
    "two gaps": ((slice(2, 4), 0), (slice(4, 6), slice(None)), (slice(8, 10), 1)),
    "first row": ((0, 0),),
    "first rows of a channel": ((slice(0, 4), 1),),
    "late start": ((slice(0, 2), slice(None)),),
    "late start in part": ((slice(0, 3), slice(None)), (slice(3, 5), 0)),
    "second row": ((1, slice(None)),),
    "an end": ((slice(7, 12), slice(None)),),
}
"""The entries that are missing."""


@cache
def recordings(case: Case, gappy: bool, seed: int = 0) -> Trajectories:
    """One recording for each kind of gap; or some without any gap, of different lengths."""
    rng, n, filter = RNG([seed, 3]), case.channels, filter_of(case, seed)
    lengths = [LENGTH] * len(GAPS) + [1, 3] if gappy else [9, 1, 12]
    z = np.cumsum(rng.standard_normal((sum(lengths), n)), axis=0) * 0.2 + rng.standard_normal((sum(lengths), n))
    parts = np.split(filter.scaling.undo(z), np.cumsum(lengths)[:-1])
    for part, missing in zip(parts, GAPS.values(), strict=False):
        for entries in missing if gappy else ():
            part[entries] = np.nan
    if gappy:
        parts[-2][0, 0] = np.nan
        parts[-1][:] = np.nan
    data = Trajectories.of(parts)
    return replace(data, inputs=rng.standard_normal((len(data.values), 1))) if case.driven else data
