"""Progress bars for fitting; Ctrl-C ends a stage and keeps the best filter so far."""

import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from psimlearn.choose.watch import Stage, Watch
from psimlearn.cli.columns import Columns
from psimlearn.cli.options import say

__all__ = ["bar", "learnt", "watched"]

DOING: dict[Stage, str] = {
    "trying settings": "trying settings",
    "racing": "rounds of training",
    "training with gaps": "training with gaps",
    "training": "training on everything",
}


def bar() -> Any:
    """A progress bar on standard error, with the time left; silent if standard error is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    parts = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(
        *parts, TextColumn("left"), console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )


class Shown(Watch):
    """Shows every stage of fitting as a bar, and reacts to Ctrl-C."""

    def __init__(self, progress: Any) -> None:
        self.progress = progress
        self.stage: Stage = "trying settings"
        self.ended: set[str] = set()
        self.tasks: dict[Stage, Any] = {}

    def __call__(self, message: str) -> None:
        """Print a message above the bars, or on a line if there are no bars."""
        if self.progress.disable:
            say(f"psimlearn: {message}")
        else:
            self.progress.console.print(message, style="dim", highlight=False)

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        """Update the bar of a stage; False if Ctrl-C was pressed during this part of fitting."""
        self.stage = stage
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(DOING[stage], total=total)
        elif done == 1:
            self.progress.reset(self.tasks[stage], total=total)
        self.progress.update(self.tasks[stage], completed=done, total=total)
        return self._part() not in self.ended

    def interrupt(self, _: int, __: FrameType | None) -> None:
        """End the choice of settings or the training; the second time, stop without a model."""
        if self._part() in self.ended:
            raise KeyboardInterrupt
        self.ended.add(self._part())
        self(f"Ctrl-C: ending the {self._part()} with the best so far. Press it again to stop without a model.")

    def _part(self) -> str:
        return "training" if self.stage == "training" else "choice of settings"


def learnt(model: Any, data: Any, columns: Columns, groups: Sequence[Any] | None = None) -> Any:
    """Fit a model to recordings with a progress bar, and note the columns in its report."""
    together = {} if groups is None else {"groups": groups}
    with watched() as watch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the recordings have .* channels")  # the reader of the files has told it
        model.set_params(verbose=watch).fit(data, **together)
    model.set_params(verbose=False)
    model.report_ = model.report_ | {"columns": columns._asdict()}
    return model


@contextmanager
def watched() -> Iterator[Shown]:
    """The watch of one fit, which handles Ctrl-C until the fit ends."""
    with bar() as progress:
        shown = Shown(progress)
        if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
            yield shown
            return
        before = signal.signal(signal.SIGINT, shown.interrupt)
        try:
            yield shown
        finally:
            signal.signal(signal.SIGINT, before)
