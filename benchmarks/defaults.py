"""Time and memory of `PSIM().fit`, from recordings to a calibrated filter: wide recordings, a long one, and growth.

    PSIMLEARN_DATA=folder python benchmarks/defaults.py [set ..] [--learner ridge]
    python benchmarks/defaults.py growth

Each set is fitted in a process of its own, with all threads of BLAS. Errors 1 to 5 steps ahead are those of recordings
that were not fitted to, five walks and a second simulation: they say whether a faster fit is also as good. All 48 walks
are fitted too, for the time only: the errors beside it are of rows that were fitted to.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from psimlearn.datasets import random_system, walking
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories

Pair = tuple[Trajectories, Trajectories]


def simulated(n_recordings: int, rows: int, channels: int, states: int) -> Pair:
    rng = np.random.default_rng(0)
    system = random_system(rng, n_states=states, n_outputs=channels)
    return system.simulate(n_recordings, rows, rng), system.simulate(20, 200, rng)


def walks() -> Pair:
    """All walks; the last five again for errors."""
    recordings = walking()
    return recordings, recordings[-5:]


SETS: dict[str, Callable[[], Pair]] = {
    "walking": walks,
    "walking-43": lambda: (walking()[:43], walking()[43:]),
    "20x500x200": lambda: simulated(20, 500, 200, 30),
    "1x300000x6": lambda: simulated(1, 300_000, 6, 8),
}
GROWTH = {"recordings": [(m, 200) for m in (100, 200, 400)], "rows": [(50, t) for t in (200, 400, 800)]}
"""Numbers of recordings and rows of simulated sets with 6 channels."""


def fitted(pair: Pair, learner: str) -> tuple[float, float, PSIM]:
    """Seconds of the clock, seconds of all cores, and the model."""
    clock, cpu = time.perf_counter(), time.process_time()
    model = PSIM(learner=learner, random_state=0).fit(pair[0])
    return time.perf_counter() - clock, time.process_time() - cpu, model


def peak_resident() -> float:
    """The largest resident size of this process so far, in megabytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def row(name: str, learner: str) -> None:
    """Fit one set and print a row of the table."""
    train, test = SETS[name]()
    clock, cpu, model = fitted((train, test), learner)
    errors = errors_by_horizon(model.filter_, test, 5, skip=10, scale=train.values.std(axis=0))
    chosen = {key: value for key, value in model.report_["choices"].items() if value is not None}
    told = " ".join(f"{error:.4g}" for error in errors)
    print(f"{name:12} {learner:6} {clock:7.1f} s {cpu:7.1f} CPU s {peak_resident():6.0f} MB   errors {told}")
    print(f"{'':12} {chosen}")


def growth() -> None:
    """Print how the time of a fit grows: the slope of its logarithm."""
    for what, sizes in GROWTH.items():
        times = [fitted(simulated(m, t, 6, 8), "ridge")[1] for m, t in sizes]
        rows = [m * t for m, t in sizes]
        exponent = np.polyfit(np.log(rows), np.log(times), 1)[0]
        told = ", ".join(f"{m} x {t}: {seconds:.1f}" for (m, t), seconds in zip(sizes, times, strict=True))
        print(f"growth with {what}: exponent {exponent:.2f}   (CPU s: {told})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="set", help=f"of {', '.join(SETS)}, growth")
    parser.add_argument("--learner", default="ridge")
    given = parser.parse_args()
    if given.sets == ["growth"]:
        growth()
    elif len(given.sets) == 1:
        row(given.sets[0], given.learner)
    else:
        for name in given.sets:
            subprocess.run([sys.executable, __file__, name, "--learner", given.learner], check=True)


if __name__ == "__main__":
    main()
