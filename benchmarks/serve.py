"""Load on `psimlearn serve`, from a process of its own, over loopback.

    python benchmarks/serve.py [seconds]
    python benchmarks/serve.py memory [rows] [seconds]

Single rows over keep-alive connections, batches of 100 rows, and bank steps of 1000 streams, durable and not: rows a
second at full load, then the latency at half of that load. With `memory`: rows of 100 000 streams, and the memory of
the server on the way. Everything is bounded in time.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from psimlearn import PSIM
from psimlearn.datasets import noisy_pendulum

Make = Callable[[int, int], bytes]
"""The request of a connection, given the numbers of the connection and of the request."""


class Load(NamedTuple):
    """One kind of load."""

    name: str
    connections: int
    rows: int
    """Rows of a request."""
    make: Make


class Seen(NamedTuple):
    """The outcome of a load."""

    rows_per_second: float
    latency: np.ndarray
    """Milliseconds of each request."""
    cpu: float
    """Processor seconds of the server per second."""
    memory: float
    """MiB of the server at the end."""


def post(path: str, body: object) -> bytes:
    """A request as bytes."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def loads() -> list[Load]:
    """All kinds of load."""
    x = noisy_pendulum(1, 4000, np.random.default_rng(1)).values.round(4).tolist()
    batches = [x[i : i + 100] for i in range(0, 4000, 100)]
    ids = [f"bank-{i:04}" for i in range(1000)]
    banks = [post("/v1/rows", {"ids": ids, "rows": x[i : i + 1000]}) for i in range(0, 3000, 50)]
    return [
        Load("single rows", 32, 1, lambda c, i: post(f"/v1/streams/single-{c}/rows", x[(i + 7 * c) % 4000])),
        Load("batches of 100", 8, 100, lambda c, i: post(f"/v1/streams/batch-{c}/rows", batches[(i + c) % 40])),
        Load("bank steps of 1000", 2, 1000, lambda _, i: banks[i % 60]),
    ]


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send a request and read its answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    await reader.readexactly(int(length.split(b":")[1]))


async def pressed(port: int, load: Load, seconds: float, rate: float | None = None) -> tuple[float, np.ndarray]:
    """Requests a second, and their latencies; with a rate, requests are due at fixed times, and waiting counts."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def client(c: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begin, i = time.perf_counter() + c / load.connections * (0.0 if rate is None else load.connections / rate), 0
        while True:
            due = time.perf_counter() if rate is None else begin + i * load.connections / rate
            if due > end:
                break
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            await asked(reader, writer, load.make(c, i))
            times.append(time.perf_counter() - due)
            i += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client(c) for c in range(load.connections)))
    return len(times) / (time.perf_counter() - began), 1000 * np.array(times)


def measured(port: int, pid: int, load: Load, seconds: float, rate: float | None = None) -> Seen:
    """One load, with the processor time of the server."""
    before, began = cpu_of(pid), time.perf_counter()
    per_second, latency = asyncio.run(pressed(port, load, seconds, rate))
    used = (cpu_of(pid) - before) / (time.perf_counter() - began)
    return Seen(per_second * load.rows, latency, used, memory_of(pid))


def cpu_of(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> float:
    """MiB of resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def started(model: Path, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """A server, and its port."""
    command = [sys.executable, "-m", "psimlearn", "serve", str(model), "--port", "0", *words]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | threads)
    assert server.stderr is not None
    for line in server.stderr:
        if b"listening on" in line:
            return server, int(line.rstrip(b"/\n").rsplit(b":", 1)[1])
    raise RuntimeError("the server did not start")


def made(folder: str) -> Path:
    """The file of a small model of two channels."""
    data = replace(noisy_pendulum(60, 100, np.random.default_rng(0)), names=("sine", "cosine"))
    model = PSIM(window=6, lags=4, prior="mean", belief_weight=1.0, n_rounds=4, random_state=0).fit(data)
    model.save(path := Path(folder, "model.psim"))
    return path


def main(seconds: float = 8.0) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = made(folder)
        for durability in ("full", "none"):
            server, port = started(model, "--durability", durability, "--store", f"{folder}/{durability}.store")
            try:
                for load in loads():
                    report(f"{load.name}, durability {durability}", port, server.pid, load, seconds)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(20)


def report(name: str, port: int, pid: int, load: Load, seconds: float) -> None:
    """Full load, then half of it."""
    measured(port, pid, load, 1.0)  # warm
    full = measured(port, pid, load, seconds)
    half = measured(port, pid, load, seconds, full.rows_per_second / load.rows / 2)
    p = np.percentile(full.latency, [50, 99]), np.percentile(half.latency, [50, 99])
    print(
        f"{name}: {full.rows_per_second:,.0f} rows/s, 50 / 99 %: {p[0][0]:.1f} / {p[0][1]:.1f} ms, "
        f"{full.cpu:.2f} cores ({full.rows_per_second / full.cpu:,.0f} rows per CPU second); at half the load "
        f"{half.rows_per_second:,.0f} rows/s, {p[1][0]:.1f} / {p[1][1]:.1f} ms; {half.memory:.0f} MiB",
        flush=True,
    )


async def filled(port: int, pid: int, n_rows: int, seconds: float) -> None:
    """Rows of 100 000 streams in turn, in requests of 5000 streams, with the memory of the server ten times."""
    x = noisy_pendulum(1, 5000, np.random.default_rng(1)).values.round(3).tolist()
    requests = [
        post("/v1/rows", {"ids": [f"s{i}" for i in range(begin, begin + 5000)], "rows": x})
        for begin in range(0, 100_000, 5000)
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    end, marks = time.perf_counter() + seconds, iter(range(1, 11))
    mark = next(marks)
    for done in range(0, n_rows, 5000):
        await asked(reader, writer, requests[done // 5000 % len(requests)])
        if done + 5000 >= mark * n_rows / 10 or time.perf_counter() > end:
            print(f"{done + 5000:,} rows: {memory_of(pid):.0f} MiB", flush=True)
            mark = next(marks, 11)
        if time.perf_counter() > end:
            break
    writer.close()


def memory(n_rows: float = 1e7, seconds: float = 600.0) -> None:
    with tempfile.TemporaryDirectory() as folder:
        words = ("--max-streams", "100000", "--keep-size", "300M", "--store", f"{folder}/x.store")
        server, port = started(made(folder), *words)
        try:
            asyncio.run(filled(port, server.pid, int(n_rows), seconds))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        memory(*map(float, sys.argv[2:4]))
    else:
        main(*map(float, sys.argv[1:2]))
