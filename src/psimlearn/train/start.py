"""Where training begins: scaling, the first belief, the first examples, the first filter."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from psimlearn.errors import DataError
from psimlearn.filter import Features, Feedback, Filter, Linear, OneHot, Scaling
from psimlearn.filter.gaps import conditional_fill, error_covariance
from psimlearn.filter.layout import Layout, lay_out
from psimlearn.filter.onehot import onto_simplices
from psimlearn.filter.rollout import inputs_at, room
from psimlearn.filter.scaling import CONSTANT, standardisation
from psimlearn.filter.step import prior
from psimlearn.learners import BesideBelief, Counting, InCoordinates, Learner, Ridge, Stats, generalised_alpha
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import (
    carried_forward,
    example_rows,
    futures,
    histories,
    lag_places,
    late_before,
    settled,
    whole_futures,
)
from psimlearn.shapes import Float
from psimlearn.train.coordinates import relative, weighted
from psimlearn.train.examples import TrainingRows, filled_features
from psimlearn.train.recipe import Init, Recipe, check
from psimlearn.train.subspace import Related, Start, first_step, readout, realised, related, started

__all__ = ["Beginning", "Ground", "begin", "ground", "relating"]

FILL_PASSES = 3
"""How often missing entries and history-regressed beliefs are refined in turn before training."""
LEAST_SCALE = 0.1
"""A belief that hardly moved at first may move later: its scale is at least this share of the scale of the features."""
SUBSPACE_RIDGE = 1e-3
"""Added to the variances of standardised observations where a subspace start relates past and future."""
LARGEST_BELIEF = 1e100
"""Beyond this a belief counts as non-finite: its square would soon be."""


class Ground(NamedTuple):
    """Standardised rows, and beliefs without a filter: the same for all learners and recipes that are tried on them."""

    train: Trajectories
    features: Features
    scaling: Scaling
    input_scaling: Scaling | None
    layout: Layout
    x: Float[np.ndarray, "rows n"]
    """Observations, with missing ones filled in."""
    beliefs: Float[np.ndarray, "rows d"]
    """m^0_t, regressed on history."""
    phi: Float[np.ndarray, "rows d"]
    """phi(f_t)."""
    covariance: Float[np.ndarray, "n n"]
    """The covariance of the one-step errors of those beliefs."""
    related: Mapping[int, Related] = MappingProxyType({})
    """By `Recipe.past`, how so many rows of future depend on so many rows of past, as far as it is known already."""


class Beginning(NamedTuple):
    """F_0, the prepared learner, its summary of D_0 (None if that is empty) and the training rows laid out."""

    filter: Filter
    learner: Learner[Any]
    sums: Any
    training: TrainingRows


def ground(train: Trajectories, features: Features, init: Init, recipe: Recipe) -> Ground:
    """Standardise the recordings, and regress the initial beliefs on history.

    The result serves every recipe that differs in lags, prior, weights, rank or states only.
    """
    check(train, features, recipe, init)
    scaling = standardisation(train.values, recipe.standardise)
    input_scaling = None if train.inputs is None else standardisation(train.inputs, recipe.standardise)
    layout = lay_out(train, scaling, input_scaling, recipe.lags, recipe.feedthrough)
    return Ground(train, features, scaling, input_scaling, layout, *_history_beliefs(layout, features))


def relating(ground: Ground, pasts: Iterable[int]) -> Ground:
    """The ground with past and future related for these values of `Recipe.past`, unless there are too few rows."""
    known = {}
    for past in pasts:
        with suppress(DataError):
            known[past] = _related(ground.x, ground.layout.plan, past)
    return ground._replace(related=known)


def begin(
    ground: Ground,
    learner: Learner[Stats],
    init: Init,
    recipe: Recipe,
    rng: np.random.Generator,
    sums: Stats | None = None,
) -> Beginning:
    """Make the initial examples and fit F_0 to them.

    Args:
        ground: the recordings.
        learner: fits a regressor to examples.
        init: the beliefs of the first fit.
        recipe: the choices around the algorithm.
        rng: for learners that draw random features.
        sums: the learner's summary of these examples, if it is known; only for learners that need no preparation.
    """
    train, features, scaling, input_scaling, layout, x, beliefs, phi, covariance, _ = ground
    check(train, features, recipe, init)
    layout = layout._replace(places=lag_places(layout.plan, recipe.lags))
    rows, target_rows = example_rows(layout.plan, features.window)
    # a zero start has no beliefs yet: the features themselves stand in and set the scale
    m, seen = (beliefs if init == "history" else phi)[rows], phi[whole_futures(layout.plan, features.window)]
    subspace = _subspace_start(ground, recipe)
    directions = _directions(m, recipe.rank) if subspace is None else readout(subspace.system, seen)
    spread = _spread(seen if directions is None else seen @ directions)
    feedback = _feedback(m if directions is None else m @ directions, spread, directions, recipe)
    d, width = phi.shape[1], len(feedback.mean) + recipe.lags * x.shape[1] + layout.u.shape[1]
    filter = Filter(
        features=features,
        regressors=(Linear(np.zeros((width, d)), np.zeros(d)),),
        initial=_initial(features, phi[layout.plan.block(0)], seen),
        scaling=scaling,
        feedback=feedback,
        centre={"mean": np.ones(len(seen)) @ seen / len(seen), "zero": np.zeros(d), "last": None}[recipe.prior],
        covariance=covariance,
        lags=recipe.lags,
        input_scaling=input_scaling,
        feedthrough=recipe.feedthrough,
        names=train.names,
        alphabet=train.alphabet,
        time_step=train.step,
        span=None if isinstance(features, OneHot) else _span(layout.x),
        gaps="filled" if layout.gappy else "exact",  # `refined` trains on as gaps are
    )
    y = phi[target_rows] - prior(filter.recursion, x[rows])
    bounds = _guard(spread, feedback, recipe.guard)
    training = TrainingRows(room(filter, layout), rows, target_rows, x, y, *bounds, None)
    if sums is None:
        z = inputs_at(filter, m, x, layout, rows)
        prepared = _placed(_in_coordinates(learner, filter, recipe, z), filter).prepare(z, rng)
        learner = prepared.counting(z, y, recipe.lags) if isinstance(prepared, Counting) else prepared
        if init == "zero":
            return Beginning(filter, learner, None, training)
        if subspace is not None:
            first = first_step(subspace, feedback, recipe.lags, filter.centre)
            filter = replace(filter, regressors=(first,), initial=subspace.belief(features.window))
            return Beginning(filter, learner, None, training)
        sums = learner.summarise(z, y)
    filter = replace(filter, regressors=(learner.solve(sums),))
    training = training._replace(same=(len(feedback.mean), sums))
    return Beginning(filter, learner, sums if recipe.keep_start else None, training)


def _in_coordinates(
    learner: Learner[Any], filter: Filter, recipe: Recipe, z: Float[np.ndarray, "examples p"]
) -> Learner[Any]:
    """The learner, with a penalty on changes and levels if the recipe asks for it and the learner can."""
    if recipe.level_weight is None or not isinstance(learner, InCoordinates):
        return learner
    change = relative(filter, z.shape[1])
    deviation, of_columns = np.std(z @ change, axis=0), np.std(z, axis=0)
    coordinates = weighted(filter, change, deviation, of_columns, recipe.level_weight)
    changed: Learner[Any] = replace(cast(Any, learner), coordinates=coordinates)  # a dataclass, which mypy cannot know
    return changed


def _placed(learner: Learner[Any], filter: Filter) -> Learner[Any]:
    """The learner, told which columns of z come from the belief if it treats these in another way."""
    if not isinstance(learner, BesideBelief):
        return learner
    told: Learner[Any] = replace(cast(Any, learner), n_fed=len(filter.feedback.mean))  # a dataclass, as above
    return told


def _history_beliefs(layout: Layout, features: Features) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Beliefs without a filter: phi(f_t) regressed on the last observations and inputs before t.

    Missing observations are filled in by the same regression, in turn. Returns the filled observations, the beliefs
    m^0_t and the features phi(f_t) at every row, and the covariance of the beliefs' one-step errors.
    """
    plan, window, late = layout.plan, features.window, late_before(layout.x, layout.plan)
    x = carried_forward(layout.x, plan) if layout.gappy else layout.x
    if isinstance(features, OneHot):  # before the first symbol there is none to carry forward
        x = np.where(x.any(axis=1, keepdims=True), x, np.nanmean(layout.x, axis=0))
    phi = features(futures(x, plan, window))
    later = whole_futures(plan, window, first=False)
    for _ in range(FILL_PASSES if layout.gappy else 1):
        h = histories(np.concatenate([x, layout.u], axis=1), plan, max(10, 2 * window))
        stats = Ridge().summarise(h[later], phi[later])
        m = Ridge(generalised_alpha(stats)).solve(stats)(h)
        m[plan.block(0)] = phi[plan.block(0)].mean(axis=0)
        if isinstance(features, OneHot):
            m = onto_simplices(m, features.n_simplices)
            m = np.where(np.isnan(m), phi[later].mean(axis=0), m)  # a regression gave negative values only
        expected = features.observations(m)[:, 0]
        covariance = error_covariance((layout.x - expected)[settled(plan, late)[0]])
        if layout.gappy:
            x = conditional_fill(layout.x, expected, covariance)
            phi = filled_features(features, layout, x, m)
    return x, m, phi, covariance


