"""The server as a process: its socket, its signals, its end."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from psimlearn.errors import PsimlearnError, SettingsError
from psimlearn.extras import imported
from psimlearn.serve.served import Served

__all__ = ["Place", "Service", "serve"]

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Place(NamedTuple):
    """Where the server listens, and under which names."""

    host: str = "127.0.0.1"
    port: int = 8765
    names: tuple[str, ...] = ()
    """More names by which it may be called."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK


class Service(NamedTuple):
    """All that a server needs to know."""

    read_model: Callable[[], Served]
    store: Path
    place: Place = Place()
    limits: Any = None
    tokens: Any = None
    retention: Any = None
    durable: bool = True
    on_alarm: tuple[str, ...] = ()
    feed: Callable[[Any], Any] | None = None
    """Feeds rows to the engine, for a demonstration."""


def serve(service: Service, told: Callable[[str], None]) -> None:
    """Serve until a signal ends it; tells its address once it listens."""
    uvicorn = imported("uvicorn", "web")
    imported("starlette", "web")
    imported("httptools", "web")
    place = service.place
    if not place.loopback and (service.tokens is None or service.tokens.read is None or service.tokens.write is None):
        raise SettingsError(
            f"--host {place.host}: required a read token and a write token, as other machines can reach it, received "
            "not both. Use --read-token-file and --write-token-file."
        )
    app, api = _built(service)
    from psimlearn.serve.log import log_libraries
    from psimlearn.serve.protocol import patient

    log_libraries()
    limits = service.limits
    config = uvicorn.Config(
        app,
        place.host,
        place.port,
        http=patient(limits.patience),
        ws="none",
        log_config=None,
        access_log=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=5,
        backlog=1024,
        server_header=False,
        date_header=False,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:  # uvloop's, where it is installed
        runner.run(_run(uvicorn.Server(config), api, place, told))


def _built(service: Service) -> tuple[Any, Any]:
    """The application and its handlers."""
    from psimlearn.serve.api import Api
    from psimlearn.serve.app import Doors, application
    from psimlearn.serve.commands import Commands
    from psimlearn.serve.engine import Engine
    from psimlearn.serve.store import Store
    from psimlearn.serve.tokens import Tokens

    served = service.read_model()
    store = Store(service.store, service.durable)
    _check_columns(store, served, service.store)
    engine = Engine(served, store, service.limits, service.durable, service.retention)
    api = Api(engine, service.read_model)
    hosts = frozenset((*LOOPBACK, "[::1]", *service.place.names)) if service.place.loopback else None
    doors = Doors(service.tokens or Tokens(), hosts, service.limits.rate)

    def on_start() -> None:
        if service.on_alarm:
            Commands(service.on_alarm, engine).start()
        if service.feed is not None:
            engine.feeding = asyncio.create_task(service.feed(engine))

    return application(engine, api, doors, on_start), api


def _check_columns(store: Any, served: Served, path: Path) -> None:
    """Refuse a store whose rows have other columns; a new store remembers the columns."""
    import json

    columns = json.dumps([list(served.wanted.names), list(served.channels), served.n_inputs])
    known = store.about("columns")
    if known is None:
        store.note("columns", columns)
    elif known != columns:
        raise SettingsError(
            f"{path}: required rows of the columns {columns:.200}, received {known:.200}. Use another --store."
        )


async def _run(server: Any, api: Any, place: Place, told: Callable[[str], None]) -> None:
    from psimlearn.serve.log import log

    async def reload() -> None:
        try:
            log("reloaded", rows_replayed=await api.reloaded())
        except PsimlearnError as error:
            log("reload refused", error=str(error))

    tasks: set[asyncio.Task[None]] = set()
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGHUP, lambda: tasks.add(asyncio.get_running_loop().create_task(reload()))
        )
    await api.engine.recover()  # here, where an error of the store becomes a message and not a traceback
    telling = asyncio.create_task(_tell_address(server, place, told))
    await server.serve()
    telling.cancel()
    if not server.started:
        raise SettingsError(
            f"--host {place.host} --port {place.port}: required a free address, received one that is not. Use --port 0."
        )


async def _tell_address(server: Any, place: Place, told: Callable[[str], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    host = f"[{place.host}]" if ":" in place.host else place.host
    told(f"http://{host}:{port}/")
