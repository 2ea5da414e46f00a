"""Threads of linear algebra: one for the many small products of a rollout, all of them for wide products.

Threads have to meet after each product. On a machine with other work, they wait for each other much longer than a small
product takes: eight times the CPU time was measured for 200 recordings of 60 channels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

__all__ = ["for_products"]

SHARED, WIDE = 2**18, 5 * 10**7
"""BLAS gives products of more multiplications than this to its threads; they help in wide products only."""


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
def for_products(multiplications: int) -> Iterator[None]:
    """Run a block with as many threads as help in products of this size."""
    limit = _limit() if SHARED < multiplications < WIDE else None
    if limit is None:
        yield
        return
    limit.enter()
    try:
        yield
    finally:
        limit.leave()
