"""The candidates that a search tries for given settings: whatever is None or "auto" in them is varied."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from psimlearn.choose.settings import Settings
from psimlearn.choose.space import Space, Systems
from psimlearn.files.features import width
from psimlearn.filter import Stack
from psimlearn.filter.features import Persistent
from psimlearn.filter.innovations import LINEAR_IN_BELIEF
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import SETTLED
from psimlearn.train.recipe import Past, Prior, Recipe

__all__ = ["RIDGES", "cautious_recipe", "fourier_space", "given_space", "linear_space", "n_fourier", "recipes"]

WIDEST = 3000
"""Inputs of a regressor beyond which more lags are not tried: the cost of a fit grows with their square."""
RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2)
FOURIER_RIDGES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
FOURIER_BANDWIDTHS = (1.0, 4.0)
"""Factors of the median distance; like the ridges, a grid that grows beyond its edges (`edges`)."""
N_FOURIER = 1000
"""Random features; no more than rows to learn from, beyond which they cost much and add nothing."""
BELIEF_WEIGHTS = (0.0, 1.0)
LEVEL_WEIGHTS = (1.0, 0.1)
CROSS_WEIGHT = 0.3
"""Tried around the best, beside 1."""
MANY = 4
"""The channels from which cross weights are tried: the past of fewer is a small part of what a step sees."""
SYSTEMS = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of states of the linear systems that are tried; then some between, around the best."""
PAST_RIDGES = (1e-3, 1e-2, 3e-2, 1e-1)
"""Ridges with which past and future are related: the first for every number of states, then larger ones."""
SYSTEM_RIDGES = (1e-1, 1e-2, 1.0)
"""Ridges with which rounds go on from a system."""
WIDEST_RELATION = 1000
"""Columns of past and future beyond which these are not related: the cost grows with their cube."""


def given_space(settings: Settings, data: Trajectories, learner: Learner[Any]) -> Space:
    """A learner that is taken as it is, with every recipe."""
    return Space((learner,), recipes(settings, data), refine=False, ranks=_ranks(settings, data.n_channels))


def linear_space(settings: Settings, data: Trajectories) -> Space:
    """Ridge regression with every recipe and ridge."""
    ranks = _ranks(settings, data.n_channels)
    tried = recipes(settings, data)
    systems = _systems(settings, data, tried)
    skip = _skip(settings, tried)
    many = settings.cross_weight is None and isinstance(settings.features, Stack) and data.n_channels >= MANY
    return Space(
        (Ridge(),),
        tried,
        RIDGES,
        between=_between(settings),
        cross_weight=CROSS_WEIGHT if many else None,
        ranks=ranks,
        systems=systems,
        skip=skip,
    )


def fourier_space(settings: Settings, data: Trajectories, guide: Recipe, n_features: int) -> Space:
    """Random features with the prior and level weight of `guide`, with which linear regression did best.

    They are screened without a belief: with one, their F_0 is often wild, and only some rounds tell what it is worth.
    """
    lags = sorted({min(3, settings.features.window), settings.features.window})
    lags = lags if settings.lags is None else [settings.lags]
    weights = (0.3, 1.0) if settings.belief_weight is None else (settings.belief_weight,)
    screened_weight = 0.0 if settings.belief_weight is None else settings.belief_weight
    recipes = tuple(replace(guide, lags=q, belief_weight=screened_weight) for q in lags)
    ranks = _ranks(settings, data.n_channels)
    learners = tuple(RandomFourierRidge(n_features, bandwidth_factor=b) for b in FOURIER_BANDWIDTHS)
    return Space(learners, recipes, FOURIER_RIDGES, racing_weights=weights, ranks=ranks)


