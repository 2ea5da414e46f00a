"""Descents: steps by hand, epochs undone, and where they end."""

from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

from psimlearn.datasets import long_memory_system
from psimlearn.errors import DivergedError, SettingsError
from psimlearn.filter import Filter, Stack
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Round, dagger
from psimlearn.train.descent import check_optimiser, descend, patient

RNG = np.random.default_rng


@cache
def half_learnt() -> tuple[Filter, Trajectories, Trajectories]:
    rng = RNG(3)
    values = long_memory_system().simulate(60, 40, rng).values.copy()
    values[rng.random(values.shape) < 0.1] = np.nan
    data = Trajectories.of([v[: 40 - i % 9] for i, v in enumerate(values.reshape(60, 40, 2))])
    train, validation = data[:40], data[40:]
    return next(dagger(train, validation, Stack(2), Ridge(1e-2), rng=rng)).filter, train, validation


def bowl(p: Any, fixed: Any, batch: Any) -> Any:
    return ((p - batch) ** 2).sum()


def run(batches: list[float], whole: float, n: int, **options: Any) -> list[Any]:
    arrays = [np.full(2, b) for b in batches]
    return list(islice(descend(bowl, np.zeros(2), None, arrays, np.full(2, whole), seed=0, **options), n + 1))


def test_gradient_descent_by_hand() -> None:
    """Steps of rate * 2 (p - b), halved every 2 epochs; a gradient longer than the clip is shortened to it."""
    states = run([1.0], 1.0, 4, optimiser="gd", rate=0.1, halving=2)
    p, by_hand = 0.0, [0.0]
    for rate in (0.1, 0.1, 0.05, 0.05):
        p -= rate * 2 * (p - 1)
        by_hand.append(p)
    np.testing.assert_allclose([s.parameters[0] for s in states], by_hand, rtol=0, atol=1e-15)
    np.testing.assert_allclose([s.loss for s in states], [2 * (p - 1) ** 2 for p in by_hand], rtol=0, atol=1e-14)
    clipped = run([1.0], 1.0, 1, optimiser="gd", rate=0.1, clip=1.0)[1].parameters
    np.testing.assert_allclose(clipped, np.full(2, 0.1 / np.sqrt(2)), rtol=1e-12)


def test_steps_that_are_not_finite_are_not_taken() -> None:
    states = run([1.0, np.nan, 1.0], 1.0, 3, optimiser="rmsprop", rate=0.1)
    assert [s.rejected for s in states] == [(), (1,), (1,), (1,)]
    assert states[-1].loss < states[0].loss


def test_epochs_that_climb_are_undone_with_half_the_step() -> None:
    states = run([1.0], 1.0, 8, optimiser="gd", rate=6.0)  # 1 - 2 rate: diverges until the rate is below 1
    assert [s.share for s in states[:5]] == [1.0, 0.5, 0.25, 0.125, 0.125]
    assert [s.loss for s in states[:4]] == [2.0] * 4
    assert states[-1].loss < 0.2
    assert len(run([2.0], -1.0, 99, optimiser="gd")) < 99  # the batches lead away from the whole: there is an end


def test_a_descent_needs_a_finite_beginning_and_a_known_optimiser() -> None:
    with pytest.raises(DivergedError, match="required a finite loss"):
        run([1.0], np.inf, 1)
    with pytest.raises(SettingsError, match=r"optimiser: required one of .* received 'newton'"):
        check_optimiser("newton")


def test_patience_ends() -> None:
    filter = half_learnt()[0]
    errors = [5.0, 4.0, 6.0, 3.0, np.inf, 3.0, 2.0, 1.0]
    rounds = [Round(i, filter, e, 0.0, 0) for i, e in enumerate(errors)]
    assert [r.number for r in patient(rounds, 2)] == [0, 1, 2, 3, 4, 5]
