"""The facts that every section of a page draws from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psimlearn.choose.summary import NOTHING_HELD_OUT
from psimlearn.filter import Filter
from psimlearn.legible import legible
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.score import Round

__all__ = ["LONGEST", "Facts"]

LONGEST = 300
"""The most rows of a recording that a figure shows."""


@dataclass(frozen=True, eq=False)
class Facts:
    """One filter, the recordings that it is shown on, and its errors: the input of every section."""

    title: str
    data: Trajectories
    filter: Filter
    report: Mapping[str, Any]
    errors: Mapping[str, Sequence[float]]
    rounds: Sequence[Round]
    held_out: Sequence[tuple[Filter, Trajectories]]
    """Calibrated filters, each with recordings that it was neither fitted to nor calibrated on."""
    held_out_note: str
    """A sentence for captions: how the filters in `held_out` relate to their recordings."""
    made: Mapping[str, Any]
    """Facts on how the page was made, such as the file and the command."""

    @property
    def of_training(self) -> bool:
        """Whether the errors are training errors: those of a fit with too few rows to hold any out."""
        return self.report.get("splits") == NOTHING_HELD_OUT and self.errors == self.report["errors"]

    def channel(self, c: int) -> str:
        """The name of a channel, or its number where it has none."""
        names = self.filter.names or self.data.names
        return f"channel {c}" if names is None else legible(names[c])
