"""Times of Parquet to the nanosecond, with and without pandas: 120 Hz is no whole number of microseconds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psimlearn.recordings import tables

BASE = 1_711_846_799_000_000_000
"""2024-03-31T00:59:59Z, one second before the clocks of Berlin go from 2 to 3."""
TICKS = [BASE + i * 10**9 // 120 for i in range(240)]
KINDS: dict[str, tuple[Any, list[int], str]] = {
    "local": (pa.timestamp("ns"), TICKS, "local"),
    "UTC": (pa.timestamp("ns", tz="UTC"), TICKS, "instant"),
    "Berlin": (pa.timestamp("ns", tz="Europe/Berlin"), TICKS, "instant"),
    "before 1970": (pa.timestamp("ns"), [tick - 2 * BASE for tick in TICKS], "local"),
    "duration": (pa.duration("ns"), [tick - BASE for tick in TICKS], "duration"),
    "below zero": (pa.duration("ns"), [tick - BASE - 10**9 for tick in TICKS], "duration"),
    "clock": (pa.time64("ns"), [tick - BASE for tick in TICKS], "duration"),
    "microseconds": (pa.timestamp("ns", tz="UTC"), [BASE + i * 8_333_000 for i in range(240)], "instant"),
}


def written(folder: Path, kind: str) -> Path:
    times = pa.array(KINDS[kind][1], pa.int64()).cast(KINDS[kind][0])
    pq.write_table(pa.table({"t": times, "x": np.arange(240.0)}), folder / "fast.parquet")
    return folder / "fast.parquet"


READ = """
import json, sys

class Away:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Away())
from psimlearn.recordings import tables
data = tables.read(sys.argv[1], time="t")
print(json.dumps([data.times.ticks.tolist(), data.times.kind, data.step]))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_times_keep_their_nanoseconds(kind: str, tmp_path: Path) -> None:
    path, (_, ticks, meaning) = written(tmp_path, kind), KINDS[kind]
    data = tables.read(path, time="t")
    assert data.times is not None
    assert (data.times.ticks.tolist(), data.times.kind) == (ticks, meaning)
    assert data.step == pytest.approx((ticks[-1] - ticks[0]) / 239 * 1e-9, rel=1e-6)


@pytest.mark.parametrize("kind", ["local", "Berlin", "below zero", "clock"])
def test_no_pandas_is_needed(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", READ, str(written(tmp_path, kind))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    ticks, meaning, _ = json.loads(done.stdout)
    assert (ticks, meaning) == KINDS[kind][1:]


def test_a_missing_time_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gap.parquet"
    pq.write_table(pa.table({"t": pa.array([1, None, 3], pa.timestamp("ns")), "x": [1.0, 2, 3]}), path)
    with pytest.raises(Exception, match=r"gap\.parquet, row 1, column 't': required a time"):
        tables.read(path, time="t")
