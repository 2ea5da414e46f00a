"""Rows through `psimlearn filter MODEL -`: rows per second, memory, and the time of a single row.

    python benchmarks/stream.py [rows]

Everything is measured from outside, at the two ends of the pipe.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from psimlearn import PSIM, Trajectories
from psimlearn.datasets import random_system

N_CHANNELS = 13
CHUNK = 10_000


class Through(NamedTuple):
    rows_per_second: float
    rows_per_cpu_second: float
    """The rate that an idle processor would give."""
    answers: int
    memory: list[float]
    """MiB of resident memory, measured ten times."""


def main(n_rows: int = 1_000_000) -> None:
    rng = np.random.default_rng(0)
    system = random_system(rng, n_states=20, n_outputs=N_CHANNELS)
    names = [f"c{i}" for i in range(N_CHANNELS)]
    recordings = Trajectories.of(system.simulate(20, 300, rng), names=names)
    lines = [(",".join(f"{v:.6g}" for v in row) + "\n").encode() for row in system.simulate(1, CHUNK, rng).values]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.psim")
        PSIM(window=5, lags=1, prior="mean", belief_weight=1.0, n_rounds=3, random_state=0).fit(recordings).save(model)
        header = (",".join(names) + "\n").encode()
        through = batched(model, header, lines, n_rows)
        print(
            f"{n_rows} rows of {N_CHANNELS} channels: {through.rows_per_second:,.0f} rows/s, {through.answers} answers"
        )
        print("resident memory on the way, MiB: " + " ".join(f"{m:.0f}" for m in through.memory))
        seconds = one_at_a_time(model, header, lines[:3000])
        low, middle, high = np.percentile(seconds, [5, 50, 99]) * 1e3
        print(f"row in to answer out, one at a time: median {middle:.3f} ms (5 %: {low:.3f}, 99 %: {high:.3f})")


def started(model: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "psimlearn", "filter", str(model), "-"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def batched(model: Path, header: bytes, lines: list[bytes], n_rows: int) -> Through:
    """Write rows as fast as the pipe takes them; the clock starts after the first answer."""
    process = started(model)
    stdin, stdout = pipes(process)
    stdin.write(header + lines[0])
    stdout.read(1)
    chunk = b"".join(lines)
    counted: list[int] = []
    reader = threading.Thread(target=lambda: counted.append(count_lines(stdout)))
    reader.start()
    memory = []
    began = time.perf_counter()
    n_chunks = n_rows // len(lines)
    for i in range(n_chunks):
        write_all(stdin, chunk)
        if (i + 1) % max(1, n_chunks // 10) == 0:
            memory.append(resident(process.pid))
    stdin.close()
    reader.join()
    seconds = time.perf_counter() - began
    _, _, usage = os.wait4(process.pid, 0)
    n = n_chunks * len(lines)
    return Through(n / seconds, n / (usage.ru_utime + usage.ru_stime), counted[0] - 2, memory)


def one_at_a_time(model: Path, header: bytes, lines: list[bytes]) -> list[float]:
    process = started(model)
    stdin, stdout = pipes(process)
    answers = iter(stdout.readline, b"")
    stdin.write(header + lines[0])
    next(answers), next(answers)
    seconds = []
    for line in lines[1:]:
        began = time.perf_counter()
        stdin.write(line)
        next(answers)
        seconds.append(time.perf_counter() - began)
    stdin.close()
    process.wait()
    return seconds


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, open(process.stdout.fileno(), "rb", closefd=False)


def write_all(stdin: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[stdin.write(rest) :]


def count_lines(stdout: IO[bytes]) -> int:
    n = 0
    while chunk := stdout.read(1 << 20):
        n += chunk.count(b"\n")
    return n


def resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return float(status.split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
