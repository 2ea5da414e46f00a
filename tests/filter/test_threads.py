"""Small products run with one thread of linear algebra, and the number of threads is restored."""

from unittest.mock import patch

from threadpoolctl import threadpool_info, threadpool_limits

from psimlearn.filter import Stack
from psimlearn.filter.rollout import rolled
from psimlearn.filter.threads import SHARED, WIDE, for_products
from random_filters import WINDOW, drawn, made


def threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_only_products_that_threads_slow_down_have_one_thread() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        for size in (SHARED, WIDE):
            with for_products(size):
                assert threads() == before
        with for_products(2 * SHARED):
            assert set(threads()) == {1}
        assert threads() == before


def test_blocks_that_overlap_restore_the_threads_once() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        first, second = for_products(2 * SHARED), for_products(2 * SHARED)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before


def test_a_roll_asks_for_the_threads_of_its_products() -> None:
    filter, data = made("linear", Stack(WINDOW), "none", 1, "mean", False, True, 0), drawn(False, "none", 0)
    with patch("psimlearn.filter.feeding.for_products", wraps=for_products) as asked:
        rollout = rolled(filter, data)
    assert {call.args for call in asked.call_args_list} == {(len(data) * rollout.z.shape[1] * len(filter.initial),)}
