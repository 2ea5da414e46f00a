"""What fitting tells of itself while it goes on, and whether it is asked to come to an end."""

import sys
from typing import Literal

__all__ = ["Printed", "Stage", "Watch"]

Stage = Literal["trying settings", "racing", "training"]


class Watch:
    """Hears of the progress of fitting; this one keeps still. `PSIM(verbose=..)` takes a subclass.

    Nothing is lost by ending a stage early: the best of what was tried so far is taken.
    """

    def __call__(self, message: str) -> None:
        """Hear, in words, what is being done."""

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        """Hear how much of a stage is done, and say whether to go on with it."""
        return True


class Printed(Watch):
    """Says what is being done on standard error."""

    def __call__(self, message: str) -> None:
        """Say it at once."""
        print(f"psimlearn: {message}", file=sys.stderr, flush=True)