def _initial(
    features: Features, first: Float[np.ndarray, "m d"], seen: Float[np.ndarray, "rows d"]
) -> Float[np.ndarray, " d"]:
    """m_1, the mean of phi(f_1); for symbols as if one recording more began like all windows on average.

    The first symbols of few recordings say little. A trace of even odds keeps every symbol possible.
    """
    mean: np.ndarray = first.mean(axis=0)
    if not isinstance(features, OneHot):
        return mean
    even = np.full(len(mean), features.n_simplices / len(mean))
    return np.asarray((len(first) * mean + seen.mean(axis=0) + even / len(seen)) / (len(first) + 1 + 1 / len(seen)))


class _Spread(NamedTuple):
    """How vectors are distributed, coordinate by coordinate."""

    mean: Float[np.ndarray, " r"]
    std: Float[np.ndarray, " r"]
    low: Float[np.ndarray, " r"]
    high: Float[np.ndarray, " r"]


def _spread(vectors: Float[np.ndarray, "rows r"]) -> _Spread:
    columns = np.ascontiguousarray(vectors.T)
    return _Spread(columns.mean(axis=1), columns.std(axis=1), columns.min(axis=1), columns.max(axis=1))


def _directions(beliefs: Float[np.ndarray, "examples d"], rank: int | None) -> Float[np.ndarray, "d r"] | None:
    """The `rank` directions in which the initial beliefs vary most; None for all."""
    if rank is None or rank >= beliefs.shape[1]:
        return None
    _, vectors = np.linalg.eigh(np.cov(beliefs.T))
    return vectors[:, : -rank - 1 : -1].copy()


