"""A demonstration: a model of simulated pendulums, and pendulums that are pushed and whose sensors fail."""

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from psimlearn.datasets.pendulum import noisy_pendulum
from psimlearn.errors import PsimlearnError
from psimlearn.estimator.psim import PSIM
from psimlearn.serve.engine import Engine
from psimlearn.serve.intake import Batch
from psimlearn.serve.log import log
from psimlearn.serve.streams import Request
from psimlearn.shapes import Bool, Float

__all__ = ["Pendulums", "demo_model", "feeding"]

NAMES = ("sine", "cosine")


def demo_model() -> Path:
    """The file of a model of pendulums, in a folder that is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="psimlearn-demo-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = replace(noisy_pendulum(120, 100, np.random.default_rng(0)), names=NAMES)
    model = PSIM(window=6, lags=4, prior="mean", belief_weight=1.0, n_rounds=4, random_state=0).fit(data)
    model.save(path := Path(folder, "pendulums.psim"))
    return path


def feeding(n_streams: int, rate: float) -> Callable[[Engine], Awaitable[None]]:
    """Feeds rows of pendulums to an engine, for ever."""

    async def feed(engine: Engine) -> None:
        pendulums = Pendulums(n_streams, np.random.default_rng())
        width = len(str(n_streams))
        ids = [f"pendulum-{i + 1:0{width}}" for i in range(n_streams)]
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            rows = pendulums.next()
            try:
                await engine.take(
                    [Request(Batch(id, row[None], None, {}), 1) for id, row in zip(ids, rows, strict=True)]
                )
            except PsimlearnError as error:
                log("demo", error=str(error))
            due = max(due + 1 / rate, loop.time() - 1)
            await asyncio.sleep(max(due - loop.time(), 0))

    return feed


class Pendulums:
    """Pendulums as in `noisy_pendulum`, without end; from time to time one is pushed, or a sensor of it fails."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.angle = rng.uniform(-np.pi, np.pi, n)
        self.speed = rng.standard_normal(n)
        self.silent = np.zeros((n, 2), dtype=np.int64)
        """Rows for which each sensor stays silent."""
        self.stuck = np.zeros(n, dtype=np.int64)
        """Rows for which the sine is stuck."""
        self.held = np.zeros(n)

    def next(self) -> Float[np.ndarray, "n 2"]:
        """One row of each pendulum, NaN where a sensor is silent."""
        rng, n = self.rng, len(self.angle)
        self.speed += -0.6 * np.sin(self.angle) - 0.02 * self.speed * (np.abs(self.speed) > 4)
        self.speed += 0.05 * rng.standard_normal(n) + self._happens(0.002) * rng.choice([-8.0, 8.0], n)
        self.speed = np.clip(self.speed, -9.0, 9.0)
        self.angle += 0.15 * self.speed
        x = np.stack([np.sin(self.angle), np.cos(self.angle)], axis=1) + 0.3 * rng.standard_normal((n, 2))
        return self._sensed(x)

    def _sensed(self, x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """The row as its sensors tell it."""
        for sensor in (0, 1):
            self.silent[self._happens(0.002), sensor] = self.rng.integers(10, 40)
        self.silent[self._happens(0.001)] = self.rng.integers(8, 25)
        begins = self._happens(0.0007) & (self.stuck == 0)
        self.stuck[begins], self.held = 40, np.where(begins, 2.5 * np.sign(x[:, 0]), self.held)
        x[:, 0] = np.where(self.stuck > 0, self.held, x[:, 0])
        x[self.silent > 0] = np.nan
        self.silent, self.stuck = np.maximum(self.silent - 1, 0), np.maximum(self.stuck - 1, 0)
        return x

    def _happens(self, probability: float) -> Bool[np.ndarray, " n"]:
        return self.rng.random(len(self.angle)) < probability
