"""The ground on which first filters are made: standardised rows, beliefs without a filter, and identified systems."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.factors import FAILURES
from psimlearn.filter import Features, Scaling
from psimlearn.filter.layout import Layout, lay_out
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.schedule import RowIndex
from psimlearn.recordings.shifted import Apart
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_rows, lag_places, whole_futures
from psimlearn.shapes import Float
from psimlearn.train.examples import Targets
from psimlearn.train.history import history_beliefs, past_of
from psimlearn.train.recipe import Init, Past, Recipe, check
from psimlearn.train.spread import Moments, Spread, moments_of, spread_of
from psimlearn.train.stacked import shared, stretch_moments
from psimlearn.train.subspace import Related, Start, realised, related, related_by, started, with_ridge

__all__ = ["Ground", "Stage", "centre_of", "ground", "identifying", "relating", "staged", "system_of"]


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
    related: Mapping[Past, Related] = MappingProxyType({})
    """By `Recipe.relation`, how the future depends on the past, as far as it is known already."""
    systems: Mapping[tuple[Past, int], Start] = MappingProxyType({})
    """By `Recipe.relation` and `Recipe.states`, the systems that are known already."""
    spreads: tuple[Spread, Spread] | None = None
    """Of `Stage.m` and `Stage.seen`, as if no rows were skipped: the same for all recipes; None if not known yet."""
    moments: Moments | None = None
    """Of `Stage.seen`; None if not known yet."""
    targets: Targets | None = None
    """Of the examples, with the mean of the features as prior, if no rows are skipped; None if not known yet."""
    apart: Apart | None = None
    """Products of rows that sums of lags and futures share; None if rows are few or narrow."""


def ground(train: Trajectories, features: Features, init: Init, recipe: Recipe) -> Ground:
    """Standardise the recordings, and regress the initial beliefs on history.

    The result serves every recipe that differs in lags, prior, weights, rank, states or rows to skip only.
    """
    recipe = replace(recipe, skip=0)
    check(train, features, recipe, init)
    scaling = standardisation(train.values, recipe.standardise)
    input_scaling = None if train.inputs is None else standardisation(train.inputs, recipe.standardise)
    layout = lay_out(train, scaling, input_scaling, recipe.lags, recipe.feedthrough)
    known = shared(layout, features, past_of(features))
    laid = Ground(train, features, scaling, input_scaling, layout, *history_beliefs(layout, features, known))
    stage = staged(laid, init, recipe)
    targets = Targets(laid.phi, features, centre_of(stage.seen), laid.x, stage.rows, stage.target_rows)
    return laid._replace(spreads=(spread_of(stage.m), spread_of(stage.seen)), targets=targets, apart=known)


def centre_of(seen: Float[np.ndarray, "whole d"]) -> Float[np.ndarray, " d"]:
    """The mean of the features; numpy sums the columns of a tall array faster as a product."""
    return np.asarray(np.ones(len(seen)) @ seen / len(seen))


def relating(ground: Ground, pasts: Iterable[Past]) -> Ground:
    """The ground with past and future related in these ways, where rows suffice and relations can be computed."""
    known = dict(ground.related)
    for past in pasts:
        with suppress(DataError, *FAILURES):
            known[past] = _related(ground._replace(related=known), past)
    moments = ground.moments if ground.moments is not None else moments_of(_seen(ground))
    return ground._replace(related=known, moments=moments)


def identifying(ground: Ground, sizes: Iterable[tuple[Past, int]]) -> Ground:
    """The ground with the systems of these values of `Recipe.relation` and `Recipe.states`, if they can be computed."""
    known = dict(ground.systems)
    for size in sizes:
        with suppress(*FAILURES):
            known[size] = known[size] if size in known else _identified(ground, *size)
    return ground._replace(systems=known)


class Stage(NamedTuple):
    """The rows of a ground that make examples, with the beliefs and features that set the scale of the feedback."""

    layout: Layout
    rows: RowIndex
    target_rows: RowIndex
    x: Float[np.ndarray, "rows n"]
    phi: Float[np.ndarray, "rows d"]
    m: Float[np.ndarray, "examples d"]
    """The beliefs of the first fit. A zero start has none yet: the features themselves stand in."""
    seen: Float[np.ndarray, "whole d"]
    """phi(f_t) where f_t lies within its trajectory."""


def staged(ground: Ground, init: Init, recipe: Recipe) -> Stage:
    """The rows of a ground for one recipe."""
    layout, window, phi = ground.layout, ground.features.window, ground.phi
    layout = layout._replace(places=lag_places(layout.plan, recipe.lags))
    rows, target_rows = example_rows(layout.plan, window, recipe.skip)
    m = (ground.beliefs if init == "history" else phi)[rows]
    return Stage(layout, rows, target_rows, ground.x, phi, m, _seen(ground))


def _seen(ground: Ground) -> Float[np.ndarray, "whole d"]:
    """See `Stage.seen`."""
    return ground.phi[whole_futures(ground.layout.plan, ground.features.window)]


def system_of(ground: Ground, recipe: Recipe) -> Start | None:
    """The linear system that a subspace start begins with; None for other starts."""
    if recipe.states is None:
        return None
    size = (recipe.relation, recipe.states)
    return ground.systems.get(size) or _identified(ground, *size)


def _identified(ground: Ground, past: Past, states: int) -> Start:
    return started(realised(_related(ground, past), states), ground.x, ground.layout.plan)


def _related(ground: Ground, past: Past) -> Related:
    """How the future depends on the past: as known, from the moments known for another ridge, or from the rows."""
    if past in ground.related:
        return ground.related[past]
    alike = next((found for known, found in ground.related.items() if known.rows == past.rows), None)
    if alike is not None:
        return with_ridge(alike, "cva", past.ridge)
    moments = None if ground.apart is None else stretch_moments(ground.apart, past.rows)
    if moments is None:
        return related(ground.x, ground.layout.plan, past.rows, "cva", past.ridge)
    return related_by(*moments, ground.x.shape[1], "cva", past.ridge)
