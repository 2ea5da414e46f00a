"""The meaning of the columns of a data frame: `Trajectories.from_frame` is told it, and a model remembers it."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from psimlearn.checks import listing
from psimlearn.errors import SettingsError
from psimlearn.recordings.alphabet import Alphabet

__all__ = ["Roles", "check_roles"]


class Roles(NamedTuple):
    """The columns of a frame by their meaning; the words are those of `Trajectories.from_frame`."""

    id: Any = None
    time: Any = None
    channels: Sequence[Any] | Any | None = None
    inputs: Sequence[Any] | Any = ()
    hints: Sequence[Any] | Any = ()
    time_format: str | Any | None = None
    categories: Mapping[Any, Alphabet] = {}
    """The words of each input that holds words: there is an input for each word."""
    by_rows: bool = False
    """Whether rows count as equally far apart, whatever their times."""
    exclude: Sequence[Any] = ()
    """The columns of the frame that are nothing of this."""

    @property
    def beside(self) -> list[Any]:
        """The columns that are no channels."""
        return [name for name in (self.id, self.time) if name is not None] + [*self.inputs, *self.hints]

    @property
    def n_inputs(self) -> int:
        """The number of inputs: one for each column of numbers, and one for each word."""
        return sum(len(self.categories[name]) if name in self.categories else 1 for name in self.inputs)


def check_roles(roles: Roles) -> None:
    """Refuse lists where one name is required, and one name, or no names at all, where a list is."""
    for what in ("id", "time"):
        if not isinstance(getattr(roles, what), Hashable):
            raise SettingsError(f"{what}: required the name of one column, received {getattr(roles, what)!r:.80}.")
    for what in ("channels", "inputs", "hints"):
        given = getattr(roles, what)
        if given is not None or what != "channels":
            listing(given, what)
