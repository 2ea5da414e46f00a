"""Progress of `fit` in a notebook: a bar that is drawn again and again in one place."""

import sys
from importlib import import_module
from typing import Any

from psimlearn.choose.watch import Printed, Stage, Watch
from psimlearn.markup import escaped

__all__ = ["Bar", "loud"]


class Bar(Watch):
    """Shows the stage of fitting and its progress in the output of a cell.

    Args:
        display: `IPython.display.display`.
        html: `IPython.display.HTML`.
    """

    def __init__(self, display: Any, html: Any) -> None:
        self.html = html
        self.message = ""
        self.handle = display(html(""), display_id=True)

    def __call__(self, message: str) -> None:
        """Show a message about the work that begins now."""
        self.message = message
        self._show("")

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        """Move the bar."""
        self._show(f'<progress value="{done}" max="{total}"></progress> {escaped(stage)}, {done} of {total}')
        return True

    def _show(self, bar: str) -> None:
        told = f'<div style="opacity: .7">psimlearn: {escaped(self.message)}</div>' if self.message else ""
        self.handle.update(self.html(f"<div>{bar}{told}</div>"))


def loud() -> Watch:
    """A watch that tells progress: a bar in a notebook, lines on standard error elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):  # a shell in a terminal has no kernel, and shows no HTML
        return Printed()
    shown = import_module("IPython.display")
    return Bar(shown.display, shown.HTML)
