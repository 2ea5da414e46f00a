"""What the columns of a table mean."""

from typing import NamedTuple

__all__ = ["Columns"]


class Columns(NamedTuple):
    """Names of columns; None where there is none, or where it is yet to be found."""

    id: str | None
    time: str | None
    channels: tuple[str, ...] | None
    inputs: tuple[str, ...]
