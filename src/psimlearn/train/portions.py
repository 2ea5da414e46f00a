"""The sums of a portion of recordings, by the formulas of training in memory (`start`, `history`, `spread`)."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

from psimlearn.filter import Features, Filter, Scaling
from psimlearn.filter.gaps import ErrorSums
from psimlearn.filter.layout import Layout, lay_out
from psimlearn.filter.rollout import inputs_at
from psimlearn.filter.scaling import ChannelSums, channel_sums
from psimlearn.learners import Apart, ByOutput, Learner, Ridge
from psimlearn.recordings.passes import Portion
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Bool, Float, Int
from psimlearn.train.coordinates import relative
from psimlearn.train.examples import Met
from psimlearn.train.ground import Ground, Stage, staged
from psimlearn.train.hints import HintSums, hint_sums
from psimlearn.train.history import HistorySums, Step, one_step_sums, replayed, sums_of
from psimlearn.train.levels import LevelSums, level_sums, whitened
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.spread import Moments, Spread, moments_of, spread_of
from psimlearn.train.start import training_rows
from psimlearn.train.subspace import stretches
from psimlearn.train.systems import System

__all__ = ["Compared", "First", "Known", "Levels", "Scales", "along", "compared", "errors", "first", "hints", "history"]
__all__ += ["levels", "merged_met", "round_of", "scales", "start_of"]

Result = TypeVar("Result")


class Known(NamedTuple):
    """The settings, and the numbers of all recordings together, as far as they are known."""

    features: Features
    recipe: Recipe
    init: Init
    enough: int
    """As in `settled`."""
    gappy: bool
    """Whether anything is missing in any recording."""
    held: Int[np.ndarray, "some 2"] = np.empty((0, 2), dtype=np.int64)
    """The shard and the number of each recording that is held out."""
    scaling: Scaling | None = None
    input_scaling: Scaling | None = None
    steps: tuple[Step, ...] = ()
    directions: Float[np.ndarray, "d r"] | None = None
    bounds: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros(0))
    """The guard."""

    def learns_from(self, portion: Portion) -> Bool[np.ndarray, " m"]:
        """Mark the recordings of a portion that are not held out."""
        shortest = self.features.window + self.recipe.skip  # such recordings and shorter ones have no example
        learns = np.asarray(portion.data.lengths > shortest)
        numbers = self.held[self.held[:, 0] == portion.shard, 1] - portion.first
        learns[numbers[(numbers >= 0) & (numbers < len(learns))]] = False
        return learns

    def usable(self, portion: Portion) -> Trajectories | None:
        """The recordings of a portion to learn from; None if there are none."""
        learns = self.learns_from(portion)
        return portion.data if learns.all() else portion.data[learns] if learns.any() else None

    def laid_out(self, data: Trajectories) -> Layout:
        """Recordings in the units of all recordings."""
        assert self.scaling is not None
        return lay_out(data, self.scaling, self.input_scaling, self.recipe.lags, self.recipe.feedthrough)

    def ground(self, data: Trajectories, beliefs: bool = True) -> Ground:
        """Recordings with their beliefs; without these, features stand in, which is quicker."""
        assert self.scaling is not None
        layout = self.laid_out(data)
        rows, m = replayed(layout, self.features, self.steps if beliefs or self.gappy else (), self.gappy)
        m = rows.phi if m is None else m
        unused = np.eye(layout.x.shape[1])  # no example depends on the covariance of errors
        return Ground(data, self.features, self.scaling, self.input_scaling, layout, rows.x, m, rows.phi, unused)

    def of_all_rows(self) -> "Known":
        """The same, with no rows skipped: units, spreads and hints are those of all rows."""
        return self._replace(recipe=replace(self.recipe, skip=0))

    def stage(self, data: Trajectories, beliefs: bool = True) -> Stage:
        """The rows of recordings that make examples."""
        return staged(self.ground(data, beliefs), self.init if beliefs else "teacher", self.recipe)


def _of_usable(function: Callable[..., Result]) -> Callable[[tuple[Any, ...], Portion], Result | None]:
    """Make a function of recordings to learn from one of a portion; None for a portion without such recordings.

    The first value that is given to all portions is `Known`; the others follow the recordings.
    """

    @wraps(function)  # so that other processes find the function under its name
    def of_portion(given: tuple[Any, ...], portion: Portion) -> Result | None:
        known, *others = given
        data = known.usable(portion)
        return None if data is None else function(known, data, *others)

    return of_portion


class Scales(NamedTuple):
    """The values of channels and inputs in a few numbers."""

    channels: ChannelSums
    inputs: ChannelSums | None

    def plus(self, other: "Scales") -> "Scales":
        """Both parts together."""
        return Scales(self.channels.plus(other.channels), _both(self.inputs, other.inputs))


def _both(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a.plus(b)


@_of_usable
def scales(_: Known, data: Trajectories) -> Scales:
    """The sums that give the units of channels and inputs."""
    return Scales(channel_sums(data.values), None if data.inputs is None else channel_sums(data.inputs))


@_of_usable
def history(known: Known, data: Trajectories) -> HistorySums:
    """The sums of the next regression on history."""
    layout = known.laid_out(data)
    rows, _ = replayed(layout, known.features, known.steps, known.gappy)
    return sums_of(rows, layout, known.features)


@_of_usable
def errors(known: Known, data: Trajectories) -> ErrorSums:
    """The sums over the one-step errors of the last regression on history."""
    layout = known.laid_out(data)
    _, m = replayed(layout, known.features, known.steps, known.gappy)
    assert m is not None
    return one_step_sums(m, layout, known.features, known.enough)


class First(NamedTuple):
    """The features and the first beliefs in a few numbers."""

    seen: Spread
    m: Spread
    initial: Float[np.ndarray, " d"]
    """The sum of phi(f_1)."""
    n_first: int
    total: Float[np.ndarray, " d"]
    """The sum of phi."""
    of_seen: Moments | None
    of_m: Moments | None
    of_stretches: Moments | None
    """Future and past together, for a start from an identified system."""
    errors: ErrorSums | None
    """Of the regression on history, unless they are known already."""

    def plus(self, other: "First") -> "First":
        """Both parts together."""
        return First(
            self.seen.plus(other.seen),
            self.m.plus(other.m),
            self.initial + other.initial,
            self.n_first + other.n_first,
            self.total + other.total,
            *(_both(a, b) for a, b in zip(self[5:], other[5:], strict=True)),
        )


@_of_usable
def first(known: Known, data: Trajectories) -> First:
    """The spread of features and first beliefs, and the moments that directions of the feedback need."""
    ground, recipe = known.ground(data), known.recipe
    stage = staged(ground, known.init, recipe)
    begin, seen, past = stage.phi[stage.layout.plan.block(0)], stage.seen, recipe.past
    joined = None
    if recipe.states is not None:
        earlier, later = stretches(stage.x, stage.layout.plan, past, past)
        joined = moments_of(np.concatenate([later, earlier], axis=1))
    return First(
        spread_of(seen),
        spread_of(stage.m),
        begin.sum(axis=0),
        len(begin),
        np.ones(len(seen)) @ seen,
        None if recipe.states is None else moments_of(seen),
        None if recipe.rank is None else moments_of(stage.m),
        joined,
        one_step_sums(ground.beliefs, ground.layout, known.features, known.enough)
        if known.steps[-1].covariance is None
        else None,
    )


@_of_usable
def along(known: Known, data: Trajectories) -> "Along":
    """The spread of features and first beliefs along the directions of the feedback."""
    assert known.directions is not None
    stage = known.stage(data)
    return Along(spread_of(stage.seen @ known.directions), spread_of(stage.m @ known.directions))


class Along(NamedTuple):
    """The spread of features and of first beliefs."""

    seen: Spread
    m: Spread

    def plus(self, other: "Along") -> "Along":
        """Both parts together."""
        return Along(self.seen.plus(other.seen), self.m.plus(other.m))


class Levels(NamedTuple):
    """The equations for the beginning of an identified system; None if it diverged."""

    sums: LevelSums | None

    def plus(self, other: "Levels") -> "Levels":
        """Both parts together."""
        return Levels(_both(self.sums, other.sums))


@_of_usable
def levels(known: Known, data: Trajectories, system: System) -> Levels:
    """The sums for the level and the first state of an identified system."""
    stage = known.stage(data, beliefs=False)
    found = whitened(system, stage.x, stage.layout.plan)
    return Levels(None if found is None else level_sums(*found, stage.layout.plan))


class Compared(NamedTuple):
    """Some inputs of the first fit, by number, and the spread of all of them."""

    number: Int[np.ndarray, " some"]
    z: Float[np.ndarray, "some p"]
    of_z: Spread | None
    changed: Spread | None
    """In the coordinates of a level weight."""

    def plus(self, other: "Compared") -> "Compared":
        """Both parts together."""
        return Compared(
            np.concatenate([self.number, other.number]),
            np.concatenate([self.z, other.z]),
            _both(self.of_z, other.of_z),
            _both(self.changed, other.changed),
        )


def compared(given: tuple[Known, Filter, Int[np.ndarray, "some 3"]], portion: Portion) -> Compared | None:
    """The inputs that a learner compares to prepare itself: (shard, recording, time) of each are given."""
    known, filter, places = given
    data = known.usable(portion)
    if data is None:
        return None
    stage = known.stage(data)
    z = inputs_at(filter, stage.m, stage.x, stage.layout, stage.rows)
    local = np.full(len(portion.data), -1)
    local[known.learns_from(portion)] = np.arange(len(data))
    inside = places[:, 1] - portion.first
    here = np.flatnonzero((places[:, 0] == portion.shard) & (inside >= 0) & (inside < len(local)))
    wanted = data.offsets[local[inside[here]]] + places[here, 2]
    packed = stage.layout.plan.order[stage.rows]
    by_place = np.argsort(packed)
    found = by_place[np.searchsorted(packed, wanted, sorter=by_place)]
    if known.recipe.level_weight is None:
        return Compared(here, z[found], None, None)
    return Compared(here, z[found], spread_of(z), spread_of(z @ relative(filter, z.shape[1])))


@_of_usable
def start_of(known: Known, data: Trajectories, filter: Filter, learner: Learner[Any]) -> Met:
    """The learner's summary of the first examples."""
    stage = known.stage(data)
    z = inputs_at(filter, stage.m, stage.x, stage.layout, stage.rows)
    return Met(learner.summarise(z, training_rows(filter, stage, known.bounds).y), 0)


@_of_usable
def round_of(known: Known, data: Trajectories, filter: Filter, learner: Learner[Any], apart: bool) -> Met:
    """The learner's summary of the examples that a filter meets."""
    return training_rows(filter, known.stage(data, beliefs=False), known.bounds).met(filter, learner, apart)


def merged_met(a: Met, b: Met) -> Met:
    """The examples of both, for learners on Gram sums."""
    in_part = isinstance(a.sums, ByOutput) or isinstance(b.sums, ByOutput)
    return Met((Apart(Ridge()) if in_part else Ridge()).merge(a.sums, b.sums), a.dropped + b.dropped)


@_of_usable
def hints(_: Known, data: Trajectories, filter: Filter) -> HintSums:
    """The sums of the regression of hints."""
    return hint_sums(filter, data)
