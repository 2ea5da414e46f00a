"""Live streams with gaps, for `gaps.py`: a million rows, and the cost of a row while a gap is open.

python benchmarks/gap_live.py "AMD EPYC, two cores, idle"    # in numpy, kept for the pages: see quoted.py
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filterpy.kalman import KalmanFilter

import quoted
from gap_systems import Family, System
from psimlearn import PSIM

SIZES = {
    "n=2 k=2": Family(8, 1, (4, 4), (2, 2), (0.9, 0.9), (1.0, 1.0), window=2),
    "n=13 k=5": Family(8, 1, (20, 20), (13, 13), (0.9, 0.9), (1.0, 1.0), window=5),
    "n=60 k=5": Family(8, 1, (30, 30), (60, 60), (0.9, 0.9), (1.0, 1.0), window=5),
}
FIXED: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "level_weight": None, "n_rounds": 2}
"""Settings that make the step as large as the window says, on every version."""
Row = dict[str, Any]


def model_of(size: Family) -> tuple[System, PSIM]:
    system = size.system(0)
    train = system.simulate(100, 100, size.rng(0, 1))
    return system, PSIM(size.window, random_state=0, **FIXED).fit(train)


# -- a million rows ------------------------------------------------------------------------------------------------


def outages(n_rows: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Which entries are missing: each sensor fails with probability .02 and returns with probability .1 a row."""
    draws, out, now = rng.random((n_rows, n)), np.empty((n_rows, n), dtype=bool), np.zeros(n, dtype=bool)
    for t in range(n_rows):
        now = np.where(now, draws[t] >= 0.1, draws[t] < 0.02)
        out[t] = now
    return out


def resident() -> float:
    """Memory of this process, in MB; NaN where /proc does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), float("nan"))


def long_run(n_rows: int) -> list[Row]:
    """Tenths of the run, each with the same 1/10 of the rows and other gaps. Every hundredth row asks for intervals."""
    size = SIZES["n=2 k=2"]
    system, model = model_of(size)
    rows, rng = system.simulate(1, n_rows // 10, size.rng(0, 2))[0], size.rng(0, 3)
    reach, live, found = np.abs(rows).max(), model.start(), []
    for tenth in range(10):
        gappy = np.where(outages(len(rows), system.n, rng), np.nan, rows)
        finite, furthest, began, before = True, 0.0, time.perf_counter(), resident()
        for t, x in enumerate(gappy):
            live.update(x)
            if t % 100 == 0:
                answers = np.array(live.predict(coverage=0.9))
                finite = finite and bool(np.isfinite(answers).all())
                furthest = max(furthest, float(np.abs(answers[0]).max() / reach))
        micros = 1e6 * (time.perf_counter() - began) / len(rows)
        row = {"family": "long run", "seed": tenth, "rows": len(rows), "finite": finite, "furthest": furthest}
        found.append(row | {"memory before": before, "memory": resident(), "microseconds": micros})
    return found


# -- the cost of a row -----------------------------------------------------------------------------------------------


def ours(model: PSIM, rows: np.ndarray, intervals: bool = False) -> Callable[[], None]:
    live = model.start()

    def run() -> None:
        for x in rows:
            live.update(x)
            if intervals:
                live.predict(coverage=0.9)

    return run


def filterpys(system: System, rows: np.ndarray) -> Callable[[], None]:
    """filterpy knows the system; it gets the seen entries, with their rows of H and R."""
    k = KalmanFilter(dim_x=len(system.A), dim_z=system.n)
    C, R = system.C, system.noise * np.eye(system.n)
    k.F, k.Q, k.H, k.R, k.P = system.A, system.Q, C, R, system.start
    k.x = np.zeros(len(system.A))  # a column would be broadcast against the seen entries
    seen = [np.flatnonzero(~np.isnan(x)) for x in rows]

    def run() -> None:
        for x, o in zip(rows, seen, strict=True):
            k.predict()
            if len(o) == system.n:
                k.update(x)
            elif len(o):
                k.update(x[o], R=R[np.ix_(o, o)], H=C[o])
            else:
                k.update(None)

    return run


def costs(name: str, n_rows: int, turns: int) -> list[Row]:
    """Microseconds a row; all take turns, and the fastest turn counts."""
    size = SIZES[name]
    system, model = model_of(size)
    whole, rng = system.simulate(1, n_rows, size.rng(0, 2))[0], size.rng(0, 3)
    one_out, mixed = whole.copy(), np.where(outages(n_rows, system.n, rng), np.nan, whole)
    one_out[:, 0] = np.nan
    runs: dict[str, Callable[[], None]] = {
        "psimlearn, no gap": ours(model, whole),
        "filterpy, no gap": filterpys(system, whole),
        "psimlearn, sensor 0 out": ours(model, one_out),
        "filterpy, sensor 0 out": filterpys(system, one_out),
        "psimlearn, outages": ours(model, mixed),
        "filterpy, outages": filterpys(system, mixed),
        "psimlearn and interval, no gap": ours(model, whole, intervals=True),
        "psimlearn and interval, outages": ours(model, mixed, intervals=True),
    }
    times = dict.fromkeys(runs, np.inf)
    for _ in range(turns):
        for what, run in runs.items():
            began = time.perf_counter()
            run()
            times[what] = min(times[what], time.perf_counter() - began)
    return [{"family": name, "seed": 0, "run": what, "microseconds": 1e6 * t / n_rows} for what, t in times.items()]


def measured(quick: bool) -> list[Row]:
    rows = long_run(20_000 if quick else 1_000_000)
    for name in SIZES:
        rows += costs(name, 200 if quick else 1000, 2 if quick else 15)
    return rows


def print_live(rows: list[Row]) -> None:
    long = [row for row in rows if row["family"] == "long run"]
    print(f"\n{sum(row['rows'] for row in long)} live rows with gaps, in tenths; furthest prediction / largest row")
    print(f"{'tenth':6}{'finite':>8}{'furthest':>10}{'MB before':>11}{'MB after':>10}{'us a row':>10}")
    for row in long:
        memory = f"{row['memory before']:11.1f}{row['memory']:10.1f}"
        print(f"{row['seed']:<6}{row['finite']!s:>8}{row['furthest']:10.3g}{memory}{row['microseconds']:10.1f}")
    rest = {(row["run"], row["family"]): row["microseconds"] for row in rows if row["family"] != "long run"}
    print("\nMicroseconds a row, one stream; `outages`: each sensor out a sixth of the time")
    print(f"{'':34}" + "".join(f"{name:>12}" for name in SIZES))
    for run in dict.fromkeys(run for run, _ in rest):
        print(f"{run:34}" + "".join(f"{rest[run, name]:12.2f}" for name in SIZES))


def keep(machine: str) -> None:
    table: quoted.Rows = {}
    for name, size in SIZES.items():
        for row in costs(name, 1000, 15):
            table.setdefault(row["run"], {})[str(size.outputs[0])] = row["microseconds"]
    quoted.keep("gap_live.py", machine, {"gaps": table})


if __name__ == "__main__":
    from online import numpy_alone  # not above: it keeps this process to one core

    with numpy_alone():
        keep(sys.argv[1])
