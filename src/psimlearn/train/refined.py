"""Training on with gaps as they are: from a filter that was trained with its gaps filled in.

A filled-in entry is a guess that is taken as observed, and a filter trained with guesses adapts to them. Here the
filter treats gaps exactly: at every row z_t is the mean of the regressor's input, given all entries seen up to it. For
conditional means E[y | seen up to t] = B E[z | seen up to t], so a regression on such means is consistent. A missing
target is left out of the sums of its output: the prediction of the filter in its place would teach it nothing.

Rounds go on from D_0, whose beliefs keep the first filters stable. Older rounds fade, since their guesses were worse.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from psimlearn.filter import Filter, Linear, RandomFourier
from psimlearn.filter.innovations import has_innovations
from psimlearn.learners import Apart, RandomFourierRidge, Ridge
from psimlearn.train.dagger import Aggregation, aggregation, as_trained
from psimlearn.train.examples import Begun
from psimlearn.train.score import HeldOut, scored

__all__ = ["can_be_refined", "first_refined", "next_refined", "refined"]

MOST_ENTRIES = 30_000_000
"""The numbers in the sums of all outputs, of which each has sums of its own: bounds the memory."""
FADING = 0.6
"""The weight of all earlier examples, once a round has added its own. Measured on linear systems with 20 and 50 % of
entries missing: without fading, bad guesses of early rounds stay; below .5, rounds become unstable."""


def can_be_refined(filter: Filter, begun: Begun) -> bool:
    """Whether a filter can be trained on: its learner takes outputs apart, and their sums fit in memory."""
    regressor = filter.regressors[0]
    if not (has_innovations(filter) and isinstance(begun.learner, Ridge | RandomFourierRidge)):
        return False
    linear = regressor.linear if isinstance(regressor, RandomFourier) else regressor
    assert isinstance(linear, Linear)
    width, outputs = linear.weights.shape
    return bool(width**2 * outputs <= MOST_ENTRIES)


def refined(filter: Filter, begun: Begun, validation: HeldOut, n_rounds: int) -> Iterator[Aggregation]:
    """Yield the filter with exact gaps, and the filters of rounds of DAgger that go on from it.

    Args:
        filter: trained by DAgger with gaps filled in.
        begun: the beginning of that training.
        validation: recordings that score each round in closed loop.
        n_rounds: the number of rounds to train on.
    """
    current = first_refined(filter, begun, validation)
    yield current
    for _ in range(n_rounds):
        current = next_refined(current, begun, validation)
        yield current


def first_refined(filter: Filter, begun: Begun, validation: HeldOut) -> Aggregation:
    """The filter with exact gaps, scored."""
    return aggregation(scored(0, replace(filter, gaps="exact"), validation, opens=begun.opens), begun.sums)


def next_refined(current: Aggregation, begun: Begun, validation: HeldOut) -> Aggregation:
    """One round more with gaps as they are."""
    learner = Apart(cast(Any, begun.learner))  # see can_be_refined
    new, dropped = begun.training.met(as_trained(current.filter, begun), learner, apart=True)
    sums = new if current.sums is None else learner.merge(current.sums.faded(FADING), new)
    filter = replace(current.filter, regressors=(learner.solve(sums),))
    return aggregation(scored(current.number + 1, filter, validation, dropped, begun.opens), sums)
