"""The step of a filter, as a textbook writes it.

All arithmetic happens in standardised units. With c the belief weight, P the fed-back directions and B a regressor:

    fed_t   = box(c * (P m_t - mean) / scale)
    z_t     = [fed_t; x_t; x_{t-1}; ..; x_{t-lags+1}; u_t (; u_{t+1})]
    m_{t+1} = B(z_t) + (persist(x_t) or the centre)

The belief m has full width and all predictions are read from it; only the feedback is compressed and boxed.

Every function here takes arrays of numpy or of JAX. This module is the oracle for every faster runner; it steps filters
that cannot be folded (`folded.py`), and it is the step through which back-propagation differentiates.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.doubt import Doubt
from psimlearn.filter.features import Array, Features, Persistent
from psimlearn.filter.regressors import Drive, Regressor
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Feedback", "Fill", "Recursion", "State", "advance", "expected", "following", "following_at", "inputs"]
__all__ += ["prior", "take"]

Fill = Callable[[Float[Array, "b n"], Float[Array, "b n"]], Float[Array, "b n"]]
"""Takes observations, NaN where missing, and expected observations; returns observations without gaps."""


class Feedback(NamedTuple):
    """The map from a belief to its part of the next input: weight * (P m - mean) / scale, kept inside a box."""

    mean: Float[Array, " r"]
    scale: Float[Array, " r"]
    weight: float = 1.0
    directions: Float[Array, "d r"] | None = None
    """P', or None for all of the belief."""
    low: Float[Array, " r"] | None = None
    high: Float[Array, " r"] | None = None
    """The box, in the units of the feedback; None for no box."""

    def __call__(self, belief: Float[Array, "b d"]) -> Float[Array, "b r"]:
        """Return the feedback of each belief."""
        return self.boxed(self.linear(belief) + self.shift)

    def boxed(self, fed: Float[Array, "*b r"]) -> Float[Array, "*b r"]:
        """Keep feedback inside the box."""
        if self.low is None or self.high is None:
            return fed
        xp = fed.__array_namespace__()
        return xp.minimum(xp.maximum(fed, self.low), self.high)

    @property
    def shift(self) -> Float[Array, " r"]:
        """The constant part of the map from beliefs to feedback, without the box."""
        return -self.mean * (self.weight / self.scale)

    def weighted(self, factor: float) -> "Feedback":
        """Multiply the feedback and its box by a factor."""
        low, high = (None if bound is None else bound * factor for bound in (self.low, self.high))
        return self._replace(weight=self.weight * factor, low=low, high=high)

    def linear(self, belief: Float[Array, "b d"]) -> Float[Array, "b r"]:
        """Apply the linear part of the map from beliefs to feedback, without the box."""
        projected = belief if self.directions is None else belief @ self.directions
        return projected * (self.weight / self.scale)

    def within(self, low: Float[np.ndarray, " r"], high: Float[np.ndarray, " r"]) -> bool:
        """Tell whether the box keeps all feedback between these bounds."""
        boxed = self.low is not None and self.high is not None
        return boxed and bool((self.low >= low).all() and (self.high <= high).all())

    def clipped(self, fed: Float[np.ndarray, "b r"]) -> Bool[np.ndarray, " b"]:
        """Mark the rows of feedback that lie on the box; a coordinate that never varied does not count."""
        if self.low is None or self.high is None:
            return np.zeros(len(fed), dtype=bool)
        still = self.low >= self.high
        if len(fed) and ((fed.min(axis=0) > self.low) & (fed.max(axis=0) < self.high) | still).all():  # as usual
            return np.zeros(len(fed), dtype=bool)
        columns = np.ascontiguousarray(fed.T)  # numpy compares few long rows much faster than many short ones
        low, high = self.low[:, None], self.high[:, None]
        return np.asarray(np.any(((columns <= low) | (columns >= high)) & (low < high), axis=0))


