"""Out of core: make Parquet sets of any size, fit a filter to them in bounded memory, and compare engines.

python benchmarks/shards.py make FOLDER ROWS [EACH]   write shards of 100 (EACH) recordings of 1000 rows x 13 channels
python benchmarks/shards.py fit FOLDER [WORKERS]      fit, and print seconds, peak memory and a hash of the filter
python benchmarks/shards.py wide FOLDER [FEATURES]    one worker against two, by random features: processes, then Dask
"""

import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psimlearn import PSIM, RandomFourierRidge, Recipe, Ridge, Shards
from psimlearn.choose.watch import Stage, Watch
from psimlearn.recordings.passes import InTurn, Processes

CHANNELS, LENGTH, EACH = 13, 1000, 100
"""Channels, rows of a recording, and recordings of a shard."""
USAGE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
NAMES = [f"x{i}" for i in range(CHANNELS)]


def system(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Eight states that turn and fade, and the way in which thirteen sensors see them."""
    A = 0.97 * np.linalg.qr(rng.standard_normal((8, 8)))[0]
    return A, rng.standard_normal((CHANNELS, 8))


def shard(number: int, each: int) -> np.ndarray:
    """(recordings, rows, channels), the same for the same number."""
    A, C = system(np.random.default_rng(0))
    rng = np.random.default_rng([1, number])
    s, x = rng.standard_normal((each, 8)), np.empty((each, LENGTH, CHANNELS))
    for t in range(LENGTH):
        x[:, t] = s @ C.T + 0.5 * rng.standard_normal((each, CHANNELS))
        s = s @ A.T + 0.3 * rng.standard_normal((each, 8))
    return x


def make(folder: Path, rows: int, each: int = EACH) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(rows // (each * LENGTH)):
        x = shard(number, each)
        ids = np.repeat(np.arange(each) + number * each, LENGTH)
        columns = {"recording": ids, **dict(zip(NAMES, x.reshape(-1, CHANNELS).T, strict=True))}
        pq.write_table(
            pa.table(columns), folder / f"{number:05d}.parquet", compression="none", use_dictionary=["recording"]
        )


class Timed(Watch):
    """Notes when each message came."""

    def __init__(self) -> None:
        self.begin, self.passes, self.trains, self.passed = time.perf_counter(), 0, 0.0, 0.0

    def __call__(self, message: str) -> None:
        if "shards with the settings chosen" in message:
            self.trains = time.perf_counter()
        print(f"{time.perf_counter() - self.begin:7.1f} s  {message}", flush=True)

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        if stage == "shards" and done == total:
            self.passes, self.passed = self.passes + 1, time.perf_counter()
            self(f"pass {self.passes}")
        return True


def fit(folder: Path, workers: int) -> None:
    watch = Timed()
    engine = Processes(workers) if workers else InTurn()
    model = PSIM(
        5, learner=Ridge(1e-4), recipe=Recipe(lags=2), init="history", n_rounds=5, random_state=0, verbose=watch
    )
    model.fit(Shards.from_files(folder, id="recording"), engine=engine, sample_rows=50_000)
    linear: Any = model.filter_.regressors[0]
    arrays = [linear.weights, model.filter_.covariance, model.filter_.initial]
    peak = max(resource.getrusage(who).ru_maxrss for who in USAGE)
    result = {
        "rows": model.report_["data"]["rows"],
        "seconds": round(time.perf_counter() - watch.begin, 1),
        "cpu_seconds": round(sum(sum(resource.getrusage(who)[:2]) for who in USAGE), 1),
        "peak_mb": round(peak / 1024),
        "passes": watch.passes,
        "workers": workers,
        "filter": hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:16],
    }
    print(json.dumps(result))


@contextmanager
def engine_of(kind: str, workers: int) -> Iterator[Any]:
    """An engine with so many separate processes of one thread each."""
    if kind == "processes":
        with Processes(workers) as engine:
            yield engine
        return
    from psimlearn.cluster import Dask

    dask: Any = import_module("distributed")

    with (
        dask.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as local,
        dask.Client(local) as client,
    ):
        yield Dask(client)


def wide(folder: Path, features: int) -> None:
    """Seconds of the passes over all shards and of the whole fit, by engine and workers.

    The catalogue is read before, so that processes have started. What follows the passes, calibration on the held-out
    recordings of the sample, is done by one process. Give each worker several shards: of four, Dask may give one worker
    three.
    """
    for kind in ("processes", "dask"):
        passes, fits, found = [], [], set()
        for workers in (1, 2):
            with engine_of(kind, workers) as engine:
                watch, learner, recipe = Timed(), RandomFourierRidge(features, 1e-3), Recipe(lags=2)
                given: dict[str, Any] = {"init": "history", "n_rounds": 2, "random_state": 0, "verbose": watch}
                model = PSIM(5, learner=learner, recipe=recipe, **given)
                model.fit(Shards.from_files(folder, id="recording"), engine=engine, sample_rows=5000)
                passes.append(watch.passed - watch.trains)
                fits.append(time.perf_counter() - watch.begin)
                regressor: Any = model.filter_.regressors[0]
                found.add(hashlib.sha256(regressor.linear.weights.tobytes()).hexdigest())
        result = {
            "engine": kind,
            "features": features,
            "rows": model.report_["data"]["rows"],
            "passes_1_2": [round(each, 1) for each in passes],
            "speedup_passes": round(passes[0] / passes[1], 2),
            "fit_1_2": [round(each, 1) for each in fits],
            "speedup_fit": round(fits[0] / fits[1], 2),
            "same_bits": len(found) == 1,
            "load": round(os.getloadavg()[0], 1),
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    if command == "make":
        make(Path(folder), *(int(float(number)) for number in rest))
    elif command == "wide":
        wide(Path(folder), int(rest[0]) if rest else 1000)
    else:
        fit(Path(folder), int(rest[0]) if rest else 0)
