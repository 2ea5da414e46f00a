"""The engine: requests gather while the last group is written, and share one transaction, which makes them last."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from psimlearn.errors import DataError, DivergedError, PsimlearnError
from psimlearn.serve.events import Hub
from psimlearn.serve.limits import Limits
from psimlearn.serve.log import log
from psimlearn.serve.metrics import Metrics
from psimlearn.serve.recovery import recover
from psimlearn.serve.served import Served
from psimlearn.serve.store import Store, StoreError, Writing
from psimlearn.serve.streams import Done, Group, LimitError, Request, Stream, Streams

__all__ = ["MOST_IN_LOOP", "Engine", "Retention"]

Of = TypeVar("Of")

SWEEP = 5.0
"""Seconds between sweeps, which store states and remove old rows."""
TICK = 0.5
"""Seconds between events that tell which streams have moved."""
MOST_SAVED = 2000
"""States that a sweep stores, so that a hundred thousand streams cost little."""
AT_ONCE = 500
"""States that are stored together in a sweep."""
MOST_IN_LOOP = 5000
"""Rows, missed rows and predictions that are computed between two looks at other clients: .1 s or less."""
MOST_ROWS = 20_000
"""Rows of a group, so that no request waits long for others."""
COMPUTING = (ArithmeticError, ValueError, np.linalg.LinAlgError)
"""Errors of numbers that cannot be computed with."""


class Retention(NamedTuple):
    """Which rows are kept."""

    age: float | None = None
    """Seconds."""
    size: int | None = None
    """Bytes of the file."""


class Engine:
    """The streams, their store, and the worker that takes requests."""

    def __init__(
        self, served: Served, store: Store, limits: Limits, durable: bool = True, retention: Retention = Retention()
    ) -> None:
        self.store = store
        self.limits = limits
        self.durable = durable
        self.retention = retention
        self.streams = Streams(served, limits)
        self.metrics = Metrics()
        self.hub = Hub(limits.watchers)
        self.on_alarm: Callable[[], None] = lambda: None
        self.feeding: asyncio.Task[None] | None = None
        """The task that feeds a demonstration."""
        self.healthy = True
        """Whether the store takes what is written."""
        self.lock: asyncio.Lock = asyncio.Lock()
        self._threads = ThreadPoolExecutor(1, "store")
        self._waiting: list[tuple[list[Request], asyncio.Future[list[Done | PsimlearnError]]]] = []
        self._n_waiting = 0
        self._wake = asyncio.Event()
        self._unwritten: Writing | None = None
        """What was answered and is perhaps not written yet, by `_behind`."""
        self._behind: asyncio.Future[None] | None = None
        self._n_replayed: int | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def recover(self) -> int:
        """Bring streams back, once; returns the number of rows that were replayed."""
        if self._n_replayed is None:
            self._n_replayed = await self.stored(recover, self.store, self.streams)
        return self._n_replayed

    async def start(self) -> int:
        """Bring streams back and begin to work; returns the number of rows that were replayed."""
        n_replayed = await self.recover()
        self._tasks = [asyncio.create_task(work()) for work in (self._work, self._sweep, self._tick)]
        return n_replayed

    async def stop(self) -> None:
        """Take the requests that wait, store the states, and close the store."""
        while self._waiting and self.healthy:
            await asyncio.sleep(0.01)
        for task in self._tasks:
            task.cancel()
        async with self.lock:
            with suppress(StoreError):  # the rows are there
                await self._settled()
                await self._save_states()
            if self._unwritten is not None:
                n_rows = sum(chunk.n for chunk in self._unwritten.chunks)
                log("rows lost", rows=n_rows, error="the store did not take them until the end")
            await self.stored(self.store.close)
        self._threads.shutdown()

    async def stored(self, work: Callable[..., Of], *given: Any) -> Of:
        """Run work of the store in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    async def take(self, requests: list[Request]) -> list[Done | PsimlearnError]:
        """Take requests; when this returns, their rows last."""
        n_rows = sum(len(request.batch.numbers) for request in requests)
        if self._n_waiting + n_rows > self.limits.waiting:
            raise LimitError("required a server with room, received more rows than it can take. Send again later.")
        future: asyncio.Future[list[Done | PsimlearnError]] = asyncio.get_running_loop().create_future()
        self._waiting.append((requests, future))
        self._n_waiting += n_rows
        self._wake.set()
        return await future

    async def create(self, id: str) -> tuple[Stream, bool]:
        """A stream by its id, and whether it is new."""
        async with self.lock:
            if id in self.streams.by_id:
                return self.streams.by_id[id], False
            stream = self.streams.add(id, time.time())
            try:
                await self._write(Writing([(stream.key, id, stream.created)], [], [], []))
            except StoreError:
                self.streams.remove([stream])
                raise
            self.hub.tell_all("created", {"id": id})
            return stream, True

    async def delete(self, id: str) -> bool:
        """Remove a stream and its rows; False if another request has removed it."""
        async with self.lock:
            stream = self.streams.by_id.get(id)
            if stream is None:
                return False
            await self._settled()
            await self.stored(self.store.remove, stream.key)
            self.streams.remove([stream])
            self.hub.tell_all("deleted", {"id": id})
            return True

    async def reload(self, served: Served) -> int:
        """Go on with a newer model: the states of all streams are rebuilt from their last rows."""
        if not served.agrees(self.streams.served):
            raise DataError(
                f"model: required the columns {list(self.streams.served.wanted.names)!s:.200}, received "
                f"{list(served.wanted.names)!s:.200}. The old model goes on. Start another server for the new one."
            )
        async with self.lock:
            await self._settled()
            await self._save_states()
            streams = Streams(served, self.limits)
            n_replayed = await self.stored(recover, self.store, streams)
            self.streams = streams
            await self._save_states(everything=True)
            return n_replayed

    async def _work(self) -> None:
        """Take groups, one after the other: while one is written, the next gathers."""
        while True:
            await self._wake.wait()
            async with self.lock:
                group = self._gathered()
                if not self._waiting:
                    self._wake.clear()
                requests = [request for some, _ in group for request in some]
                try:
                    done = await self._stored_group(requests)
                except Exception as error:  # a defect; the worker must live on, and nobody may wait for ever
                    log("error", kind=type(error).__name__, message=str(error)[:500])
                    done = [StoreError("the server has failed at these rows. Its log tells more.")] * len(requests)
            for some, future in group:
                mine, done = done[: len(some)], done[len(some) :]
                if not future.done():  # the client may have left
                    future.set_result(mine)

    def _gathered(self) -> list[tuple[list[Request], asyncio.Future[list[Done | PsimlearnError]]]]:
        n_rows = n_taken = 0
        for requests, _ in self._waiting:
            if n_taken and n_rows > MOST_ROWS:
                break
            n_rows += sum(len(request.batch.numbers) for request in requests)
            n_taken += 1
        group, self._waiting = self._waiting[:n_taken], self._waiting[n_taken:]
        self._n_waiting -= n_rows
        return group

    async def _stored_group(self, requests: list[Request]) -> list[Done | PsimlearnError]:
        """The answers to requests, once their rows last; a group that fails is halved until the culprit is alone."""
        try:
            group = await self._taken(requests)
        except Exception as error:  # whatever it is, the worker must live on
            if len(requests) == 1:
                return [_refused(error)]
            half = len(requests) // 2
            return await self._stored_group(requests[:half]) + await self._stored_group(requests[half:])
        began = time.perf_counter()
        try:
            await self._write(group.writing, behind=not self.durable)
        except StoreError as error:
            self.streams.remove(group.new)
            self.metrics.count("store_errors")
            return [error if isinstance(done, Done) else done for done in group.done]
        self.metrics.group(group, time.perf_counter() - began)
        self.streams.install(group)
        self._publish(group)
        return group.done

    async def _taken(self, requests: list[Request]) -> Group:
        """The group that requests become; the loop goes on meanwhile where there is much to compute."""
        streams = self.streams
        plan = streams.planned(requests)
        try:
            if plan.n_turns > MOST_IN_LOOP:
                return streams.grouped(plan, *await asyncio.to_thread(streams.computed, plan))
            return streams.grouped(plan, *streams.computed(plan))
        except BaseException:
            streams.remove(plan.new)
            raise

    async def _write(self, writing: Writing, behind: bool = False) -> None:
        """Write what comes next, or let it be written after the answer; call it under the lock."""
        await self._settled()
        if behind:  # one write at a time, so that no queue grows
            self._unwritten = writing
            self._behind = asyncio.ensure_future(self.stored(self.store.write, writing))
            return
        try:
            await self.stored(self.store.write, writing)
        except StoreError:
            self.healthy = False
            raise
        self.healthy = True

    async def _settled(self) -> None:
        """Wait for what is written behind. If it could not be written it is written now, before anything else."""
        if self._unwritten is None or self._behind is None:
            return
        await asyncio.wait([self._behind])
        if self._behind.exception() is not None:
            self.healthy = False
            await self.stored(self.store.write, self._unwritten)
            self.healthy = True
        self._unwritten = self._behind = None

    def _publish(self, group: Group) -> None:
        """Tell readers of events what is new."""
        for done in group.done:
            if isinstance(done, Done) and done.answered is not None:
                self.hub.came(done, self.streams.served, group.seen)
        for alarm in group.writing.alarms:
            self.hub.alarm(alarm)
        if any(alarm.begins for alarm in group.writing.alarms):
            self.on_alarm()

    async def _sweep(self) -> None:
        """From time to time, store states and remove old rows."""
        while True:
            await asyncio.sleep(SWEEP)
            try:
                await self.sweep()
            except Exception as error:  # the next sweep may succeed
                self.healthy = False
                log("sweep failed", kind=type(error).__name__, error=str(error)[:500])

    async def sweep(self) -> None:
        """Store the states of streams that have new rows, then remove rows that need not be kept."""
        async with self.lock:
            await self._settled()
            await self._save_states(MOST_SAVED)
            if not self.healthy:
                await self.stored(self.store.note, "probed", str(time.time()))
                self.healthy = True
        if self.retention.age is not None:
            while await self._shrunk(time.time() - self.retention.age):
                pass
        if self.retention.size is not None:
            while await self.stored(self.store.size) > self.retention.size and await self._shrunk(float("inf")):
                pass

    async def _shrunk(self, older_than: float) -> int:
        async with self.lock:  # groups may go between
            n_removed = await self.stored(self.store.shrink, older_than)
        self.metrics.count("chunks_removed", n_removed)
        return n_removed

    async def _save_states(self, most: int | None = None, everything: bool = False) -> None:
        """Store the states of streams with new rows, those with most new rows first; call it under the lock."""
        new = [s for s in self.streams.by_id.values() if s.n_rows and (everything or s.n_rows > s.n_saved)]
        if most is not None and len(new) > most:
            new = sorted(new, key=lambda stream: stream.n_saved - stream.n_rows)[:most]
        for i in range(0, len(new), AT_ONCE):
            some = new[i : i + AT_ONCE]
            await self._write(Writing([], [], self.streams.saved(some), []))
            for stream in some:
                stream.n_saved = stream.n_rows

    async def _tick(self) -> None:
        """Twice a second, tell readers of all events which streams have moved."""
        while True:
            await asyncio.sleep(TICK)
            self.hub.flush(self.streams)


def _refused(error: Exception) -> PsimlearnError:
    """The error of a request whose rows cannot be computed with."""
    if isinstance(error, PsimlearnError):
        return error
    if not isinstance(error, COMPUTING):
        log("error", kind=type(error).__name__, message=str(error)[:500])
    return DivergedError(f"required rows that can be computed with, received: {error!s:.200}. They were left out.")