class State(NamedTuple):
    """The memory of b streams between two rows."""

    belief: Float[Array, "b d"]
    recent: Float[Array, "b lags n"]
    """The last observations, newest first, standardised and filled."""
    clock: Int[Array, " b"]
    """The number of rows that each stream has had."""
    unseen: Array = 0
    """The number of rows just before in which nothing was observed."""
    late: Array = 0
    """The number of rows before the first in which anything was observed."""
    doubt: Doubt | None = None
    """The covariance that gaps have opened, for filters that keep one; None if nothing is in doubt."""
    unrest: Array | None = None
    """The fading mean of squared errors, (b, n), for filters whose intervals follow the situation; None for others."""

    def at(self, streams: Any) -> "State":
        """The state of some of the streams, by any index."""
        doubt = None if self.doubt is None else self.doubt.at(streams)
        unrest = None if self.unrest is None else self.unrest[streams]
        belief, recent, clock, unseen, late = (part[streams] for part in self[:5])
        return State(belief, recent, clock, unseen, late, doubt, unrest)

    def counted(self, x: Float[Array, "b n"]) -> tuple[Array, Array]:
        """`unseen` and `late` after one more row, NaN where nothing was observed."""
        xp = x.__array_namespace__()
        blind = xp.isnan(x).all(axis=1)
        return xp.where(blind, self.unseen + 1, 0), self.late + (blind & (self.age == 0))

    @property
    def age(self) -> Array:
        """The number of rows from the first in which anything was observed; 0 before it."""
        return self.clock - self.late


class Recursion(NamedTuple):
    """The part of a filter that takes one belief to the next."""

    features: Features
    regressors: tuple[Regressor, ...]
    """One for all times, or one for each time step; the last is held beyond its end."""
    feedback: Feedback
    centre: Float[Array, " d"] | None
    """Added to the regressor's output: this belief, or the last observation repeated if None."""

    def regressor(self, t: int) -> Regressor:
        """The regressor for rows at time t."""
        return self.regressors[min(t, len(self.regressors) - 1)]


def expected(recursion: Recursion, belief: Float[Array, "b d"]) -> Float[Array, "b n"]:
    """Block 1 of a belief: the next observation."""
    return recursion.features.observations(belief)[:, 0]


def prior(recursion: Recursion, x: Float[Array, "b n"]) -> Float[Array, "#b d"]:
    """The next belief if the regressor says zero."""
    if recursion.centre is not None:
        return recursion.centre[None]
    assert isinstance(recursion.features, Persistent)  # trainers check that the features can persist
    return recursion.features.persist(x)


def inputs(recursion: Recursion, belief: Float[Array, "b d"], *known: Float[Array, "b _"]) -> Float[Array, "b p"]:
    """z_t, given m_t and the known columns: the last observations, then inputs."""
    return belief.__array_namespace__().concat([recursion.feedback(belief), *known], axis=1)


def following(recursion: Recursion, z: Float[Array, "b p"], x: Float[Array, "b n"], t: int = 0) -> Float[Array, "b d"]:
    """m_{t+1}, given z_t and the observations x_t in it."""
    return recursion.regressor(t)(z) + prior(recursion, x)


def following_at(
    recursion: Recursion, z: Float[np.ndarray, "b p"], x: Float[np.ndarray, "b n"], time: Int[np.ndarray, " b"]
) -> Float[np.ndarray, "b d"]:
    """`following` for rows at different times, each of which has its regressor."""
    if len(recursion.regressors) == 1:
        return np.asarray(following(recursion, z, x))
    order = np.argsort(time, kind="stable")
    times, starts = np.unique(time[order], return_index=True)
    rows = np.split(order, starts[1:])
    after = [following(recursion, z[now], x[now], int(t)) for t, now in zip(times, rows, strict=True)]
    return np.concatenate(after)[np.argsort(order, kind="stable")]


def advance(
    recursion: Recursion, belief: Float[Array, "b d"], drive: Drive, x: Float[Array, "b n"], t: int = 0
) -> tuple[Float[Array, "b r"], Float[Array, "b d"]]:
    """The feedback of m_t, and m_{t+1} given this feedback and the contribution of the known columns of z_t."""
    fed = recursion.feedback(belief)
    return fed, recursion.regressor(t).respond(fed, drive) + prior(recursion, x)


def take(
    recursion: Recursion, state: State, x: Float[Array, "b n"], u: Float[Array, "b p"], fill: Fill, t: int = 0
) -> State:
    """Take one row of every stream.

    Args:
        recursion: the part of a filter that takes one belief to the next.
        state: of b streams.
        x: observations, NaN where missing.
        u: the input columns of z; of width 0 for filters without inputs.
        fill: fills in missing observations.
        t: the time of this row, for filters with a regressor for each time.
    """
    xp = x.__array_namespace__()
    unseen, late = state.counted(x)
    x = fill(x, expected(recursion, state.belief))
    older = xp.concat([x[:, None], state.recent[:, :-1]], axis=1)
    recent = xp.where((state.clock == 0)[:, None, None], x[:, None], older)  # the first row stands for all before it
    z = inputs(recursion, state.belief, recent.reshape(len(x), -1), u)
    return State(following(recursion, z, x, t), recent, state.clock + 1, unseen, late)
