"""A model as the server needs it."""

from typing import NamedTuple

from psimlearn.filter import Filter
from psimlearn.filter.thresholds import Thresholds
from psimlearn.serve.rows import Wanted

__all__ = ["Served"]


class Served(NamedTuple):
    """A filter, the columns of its rows, and the rate of its alarms."""

    filter: Filter
    wanted: Wanted
    rate: float | None
    """The share of normal rows that is low enough to begin an alarm; None for no alarms."""
    fingerprint: str
    """A hash of the model file: states of one model mean nothing to another."""
    name: str = ""

    @property
    def n_inputs(self) -> int:
        """The number of inputs after words became numbers."""
        scaling = self.filter.input_scaling
        return 0 if scaling is None else len(scaling.mean)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels; of symbols, the symbols."""
        alphabet = self.wanted.alphabet
        return self.wanted.channels if alphabet is None else tuple(map(str, alphabet.symbols))

    @property
    def thresholds(self) -> Thresholds | None:
        """The thresholds of alarms; None if there are no alarms."""
        return None if self.rate is None else self.filter.thresholds

    def agrees(self, other: "Served") -> bool:
        """Whether rows of one model mean the same to the other."""
        mine, theirs = self.wanted, other.wanted
        return mine.names == theirs.names and mine.alphabet == theirs.alphabet and self.n_inputs == other.n_inputs
