"""Ridge regression that trusts the past of a channel itself more than that of the other channels.

Litterman's "Minnesota" prior of vector autoregressions has two halves: the last observation stays (`Recipe.prior`), and
other variables say less of a variable than its past does. This is the second half. With D_c the penalties for an output
of channel c, alpha for columns of this channel and alpha / weight^2 for those of others,

    W_c = (G + D_c)^-1 B_c                                  G = Z'Z / N,  B = Z'Y / N

The penalties D_c of two channels differ in few columns, so one inverse serves all channels. With M = G + D, D as if all
columns were of other channels, I the columns of channel c and s = alpha / weight^2 - alpha,

    W_c = M^-1 B_c + M^-1[:, I] (1 / s - M^-1[I, I])^-1 M^-1[I, :] B_c
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg.lapack

from psimlearn.shapes import Float, Int

__all__ = ["OF_NONE", "Channels", "solved_by_channel"]

OF_NONE = -1
"""The channel of a column that is of none: an input, a state, a constant. It is penalised like the channel's past."""


class Channels(NamedTuple):
    """The channels of the columns of z and of the outputs, and how much columns of other channels count."""

    of_z: Int[np.ndarray, " p"]
    of_y: Int[np.ndarray, " q"]
    weight: float

    def with_constant(self) -> "Channels":
        """The same with one column more, which is of no channel."""
        return self._replace(of_z=np.append(self.of_z, OF_NONE))

    def among(self, columns: Int[np.ndarray, " some"]) -> "Channels":
        """The same for only some columns of z."""
        return self._replace(of_z=self.of_z[columns])

    def output(self, i: int) -> "Channels":
        """The same for one output."""
        return self._replace(of_y=self.of_y[[i]])

    def scales(self) -> Iterator[tuple[Int[np.ndarray, " some"], Float[np.ndarray, " p"]]]:
        """The outputs of each channel, and the factors of z with which one penalty on all columns does the same."""
        for c in np.unique(self.of_y):
            alike = (self.of_z == c) | (self.of_z == OF_NONE)
            yield np.flatnonzero(self.of_y == c), np.where(alike, 1.0, self.weight)


def solved_by_channel(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p q"], alpha: float, channels: Channels
) -> Float[np.ndarray, "p q"]:
    """W; LinAlgError, or entries that are not finite, where rounding leaves no solution."""
    of_z, of_y, weight = channels
    others = alpha / weight**2
    M = gram.copy()
    np.einsum("ii->i", M)[:] += np.where(of_z == OF_NONE, alpha, others)
    inverse = _inverse(M)
    solved: np.ndarray = inverse @ cross
    for c in np.unique(of_y):
        own, outputs = np.flatnonzero(of_z == c), np.flatnonzero(of_y == c)
        if len(own):
            inner = np.eye(len(own)) / (others - alpha) - inverse[np.ix_(own, own)]
            solved[:, outputs] += inverse[:, own] @ np.linalg.solve(inner, solved[np.ix_(own, outputs)])
    return solved


def _inverse(M: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """M^-1 of a positive definite matrix; LinAlgError of others."""
    factor, failed = scipy.linalg.lapack.dpotrf(M, lower=1)
    if failed:
        raise np.linalg.LinAlgError("required positive definite sums, received others")
    lower, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)
