"""What a page is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psimlearn.filter.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.score import Round

__all__ = ["LONGEST", "Facts"]

LONGEST = 300
"""Rows of a recording that are drawn."""


@dataclass(frozen=True, eq=False)
class Facts:
    """All that a page is made of."""

    title: str
    data: Trajectories
    filter: Filter
    report: Mapping[str, Any]
    errors: Mapping[str, Sequence[float]]
    rounds: Sequence[Round]
    judged: Sequence[tuple[Filter, Trajectories]]
    """Calibrated filters with recordings that they have neither been fitted to nor calibrated on."""
    judged_how: str
    """A sentence that says so."""

    def channel(self, c: int) -> str:
        """What a channel is called."""
        names = self.filter.names or self.data.names
        return f"channel {c}" if names is None else names[c]
