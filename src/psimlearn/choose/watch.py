"""Progress of `fit`, for those who wait, and a way to end a stage early."""

import sys
from typing import Literal

__all__ = ["Printed", "Stage", "Watch"]

Stage = Literal["trying settings", "racing", "training", "training with gaps", "shards"]


class Watch:
    """Receives progress from `fit`; the base class ignores it. Subclass it to report or to stop early.

    `PSIM(verbose=..)` takes an instance. A stage that ends early keeps the best result so far.
    """

    def __call__(self, message: str) -> None:
        """Receive a message about the work that begins now."""

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        """Receive how much of a stage is done; return False to end the stage."""
        return True


class Printed(Watch):
    """Prints messages on standard error."""

    def __call__(self, message: str) -> None:
        """Print the message at once."""
        print(f"psimlearn: {message}", file=sys.stderr, flush=True)
