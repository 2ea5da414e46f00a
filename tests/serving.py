"""A server for tests: in this process, or as a process that can be killed."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import uvicorn

from psimlearn import PSIM, Trajectories
from psimlearn.cli.serve import served_by
from psimlearn.serve.api import Api
from psimlearn.serve.app import Doors, application
from psimlearn.serve.engine import Engine, Retention
from psimlearn.serve.limits import Limits
from psimlearn.serve.protocol import patient
from psimlearn.serve.served import Served
from psimlearn.serve.store import Store
from psimlearn.serve.tokens import Tokens

OPTIONS: dict[str, Any] = {"max_channels": 100, "no_alarms": False, "alarm": None}


def recordings(seed: int, n: int = 8, length: int = 60) -> Trajectories:
    """Two noisy sines, which one linear filter can follow."""
    rng = np.random.default_rng(seed)
    phase, t = rng.uniform(0, 6, (n, 1)), np.arange(length)
    x = np.stack([np.sin(0.3 * t + phase), np.cos(0.3 * t + phase)], axis=2) + 0.1 * rng.standard_normal((n, length, 2))
    return Trajectories.of(list(x), names=("a", "b"))


@cache
def model() -> PSIM:
    """A model of such recordings."""
    return PSIM(window=2, lags=2, prior="mean", belief_weight=1.0, n_rounds=2, random_state=0).fit(recordings(0))


def saved(folder: Path, name: str = "model.psim") -> Path:
    """The model in a file."""
    model().save(folder / name)
    return folder / name


def served(path: Path, **options: Any) -> Served:
    """The model for a server."""
    found = served_by(path, OPTIONS | options)
    assert isinstance(found, Served)
    return found


class Answer(NamedTuple):
    """The answer to a request."""

    status_code: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """Requests over one connection, which is opened again when the server has closed it."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.headers = {"host": "localhost"} | ({} if token is None else {"authorization": f"Bearer {token}"})

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self.connection.request(method, path, data, self.headers | (headers or {}))
        answer = self.connection.getresponse()
        text = answer.read().decode()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, json: Any = None, **headers: str) -> Answer:
        return self.ask("POST", path, json, headers)

    def put(self, path: str) -> Answer:
        return self.ask("PUT", path)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def close(self) -> None:
        self.connection.close()


class Serving:
    """A server in this process."""

    def __init__(self, path: Path, client: Client, engine: Engine, port: int) -> None:
        self.port = port
        self.path, self.client, self.engine = path, client, engine

    def post(self, id: str, body: Any, query: str = "") -> Any:
        """The answer to rows; they must be taken."""
        response = self.client.post(f"/v1/streams/{id}/rows{query}", json=body)
        assert response.status_code == 200, response.text
        return response.json()["rows"]


class Held:
    """A function that waits in the midst of its work, so that a test can see what the server does meanwhile."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.begun, self.may_end = function, threading.Event(), threading.Event()

    def __call__(self, *given: Any) -> Any:
        self.begun.set()
        assert self.may_end.wait(10)
        return self.function(*given)

    @contextmanager
    def meanwhile(self, port: int, send: Callable[[], Any]) -> Iterator["Client"]:
        """Another client of the server at this port, while what `send` asks for waits in the function."""
        sender, other = threading.Thread(target=send), Client(port)
        sender.start()
        other.connection.timeout = 5
        try:
            assert self.begun.wait(10)
            yield other
        finally:
            self.may_end.set()
            sender.join()
            other.close()


@contextmanager
def serving(
    path: Path,
    limits: Limits = Limits(),
    durable: bool = True,
    retention: Retention = Retention(),
    tokens: Tokens = Tokens(),
    store: str = "rows.store",
    **options: Any,
) -> Iterator[Serving]:
    """A server in this process, with its store beside the model."""
    given = served(path, **options)
    engine = Engine(given, Store(path.parent / store, durable), limits, durable, retention)
    api = Api(engine, lambda: served(path, **options))
    doors = Doors(tokens, frozenset(["localhost"]), limits.rate)
    app = application(engine, api, doors)
    config = uvicorn.Config(
        app,
        port=0,
        http=patient(limits.patience),
        log_config=None,
        timeout_keep_alive=60,
        limit_concurrency=limits.connections,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    port = server.servers[0].sockets[0].getsockname()[1]
    client = Client(port, tokens.write)
    try:
        yield Serving(path, client, engine, port)
    finally:
        client.close()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


class Process:
    """A server in a process of its own."""

    def __init__(self, *words: str | Path, environment: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "psimlearn", "serve", *map(str, words), "--port", "0"]
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, env={**os.environ, **threads, **(environment or {})}
        )
        self.lines: list[str] = []
        self.port = self._port()

    def _port(self) -> int:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.decode())
            if "listening on" in self.lines[-1]:
                return int(self.lines[-1].rstrip("/\n").rsplit(":", 1)[1])
        raise AssertionError(f"no server: {self.lines}")

    def get(self, path: str) -> Any:
        """The JSON at an address."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as response:
            return json.loads(response.read())

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """End the process in order; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(20)
        assert self.process.stderr is not None
        self.lines += [line.decode() for line in self.process.stderr]
        self.process.stderr.close()
        return code


def until(true: Any, seconds: float = 10.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.01)
