"""Threads of linear algebra: one for the many small products of a rollout, all of them for wide products.

Threads have to meet after each product. On a machine with other work, they wait for each other much longer than a small
product takes: eight times the CPU time was measured for 200 recordings of 60 channels.
"""

from contextlib import AbstractContextManager, nullcontext

from psimlearn.threads import all_threads, one_thread

__all__ = ["WIDE", "for_one_product", "for_products"]

SHARED, WIDE = 2**18, 5 * 10**7
"""BLAS gives products of more multiplications than this to its threads; they help in wide products only."""
LONG = 2 * 10**9
"""Threads help in a product of more multiplications than this whatever comes before and after it."""


def for_products(multiplications: int) -> AbstractContextManager[None]:
    """A context with as many threads as help in many products of this size, one after the other."""
    if multiplications <= SHARED:
        return nullcontext()
    return one_thread() if multiplications < WIDE else all_threads()


def for_one_product(multiplications: int) -> AbstractContextManager[None]:
    """A context with all threads for a product that takes long: even where small products have one thread."""
    return all_threads() if multiplications > LONG else nullcontext()
