"""Signals that end a command: Ctrl-C, SIGTERM and SIGHUP all unwind it, so that no temporary file stays behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stopped", "exit_code", "unwinding"]

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that would end the process at once; Windows has no SIGHUP."""


class Stopped(KeyboardInterrupt):
    """A signal other than Ctrl-C asked the command to end; it is handled as Ctrl-C is."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: BaseException | None) -> int:
    """The exit code of a command that was stopped: 128 and the number of the signal, as shells count."""
    return 128 + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)


@contextmanager
def unwinding() -> Iterator[None]:
    """Raise `Stopped` at a signal, unless the signal is ignored, as under nohup."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(number)
