"""Limits of the server: each has a number, and a request beyond it is refused in words."""

from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """What one request, one client and all streams together may ask for."""

    body: int = 8 << 20
    """Bytes of a body."""
    rows: int = 10_000
    """Rows of a request."""
    streams: int = 10_000
    """Streams that are kept."""
    rate: float = 0.0
    """Requests a second of one client, on average; 0 for no limit."""
    predictions: int = 200_000
    """Predictions in an answer, of all rows, channels and horizons: 15 MB. One horizon is always allowed."""
    horizon: int = 100
    """Steps ahead of an answer."""
    steps: int = 1000
    """Steps of a forecast."""
    watchers: int = 100
    """Readers of events at a time."""
    waiting: int = 100_000
    """Rows that wait to be taken, of all requests together."""
    connections: int = 1000
    """Connections at a time."""
    patience: float = 10.0
    """Seconds that a client may take to send a request."""
