"""Single updates, banks of streams and whole recordings, compared with Kalman filter libraries.

    pip install ".[bench]"      # the other libraries; a missing one is left out
    python benchmarks/online.py
    python benchmarks/online.py --keep "AMD EPYC, two cores, idle"    # for the pages: see quoted.py

All libraries take turns on one core, and the fastest turn of each counts: quote ratios from one run only. The other
libraries are given the true system, with a state smaller than our beliefs; they also compute a covariance.
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", JAX_PLATFORMS="cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np

import quoted
from psimlearn.datasets import LinearSystem, random_system
from psimlearn.filter import Filter, Linear, Stack
from psimlearn.filter.live import Live
from psimlearn.filter.rollout import rolled
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.openings import with_opening

Steps = Callable[[np.ndarray], Any]
"""A function that filters rows in order: (T, n), (T, streams, n) for a bank, or (m, T, n) for whole recordings."""
PEERS = {"filterpy": "filterpy.kalman", "simdkalman": "simdkalman", "pykalman": "pykalman", "dynamax": "dynamax"}


def peer(name: str) -> Any:
    """The library, or None if it is not installed."""
    try:
        return import_module(PEERS[name])
    except ImportError:
        return None


@dataclass(frozen=True)
class Size:
    """A system, its recordings, and filters learnt from them."""

    n: int
    window: int
    n_states: int

    @cached_property
    def system(self) -> LinearSystem:
        return random_system(np.random.default_rng(0), self.n_states, self.n)

    @cached_property
    def data(self) -> Trajectories:
        return self.system.simulate(200, 200, np.random.default_rng(1))

    def filter(self, rank: int | None = None) -> Filter:
        rng = np.random.default_rng(0)
        some = self.data[:60]
        recipe = Recipe(rank=rank)
        return best(dagger(some, some, Stack(self.window), Ridge(), rng=rng, n_rounds=2, recipe=recipe)).filter

    def __str__(self) -> str:
        return f"n={self.n} k={self.window}"


@contextmanager
def numpy_alone() -> Iterator[None]:
    """As where numba is not installed."""
    with patch("psimlearn.filter.compiling._kernels", lambda: None):
        yield


SIZES = [Size(2, 2, 4), Size(13, 5, 20), Size(60, 5, 30)]


# -- one row at a time ---------------------------------------------------------------------------------------------


def bare(filter: Filter) -> Steps:
    """The fastest step in numpy: no checks, no box, no scaling, no missing values."""
    (regressor,) = filter.regressors
    assert isinstance(regressor, Linear)
    W, b, m_1 = np.ascontiguousarray(regressor.weights.T), regressor.intercept, filter.initial

    def run(rows: np.ndarray) -> None:
        m = m_1
        for x in rows:
            z = np.concatenate([m, x])
            m = W @ z + b

    return run


def ours(filter: Filter, n_streams: int = 1) -> Steps:
    live = Live(filter, n_streams)

    def run(rows: np.ndarray) -> None:
        for x in rows:
            live.update(x)

    return run


def ours_in_numpy(filter: Filter) -> Steps:
    with numpy_alone():
        return ours(filter)


def ours_predicting(filter: Filter) -> Steps:
    live = Live(filter)

    def run(rows: np.ndarray) -> None:
        for x in rows:
            live.update(x)
            live.predict()

    return run


def with_filterpy(system: LinearSystem) -> Steps | None:
    library = peer("filterpy")
    if library is None:
        return None
    kalman = library.KalmanFilter(dim_x=len(system.A), dim_z=len(system.C))
    kalman.F, kalman.H, kalman.Q, kalman.R = system.A, system.C, system.Q, system.R
    kalman.x, kalman.P = system.mean[:, None], system.stationary.P

    def run(rows: np.ndarray) -> None:
        for x in rows:
            kalman.predict()
            kalman.update(x)

    return run


def with_simdkalman(system: LinearSystem, n_streams: int = 1) -> Steps | None:
    library = peer("simdkalman")
    if library is None:
        return None
    kalman = library.KalmanFilter(system.A, system.Q, system.C, system.R)
    start = np.tile(system.mean[:, None], (n_streams, 1, 1)), np.tile(system.stationary.P, (n_streams, 1, 1))

    def run(rows: np.ndarray) -> None:
        m, P = start
        for x in rows.reshape(len(rows), n_streams, -1, 1):
            m, P = kalman.update(*kalman.predict_next(m, P), x)[:2]

    return run


def with_pykalman(system: LinearSystem) -> Steps | None:
    library = peer("pykalman")
    if library is None:
        return None
    kalman = library.KalmanFilter(system.A, system.C, system.Q, system.R)

    def run(rows: np.ndarray) -> None:
        m, P = system.mean, system.stationary.P
        for x in rows[:100]:  # slow: a hundred rows tell
            m, P = kalman.filter_update(m, P, x)

    return run


def dynamax_parts(system: LinearSystem) -> tuple[Any, Any, Any] | None:
    """Return jax in double precision, the inference module of dynamax, and the parameters of the system."""
    if peer("dynamax") is None:
        return None
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    inference = import_module("dynamax.linear_gaussian_ssm.inference")
    start, noise = system.stationary.P, (system.A, system.Q, system.C, system.R)
    return jax, inference, inference.make_lgssm_params(*map(jax.numpy.asarray, (system.mean, start, *noise)))


def with_dynamax(system: LinearSystem) -> Steps | None:
    """A jitted step made of the parts of dynamax, which has no public step."""
    parts = dynamax_parts(system)
    if parts is None:
        return None
    jax, inference, params = parts
    nothing = jax.numpy.zeros(0)

    @jax.jit  # type: ignore[untyped-decorator]
    def step(m: Any, P: Any, x: Any) -> Any:
        d, e = params.dynamics, params.emissions
        m, P = inference._predict(m, P, d.weights, d.input_weights, d.bias, d.cov, nothing)
        return inference._condition_on(m, P, e.weights, e.input_weights, e.bias, e.cov, nothing, x)

    def run(rows: np.ndarray) -> None:
        m, P = params.initial.mean, params.initial.cov
        for x in rows:
            m, P = step(m, P, x)
        m.block_until_ready()

    return run


# -- whole recordings ----------------------------------------------------------------------------------------------


def batch_of_ours(filter: Filter, data: Trajectories) -> Steps:
    """The full belief before every row."""
    return lambda _: filter.run(data)


def in_numpy(run: Steps) -> Steps:
    def alone(x: np.ndarray) -> None:
        with numpy_alone():
            run(x)

    return alone


def one_step_of_ours(filter: Filter, data: Trajectories) -> Steps:
    """Predictions of the next row alone."""
    return lambda _: filter.forecast(data, 1)


def dgemm_rate(width: int = 1000) -> float:
    """Multiplications and additions a second of a wide product."""
    a = np.ones((width, width))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - began)
    return 2 * width**3 / min(times)


def rollout_of_ours(filter: Filter, data: Trajectories) -> Steps:
    """The part of the belief that is fed back, as other libraries return their state; all answers are linear in it."""
    return lambda _: rolled(filter, data)


def batch_with_simdkalman(system: LinearSystem) -> Steps | None:
    library = peer("simdkalman")
    if library is None:
        return None
    kalman = library.KalmanFilter(system.A, system.Q, system.C, system.R)
    start = {"initial_value": system.mean, "initial_covariance": system.stationary.P}
    return lambda x: kalman.compute(x, 0, filtered=True, smoothed=False, observations=False, **start)


def batch_with_dynamax(system: LinearSystem) -> Steps | None:
    parts = dynamax_parts(system)
    if parts is None:
        return None
    jax, inference, params = parts
    run = jax.jit(jax.vmap(lambda x: inference.lgssm_filter(params, x).filtered_means))
    return lambda x: run(x).block_until_ready()


def batch_with_filterpy(system: LinearSystem) -> Steps | None:
    run = with_filterpy(system)
    return None if run is None else lambda x: run(x[:5].reshape(-1, x.shape[2]))


def batch_with_pykalman(system: LinearSystem) -> Steps | None:
    library = peer("pykalman")
    if library is None:
        return None
    kalman = library.KalmanFilter(system.A, system.C, system.Q, system.R)
    return lambda x: kalman.filter(x[0])


# -- taking turns --------------------------------------------------------------------------------------------------


def fastest(contenders: dict[str, tuple[Steps | None, int]], rows: np.ndarray, turns: int) -> dict[str, float]:
    """Seconds per row of the fastest turn of each library; the number given with it is its number of rows."""
    present = {name: (run, taken) for name, (run, taken) in contenders.items() if run is not None}
    for run, _ in present.values():
        run(rows)  # compile, fill caches
    times = dict.fromkeys(present, np.inf)
    for _ in range(turns):
        for name, (run, taken) in present.items():
            began = time.perf_counter()
            run(rows)
            times[name] = min(times[name], (time.perf_counter() - began) / taken)
    return times


def table(title: str, unit: str, columns: dict[str, dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for times in columns.values() for name in times))
    print(f"\n{title}\n{unit:34}" + "".join(f"{column:>14}" for column in columns))
    for name in names:
        cells = (f"{times[name]:14.3f}" if name in times else f"{'-':>14}" for times in columns.values())
        print(f"{name:34}" + "".join(cells))


def by_channels(columns: dict[str, dict[str, float]]) -> quoted.Rows:
    """A table as the rows that pages quote, by the number of channels."""
    rows: quoted.Rows = {}
    for size in SIZES:
        for name, time_of_one in columns.get(str(size), {}).items():
            rows.setdefault(name, {})[str(size.n)] = time_of_one
    return rows


def verdict(what: str, ratio: float, target: float, at_most: bool = False) -> None:
    met = ratio <= target if at_most else ratio >= target
    sign = "<=" if at_most else ">="
    print(f"  {what:58} {ratio:9.3g}   target {sign} {target:<5g} {'met' if met else 'MISSED'}")


def one_stream(turns: int) -> quoted.Rows:
    columns: dict[str, dict[str, float]] = {}
    for size in SIZES:
        filter, system, rows = size.filter(), size.system, size.data.values[:400]
        contenders: dict[str, tuple[Steps | None, int]] = {
            "bare numpy": (bare(filter), len(rows)),
            "psimlearn": (ours(filter), len(rows)),
            "psimlearn in numpy": (ours_in_numpy(filter), len(rows)),
            "psimlearn and predict": (ours_predicting(filter), len(rows)),
            "filterpy": (with_filterpy(system), len(rows)),
            "simdkalman": (with_simdkalman(system), len(rows)),
            "dynamax": (with_dynamax(system), len(rows)),
            "pykalman": (with_pykalman(system), 100),
        }
        columns[str(size)] = {name: 1e6 * t for name, t in fastest(contenders, rows, turns).items()}
    table("One update of one stream", "microseconds", columns)
    for size in SIZES:
        times = columns[str(size)]
        live = times["psimlearn"]
        verdict(f"{size}: update / bare numpy", live / times["bare numpy"], 2, at_most=True)
        if size.n < 60 and find_spec("numba") is not None:
            verdict(f"{size}: microseconds", live, {2: 1.0, 13: 1.7}[size.n], at_most=True)
        if "filterpy" in times and size.n < 60:
            verdict(f"{size}: filterpy / update", times["filterpy"] / live, 20)
    return by_channels(columns)


def bank(turns: int, n_streams: int = 10_000) -> quoted.Rows:
    size = SIZES[0]
    rows = np.random.default_rng(0).standard_normal((10, n_streams, size.n))
    gappy = rows.copy()
    gappy[np.random.default_rng(1).random(rows.shape) < 0.02] = np.nan
    filter, taken = size.filter(), len(rows) * n_streams
    live, with_gaps = ours(filter, n_streams), ours(filter, n_streams)  # gaps are felt in later rows
    contenders: dict[str, tuple[Steps | None, int]] = {
        "psimlearn": (live, taken),
        "psimlearn, 2 % missing": (lambda _: with_gaps(gappy), taken),
        "simdkalman": (with_simdkalman(size.system, n_streams), taken),
    }
    times = {name: 1e6 * t for name, t in fastest(contenders, rows, turns).items()}
    table(f"A bank of {n_streams} streams", "microseconds per stream and step", {str(size): times})
    verdict(f"{size}: microseconds", times["psimlearn"], 0.3, at_most=True)
    if "simdkalman" in times:
        verdict(f"{size}: simdkalman / update", times["simdkalman"] / times["psimlearn"], 10)
    return by_channels({str(size): times})


def batch(turns: int) -> quoted.Rows:
    columns: dict[str, dict[str, float]] = {}
    for size in SIZES:
        system, x, full = size.system, size.data.values.reshape(200, 200, size.n), size.filter()
        smaller = full.reduced(0.04, size.data)
        added = error(smaller, size.data) / error(full, size.data) - 1
        print(f"{size}: reduced from {len(full.feedback.mean)} to {len(smaller.feedback.mean)}, error {added:+.3%}")
        run, opened = batch_of_ours(full, size.data), with_opening(full, size.data, "any moment")
        contenders: dict[str, tuple[Steps | None, int]] = {
            "psimlearn": (run, 40_000),
            "psimlearn in numpy": (in_numpy(run), 40_000),
            "psimlearn, with an opening": (None if opened is None else batch_of_ours(opened, size.data), 40_000),
            "psimlearn roll": (rollout_of_ours(full, size.data), 40_000),
            "psimlearn one step": (one_step_of_ours(full, size.data), 40_000),
            "psimlearn one step, reduced": (one_step_of_ours(smaller, size.data), 40_000),
            "dynamax": (batch_with_dynamax(system), 40_000),
            "simdkalman": (batch_with_simdkalman(system), 40_000),
            "filterpy": (batch_with_filterpy(system), 1000),
            "pykalman": (batch_with_pykalman(system), 200),
        }
        columns[str(size)] = {name: 1e9 * t for name, t in fastest(contenders, x, turns).items()}
    table("Filtering 200 recordings of 200 rows", "nanoseconds per row", columns)
    for size, most, alone, one_step in zip(SIZES, (1.0, 1.5, None), (2.0, None, None), (None, 1.0, 1.0), strict=True):
        times = columns[str(size)]
        peer_time = times.get("dynamax")
        limits = {"psimlearn": most, "psimlearn in numpy": alone, "psimlearn one step, reduced": one_step}
        for what, limit in limits.items():
            if peer_time is not None and limit is not None:
                verdict(f"{size}: {what} / dynamax", times[what] / peer_time, limit, at_most=True)
    widest = SIZES[-1]
    d = widest.n * widest.window
    needed = 1e9 * 2 * d * (d + widest.n) / dgemm_rate()
    run_time = columns[str(widest)]["psimlearn"]
    verdict(f"{widest}: run / products at dgemm's rate ({needed:.0f} ns)", run_time / needed, 1.3, at_most=True)
    return by_channels(columns)


def error(filter: Filter, data: Trajectories) -> float:
    """The root mean square of one-step errors."""
    return float(np.sqrt(np.mean((filter.forecast(data, 1)[:, 0] - data.values) ** 2)))


def main(turns: int, machine: str | None) -> None:
    missing = [name for name in (*PEERS, "numba") if find_spec(name) is None]
    if machine and missing:
        raise SystemExit(f"--keep: required all that pages quote, received no {', '.join(missing)}. See make bench.")
    sizes = ", ".join(f"{size.n_states} at {size}" for size in SIZES)
    print(f"States of the peers: {sizes}; the full belief has {', '.join(str(s.n * s.window) for s in SIZES)} numbers.")
    for name in missing:
        print(f"{name} is not installed: left out.")
    found = {"update": one_stream(10 * turns), "bank": bank(turns), "run": batch(max(turns // 2, 2))}
    if machine:
        quoted.keep("online.py", machine, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", choices=["small"], help="few turns, to see that everything runs")
    parser.add_argument(
        "--keep", metavar="MACHINE", help="keep the figures for the pages, with the name of the machine"
    )
    chosen = parser.parse_args()
    main(2 if chosen.size else 6, chosen.keep)
