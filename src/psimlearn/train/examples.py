"""Training rows, laid out once, and the examples that a rollout over them yields."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from psimlearn.filter import Features, Filter, Stack
from psimlearn.filter.features import Persistent
from psimlearn.filter.layout import Layout
from psimlearn.filter.rollout import Table, roll
from psimlearn.filter.step import prior
from psimlearn.learners import Learner
from psimlearn.recordings.schedule import RowIndex
from psimlearn.recordings.windows import futures
from psimlearn.shapes import Float

__all__ = ["Begun", "Examples", "Met", "Targets", "Training", "TrainingRows", "examples", "filled_features"]


@dataclass(frozen=True, eq=False)
class Targets:
    """The belief that should follow each example."""

    phi: Float[np.ndarray, "rows d"]
    """phi(f_t) at every row."""
    features: Features
    centre: Float[np.ndarray, " d"] | None
    """The prior; None for the last observation."""
    x: Float[np.ndarray, "rows n"]
    rows: RowIndex
    target_rows: RowIndex

    @cached_property
    def y(self) -> Float[np.ndarray, "examples d"]:
        """phi(f_{t+1}) less the prior; made when first needed, since most settings of a search need sums only."""
        if self.centre is not None:
            return np.asarray(self.phi[self.target_rows] - self.centre)
        assert isinstance(self.features, Persistent)  # recipes see to it
        return np.asarray(self.phi[self.target_rows] - self.features.persist(self.x[self.rows]))

    @cached_property
    def beyond_last(self) -> "Targets":
        """The same beliefs, with the last observation as prior."""
        return replace(self, centre=None)


class TrainingRows(NamedTuple):
    """Training recordings, the rows of them that make examples, and the belief that should follow each of these."""

    table: Table
    rows: RowIndex
    target_rows: RowIndex
    x: Float[np.ndarray, "rows n"]
    """Observations; missing ones were filled in before there was a filter."""
    targets: Targets
    """From those observations."""
    low: Float[np.ndarray, " r"]
    high: Float[np.ndarray, " r"]
    """The guard: beliefs that feed back values beyond these bounds are not learnt from."""
    same: tuple[int, Any] | None
    """A summary of these rows with other beliefs in the first columns, from which a learner may go on."""

    @property
    def y(self) -> Float[np.ndarray, "examples d"]:
        """phi(f_{t+1}) less the prior."""
        return self.targets.y

    def met(self, filter: Filter, learner: Learner[Any], apart: bool = False) -> "Met":
        """Roll a filter over the rows and summarise the examples that it meets; `apart` as in `examples`."""
        z, y, same, dropped = examples(filter, self, apart)
        return Met(learner.summarise(z, y, None if apart else same), dropped)


class Met(NamedTuple):
    """The examples that a filter met, summarised."""

    sums: Any
    dropped: int
    """As in `Examples`."""


@runtime_checkable
class Training(Protocol):
    """Training recordings, in memory or in shards."""

    def met(self, filter: Filter, learner: Learner[Any], apart: bool = False) -> Met:
        """Roll a filter over all recordings and summarise the examples that it meets."""


@runtime_checkable
class Begun(Protocol):
    """Where rounds of DAgger begin: with recordings in memory, or in shards."""

    @property
    def filter(self) -> Filter:
        """F_0."""

    @property
    def learner(self) -> Learner[Any]:
        """The prepared learner."""

    @property
    def sums(self) -> Any:
        """Its summary of D_0; None if that is empty."""

    @property
    def training(self) -> Training:
        """The recordings."""

    @property
    def opens(self) -> Table | None:
        """Training rows from which scores learn how recordings begin; None if they do not."""


class Examples(NamedTuple):
    """The examples of one rollout."""

    z: Float[np.ndarray, "examples p"]
    y: Float[np.ndarray, "examples d"]
    same: tuple[int, Any] | None
    """For `Learner.summarise`: `TrainingRows.same`, unless rows or targets have changed."""
    dropped: int
    """How many rows were left out because their belief was non-finite or beyond the guard."""


def examples(filter: Filter, training: TrainingRows, apart: bool = False) -> Examples:
    """Roll a filter over the training rows: the inputs that it meets, and the outputs that it should give.

    The arrays are views of the table's work space wherever possible: use them before the next rollout.

    Args:
        filter: the filter to roll out.
        training: the recordings.
        apart: leave outputs that were not observed NaN, for a learner that takes outputs apart; without it the filter
            fills them in.
    """
    rollout = roll(filter, training.table)
    z = rollout.z[training.rows]
    y, same = training.y, training.same
    if rollout.layout.gappy:
        layout, features = rollout.layout, filter.features
        observed = layout.x if apart else rollout.x
        phi = filled_features(features, layout, observed, rollout.held, apart)
        y, same = phi[training.target_rows] - prior(filter.recursion, rollout.x[training.rows]), None
    if filter.feedback.within(training.low, training.high):
        return Examples(z, y, same, 0)
    fed = z[:, : len(training.low)]
    kept = ((fed >= training.low) & (fed <= training.high)).all(axis=1)  # NaN is neither
    if kept.all():
        return Examples(z, y, same, 0)
    return Examples(z[kept], y[kept], None, len(z) - int(kept.sum()))


def filled_features(
    features: Features,
    layout: Layout,
    x: Float[np.ndarray, "rows n"],
    beliefs: Float[np.ndarray, "rows d"],
    apart: bool = False,
) -> Float[np.ndarray, "rows d"]:
    """phi(f_t) at every row, from observations x in which missing entries were filled in.

    A filled-in observation is an expectation, and so are linear features of it. Other features of it, such as squares,
    would come out too small: an entry of phi that depends on a missing observation is taken from the belief. With
    `apart` nothing was filled in, and such entries stay NaN.
    """
    phi = features(futures(x, layout.plan, features.window))
    if apart or not layout.gappy or isinstance(features, Stack):
        return phi
    missing = np.isnan(features(futures(layout.x, layout.plan, features.window)))
    return np.where(missing, beliefs, phi)
