"""DAgger on Gram sums, compared with scikit-learn's Ridge refitted to all stored examples; interleaved in one run.

    python benchmarks/fit.py            # everything, a few minutes
    python benchmarks/fit.py small      # the first size only

Prints ratios: machines are noisy, so quote only ratios that were measured side by side.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge as SklearnRidge

from psimlearn.datasets import random_system
from psimlearn.filter import Linear, RandomFourier, Stack
from psimlearn.filter.fourier import fourier_features
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, dagger

ALPHA = 1e-5


@dataclass(frozen=True)
class Stored:
    """The obvious learner: it stores all examples and refits from scratch."""

    n_features: int = 0
    directions: np.ndarray | None = None

    def prepare(self, z: np.ndarray, rng: np.random.Generator) -> "Stored":
        if not self.n_features:
            return self
        return replace(self, directions=RandomFourierRidge(self.n_features).prepare(z, rng).directions)

    def summarise(self, z: np.ndarray, y: np.ndarray, same: Any = None) -> list[tuple[np.ndarray, np.ndarray]]:
        if self.directions is None:
            return [(z.copy(), y.copy())]
        mapped = fourier_features(z, self.directions, True)
        mapped[:, : self.n_features] *= (self.n_features / 2) ** -0.5
        return [(mapped, y.copy())]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return a + b

    def solve(self, stats: list[tuple[np.ndarray, np.ndarray]]) -> Linear | RandomFourier:
        z, y = (np.concatenate(parts) for parts in zip(*stats, strict=True))
        model = SklearnRidge(ALPHA * len(z)).fit(z, y)
        weights = np.ascontiguousarray(model.coef_.T)
        if self.directions is None:
            return Linear(weights, model.intercept_)
        weights[: self.n_features] *= (self.n_features / 2) ** -0.5
        return RandomFourier(self.directions, True, Linear(weights, model.intercept_))


@dataclass(frozen=True)
class Size:
    """One row of the benchmark."""

    name: str
    n_trajectories: int
    length: int
    n: int
    window: int
    n_features: int
    repeats: int
    target: float

    def data(self) -> tuple[Trajectories, Trajectories]:
        rng = np.random.default_rng(0)
        system = random_system(rng, n_states=3 if self.n == 2 else 20, n_outputs=self.n)
        few = max(self.n_trajectories // 20, 2)
        return system.simulate(self.n_trajectories, self.length, rng), system.simulate(few, self.length, rng)

    def learner(self, kind: str) -> Any:
        if kind == "stored":
            return Stored(self.n_features)
        return RandomFourierRidge(self.n_features, ALPHA) if self.n_features else Ridge(ALPHA)


SIZES = [
    Size("1000 x 100, n=2, k=2", 1000, 100, 2, 2, 0, 5, 20),
    Size("43 x 300, n=60, k=5", 43, 300, 60, 5, 0, 2, 9),
    Size("43 x 300, n=60, k=5, 500 random features", 43, 300, 60, 5, 500, 1, 7),
]


def fit(size: Size, kind: str, data: tuple[Trajectories, Trajectories]) -> list[float]:
    """Fit for 20 rounds and return the seconds of each round; the first entry is the preparation."""
    times, last = [], time.perf_counter()
    for _ in dagger(*data, Stack(size.window), size.learner(kind), rng=np.random.default_rng(0), n_rounds=20):
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
    return times


def peak_memory(size: Size, kind: str) -> float:
    """Megabytes that a fit in a separate process needs in addition to libraries and data."""
    out = subprocess.run(
        [sys.executable, __file__, "memory", size.name, kind], capture_output=True, text=True, check=True
    )
    return float(out.stdout)


def peak_resident() -> float:
    """The largest resident size of this process so far, in megabytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def dgemm_shares() -> tuple[float, float]:
    """Rate of the Gram step at width 860, divided by that of matrix products: of the same tall shape, and square.

    The symmetric product is credited with half the work of a general one.
    """
    rng = np.random.default_rng(0)
    z, w, y = (rng.standard_normal((12_700, width)) for width in (860, 860, 300))
    square = rng.standard_normal((1800, 1800))
    rates: dict[str, float] = {"gram": 0.0, "tall": 0.0, "square": 0.0}
    work = {
        "gram": 2 * len(z) * 860 * (860 / 2 + 300),
        "tall": 2 * len(z) * 860 * 860,
        "square": 2 * len(square) ** 3,
    }
    step: dict[str, Callable[[], Any]] = {
        "gram": lambda: Ridge().summarise(z, y),
        "tall": lambda: z.T @ w,
        "square": lambda: square @ square,
    }
    for _ in range(9):
        for name in rates:
            began = time.perf_counter()
            step[name]()
            rates[name] = max(rates[name], work[name] / (time.perf_counter() - began))
    return rates["gram"] / rates["tall"], rates["gram"] / rates["square"]


def rank_times() -> tuple[float, float]:
    """Seconds of a fit that feeds back the full belief, and of one that feeds back 30 directions."""
    rng = np.random.default_rng(0)
    system = random_system(rng, n_states=20, n_outputs=90)
    data = system.simulate(39, 300, rng), system.simulate(5, 300, rng)
    times: dict[int | None, list[float]] = {None: [], 30: []}
    for _ in range(2):
        for rank, kept in times.items():
            recipe = Recipe(lags=5, prior="last", rank=rank)
            began = time.perf_counter()
            list(dagger(*data, Stack(5), Ridge(ALPHA), rng=rng, n_rounds=20, recipe=recipe))
            kept.append(time.perf_counter() - began)
    return min(times[None]), min(times[30])


def main(sizes: list[Size]) -> None:
    print(f"{'20 rounds of DAgger':42} {'Gram sums':>10} {'stored':>10} {'ratio':>8} {'target':>8}")
    for size in sizes:
        data = size.data()
        runs: dict[str, list[list[float]]] = {"gram": [], "stored": []}
        for _ in range(size.repeats):
            for kind, kept in runs.items():
                kept.append(fit(size, kind, data))
        gram, stored = (min(map(sum, runs[kind])) for kind in runs)
        print(f"{size.name:42} {gram:8.2f} s {stored:8.2f} s {stored / gram:7.1f}x {size.target:7.0f}x")
        second, twentieth = (min(times[i] for times in runs["gram"]) for i in (2, 20))
        print(f"{'  time of round 20 / round 2':42} {twentieth / second:41.2f} {'<= 1.20':>8}")
        small, large = (peak_memory(size, kind) for kind in ("gram", "stored"))
        print(f"{'  peak memory':42} {small:7.0f} MB {large:7.0f} MB {large / small:7.1f}x")
    if len(sizes) > 1:
        full, compressed = rank_times()
        name = "39 x 300, n=90, k=5, 5 lags: rank 30"
        print(f"{name:42} {compressed:8.2f} s {full:8.2f} s {full / compressed:7.1f}x {2.5:7.1f}x  (against full rank)")
    tall, square = dgemm_shares()
    print(f"{'Gram step, share of dgemm of that shape':42} {100 * tall:39.0f} % {'>= 80 %':>8}")
    print(f"{'Gram step, share of square dgemm':42} {100 * square:39.0f} %")


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        chosen = next(size for size in SIZES if size.name == sys.argv[2])
        prepared = chosen.data()
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = peak_resident()
        fit(chosen, sys.argv[3], prepared)
        print(peak_resident() - before)
    else:
        main(SIZES[:1] if sys.argv[1:] == ["small"] else SIZES)
