"""The meaning of the columns of a table."""

from typing import NamedTuple

__all__ = ["NO_COLUMNS", "Columns"]


class Columns(NamedTuple):
    """Names of columns by their meaning; None for a column that is absent, or still to be found."""

    id: str | None
    time: str | None
    channels: tuple[str, ...] | None
    inputs: tuple[str, ...]


NO_COLUMNS = Columns(None, None, None, ())
"""Nothing is known of a table yet, or it has no columns."""
