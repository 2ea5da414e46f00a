"""The folded machine: a step of a linear or random-feature filter with everything constant folded into one map.

What surrounds a regressor is affine where beliefs are plain stacks or have a fixed centre: the prior, the directions
and scale of the feedback, a block that is read from a belief. Folded into the weights, one product gives

    fed_{t+1} = box(feed(z_t))          all that the next step needs of m_{t+1}
    m_{t+1}   = read(z_t)               or a part of it, only when asked for

Whole recordings (`rollout.py`) and live streams (`streams.py`) run on these maps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from psimlearn.filter.features import Stack
from psimlearn.filter.fourier import fourier_features
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.regressors import Linear, RandomFourier
from psimlearn.filter.step import prior
from psimlearn.shapes import Float

__all__ = ["Columns", "Folded", "Map", "columns", "fold", "foldable", "folded_map"]

Map = Linear | RandomFourier
"""A folded map from rows of z."""
OfRows = Callable[[np.ndarray], np.ndarray]


class Folded(NamedTuple):
    """A filter whose step is one map."""

    feed: Map
    """From z to the feedback of the next belief, before the box."""
    first: Float[np.ndarray, " r"]
    """The feedback of the initial belief."""
    low: Float[np.ndarray, " r"] | None
    high: Float[np.ndarray, " r"] | None
    """The box, if there is one."""

    @property
    def bounds(self) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
        """The box; infinite without one."""
        if self.low is None or self.high is None:
            return np.full_like(self.first, -np.inf), np.full_like(self.first, np.inf)
        return self.low, self.high

    def boxes(self, b: int) -> OfRows:
        """Keep up to b rows of feedback inside the box, in place."""
        if self.low is None or self.high is None:
            return lambda fed: fed
        low, high = (
            np.tile(bound, (b, 1)) for bound in (self.low, self.high)
        )  # numpy clips to full bounds much faster

        def boxed(fed: np.ndarray) -> np.ndarray:
            np.maximum(fed, low[: len(fed)], out=fed)
            np.minimum(fed, high[: len(fed)], out=fed)
            return fed

        return boxed


def foldable(filter: Learnt) -> bool:
    """Tell whether a step is one affine map of z, or of random Fourier features and z."""
    affine_prior = filter.centre is not None or isinstance(filter.features, Stack)
    return affine_prior and len(filter.regressors) == 1 and isinstance(filter.regressors[0], Linear | RandomFourier)


def fold(filter: Learnt) -> Folded:
    """Fold the step of a foldable filter."""
    feedback = filter.feedback
    feed = folded_map(filter, feedback.linear, feedback.shift)
    return Folded(feed, feedback(filter.initial[None])[0], feedback.low, feedback.high)


def folded_map(filter: Learnt, linear: OfRows, shift: Float[np.ndarray, " q"] | float = 0.0) -> Map:
    """The map from z_t to linear(m_{t+1}) + shift, for a linear map of rows."""
    regressor = filter.regressors[0]
    if filter.centre is not None:
        shift = shift + linear(filter.centre[None])[0]
    if isinstance(regressor, Linear):
        return _mapped(filter, regressor, linear, shift, first=0)
    assert isinstance(regressor, RandomFourier)  # see foldable
    p, half = regressor.directions.shape
    inner, raw = regressor.linear, regressor.raw_inputs or filter.centre is None
    if raw and not regressor.raw_inputs:  # the prior needs columns of z as well
        inner = replace(inner, weights=np.vstack([inner.weights, np.zeros((p, len(inner.intercept)))]))
    return RandomFourier(regressor.directions, raw, _mapped(filter, inner, linear, shift, first=2 * half))


def _mapped(filter: Learnt, regressor: Linear, linear: OfRows, shift: np.ndarray | float, first: int) -> Linear:
    """The regressor followed by the map; z begins at row `first` of its weights, where the prior is added."""
    weights, n = linear(regressor.weights), len(filter.scaling.mean)
    if filter.centre is None:
        x = slice(first + len(filter.feedback.mean), first + len(filter.feedback.mean) + n)
        weights = weights.copy()
        weights[x] += linear(prior(filter.recursion, np.eye(n)))
    return Linear(weights, linear(regressor.intercept[None])[0] + shift)


@dataclass(frozen=True, eq=False)
class Columns:
    """A folded map for columns [z; 1], one for each stream, of which z is centred but not scaled.

    The scale is folded in; to fold in the mean would cost the digits by which it exceeds the scale.
    """

    weights: Float[np.ndarray, "q p"]
    directions: Float[np.ndarray, "p half"] | None = None
    waves: Float[np.ndarray, "width q"] | None = None

    def __call__(self, z: Float[np.ndarray, "p *b"], out: Float[np.ndarray, "q *b"]) -> None:
        """Write the outputs for one column per stream."""
        self.weights.dot(z, out)  # the method is spared the dispatch of np.dot
        if self.directions is not None and self.waves is not None:
            features = fourier_features(z.T.reshape(-1, len(z)), self.directions, raw_inputs=False)
            out += (features @ self.waves).T.reshape(out.shape)


def columns(map: Map, scale: Float[np.ndarray, " p"]) -> Columns:
    """A map for columns whose entries are to be divided by `scale`."""
    if isinstance(map, Linear):
        return Columns(np.ascontiguousarray(np.vstack([map.weights / scale[:, None], map.intercept]).T))
    waves, raw = np.split(map.linear.weights, [2 * map.directions.shape[1]])
    raw = raw if map.raw_inputs else np.zeros((len(scale), waves.shape[1]))
    directions = np.vstack([map.directions / scale[:, None], np.zeros(map.directions.shape[1])])
    return replace(columns(Linear(raw, map.linear.intercept), scale), directions=directions, waves=waves)
