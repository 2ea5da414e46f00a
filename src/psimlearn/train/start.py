"""Where training begins: scaling, the first belief, the first examples, the first filter."""

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter import Features, Feedback, Filter, Linear, OneHot, Scaling
from psimlearn.filter.rollout import Table, inputs_at, room
from psimlearn.filter.step import inputs
from psimlearn.learners import BesideBelief, Counting, GramSums, InCoordinates, Learner, Ridge, Stats
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.shapes import Float
from psimlearn.train.coordinates import channels_of, deviation, relative, weighted
from psimlearn.train.examples import Targets, TrainingRows
from psimlearn.train.ground import Ground, Stage, centre_of, staged, system_of
from psimlearn.train.recipe import Init, Recipe, check
from psimlearn.train.spread import directions_of, feedback_of, guard_of, moments_of, spread_of
from psimlearn.train.stacked import lag_stats
from psimlearn.train.subspace import Start, first_step, readout

__all__ = ["Beginning", "Found", "begin", "blank", "deviations_of", "placed", "training_rows", "with_system"]


class Beginning(NamedTuple):
    """F_0, the prepared learner, its summary of D_0 (None if that is empty) and the training rows laid out."""

    filter: Filter
    learner: Learner[Any]
    sums: Any
    training: TrainingRows
    given: bool = False  # whether F_0 is the filter of a system, which no ridge changes
    opens: Table | None = None  # training rows from which scores learn how recordings begin, if they do: see `scored`


def begin(
    ground: Ground,
    learner: Learner[Stats],
    init: Init,
    recipe: Recipe,
    rng: np.random.Generator,
    sums: Stats | None = None,
    *,
    fit: bool = True,
) -> Beginning:
    """Make the initial examples and fit F_0 to them.

    Args:
        ground: the recordings.
        learner: fits a regressor to examples.
        init: the beliefs of the first fit.
        recipe: the choices around the algorithm.
        rng: for learners that draw random features.
        sums: the summary of these examples, if known, for ridge regression; from a system, without the belief.
        fit: whether to fit F_0; without it, F_0 is zero and left to `with_ridge`, unless it is that of a system.
    """
    check(ground.train, ground.features, recipe, init)
    stage = staged(ground, init, recipe)
    subspace, m, seen = system_of(ground, recipe), stage.m, stage.seen
    all_m = staged(ground, init, replace(recipe, skip=0)).m if recipe.skip else m  # scales are those of all rows
    directions = _directions(all_m, recipe)
    if subspace is not None:
        directions = readout(subspace.system, (ground.moments or moments_of(seen)).covariance)
    if directions is not None:
        first, spread = spread_of(all_m @ directions), spread_of(seen @ directions)
    else:
        first, spread = ground.spreads or (spread_of(all_m), spread_of(seen))
    feedback = feedback_of(first, spread, directions, recipe)
    filter = blank(_found(ground, seen), ground.features, feedback, recipe)
    training = training_rows(filter, stage, guard_of(spread, feedback, recipe.guard))
    if ground.targets is not None and recipe.prior != "zero" and not recipe.skip:  # made once for all starts
        training = training._replace(targets=ground.targets if recipe.prior == "mean" else ground.targets.beyond_last)
    if subspace is not None and isinstance(sums, GramSums):  # the examples themselves are not needed
        deviations = None if recipe.level_weight is None else _deviations_beside(filter, stage, sums)
        learner, training = (
            placed(learner, filter, recipe, deviations),
            training._replace(same=(len(spread.mean), sums)),
        )
        return Beginning(with_system(filter, subspace), learner, None, training, True)
    if sums is None:
        z, y = inputs_at(filter, m, ground.x, stage.layout, stage.rows), training.y
        deviations = None if recipe.level_weight is None else deviations_of(filter, z)
        prepared = placed(learner, filter, recipe, deviations).prepare(z, rng)
        learner = prepared.counting(z, y, recipe.lags) if isinstance(prepared, Counting) else prepared
        if init == "zero":
            return Beginning(filter, learner, None, training)
        if subspace is not None:
            rest = (
                _summed(learner, z, y, ground, filter, recipe.skip) if isinstance(cast(Any, learner), Ridge) else None
            )
            same = None if rest is None else (len(feedback.mean), rest)  # so that rounds sum what the belief is in
            return Beginning(with_system(filter, subspace), learner, None, training._replace(same=same), True)
        sums = _summed(learner, z, y, ground, filter, recipe.skip)
    if fit:
        filter = replace(filter, regressors=(learner.solve(sums),))
    training = training._replace(same=(len(feedback.mean), sums))
    return Beginning(filter, learner, sums if recipe.keep_start else None, training)


def _summed(learner: Learner[Any], z: np.ndarray, y: np.ndarray, ground: Ground, filter: Filter, skip: int) -> Any:
    """The learner's summary of the first examples, from products of rows that other sums share, if they are known."""
    window, r = ground.features.window, len(filter.feedback.mean)
    short = ground.train.lengths.min() <= window + skip  # a recording without an example
    if ground.apart is None or short or not isinstance(cast(Any, learner), Ridge):
        return learner.summarise(z, y)
    known = lag_stats(ground.apart, filter.lags, window, r, filter.centre, skip)
    return learner.summarise(z, y, (r, known))


