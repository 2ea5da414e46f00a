"""How many threads of linear algebra run a block, whichever threads of Python run it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import Lock
from typing import Any

__all__ = ["all_threads", "mostly_one_thread", "one_thread"]


class _Limit:
    """The limit to one thread, which lasts while anything needs it: threads of Python may overlap."""

    def __init__(self, controller: Any) -> None:
        self.controller, self.lock = controller, Lock()
        self.always = self.mostly = self.lifted = 0
        """How many blocks ask for one thread always, or mostly, and how many lift the limit of the latter."""
        self.limited: Any = None
        """What restores the number of threads; None without a limit."""

    @contextmanager
    def counted(self, kind: str) -> Iterator[None]:
        """Count a block of this kind while it runs."""
        self._add(kind, 1)
        try:
            yield
        finally:
            self._add(kind, -1)

    def _add(self, kind: str, change: int) -> None:
        with self.lock:
            setattr(self, kind, getattr(self, kind) + change)
            wanted = self.always > 0 or (self.mostly > 0 and not self.lifted)
            if wanted and self.limited is None:
                self.limited = self.controller.limit(limits=1, user_api="blas")
            elif not wanted and self.limited is not None:
                self.limited.restore_original_limits()
                self.limited = None


@cache
def _limit() -> _Limit | None:
    """The limit; None without threadpoolctl, as where a saved filter runs with numpy alone."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return _Limit(ThreadpoolController())


@contextmanager
def _counted(kind: str) -> Iterator[None]:
    """Run a block that counts; as it is, where threads cannot be limited."""
    limit = _limit()
    if limit is None:
        yield
        return
    with limit.counted(kind):
        yield


def one_thread() -> AbstractContextManager[None]:
    """A context with one thread of linear algebra, for bits that do not depend on the machine."""
    return _counted("always")


def mostly_one_thread() -> AbstractContextManager[None]:
    """A context with one thread of linear algebra, but for the parts of it that run with `all_threads`.

    Thousands of small products take longer with more: threads have to meet after each.
    """
    return _counted("mostly")


def all_threads() -> AbstractContextManager[None]:
    """A context within `mostly_one_thread` that has as many threads as there were before it."""
    return _counted("lifted")
