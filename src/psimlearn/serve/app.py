"""The application: who may come in, which request goes where, and which headers every answer has."""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from psimlearn.serve.api import Api
from psimlearn.serve.engine import Engine
from psimlearn.serve.errors import RefusedError, error_response
from psimlearn.serve.log import log
from psimlearn.serve.openapi import openapi
from psimlearn.serve.tokens import Tokens

__all__ = ["Doors", "application"]

CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
OPEN = ("/healthz", "/readyz", "/", "/openapi.json")
"""Addresses that need no token: they tell nothing of streams."""
PAGE = {
    "page.js": "text/javascript",
    "plots.js": "text/javascript",
    "page.css": "text/css",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
    "icon.svg": "image/svg+xml",
}
MOST_CLIENTS = 10_000
"""Clients whose rate is remembered."""


class Doors(NamedTuple):
    """Who may come in."""

    tokens: Tokens = Tokens()
    hosts: frozenset[str] | None = None
    """Names by which the server may be called, against pages that turn their own name to this machine; None for any."""
    rate: float = 0.0
    """Requests a second of one client; 0 for no limit."""


def application(engine: Engine, api: Api, doors: Doors, on_start: Callable[[], None] = lambda: None) -> Any:
    """The ASGI application."""

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        began = time.perf_counter()
        n_rows = await engine.start()
        log("ready", streams=len(engine.streams.by_id), rows_replayed=n_rows, seconds=time.perf_counter() - began)
        on_start()
        yield
        await engine.stop()
        log("stopped")

    handlers: Any = {RefusedError: _refused, HTTPException: _not_found, Exception: _broken}
    app = Starlette(routes=routes(api), lifespan=life, exception_handlers=handlers)
    return Guard(app, engine, doors)


def routes(api: Api) -> list[Route]:
    """All addresses; the most frequent ones first."""
    stream = "/v1/streams/{id}"
    return [
        Route(f"{stream}/rows", api.take_rows, methods=["POST"]),
        Route("/v1/rows", api.take_many, methods=["POST"]),
        Route(f"{stream}/rows", api.history, methods=["GET"]),
        Route(f"{stream}/forecast", api.forecast, methods=["GET"]),
        Route(f"{stream}/events", api.events, methods=["GET"]),
        Route(f"{stream}/alarms", api.alarms, methods=["GET"]),
        Route(stream, api.create, methods=["PUT"]),
        Route(stream, api.delete, methods=["DELETE"]),
        Route(stream, api.one, methods=["GET"]),
        Route("/v1/streams", api.all, methods=["GET"]),
        Route("/v1/alarms", api.alarms, methods=["GET"]),
        Route("/v1/events", api.events, methods=["GET"]),
        Route("/v1/model", api.model, methods=["GET"]),
        Route("/v1/model/reload", api.reload, methods=["POST"]),
        Route("/healthz", api.health, methods=["GET"]),
        Route("/readyz", api.ready, methods=["GET"]),
        Route("/metrics", api.metrics, methods=["GET"]),
        Route("/openapi.json", _openapi, methods=["GET"]),
        Route("/", _page("page.html", "text/html"), methods=["GET"]),
        *(Route(f"/page/{name}", _page(name, kind), methods=["GET"]) for name, kind in PAGE.items()),
    ]


class Guard:
    """Looks at every request before anything else does."""

    def __init__(self, app: Any, engine: Engine, doors: Doors) -> None:
        self.app, self.engine, self.doors = app, engine, doors
        self.clients: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """For each client the requests that it has left, and when they were counted."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.engine.metrics.by_status[message["status"]] += 1
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        refused = self._refused(scope)
        app: Any = self.app if refused is None else error_response(refused.status, str(refused), refused.headers)
        await app(scope, receive, send_with_headers)

    def _refused(self, scope: Any) -> RefusedError | None:
        """Why a request may not come in; None if it may."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if self.doors.hosts is not None and _name(host) not in self.doors.hosts:
            return RefusedError(421, "host: required the name of this server, received another. Use --allow-host.")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2] != host:
            return RefusedError(403, "origin: required a page of this server, received another site.")
        if self.doors.rate and not self._in_time(scope["client"][0] if scope["client"] else ""):
            return RefusedError(
                429, f"rate: required at most {self.doors.rate:g} requests a second.", {"retry-after": "1"}
            )
        path, writes = scope["path"], scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if path in OPEN or path.startswith("/page/"):
            return None
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        if self.doors.tokens.allow(token.strip() if scheme.lower() == "bearer" else None, writes):
            return None
        kind = "write" if writes else "read"
        message = f"token: required the {kind} token as 'Authorization: Bearer ..', received none or another."
        return RefusedError(401, message, {"www-authenticate": "Bearer"})

    def _in_time(self, client: str) -> bool:
        """Whether a client is within its rate; it may send two seconds' worth at once."""
        now, rate = time.monotonic(), self.doors.rate
        left, then = self.clients.pop(client, (2 * rate, now))
        left = min(left + (now - then) * rate, 2 * rate)
        self.clients[client] = (left - 1 if left >= 1 else left, now)
        if len(self.clients) > MOST_CLIENTS:
            self.clients.popitem(last=False)
        return left >= 1


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    return host.lower() if host.endswith("]") else host.lower().rsplit(":", 1)[0]


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return error_response(error.status, str(error), error.headers)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        words = {404: "address: required one of /openapi.json, received another."}
        return error_response(error.status_code, words.get(error.status_code, str(error.detail)))
    there = (route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE)
    allowed = ", ".join(sorted(set().union(*(route.methods for route in there))))
    message = f"method: required one of {allowed}, received {request.method:.20}."
    return error_response(405, message, {"allow": allowed})


async def _broken(request: Request, error: Exception) -> Response:
    log("error", method=request.method, path=request.url.path, kind=type(error).__name__, message=str(error)[:500])
    return error_response(500, "the server has failed at this request. Its log tells more.")


async def _openapi(_: Request) -> Response:
    return Response(openapi(), media_type="application/json")


def _page(name: str, kind: str) -> Callable[[Request], Any]:
    """A handler for a file of the page."""
    data = files("psimlearn.serve").joinpath("page", name).read_bytes()

    async def page(_: Request) -> Response:
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    return page
