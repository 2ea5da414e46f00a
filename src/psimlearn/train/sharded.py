"""DAgger over shards: the beginning and the rounds as passes over all recordings, a part in memory at a time.

The result is a value like `Beginning`: `first_round`, `next_round` and `refined` go on from it as from recordings in
memory. Passes: units of the channels; regression on history (three times where entries are missing); spread of features
and beliefs; the first examples; then one pass a round. Learners are those on Gram sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.filter import Features, Feedback, Filter, OneHot
from psimlearn.filter.scaling import scaling_of
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.learners.fourier import rows_to_compare
from psimlearn.recordings.catalogue import Catalogue
from psimlearn.recordings.passes import Engine, Pass, Tell, plus
from psimlearn.recordings.windows import enough_rows, example_places
from psimlearn.shapes import Float
from psimlearn.train import portions
from psimlearn.train.coordinates import deviation, relative
from psimlearn.train.examples import Met
from psimlearn.train.hints import HintSums, merged_hints
from psimlearn.train.history import FILL_PASSES, regressed
from psimlearn.train.portions import Known
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.spread import Spread, directions_of, feedback_of, guard_of
from psimlearn.train.start import Found, blank, placed, with_system
from psimlearn.train.subspace import Start, readout, realised, related_by, started_by

__all__ = ["Places", "ShardedBeginning", "ShardedRows", "begin_sharded", "hints_of_shards", "settings_known"]


@dataclass(frozen=True)
class Places:
    """The recordings of shards to learn from, and where passes over them are computed."""

    catalogue: Catalogue
    engine: Engine
    tell: Tell

    def passed(self, name: str, function: Callable[..., Any], merge: Callable[..., Any], given: Any) -> Any:
        """The merged result of one pass."""
        return self.engine.map_merge(Pass(name, function, merge, given), self.catalogue.shards, self.tell)


@dataclass(frozen=True)
class ShardedRows:
    """Training recordings in shards."""

    places: Places
    known: Known

    def met(self, filter: Filter, learner: Learner[Any], apart: bool = False) -> Met:
        """Roll a filter over all recordings and summarise the examples that it meets."""
        given = (self.known, filter, learner, apart)
        met: Met = self.places.passed("round", portions.round_of, portions.merged_met, given)
        return met


class ShardedBeginning(NamedTuple):
    """F_0, the prepared learner, its summary of D_0 (None if that is empty) and the training recordings."""

    filter: Filter
    learner: Learner[Any]
    sums: Any
    training: ShardedRows
    opens: None = None
    """As in `Beginning`: scores over shards learn no openings."""


class _Starting(NamedTuple):
    """The first filter before anything is learnt, and the system it begins with, if there is one."""

    known: Known
    filter: Filter
    system: Start | None


def begin_sharded(places: Places, known: Known, learner: Learner[Any], rng: np.random.Generator) -> ShardedBeginning:
    """Make the initial examples and fit F_0 to them, as `begin` does in memory.

    Args:
        places: the shards.
        known: the settings.
        learner: fits a regressor to examples; on Gram sums.
        rng: for learners that draw random features.
    """
    if not isinstance(learner, Ridge | RandomFourierRidge) or isinstance(known.features, OneHot):
        raise SettingsError(
            "shards: required linear regression or random Fourier features of numbers, received "
            f"{type(learner).__name__} and {type(known.features).__name__}. Fit a part of the recordings in memory."
        )
    known, filter, system = _blank(places, known)
    learner, training = _prepared(places, known, filter, learner, rng), ShardedRows(places, known)
    if known.init == "zero":
        return ShardedBeginning(filter, learner, None, training)
    if system is not None:
        return ShardedBeginning(with_system(filter, system), learner, None, training)
    sums = places.passed("first examples", portions.start_of, portions.merged_met, (known, filter, learner)).sums
    if known.recipe.level_weight is not None and isinstance(learner, Ridge):
        change = relative(filter, len(sums.z))
        deviations = deviation(sums, change), deviation(sums)
        learner = placed(learner, filter, known.recipe, deviations)
    filter = replace(filter, regressors=(learner.solve(sums),))
    return ShardedBeginning(filter, learner, sums if known.recipe.keep_start else None, training)


def settings_known(
    catalogue: Catalogue, features: Features, init: Init, recipe: Recipe, held: Sequence[int] = ()
) -> tuple[Catalogue, Known]:
    """The recordings to learn from, and the settings with the numbers that follow from the catalogue.

    Args:
        catalogue: all recordings.
        features: what a belief is.
        init: the beliefs of the first fit.
        recipe: the choices around the algorithm.
        held: the places in the catalogue of recordings that are held out.
    """
    places = np.asarray(held, dtype=np.int64)
    kept = catalogue.lengths > features.window
    kept[places] = False
    if not kept.any():
        raise DataError(f"required a recording of more than {features.window} rows to learn from, received none.")
    learnt = catalogue.only(kept)
    pairs = np.stack([catalogue.shard[places], catalogue.number[places]], axis=1)
    return learnt, Known(features, recipe, init, enough_rows(learnt.lengths), bool(learnt.missing.any()), pairs)


def hints_of_shards(training: ShardedRows, filter: Filter) -> HintSums:
    """The sums of the regression of hints over all recordings."""
    if not training.places.catalogue.n_hints:
        return []
    given = (training.known.of_all_rows(), filter)
    sums: HintSums = training.places.passed("hints", portions.hints, merged_hints, given)
    return sums


def _blank(places: Places, known: Known) -> _Starting:
    """Units, history, spreads and feedback: all of the first filter but its regressor."""
    recipe, known = known.recipe, known.of_all_rows()
    scales = places.passed("units", portions.scales, plus, (known,))
    scaling = scaling_of(scales.channels, recipe.standardise)
    input_scaling = None if scales.inputs is None else scaling_of(scales.inputs, recipe.standardise)
    known = _with_history(places, known._replace(scaling=scaling, input_scaling=input_scaling))
    first = places.passed("spreads", portions.first, plus, (known,))
    system = None if recipe.states is None else _system(places, known, first)
    spread, feedback, known = _feedback(places, known, first, system)
    covariance = known.steps[-1].covariance if first.errors is None else first.errors.covariance()
    assert covariance is not None
    found = Found(
        scaling,
        input_scaling,
        first.initial / first.n_first,
        first.total / first.seen.n,
        covariance,
        np.stack([scaling(scales.channels.low), scaling(scales.channels.high)]),
        known.gappy,
        places.catalogue.names,
        None,
        places.catalogue.step,
    )
    known = known._replace(bounds=guard_of(spread, feedback, recipe.guard), recipe=recipe)
    return _Starting(known, blank(found, known.features, feedback, recipe), system)


def _with_history(places: Places, known: Known) -> Known:
    """The regressions of beliefs on history; several where entries are missing, each with the entries of the last.

    Where nothing is missing, the pass of spreads computes the covariance of the errors, too.
    """
    for _ in range(FILL_PASSES if known.gappy else 1):
        step = regressed(places.passed("history", portions.history, plus, (known,)))
        if known.gappy:
            now = known._replace(steps=(*known.steps, step))
            errors = places.passed("errors of history", portions.errors, plus, (now,))
            step = step._replace(covariance=errors.covariance())
        known = known._replace(steps=(*known.steps, step))
    return known


def _system(places: Places, known: Known, first: portions.First) -> Start:
    """The identified linear system that a subspace start begins with."""
    joined, states, ridge = first.of_stretches, known.recipe.states, known.recipe.past_ridge
    assert joined is not None
    assert states is not None
    share = (joined.n - 1) / joined.n  # the covariance of a sample, and here the mean of squares
    found = related_by(share * joined.covariance, joined.n, places.catalogue.n_channels, "cva", ridge)
    system = realised(found, states)
    levels = places.passed("level of the system", portions.levels, plus, (known, system))
    return started_by(system, levels.sums)


def _feedback(
    places: Places, known: Known, first: portions.First, system: Start | None
) -> tuple[Spread, Feedback, Known]:
    """The feedback, and the spread of the features along its directions."""
    recipe, directions = known.recipe, None
    if system is not None:
        assert first.of_seen is not None
        directions = readout(system.system, first.of_seen.covariance)
    elif recipe.rank is not None and recipe.rank < len(first.m.mean):
        assert first.of_m is not None
        directions = directions_of(first.of_m.covariance, recipe.rank)
    known = known._replace(directions=directions)
    seen, m = first.seen, first.m
    if directions is not None:
        seen, m = places.passed("spreads of directions", portions.along, plus, (known,))
    return seen, feedback_of(m, seen, directions, recipe), known


def _prepared(
    places: Places, known: Known, filter: Filter, learner: Learner[Any], rng: np.random.Generator
) -> Learner[Any]:
    """The learner with its bandwidth and random directions frozen; ridge regression knows its channels."""
    if not isinstance(learner, RandomFourierRidge):
        return placed(learner, filter, known.recipe, None)
    wanted = _to_compare(places.catalogue, known.features.window, known.recipe.skip, rng)
    found = places.passed("bandwidth", portions.compared, plus, (known, filter, wanted))
    z: Float[np.ndarray, "some p"] = found.z[np.argsort(found.number)]
    deviations = None if found.changed is None else (found.changed.std, found.of_z.std)
    return placed(learner, filter, known.recipe, deviations).prepare(z, rng)


def _to_compare(catalogue: Catalogue, window: int, skip: int, rng: np.random.Generator) -> np.ndarray:
    """The shard, recording and time of the examples that set the bandwidth: the same as in memory."""
    by_rank = np.argsort(catalogue.rank)
    n = int(np.maximum(catalogue.lengths - window - skip, 0).sum())
    recording, time = example_places(catalogue.lengths[by_rank], window, rows_to_compare(n, rng), skip)
    place = by_rank[recording]
    return np.stack([catalogue.shard[place], catalogue.number[place], time], axis=1)
