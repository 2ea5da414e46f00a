"""Ctrl-C while `PSIM.fit` runs in Python: the first ends the search and keeps the best so far, the second stops it.

Only the default handler of Python is replaced, only in the main thread, and only while a fit runs: programs with
handlers of their own keep these. With a checkpoint Ctrl-C stops at once, since the same call goes on from there.
"""

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from psimlearn.choose.watch import Printed, Stage, Watch
from psimlearn.errors import PsimlearnWarning

__all__ = ["Interruptible", "interruptible"]

CHOICE, TRAINING = "choice of settings", "training on all recordings"
SKIPPED = {
    CHOICE: "further settings and rounds were not tried, and the best so far was taken",
    TRAINING: "further rounds were not made, the last one was taken, and partial_fit has no sums to go on from",
}


class Interruptible(Watch):
    """Tells another watch everything, and ends the part of a fit in which Ctrl-C was pressed."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.at: tuple[Stage, int, int] | None = None
        """The stage and how far it was; None before anything was tried, when there is no filter to keep."""
        self.ended: tuple[str, Stage, int, int] | None = None
        """The part of the fit in which Ctrl-C was pressed, and how far it was."""
        self.skipped = False

    def __call__(self, message: str) -> None:
        """Pass a message on."""
        self.watch(message)

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        """Pass progress on; False if Ctrl-C was pressed in this part of the fit."""
        if stage != "shards" or self.at is not None:  # the first shards are only read
            self.at = stage, done, total
        going = self.watch.goes_on(stage, done, total)
        if self.ended is None or self.ended[0] != self._part():
            return going
        self.skipped = self.skipped or (stage != "shards" and done < total)  # passes over shards are made whole
        return False

    def interrupt(self, _: int, __: FrameType | None) -> None:
        """End this part of the fit; the second time, or before there is anything to keep, stop without a model."""
        if self.at is None or self.ended is not None:
            raise KeyboardInterrupt
        self.ended = (self._part(), *self.at)
        tell = Printed() if type(self.watch) is Watch else self.watch
        tell(f"Ctrl-C: ending the {self._part()} with the best so far. Press it again to stop without a model.")

    @property
    def notes(self) -> list[str]:
        """What Ctrl-C has skipped, for the report."""
        if self.ended is None or not self.skipped:
            return []
        part, stage, done, total = self.ended
        return [f"Ctrl-C ended the {part} early ({stage}: {done} of {total}): {SKIPPED[part]}"]

    def warn(self) -> None:
        """Warn of what Ctrl-C has skipped."""
        for note in self.notes:
            warnings.warn(f"fit: {note}. Fit again to search to the end.", PsimlearnWarning, stacklevel=3)

    def _part(self) -> str:
        assert self.at is not None
        return TRAINING if self.at[0] in ("training", "shards") else CHOICE


@contextmanager
def interruptible(watch: Watch, stops: bool) -> Iterator[Interruptible]:
    """The watch of one fit; with `stops`, Ctrl-C stops it as any other call."""
    shown = Interruptible(watch)
    main = threading.current_thread() is threading.main_thread()  # only the main thread receives signals
    if stops or not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield shown
        return
    signal.signal(signal.SIGINT, shown.interrupt)
    try:
        yield shown
    finally:
        if signal.getsignal(signal.SIGINT) == shown.interrupt:  # nobody else has set one meanwhile
            signal.signal(signal.SIGINT, signal.default_int_handler)
