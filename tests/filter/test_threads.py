"""Small products run with one thread of linear algebra, and the number of threads is restored."""

from unittest.mock import patch

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from psimlearn.choose.watch import Watch
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import Stack
from psimlearn.filter.rollout import rolled
from psimlearn.filter.threads import LONG, SHARED, WIDE, for_one_product, for_products
from psimlearn.threads import all_threads, mostly_one_thread, one_thread
from random_filters import WINDOW, drawn, made
from small import QUICK, several


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


def test_wide_products_of_a_fit_have_all_threads() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        with mostly_one_thread():
            assert set(threads()) == {1}
            for context, expected in (
                (for_products(WIDE), before),
                (for_products(2 * SHARED), [1] * len(before)),
                (for_one_product(LONG + 1), before),
                (for_one_product(LONG), [1] * len(before)),
            ):
                with context:
                    assert threads() == expected
                assert set(threads()) == {1}
        assert threads() == before


def test_one_thread_for_equal_bits_is_not_lifted() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        with mostly_one_thread(), one_thread(), all_threads():
            assert set(threads()) == {1}
        with all_threads(), mostly_one_thread():  # of two threads of Python, say
            assert threads() == before
        assert threads() == before


def test_threads_are_restored_after_an_error() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        with pytest.raises(KeyboardInterrupt), mostly_one_thread(), all_threads():
            raise KeyboardInterrupt
        assert threads() == before


def test_a_fit_has_one_thread() -> None:
    class Watching(Watch):
        def goes_on(self, what: str, done: int, total: int) -> bool:
            seen.append(set(threads()))
            return True

    seen: list[set[int]] = []
    with threadpool_limits(2, "blas"):
        before = threads()
        model = PSIM(**QUICK | {"learner": "ridge", "verbose": Watching()}).fit(several())
        assert seen
        assert all(each == {1} for each in seen)
        assert threads() == before
        model.partial_fit(several(1)[:1])
        assert threads() == before


def test_a_roll_asks_for_the_threads_of_its_products() -> None:
    filter, data = made("linear", Stack(WINDOW), "none", 1, "mean", False, True, 0), drawn(False, "none", 0)
    with patch("psimlearn.filter.feeding.for_products", wraps=for_products) as asked:
        rollout = rolled(filter, data)
    assert {call.args for call in asked.call_args_list} == {(len(data) * rollout.z.shape[1] * len(filter.initial),)}