def _subspace_start(ground: Ground, recipe: Recipe) -> Start | None:
    """The linear system that a subspace start begins with; None for other starts."""
    if recipe.states is None:
        return None
    x, plan = ground.x, ground.layout.plan
    found = ground.related.get(recipe.past) or _related(x, plan, recipe.past)
    return started(realised(found, recipe.states), x, plan)


def _related(x: Float[np.ndarray, "rows n"], plan: Schedule, past: int) -> Related:
    return related(x, plan, past, "cva", SUBSPACE_RIDGE)


def _feedback(
    beliefs: Float[np.ndarray, "examples r"], seen: _Spread, directions: Float[np.ndarray, "d r"] | None, recipe: Recipe
) -> Feedback:
    """Scale and box of the feedback, from the initial beliefs and the features seen, both along `directions`."""
    mean, scale = np.zeros(len(seen.mean)), np.ones(len(seen.mean))
    if recipe.standardise:
        first = _spread(beliefs)
        mean, scale = first.mean, np.maximum(first.std, LEAST_SCALE * seen.std)
        scale = np.where(scale <= CONSTANT, 1.0, scale)
    feedback = Feedback(mean, scale, recipe.belief_weight, directions)
    if recipe.box is None:
        return feedback
    low, high = _guard(seen, feedback, recipe.guard)
    gain, margin = recipe.belief_weight / scale, recipe.box * (seen.high - seen.low)
    low = np.maximum(low, (seen.low - margin - mean) * gain)
    return feedback._replace(low=low, high=np.minimum(high, (seen.high + margin - mean) * gain))


def _guard(
    seen: _Spread, feedback: Feedback, guard: float | None
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """Bounds of the feedback that is learnt from: a belief is an expectation of phi and strays no further than phi."""
    gain = feedback.weight / feedback.scale
    reach = LARGEST_BELIEF if guard is None else guard * seen.std * gain + CONSTANT
    middle = (seen.mean - feedback.mean) * gain
    return middle - reach, middle + reach


def _span(x: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, "2 n"]:
    """The least and the largest value of each channel."""
    return np.stack([np.nanmin(x, axis=0), np.nanmax(x, axis=0)])
