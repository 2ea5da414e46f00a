"""Progress bars for fitting; Ctrl-C ends a stage and keeps the best filter so far."""

import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any

from psimlearn.choose.watch import Stage, Watch
from psimlearn.cli.columns import Columns
from psimlearn.cli.options import say

__all__ = ["bar", "command", "learnt", "left_in_words", "watched"]

RACERS = 5
"""How many runs race, as a rule: three kinds, and two more ridges for the best of them."""
DOING: dict[Stage, str] = {
    "trying settings": "trying settings",
    "racing": "rounds of training",
    "training with gaps": "training with gaps",
    "training": "training on everything",
    "shards": "shards of this pass",
}


def command() -> str:
    """The command line of this process, as one could type it again."""
    return shlex.join(["psimlearn", *sys.argv[1:]])


def bar() -> Any:
    """A progress bar on standard error, with the time left of the whole job; silent if that is no terminal.

    Every task has a field `left`: words, because the bars of rich know the pace of one stage only.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    parts = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    return Progress(*parts, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def left_in_words(seconds: float | None) -> str:
    """The time left, roughly; nothing while it is not known."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    return f"about {round(seconds / 60)} min left"


class Pace:
    """The time left of a whole fit, from the pace of its rounds; not known before the first rounds.

    A fit tries settings, races `RACERS` runs for a quarter of the rounds, runs the leader to the end and trains on
    everything for at most as many rounds.
    """

    def __init__(self) -> None:
        self.began: float | None = None
        self.rounds = 0
        self.race: int | None = None
        self.passed: float | None = None
        """When the first shard of this pass was done."""

    def left(self, stage: Stage, done: int, total: int, now: float) -> float | None:
        """Seconds left when a stage is this far."""
        if stage == "shards":
            self.passed = now if done == 1 or self.passed is None else self.passed
            return None if done == 1 else (now - self.passed) / (done - 1) * (total - done)
        if stage == "trying settings":
            self.began, self.rounds, self.race = None, 0, None
            return None
        if self.began is None:  # the first round may have compiled or laid out something
            self.began = now
            self.race = total if stage == "racing" else None
            return None
        self.rounds += 1
        return (now - self.began) / self.rounds * self._rounds_left(stage, done, total)

    def _rounds_left(self, stage: Stage, done: int, total: int) -> int:
        if stage in ("training", "training with gaps"):
            return total - done
        if self.race is None or total > self.race:  # the leader runs to the end
            return 2 * total - done
        whole = 4 * (self.race - 1)
        return max(RACERS * self.race - self.rounds, 0) + 2 * whole


class Shown(Watch):
    """Shows every stage of fitting as a bar, and reacts to Ctrl-C."""

    def __init__(self, progress: Any, stops: bool = False) -> None:
        self.progress = progress
        self.stops = stops
        self.stage: Stage = "trying settings"
        self.ended: set[str] = set()
        self.tasks: dict[Stage, Any] = {}
        self.pace = Pace()

    def __call__(self, message: str) -> None:
        """Print a message above the bars, or on a line if there are no bars."""
        if self.progress.disable:
            say(f"psimlearn: {message}")
        else:
            self.progress.console.print(message, style="dim", highlight=False)

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        """Update the bar of a stage; False if Ctrl-C was pressed during this part of fitting."""
        self.stage = stage
        left = left_in_words(self.pace.left(stage, done, total, monotonic()))
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(DOING[stage], total=total, left=left)
        elif done == 1:
            self.progress.reset(self.tasks[stage], total=total)
        for task in self.tasks.values():
            self.progress.update(task, left="")
        self.progress.update(self.tasks[stage], completed=done, total=total, left=left)
        return self._part() not in self.ended

    def interrupt(self, _: int, __: FrameType | None) -> None:
        """End the choice of settings or the training; the second time, or with a checkpoint, stop without a model."""
        if self.stops or self._part() in self.ended:
            raise KeyboardInterrupt
        self.ended.add(self._part())
        self(f"Ctrl-C: ending the {self._part()} with the best so far. Press it again to stop without a model.")

    def _part(self) -> str:
        return "training" if self.stage in ("training", "shards") else "choice of settings"


def learnt(model: Any, data: Any, columns: Columns, **how: Any) -> Any:
    """Fit a model to recordings with a progress bar, and note the columns in its report; `how` is for `fit`."""
    given = {name: value for name, value in how.items() if value is not None}
    with watched(stops="checkpoint" in given) as watch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the recordings have .* channels")  # the reader of the files has told it
        warnings.filterwarnings("ignore", "fit: too few rows")  # the summary says it
        model.set_params(verbose=watch).fit(data, **given)
    model.set_params(verbose=False)
    model.report_ = model.report_ | {"columns": columns._asdict()}
    return model


@contextmanager
def watched(stops: bool = False) -> Iterator[Shown]:
    """The watch of one fit, which handles Ctrl-C until the fit ends: it ends a stage, or stops the fit."""
    with bar() as progress:
        shown = Shown(progress, stops)
        if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
            yield shown
            return
        before = signal.signal(signal.SIGINT, shown.interrupt)
        try:
            yield shown
        finally:
            signal.signal(signal.SIGINT, before)
