"""Threads of linear algebra: one for the many small products of a rollout, all of them for wide products.

Threads have to meet after each product. On a machine with other work, they wait for each other much longer than a small
product takes: eight times the CPU time was measured for 200 recordings of 60 channels.
"""

from contextlib import AbstractContextManager, nullcontext

from psimlearn.threads import one_thread

__all__ = ["WIDE", "for_products"]

SHARED, WIDE = 2**18, 5 * 10**7
"""BLAS gives products of more multiplications than this to its threads; they help in wide products only."""


def for_products(multiplications: int) -> AbstractContextManager[None]:
    """A context with as many threads as help in products of this size."""
    return one_thread() if SHARED < multiplications < WIDE else nullcontext()
