"""How far fitting is, for the person who waits; Ctrl-C ends a stage and keeps the best so far."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from psimlearn.choose.watch import Stage, Watch
from psimlearn.cli.options import say

__all__ = ["bar", "watched"]

DOING = {"trying settings": "trying settings", "racing": "rounds of training", "training": "training on everything"}


def bar() -> Any:
    """A progress bar on standard error, with the time left; silent where nobody is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    parts = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(
        *parts, TextColumn("left"), console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )


class Shown(Watch):
    """Shows every stage as a bar, and listens for Ctrl-C."""

    def __init__(self, progress: Any) -> None:
        self.progress = progress
        self.stage: Stage = "trying settings"
        self.ended: set[str] = set()
        self.tasks: dict[Stage, Any] = {}

    def __call__(self, message: str) -> None:
        """Above the bars; on a line of its own where there are none."""
        if self.progress.disable:
            say(f"psimlearn: {message}")
        else:
            self.progress.console.print(message, style="dim", highlight=False)

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        """Unless Ctrl-C was pressed during the choice or the training, whichever it is."""
        self.stage = stage
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(DOING[stage], total=total)
        elif done == 1:
            self.progress.reset(self.tasks[stage], total=total)
        self.progress.update(self.tasks[stage], completed=done, total=total)
        return self._part() not in self.ended

    def interrupt(self, _: int, __: FrameType | None) -> None:
        """End the choice, or the training; a second time, end everything."""
        if self._part() in self.ended:
            raise KeyboardInterrupt
        self.ended.add(self._part())
        self(f"Ctrl-C: ending the {self._part()} with the best so far. Once more to stop without a model.")

    def _part(self) -> str:
        return "training" if self.stage == "training" else "choice of settings"


@contextmanager
def watched() -> Iterator[Shown]:
    """A watch for one fit."""
    with bar() as progress:
        shown = Shown(progress)
        if threading.current_thread() is not threading.main_thread():  # only the main thread hears of signals
            yield shown
            return
        before = signal.signal(signal.SIGINT, shown.interrupt)
        try:
            yield shown
        finally:
            signal.signal(signal.SIGINT, before)
