"""HTTP with patience that ends: a client must send the head of a request in time, and may not send too much of it.

What is refused here, before there is a request, is refused in the shape of all errors.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from psimlearn.serve.errors import error_response

__all__ = ["patient"]

LARGEST_HEAD = 32 << 10
"""Bytes of the address and the headers of a request."""


def patient(patience: float) -> type[HttpToolsProtocol]:
    """The protocol of a server whose clients have this many seconds to send the head of a request."""
    return type("PatientFor", (Patient,), {"patience": patience})


class Patient(HttpToolsProtocol):
    """Closes connections whose head does not come in time, and those whose head is too large."""

    patience = 10.0
    _deadline: asyncio.TimerHandle | None = None
    _head = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.most, self.limit_concurrency = self.limit_concurrency, None  # uvicorn would refuse in a shape of its own

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        answer = error_response(400, f"request: required HTTP/1.1, received something else: {msg}")
        head = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"connection: close\r\n\r\n" + bytes(answer.body))
        self.transport.close()

    def connection_made(self, transport: Any) -> None:
        """A client has come: its first request must begin in time."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        self._disarm()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request has begun: its head must end in time."""
        self._head = 0
        self._arm()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        if self._small(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        if self._small(len(name) + len(value)):
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head has ended; the body has a deadline of its own."""
        self._disarm()
        if self.transport.is_closing():
            return
        app = self.app
        if self.most is not None and max(len(self.connections), len(self.tasks)) >= self.most:
            message = f"connections: required fewer than {self.most}, received one more. Close some, or come later."
            self.app = error_response(503, message, {"connection": "close", "retry-after": "1"}, "busy")
        super().on_headers_complete()
        self.app = app

    def _small(self, size: int) -> bool:
        self._head += size
        if self._head > LARGEST_HEAD:
            self.transport.abort()
        return self._head <= LARGEST_HEAD

    def _arm(self) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(self.patience, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
