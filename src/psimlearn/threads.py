"""One thread of linear algebra while a block runs, whichever threads of Python run it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

__all__ = ["one_thread"]


class _Limit:
    """The limit to one thread, which lasts while anything needs it: threads of Python may overlap."""

    def __init__(self, controller: Any) -> None:
        self.controller, self.lock, self.depth = controller, Lock(), 0
        self.limited: Any = None

    def enter(self) -> None:
        with self.lock:
            if not self.depth:
                self.limited = self.controller.limit(limits=1, user_api="blas")
            self.depth += 1

    def leave(self) -> None:
        with self.lock:
            self.depth -= 1
            if not self.depth:
                self.limited.restore_original_limits()


@cache
def _limit() -> _Limit | None:
    """The limit; None without threadpoolctl, as where a saved filter runs with numpy alone."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return _Limit(ThreadpoolController())


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block with one thread of linear algebra; as it is, where threads cannot be limited."""
    limit = _limit()
    if limit is None:
        yield
        return
    limit.enter()
    try:
        yield
    finally:
        limit.leave()
