"""HTTP with patience that ends: a client must send the head of a request in time, and may not send too much of it."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
        if not self.transport.is_closing():
            super().on_headers_complete()

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
