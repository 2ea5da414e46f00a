"""More recordings for a filter that is already learnt: the sums go on, scaling and box stay as they are."""

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from psimlearn.errors import DataError, DivergedError
from psimlearn.filter import Filter, Scaling
from psimlearn.filter.rollout import roll, table
from psimlearn.filter.step import prior
from psimlearn.learners import Apart, ByOutput, Counting, GramSums, Learner, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import are_long, example_rows, futures
from psimlearn.train.examples import Targets, TrainingRows, examples
from psimlearn.train.recipe import Recipe, check
from psimlearn.train.score import forgetful, held_out, scored

__all__ = ["Absorbed", "absorbed", "check_range", "training_rows"]

FAR = 10.0
"""New recordings are refused whose channels lie this many times as far from the earlier mean as the earlier recordings.

Distances are root mean squares. So each of the new examples would weigh over a hundred times as much in the sums as an
earlier one. And whatever the distribution, at most 1 % of the earlier values lay so far out (Chebyshev).
"""


class Absorbed(NamedTuple):
    """A filter that has learnt from more recordings, and the values from which it can go on again."""

    filter: Filter
    learner: Learner[Any]
    sums: Any
    outside: float
    """The share of the new examples whose features lie outside the box of the earlier ones."""


def absorbed(
    filter: Filter, learner: Learner[Any], sums: Any, data: Trajectories, n_rounds: int, recipe: Recipe
) -> Absorbed:
    """Go on with DAgger over new recordings.

    Every recording in the sums was met once at the beginning and once in each round: so are the new ones.

    Args:
        filter: learnt so far.
        learner: prepared, as it made the sums.
        sums: the learner's summary of all examples so far.
        data: new recordings with the same channels and inputs.
        n_rounds: how many rounds made the filter.
        recipe: the recipe of the filter.
    """
    skip = recipe.skip if are_long(data.lengths, recipe.skip) else 0  # short recordings have few other rows
    check(data, filter.features, replace(recipe, skip=skip), "history")
    training = training_rows(replace(filter, opening=None), data, skip)
    phi = training.y + prior(filter.recursion, training.x[training.rows])
    fed = filter.feedback.linear(phi) + filter.feedback.shift
    outside = float(filter.feedback.clipped(fed).mean())
    filter, opening = replace(filter, opening=None), filter.opening  # the sums so far begin without one
    current, apart = filter, filter.gaps == "exact" and isinstance(learner, Ridge | RandomFourierRidge)
    for number in range(n_rounds + 1):
        z, y, _, _ = examples(current, training, apart)
        if number == 0 and isinstance(learner, Counting):
            learner = learner.counting(z, y, filter.lags, more=True)
        with np.errstate(over="ignore", invalid="ignore"):  # solve refuses sums of wild values
            in_part = apart and (isinstance(sums, ByOutput) or bool(np.isnan(y).any()))
            used = Apart(cast(Any, learner)) if in_part else learner
            sums = used.merge(sums, used.summarise(z, y))
            current = forgetful(replace(filter, regressors=(used.solve(sums),)))
    if not np.isfinite(scored(0, current, held_out(current, data, "one-step")).error):
        raise DivergedError(
            "required a filter that stays finite on the new recordings, received one that diverges; the model was left "
            "as it was. Check the new recordings for other units or wild values, or fit() on everything again."
        )
    return Absorbed(replace(current, opening=opening), learner, sums, outside)


def training_rows(filter: Filter, data: Trajectories, skip: int = 0) -> TrainingRows:
    """New recordings laid out for training in the scaling and box of a filter; `skip` as in `Recipe`."""
    laid_out = table(filter, data)
    plan, window = laid_out.layout.plan, filter.features.window
    x = roll(filter, laid_out).x
    rows, target_rows = example_rows(plan, window, skip)
    targets = Targets(filter.features(futures(x, plan, window)), filter.features, filter.centre, x, rows, target_rows)
    unbounded = np.full(len(filter.feedback.mean), np.inf)
    low, high = filter.feedback.low, filter.feedback.high
    guard = (-unbounded if low is None else low, unbounded if high is None else high)
    return TrainingRows(laid_out, rows, target_rows, x, targets, *guard, None)


def check_range(filter: Filter, sums: Any, data: Trajectories, recipe: Recipe) -> None:
    """Refuse new recordings that lie far outside the range of the earlier ones, as recordings in other units do."""
    beside = (("channel", data.values, data.names), ("input", data.inputs, None))
    for (what, values, names), earlier in zip(beside, _earlier(filter, sums, recipe), strict=True):
        if values is None or earlier is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # the distance of huge values is infinite
            squares = np.square(earlier(values))
            distance = np.sqrt(np.nansum(squares, axis=0) / np.maximum((~np.isnan(squares)).sum(axis=0), 1))
        i = int(np.argmax(distance))
        if distance[i] > FAR:
            raise DataError(
                f"{what} {i if names is None else repr(names[i])}: required values like the earlier ones, "
                f"{earlier.mean[i]:.3g} +- {earlier.scale[i]:.3g}, received values {distance[i]:.3g} times as far from "
                f"that mean; more than {FAR:g} times would spoil the model, which was left as it was. Check the units "
                "and wild values; fit() on all recordings; or pass any_range=True to learn from these nevertheless."
            )


def _earlier(filter: Filter, sums: Any, recipe: Recipe) -> tuple[Scaling | None, Scaling | None]:
    """The mean and deviation of the earlier channels and inputs; None where they are symbols or not known."""
    if filter.alphabet is not None:
        return None, filter.input_scaling if recipe.standardise else None
    if recipe.standardise:
        return filter.scaling, filter.input_scaling
    if not isinstance(sums, GramSums):
        return None, None
    mean = sums.z / sums.n
    spread = np.sqrt(np.maximum(np.diag(sums.zz) / sums.n - mean**2, 0.0))
    whole = Scaling(mean, np.where(spread > 0, spread, 1.0))
    r, n = len(filter.feedback.mean), len(filter.scaling.mean)  # z is feedback, then the last rows, then inputs
    channels = Scaling(*(part[r : r + n] for part in whole))
    if filter.input_scaling is None:
        return channels, None
    first, p = r + filter.lags * n, len(filter.input_scaling.mean)
    return channels, Scaling(*(part[first : first + p] for part in whole))
