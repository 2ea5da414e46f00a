"""The requests of the API, one function each."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from psimlearn.errors import DataError, PsimlearnError
from psimlearn.serve import intake
from psimlearn.serve.answering import forecast, history, row_answers, stream_facts
from psimlearn.serve.engine import MOST_IN_LOOP, Engine
from psimlearn.serve.errors import RefusedError, refusal
from psimlearn.serve.events import Watcher
from psimlearn.serve.intake import Batch
from psimlearn.serve.numbers import dumps, jsonable
from psimlearn.serve.served import Served
from psimlearn.serve.store import StoreError
from psimlearn.serve.streams import Done, Stream
from psimlearn.serve.streams import Request as Asked

__all__ = ["Api"]

MOST_LISTED, MOST_HISTORY, MOST_ALARMS = 1000, 5000, 1000


class Api:
    """The handlers, each from a request to a response."""

    def __init__(self, engine: Engine, read_model: Callable[[], Served]) -> None:
        self.engine = engine
        self.read_model = read_model
        self.numbers = count(1)
        """Numbers of requests that bring rows."""

    async def take_rows(self, request: Request) -> Response:
        """POST /v1/streams/{id}/rows."""
        engine, served = self.engine, self.engine.streams.served
        id = _checked(intake.checked_id, request.path_params["id"])
        horizons = _checked(intake.horizons_of, request.query_params.get("horizons"), served, engine.limits)
        body = _checked(intake.loaded, await self._body(request))
        batch = _checked(intake.batch_of, id, body, served, engine.limits)
        n_predictions = self._checked_size(len(batch.numbers), horizons)
        (done,) = await self._taken([batch], horizons[-1])
        if not isinstance(done, Done):
            raise refusal(done)
        return await _written(
            lambda: {"id": id, "rows": row_answers([done], engine.streams, horizons)[0]}, n_predictions
        )

    async def take_many(self, request: Request) -> Response:
        """POST /v1/rows."""
        engine, served = self.engine, self.engine.streams.served
        horizons = _checked(intake.horizons_of, request.query_params.get("horizons"), served, engine.limits)
        body = _checked(intake.loaded, await self._body(request))
        batches, ids = _checked(intake.batches_of, body, served, engine.limits)
        n_predictions = self._checked_size(len(ids), horizons)
        done = await self._taken(batches, horizons[-1])
        if all(isinstance(each, PsimlearnError) for each in done) and isinstance(done[0], PsimlearnError):
            raise refusal(done[0])

        def answered() -> dict[str, Any]:
            taken = [each for each in done if isinstance(each, Done)]
            found = iter(row_answers(taken, engine.streams, horizons))
            answers = {
                batch.id: iter(next(found) if isinstance(each, Done) else _errors(each, len(batch.numbers)))
                for batch, each in zip(batches, done, strict=True)
            }
            return {"rows": [{"id": id, **next(answers[id])} for id in ids]}

        return await _written(answered, n_predictions)

    async def create(self, request: Request) -> Response:
        """PUT /v1/streams/{id}."""
        id = _checked(intake.checked_id, request.path_params["id"])
        await self._body(request)
        try:
            stream, new = await self.engine.create(id)
        except PsimlearnError as error:
            raise refusal(error) from error
        return _answer(stream_facts(self.engine.streams, stream), 201 if new else 200)

    async def delete(self, request: Request) -> Response:
        """DELETE /v1/streams/{id}."""
        stream = self._stream(request)
        try:
            there = await self.engine.delete(stream.id)
        except PsimlearnError as error:
            raise refusal(error) from error
        if not there:
            raise _no_stream(stream.id)
        return Response(status_code=204)

    async def one(self, request: Request) -> Response:
        """GET /v1/streams/{id}."""
        return _answer(stream_facts(self.engine.streams, self._stream(request), trail=True))

    async def all(self, request: Request) -> Response:
        """GET /v1/streams."""
        streams = self.engine.streams
        offset, limit = _whole(request, "offset", 0, 0, 10**9), _whole(request, "limit", 100, 1, MOST_LISTED)
        part, state = request.query_params.get("q", ""), request.query_params.get("state", "")
        found = [s for s in streams.by_id.values() if part in s.id and (state != "alarm" or s.alarm)]
        trail = request.query_params.get("trail") == "1"
        some = [stream_facts(streams, stream, trail) for stream in found[offset : offset + limit]]
        n_alarms = sum(stream.alarm for stream in streams.by_id.values())
        return _answer({"n": len(found), "n_streams": len(streams.by_id), "n_alarms": n_alarms, "streams": some})

    async def forecast(self, request: Request) -> Response:
        """GET /v1/streams/{id}/forecast."""
        served, limits = self.engine.streams.served, self.engine.limits
        most = served.filter.features.window if served.n_inputs else limits.steps
        steps = _whole(request, "steps", 1, 1, most)
        return _answer(forecast(self.engine.streams, self._stream(request), steps))

    async def history(self, request: Request) -> Response:
        """GET /v1/streams/{id}/rows."""
        stream, last = self._stream(request), _whole(request, "last", 500, 1, MOST_HISTORY)
        begin = max(stream.n_rows - last, 0)
        chunks = await self.engine.stored(lambda: list(self.engine.store.chunks(stream.key, begin)))
        return _answer({"id": stream.id, **history(self.engine.streams.served, chunks, last)})

    async def alarms(self, request: Request) -> Response:
        """GET /v1/alarms and /v1/streams/{id}/alarms."""
        key = self._stream(request).key if "id" in request.path_params else None
        before, limit = _whole(request, "before", 2**62, 1, 2**62), _whole(request, "limit", 100, 1, MOST_ALARMS)
        return _answer({"alarms": await self.engine.stored(self.engine.store.alarms, key, before, limit)})

    async def model(self, _: Request) -> Response:
        """GET /v1/model."""
        return _answer(model_facts(self.engine.streams.served))

    async def reload(self, request: Request) -> Response:
        """POST /v1/model/reload."""
        await self._body(request)
        try:
            n_rows = await self.reloaded()
        except PsimlearnError as error:
            raise refusal(error) if isinstance(error, StoreError) else RefusedError(409, str(error)) from error
        return _answer({**model_facts(self.engine.streams.served), "rows_replayed": n_rows})

    async def reloaded(self) -> int:
        """Read the model file again, and go on with it."""
        served = await asyncio.to_thread(self.read_model)
        n_rows = await self.engine.reload(served)
        self.engine.hub.tell_all("model", model_facts(served))
        return n_rows

    async def events(self, request: Request) -> Response:
        """GET /v1/events and /v1/streams/{id}/events."""
        id = self._stream(request).id if "id" in request.path_params else None
        if request.method == "HEAD":
            return Response(headers=EVENTS)
        try:
            watcher = self.engine.hub.join(id)
        except PsimlearnError as error:
            raise refusal(error) from error
        return Events(self.engine, id, watcher)

    async def health(self, _: Request) -> Response:
        """GET /healthz."""
        return _answer({"healthy": True})

    async def ready(self, _: Request) -> Response:
        """GET /readyz."""
        if not self.engine.healthy:
            raise RefusedError(503, "required a store that takes rows, received errors of it. See the log.")
        return _answer({"ready": True, "streams": len(self.engine.streams.by_id)})

    async def metrics(self, _: Request) -> Response:
        """GET /metrics."""
        engine = self.engine
        gauges = {
            "streams": ("Streams.", len(engine.streams.by_id)),
            "streams_in_alarm": ("Streams in alarm.", sum(s.alarm for s in engine.streams.by_id.values())),
            "watchers": ("Readers of events.", len(engine.hub)),
            "store_bytes": ("Bytes of the store in use.", await engine.stored(engine.store.size)),
        }
        return Response(engine.metrics.text(gauges), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _taken(self, batches: Sequence[Batch], steps: int) -> list[Done | PsimlearnError]:
        number = next(self.numbers)
        try:
            return await self.engine.take([Asked(batch, steps, number) for batch in batches])
        except PsimlearnError as error:
            raise refusal(error) from error

    def _checked_size(self, n_rows: int, horizons: Sequence[int]) -> int:
        """The number of predictions that a request asks for, if it is not too large."""
        n, most = n_rows * len(self.engine.streams.served.channels), self.engine.limits.predictions
        if len(horizons) > 1 and n * len(horizons) > most:
            raise RefusedError(
                413,
                f"horizons: required at most {most} predictions in an answer, received a request for "
                f"{n * len(horizons)}. Ask for fewer horizons, or send fewer rows at once.",
            )
        return n * len(horizons)

    def _stream(self, request: Request) -> Stream:
        id = _checked(intake.checked_id, request.path_params["id"])
        if id not in self.engine.streams.by_id:
            raise _no_stream(id)
        return self.engine.streams.by_id[id]

    async def _body(self, request: Request) -> bytes:
        """The body of a request, as long as it is small enough and comes in time."""
        limit, parts, size = self.engine.limits.body, [], 0
        declared = request.headers.get("content-length", "0")
        too_large = RefusedError(413, f"body: required at most {limit} bytes, received more.", {"connection": "close"})
        if declared.isdigit() and int(declared) > limit:
            raise too_large
        try:
            async with asyncio.timeout(self.engine.limits.patience):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise too_large
                    parts.append(part)
        except ClientDisconnect:
            raise RefusedError(400, "body: required all of it, received a part: the client has left.") from None
        except TimeoutError:
            message = f"body: required all of it within {self.engine.limits.patience:g} s, received a part."
            raise RefusedError(408, message, {"connection": "close"}) from None
        return b"".join(parts)


class Events(Response):
    """A response that goes on for as long as its reader keeps up."""

    def __init__(self, engine: Engine, id: str | None, watcher: Watcher) -> None:
        super().__init__(headers=EVENTS)
        del self.headers["content-length"]
        self.engine, self.id, self.watcher = engine, id, watcher

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send events until the reader leaves, or is too slow."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        left = asyncio.ensure_future(_left(receive))
        try:
            await _sent(send, b"retry: 2000\n\n", self.engine.limits.patience)
            while not left.done() and not self.watcher.dropped:
                events = await self._next(left)
                await _sent(send, events, self.engine.limits.patience)
            if self.watcher.dropped:
                raise TimeoutError
        except TimeoutError:
            self.engine.metrics.count("watchers_dropped")
        finally:
            left.cancel()
            self.engine.hub.leave(self.id, self.watcher)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, left: "asyncio.Future[None]") -> bytes:
        getting = asyncio.ensure_future(self.watcher.get(PING))
        both: list[asyncio.Future[Any]] = [getting, left]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            getting.cancel()
            return b""
        return getting.result()


EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"}
PING = 15.0
"""Seconds without an event after which a comment is sent, so that both sides notice a lost connection."""


async def _left(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _sent(send: Any, body: bytes, patience: float) -> None:
    async with asyncio.timeout(patience):
        await send({"type": "http.response.body", "body": body, "more_body": True})


def model_facts(served: Served) -> dict[str, Any]:
    """What clients must know of the model."""
    filter, wanted, thresholds = served.filter, served.wanted, served.thresholds
    calibration = filter.calibration
    return {
        "name": served.name,
        "fingerprint": served.fingerprint,
        "columns": list(wanted.names),
        "channels": list(served.channels),
        "inputs": list(wanted.inputs),
        "symbols": wanted.alphabet is not None,
        "time": wanted.time or "time",
        "step": wanted.step,
        "window": filter.features.window,
        "band": None if calibration is None else jsonable((filter.local or calibration).reach(np.array(1), 0.9)),
        "alarm_rate": served.rate,
        "alarm_one_in": None if served.rate is None else round(1 / served.rate),
        "alarm_rows_measured": None if thresholds is None else int(thresholds.rows[0]),
    }


def _no_stream(id: str) -> RefusedError:
    return RefusedError(404, f"streams: required the id of a stream, received {id!r}, which is none.")


def _errors(error: PsimlearnError, n: int) -> list[dict[str, Any]]:
    """In place of the answers to n rows of one stream among many."""
    refused = refusal(error)
    return [{"error": {"status": refused.status, "message": str(refused)}}] * n


def _answer(value: Any, status: int = 200) -> Response:
    return Response(dumps(value), status, media_type="application/json")


async def _written(value: Callable[[], Any], n_predictions: int) -> Response:
    """An answer; the loop goes on meanwhile if it is long."""
    if n_predictions > MOST_IN_LOOP:
        return await asyncio.to_thread(lambda: _answer(value()))
    return _answer(value())


def _checked(check: Callable[..., Any], *given: Any) -> Any:
    """The value of a check; a refusal in place of its error."""
    try:
        return check(*given)
    except DataError as error:
        raise RefusedError(400, str(error)) from error
    except RecursionError as error:
        raise RefusedError(400, "body: required rows of cells, received JSON of too many levels.") from error


def _whole(request: Request, name: str, usual: int, least: int, most: int) -> int:
    """A whole number in the query of a request."""
    text = request.query_params.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise RefusedError(400, f"{name}: required a whole number from {least} to {most}, received {text!r:.80}.")
    return int(text)