class Found(NamedTuple):
    """The numbers of all recordings together that a first filter needs."""

    scaling: Scaling
    input_scaling: Scaling | None
    initial: Float[np.ndarray, " d"]
    centre: Float[np.ndarray, " d"]
    """The mean of phi."""
    covariance: Float[np.ndarray, "n n"]
    span: Float[np.ndarray, "2 n"] | None
    gappy: bool
    names: tuple[str, ...] | None
    alphabet: Alphabet | None
    step: float | None


def _found(ground: Ground, seen: Float[np.ndarray, "whole d"]) -> Found:
    train, layout, features = ground.train, ground.layout, ground.features
    return Found(
        ground.scaling,
        ground.input_scaling,
        _initial(features, ground.phi[layout.plan.block(0)], seen),
        centre_of(seen),
        ground.covariance,
        None if isinstance(features, OneHot) else _span(layout.x),
        layout.gappy,
        train.names,
        train.alphabet,
        train.step,
    )


def blank(found: Found, features: Features, feedback: Feedback, recipe: Recipe) -> Filter:
    """A filter whose regressor is zero."""
    d, n = len(found.initial), len(found.scaling.mean)
    controls = 0 if found.input_scaling is None else len(found.input_scaling.mean) * (1 + recipe.feedthrough)
    width = len(feedback.mean) + recipe.lags * n + controls
    return Filter(
        features=features,
        regressors=(Linear(np.zeros((width, d)), np.zeros(d)),),
        initial=found.initial,
        scaling=found.scaling,
        feedback=feedback,
        centre={"mean": found.centre, "zero": np.zeros(d), "last": None}[recipe.prior],
        covariance=found.covariance,
        lags=recipe.lags,
        input_scaling=found.input_scaling,
        feedthrough=recipe.feedthrough,
        names=found.names,
        alphabet=found.alphabet,
        time_step=found.step,
        span=found.span,
        gaps="filled" if found.gappy else "exact",  # `refined` trains on as gaps are
    )


def training_rows(filter: Filter, stage: Stage, bounds: tuple[np.ndarray, np.ndarray]) -> TrainingRows:
    """The examples of a stage for filters like this one, within a guard."""
    targets = Targets(stage.phi, filter.features, filter.centre, stage.x, stage.rows, stage.target_rows)
    return TrainingRows(room(filter, stage.layout), stage.rows, stage.target_rows, stage.x, targets, *bounds, None)


def with_system(filter: Filter, start: Start) -> Filter:
    """The filter with the first step and the first belief of an identified system."""
    first = first_step(start, filter.feedback, filter.lags, filter.centre)
    return replace(filter, regressors=(first,), initial=start.belief(filter.features.window))


def deviations_of(filter: Filter, z: Float[np.ndarray, "examples p"]) -> tuple[np.ndarray, np.ndarray]:
    """The deviations of the coordinates in which "nothing changes" is the origin, and of z."""
    return np.std(z @ relative(filter, z.shape[1]), axis=0), np.std(z, axis=0)


def _deviations_beside(filter: Filter, stage: Stage, sums: GramSums) -> tuple[np.ndarray, np.ndarray]:
    """As `deviations_of`, from sums of the first examples that lack the belief."""
    r, n, p = len(filter.feedback.mean), stage.x.shape[1], len(sums.z)
    change = relative(filter, p)
    changed, of_z = deviation(sums, change), deviation(sums)
    z = inputs(filter.recursion, stage.m, stage.x[stage.rows], stage.layout.u[stage.rows][:, :0])  # of one lag
    changed[:r], of_z[:r] = np.std(z @ change[: r + n, :r], axis=0), np.std(z[:, :r], axis=0)
    return changed, of_z


def placed(
    learner: Learner[Any], filter: Filter, recipe: Recipe, deviations: tuple[np.ndarray, np.ndarray] | None
) -> Learner[Any]:
    """The learner with all that it has to know of z.

    These are a penalty on changes and levels, and one on other channels, if the recipe asks for it and the learner can,
    and which columns of z come from the belief if it treats these in another way.
    """
    told: dict[str, Any] = {}
    if recipe.level_weight is not None and deviations is not None and isinstance(learner, InCoordinates):
        change = relative(filter, len(deviations[0]))
        told["coordinates"] = weighted(filter, change, *deviations, recipe.level_weight)
    if recipe.cross_weight != 1:
        if not isinstance(cast(Any, learner), Ridge):
            raise SettingsError(
                f"cross_weight below 1 required linear regression, received {recipe.cross_weight:g} with a "
                f"{type(learner).__name__}; use cross_weight=1."
            )
        told["channels"] = channels_of(filter, recipe.cross_weight)
    if isinstance(learner, BesideBelief):
        told["n_fed"] = len(filter.feedback.mean)
    changed: Learner[Any] = replace(cast(Any, learner), **told) if told else learner  # mypy sees no dataclass
    return changed


def _directions(beliefs: Float[np.ndarray, "examples d"], recipe: Recipe) -> Float[np.ndarray, "d r"] | None:
    """The directions of the belief that are fed back; None for all."""
    if recipe.rank is None or recipe.rank >= beliefs.shape[1]:
        return None
    return directions_of(np.cov(beliefs.T), recipe.rank)


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


def _span(x: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, "2 n"]:
    """The least and the largest value of each channel."""
    return np.stack([np.nanmin(x, axis=0), np.nanmax(x, axis=0)])