def n_fourier(train: Trajectories) -> int:
    """How many random features so many rows can teach."""
    return min(N_FOURIER, 2 * (len(train.values) // 2))


def cautious_recipe(settings: Settings) -> Recipe:
    """The settings as given, and plain ones where none are: the recipe for data too short to choose by."""
    if settings.literal:
        return settings.standard
    return replace(
        settings.standard,
        lags=settings.lags or 1,
        prior=settings.prior or "mean",
        level_weight=None if settings.level_weight == "auto" else settings.level_weight,
        belief_weight=settings.belief_weight or 0.0,
        cross_weight=settings.cross_weight or 1.0,
        rank=None if settings.rank == "auto" else settings.rank,
    )


def recipes(settings: Settings, data: Trajectories) -> tuple[Recipe, ...]:
    """Every combination of lags, prior and weights that is to be tried."""
    if settings.literal:
        return (settings.standard,)
    n, window, features = data.n_channels, settings.features.window, settings.features
    d = width(features, n)
    lags = (settings.lags,) if settings.lags is not None else _lags(window, d, n)
    weights = BELIEF_WEIGHTS if settings.belief_weight is None else (settings.belief_weight,)
    rank = None if settings.rank == "auto" else settings.rank
    given = replace(settings.standard, rank=rank, cross_weight=settings.cross_weight or 1.0)
    return tuple(
        replace(given, lags=q, prior=prior, level_weight=level, belief_weight=weight)
        for q in lags
        for prior, level in _priors(settings, q)
        for weight in weights
    )


def _priors(settings: Settings, lags: int) -> list[tuple[Prior, float | None]]:
    """Priors, each with its level weights."""
    both = isinstance(settings.features, Persistent) and not _last_loses_gaps(settings)
    priors: tuple[Prior, ...] = ("mean", "last") if both else ("mean",)
    if settings.prior is not None:
        priors = (settings.prior,)
    relative = isinstance(settings.features, Stack) and settings.levels
    levels: tuple[float | None, ...] = (LEVEL_WEIGHTS if lags > 1 else LEVEL_WEIGHTS[:1]) if relative else (None,)
    if settings.level_weight != "auto":
        levels = (settings.level_weight,)
    return [(prior, level) for prior in priors for level in (levels if prior == "last" else (None,))]


def _last_loses_gaps(settings: Settings) -> bool:
    """Whether gaps would be exact but for the prior "last": a step is then quadratic in the last row.

    Gaps would be filled in, and 90 % intervals of a channel that is out for 20 rows hold 28 % at the end of the gap, on
    random walks. With the prior "mean" they hold 90 to 94 %, for at most .25 % more error; on five real sets the error
    one row ahead is 18 % less to 4 % more.
    """
    exact = isinstance(settings.features, LINEAR_IN_BELIEF) and settings.trainer != "forward"
    learner = settings.learner
    linear = learner != "trees" if isinstance(learner, str) else isinstance(learner, Ridge | RandomFourierRidge)
    free = settings.level_weight in (None, "auto")  # a level weight is for the prior "last" alone
    return exact and linear and free and not isinstance(settings.features, Stack)


def _systems(settings: Settings, data: Trajectories, recipes: Sequence[Recipe]) -> Systems | None:
    """Subspace starts, where users leave the start and what is fed back to us; recordings with inputs have none."""
    n, k = data.n_channels, settings.features.window
    plain = isinstance(settings.features, Stack) and settings.rank in (None, "auto") and data.inputs is None
    if not (settings.systems and plain and settings.belief_weight != 0):
        return None
    pasts = [past for past in sorted({max(k, 3), 2 * max(k, 2)}) if 2 * past * n <= WIDEST_RELATION]
    ridge, *others = PAST_RIDGES
    sizes = tuple((Past(past, ridge), s) for past in pasts for s in SYSTEMS if s <= min(k, past - 1) * n)
    with_belief = {replace(recipe, belief_weight=settings.belief_weight or 1.0): None for recipe in recipes}
    chosen = tuple(r for r in with_belief if r.level_weight in (None, LEVEL_WEIGHTS[0]))
    return Systems(sizes, tuple(others), chosen, SYSTEM_RIDGES) if sizes and chosen else None


def _skip(settings: Settings, recipes: Sequence[Recipe]) -> int:
    """The first rows whose lags lie before the beginning, if users leave them to us; at least those not scored."""
    if settings.literal or not settings.opening or settings.trainer == "forward":
        return 0
    return max(SETTLED, *(recipe.lags - 1 for recipe in recipes))


def _between(settings: Settings) -> tuple[tuple[str, float], ...]:
    """Weights between those of the coarse grid, to be tried where it was best."""
    weights = (("belief_weight", 0.3),) if settings.belief_weight is None else ()
    return weights + ((("level_weight", 0.3),) if settings.level_weight == "auto" else ())


def _ranks(settings: Settings, n: int) -> tuple[int, ...]:
    """Numbers of directions that may do instead of all, fewest first."""
    if settings.literal or settings.rank != "auto":
        return ()
    return tuple(n * i for i in (1, 2, 3) if i < settings.features.window)


def _lags(window: int, d: int, n: int) -> tuple[int, ...]:
    return tuple(q for q in sorted({1, window, 2 * window}) if q == 1 or d + q * n <= WIDEST)
