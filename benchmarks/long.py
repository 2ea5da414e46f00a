"""Long recordings, which run in chunks at once, compared with many short ones, with rows in turn, and with dynamax.

    pip install ".[bench]"          # dynamax; it is left out if it is missing
    python benchmarks/long.py       # a million rows, some minutes
    python benchmarks/long.py small

CPU time on one thread, all contenders in turns, and the fastest turn of each counts: quote ratios from one run only.
"""

import online  # isort: skip  (it sets one thread before numpy is imported)

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np

from psimlearn.datasets import LinearSystem, random_system
from psimlearn.filter import Filter, Stack
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import best, dagger

WINDOW, CHANNELS = 5, 3
Work = Callable[[], object]


def learnt(system: LinearSystem, learner: Learner[Any]) -> Filter:
    some = system.simulate(60, 200, np.random.default_rng(1))
    return best(dagger(some, some, Stack(WINDOW), learner, rng=np.random.default_rng(0), n_rounds=2)).filter


def with_gaps(data: Trajectories, share: float) -> Trajectories:
    """One entry missing in a share of the rows."""
    rng, values = np.random.default_rng(3), data.values.copy()
    rows = np.flatnonzero(rng.random(len(values)) < share)
    values[rows, rng.integers(0, values.shape[1], len(rows))] = np.nan
    return Trajectories.of(values)


@contextmanager
def in_turn() -> Iterator[None]:
    """Rows one after the other, as before chunks."""
    room = "psimlearn.filter"
    with (
        online.numpy_alone(),
        patch(f"{room}.straight.cut", lambda *_: 1),
        patch(f"{room}.feeding.chunk_length", lambda *_: None),
        patch(f"{room}.gapped.chunk_length", lambda *_: None),
    ):
        yield


def sequential(work: Work) -> Work:
    def run() -> None:
        with in_turn():
            work()

    return run


def in_numpy(work: Work) -> Work:
    def run() -> None:
        with online.numpy_alone():
            work()

    return run


def nanoseconds(contenders: dict[str, tuple[Work, int]], turns: int) -> dict[str, float]:
    """CPU time per row of the fastest turn; the number is that of the rows."""
    times = dict.fromkeys(contenders, np.inf)
    for _ in range(turns):
        for name, (work, rows) in contenders.items():
            began = time.process_time()
            work()
            times[name] = min(times[name], 1e9 * (time.process_time() - began) / rows)
    return times


def of_dynamax(system: LinearSystem, x: np.ndarray) -> dict[str, tuple[Work, int]]:
    run = online.batch_with_dynamax(system)
    if run is None:
        print("dynamax is not installed: left out.")
        return {}
    run(x[None])  # compile
    return {"dynamax, jitted, told the system": (lambda: run(x[None]), len(x))}


def main(rows: int, few: int, turns: int) -> None:
    system = random_system(np.random.default_rng(0), 6, CHANNELS)
    many = system.simulate(rows // 1000, 1000, np.random.default_rng(2))
    one, part = Trajectories.of(many.values), Trajectories.of(many.values[:few])
    linear, waves = learnt(system, Ridge()), learnt(system, RandomFourierRidge(200))
    gaps = {share: with_gaps(one, share) for share in (0.001, 0.01)}
    contenders: dict[str, tuple[Work, int]] = {
        "many recordings of 1000 rows": (lambda: linear.forecast(many, 1), rows),
        "one recording": (lambda: linear.forecast(one, 1), rows),
        "one recording, numpy alone": (in_numpy(lambda: linear.forecast(one, 1)), rows),
        "one recording, rows in turn": (sequential(lambda: linear.forecast(part, 1)), few),
        "200 random features": (lambda: waves.forecast(part, 1), few),
        "200 random features, rows in turn": (sequential(lambda: waves.forecast(part, 1)), few),
        **of_dynamax(system, many.values),
    }
    times = nanoseconds(contenders, turns)
    for share, data in gaps.items():
        some = Trajectories.of(data.values[: few // 4])
        gappy_rows: dict[str, tuple[Work, int]] = {
            f"an entry missing in {share:.1%} of rows": (partial(linear.forecast, data, 1), rows),
            f"{share:.1%}, rows in turn": (sequential(partial(linear.forecast, some, 1)), few // 4),
        }
        times |= nanoseconds(gappy_rows, 1)
    title = f"One recording of {rows} x {CHANNELS}, window {WINDOW}: one-step predictions"
    online.table(title, "nanoseconds per row", {"": times})
    long, plain = times["one recording"], times["one recording, numpy alone"]
    online.verdict("one recording / many", long / times["many recordings of 1000 rows"], 1.5, at_most=True)
    if find_spec("numba") is not None:
        online.verdict("one recording, nanoseconds a row", long, 100, at_most=True)
    online.verdict("one recording, numpy alone, nanoseconds a row", plain, 300, at_most=True)
    for share in gaps:
        gappy = times[f"an entry missing in {share:.1%} of rows"]
        online.verdict(f"{share:.1%} of rows with gaps / one recording, numpy alone", gappy / plain, 5, at_most=True)
    ratio = times["200 random features, rows in turn"] / times["200 random features"]
    online.verdict("random features: rows in turn / chunks", ratio, 5)
    exponents(system, linear, turns)


def exponents(system: LinearSystem, filter: Filter, turns: int) -> None:
    """How cost grows: the exponent between a size and eight times that size, or four times in channels."""
    rng = np.random.default_rng(4)
    for what, sizes in (
        ("rows of one recording", ((1, 40_000), (1, 320_000))),
        ("recordings", ((50, 500), (400, 500))),
    ):
        data = [system.simulate(*size, rng) for size in sizes]
        with online.numpy_alone():
            ratio = grown([partial(filter.forecast, d, 1) for d in data], turns)
        online.verdict(f"growth exponent in {what}", float(np.log(ratio) / np.log(8)), 1.05, at_most=True)
    wide = [random_system(rng, 6, n) for n in (12, 48)]
    works = [partial(learnt(other, Ridge()).forecast, other.simulate(100, 200, rng), 1) for other in wide]
    ratio = grown(works, turns)
    online.verdict("growth exponent in channels", float(np.log(ratio) / np.log(4)), 2.0, at_most=True)


def grown(works: Sequence[Work], turns: int) -> float:
    """How many times as long the second takes."""
    small, large = nanoseconds({str(i): (work, 1) for i, work in enumerate(works)}, turns).values()
    return large / small


if __name__ == "__main__":
    small = sys.argv[1:] == ["small"]
    main(100_000 if small else 1_000_000, 20_000, 2 if small else 3)
