"""Ridge regression on examples of which some outputs were not observed: each output has sums of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from psimlearn.filter import Linear, RandomFourier
from psimlearn.learners.fourier import CHUNK, RandomFourierRidge
from psimlearn.learners.learner import Y, Z
from psimlearn.learners.ridge import GramSums, Ridge
from psimlearn.shapes import Bool, Float

__all__ = ["Apart", "ByOutput"]


class ByOutput(NamedTuple):
    """Sums for each output by itself, over the examples in which it was observed."""

    parts: tuple[GramSums, ...]
    """One for each output, which is the only output of its sums."""

    @classmethod
    def of(cls, sums: "GramSums | ByOutput") -> "ByOutput":
        """Sums of examples that have all outputs, output by output."""
        if isinstance(sums, ByOutput):
            return sums
        share = sums.yy / len(sums.y)  # the part of each output is not known, and no solution needs it
        return cls(tuple(sums._replace(y=sums.y[[i]], zy=sums.zy[:, [i]], yy=share) for i in range(len(sums.y))))

    def plus(self, others: "ByOutput") -> "ByOutput":
        """The sums of both sets of examples."""
        return ByOutput(tuple(Ridge().merge(*pair) for pair in zip(self.parts, others.parts, strict=True)))

    def faded(self, factor: float) -> "ByOutput":
        """The sums with every example weighted by a factor."""
        return ByOutput(tuple(part.faded(factor) for part in self.parts))


@dataclass(frozen=True)
class Apart:
    """A learner that takes outputs apart. An output that is NaN was not observed: its example counts for the others."""

    learner: Ridge | RandomFourierRidge

    def prepare(self, z: Z, rng: np.random.Generator) -> "Apart":
        """The learner, prepared."""
        return Apart(self.learner.prepare(z, rng))

    def summarise(self, z: Z, y: Y, same: tuple[int, ByOutput] | None = None) -> ByOutput:
        """The sums of these examples, output by output; `same` is ignored, as rows differ between outputs."""
        if isinstance(self.learner, Ridge):
            return _sums(z, y)
        total = _sums(self.learner.features(z[:CHUNK]), y[:CHUNK])
        for i in range(CHUNK, len(z), CHUNK):
            total = total.plus(_sums(self.learner.features(z[i : i + CHUNK]), y[i : i + CHUNK]))
        return total

    def merge(self, a: GramSums | ByOutput, b: GramSums | ByOutput) -> ByOutput:
        """The sums of both, added."""
        return ByOutput.of(a).plus(ByOutput.of(b))

    def solve(self, stats: ByOutput) -> Linear | RandomFourier:
        """One regression for each output, side by side."""
        solved = [self._of_output(i).solve(part) for i, part in enumerate(stats.parts)]
        first = solved[0]
        if isinstance(first, RandomFourier):
            return replace(first, linear=_beside([each.linear for each in solved if isinstance(each, RandomFourier)]))
        return _beside([each for each in solved if isinstance(each, Linear)])

    def _of_output(self, i: int) -> Ridge | RandomFourierRidge:
        """The learner of one output."""
        learner = self.learner
        if isinstance(learner, Ridge) and learner.channels is not None:
            return replace(learner, channels=learner.channels.output(i))
        return learner


def _sums(z: Z, y: Y) -> ByOutput:
    """The sums of examples with outputs that are NaN where they were not observed."""
    whole, seen = z.T @ z, ~np.isnan(y)
    return ByOutput(tuple(_of_rows(z, y[:, [i]], seen[:, i], whole) for i in range(y.shape[1])))


def _of_rows(
    z: Z, y: Float[np.ndarray, "b 1"], seen: Bool[np.ndarray, " b"], whole: Float[np.ndarray, "p p"]
) -> GramSums:
    """The sums of some examples; `whole` is z'z of all, from which the others are taken off where they are fewer."""
    some, y = z[seen], y[seen]
    zz = some.T @ some if 2 * len(some) < len(z) else whole - z[~seen].T @ z[~seen]
    one = np.ones(len(some))
    return GramSums(float(len(some)), one @ some, one @ y, zz, some.T @ y, float(np.vdot(y, y)))


def _beside(maps: Sequence[Linear]) -> Linear:
    """Maps of the same inputs as one map, their outputs side by side."""
    weights = np.concatenate([map.weights for map in maps], axis=1)
    return Linear(weights, np.concatenate([map.intercept for map in maps]))
