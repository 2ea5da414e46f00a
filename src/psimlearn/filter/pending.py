"""What is still to be done about rows that live streams have taken."""

from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.stepped import SteppedStreams
from psimlearn.filter.streams import FoldedStreams
from psimlearn.shapes import Bool, Float

__all__ = ["Settled", "Waiting"]


class Waiting(NamedTuple):
    """A row of a filter with feed-through that was taken as if its inputs stayed, until the next inputs are known."""

    before: FoldedStreams | SteppedStreams
    """The streams before the row."""
    x: Float[np.ndarray, "*streams n"]
    u: Float[np.ndarray, "*streams p"]
    reset: Bool[np.ndarray, " b"]
    """The streams that were started again after the row."""


class Settled:
    """The streams `_runner` of an object, which are settled whenever they are read: see `quick.py`."""

    def __get__(self, owner: Any, _: Any = None) -> FoldedStreams | SteppedStreams:
        """Return the streams, after a note of the rows that the compiled step took on its own."""
        streams: FoldedStreams | SteppedStreams = owner._runner
        streams.settle()
        return streams

    def __set__(self, owner: Any, streams: FoldedStreams | SteppedStreams) -> None:
        """Replace the streams."""
        owner._runner = streams
