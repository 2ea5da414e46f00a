"""Trees beside a linear map: plain arrays, run with numpy alone.

A step computes B(z) = W z + b + D'f(known) + V'w(known): the linear map sees all of z, the trees f and the random
features w, if there are any, see the observations and inputs in it, and not the belief. So trees and random features of
all rows of a recording are computed at once, ahead of the recursion, and the recursion itself stays linear.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from psimlearn.filter.regressors import Drive, Linear, RandomFourier
from psimlearn.shapes import Float, Int

__all__ = ["MOST_DEPTH", "Forest", "Trees"]

MOST_DEPTH = 64
"""The most splits from the root of a tree to a leaf: bounds the time of a step, whatever a file holds."""
AT_ONCE = 1 << 16
"""The number of (row, tree) pairs that descend together, so that they stay in cache."""
STRIDE = 8
"""The number of splits after which pairs that have reached a leaf are left out."""
MAPPED = 1 << 20
"""The number of random features that are computed at a time: bounds memory."""
SUMMED = 1 << 20
"""The number of leaf values that are gathered at a time: bounds memory."""


class _Nodes(NamedTuple):
    """The splits, then the leaves, as one table; a leaf leads to itself, so that all rows take equally many steps."""

    feature: Int[np.ndarray, " nodes"]
    threshold: Float[np.ndarray, " nodes"]
    children: Int[np.ndarray, " twice"]
    """The children of node i at 2 i, where the row has at most the threshold, and at 2 i + 1."""
    first: Int[np.ndarray, " trees"]


@dataclass(frozen=True, eq=False)
class Trees:
    """Regression trees, stacked. A node is a number: split i is i, and leaf j is -1 - j.

    A row goes left at a split if its feature, rounded to float32 as scikit-learn does, is at most the threshold.
    """

    feature: Int[np.ndarray, " splits"]
    threshold: Float[np.ndarray, " splits"]
    left: Int[np.ndarray, " splits"]
    right: Int[np.ndarray, " splits"]
    roots: Int[np.ndarray, " trees"]
    """The first node of each tree."""
    values: Float[np.ndarray, "leaves s"]
    """The outputs of each leaf."""

    def __call__(self, x: Float[np.ndarray, "b k"]) -> Float[np.ndarray, "b s"]:
        """The mean of the outputs of all trees, for each row."""
        n_trees, s = len(self.roots), self.values.shape[1]
        with np.errstate(over="ignore"):  # beyond the range of float32 is beyond every threshold
            x = x.astype(np.float32).astype(np.float64)
        out = np.empty((len(x), s))
        rows = max(1, min(AT_ONCE // n_trees, SUMMED // (n_trees * s)))
        for i in range(0, len(x), rows):
            leaves = self._leaves(x[i : i + rows])
            np.sum(self.values.take(leaves, axis=0).reshape(-1, n_trees, s), axis=1, out=out[i : i + rows])
        out /= n_trees
        return out

    @cached_property
    def depth(self) -> int:
        """The most splits from a root to a leaf, at most one more than `MOST_DEPTH`."""
        level, depth = self.roots[self.roots >= 0], 0
        while len(level) and depth <= MOST_DEPTH:
            below = np.concatenate([self.left[level], self.right[level]])
            level, depth = below[below >= 0], depth + 1
        return depth

    def _leaves(self, x: Float[np.ndarray, "b k"]) -> Int[np.ndarray, " pairs"]:
        """The number of the leaf that each row reaches in each tree, row by row."""
        feature, threshold, children, first = self._nodes
        (b, k), flat, n_splits = x.shape, x.reshape(-1), len(self.feature)
        leaf = np.empty(b * len(first), dtype=np.int64)
        pair, node, row = np.arange(len(leaf)), np.tile(first, b), np.repeat(np.arange(0, b * k, k), len(first))
        while len(pair):
            for _ in range(STRIDE):
                value = flat.take(feature.take(node) + row)
                node = children.take(2 * node + (value > threshold.take(node)))
            leaf[pair] = node - n_splits
            going = node < n_splits
            pair, node, row = pair[going], node[going], row[going]
        return leaf

    @cached_property
    def _nodes(self) -> _Nodes:
        n_splits, n_leaves = len(self.feature), len(self.values)
        leaves = np.arange(n_splits, n_splits + n_leaves)

        def placed(node: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
            return np.where(node < 0, n_splits - 1 - node, node)

        children = np.concatenate([np.stack([placed(self.left), placed(self.right)], axis=1).ravel(), leaves.repeat(2)])
        return _Nodes(
            np.concatenate([self.feature, np.zeros(n_leaves, dtype=np.int64)]),
            np.concatenate([self.threshold, np.zeros(n_leaves)]),
            children,
            placed(self.roots),
        )


@dataclass(frozen=True, eq=False)
class Forest:
    """z -> linear(z) + trees(known) @ directions + waves(known), where known are the columns of z beside the belief."""

    linear: Linear
    trees: Trees
    directions: Float[np.ndarray, "s q"]
    """The outputs in which the trees speak: few directions hold most of the errors that a linear map leaves."""
    n_fed: int
    """The number of columns of z that come from the belief, which the trees do not see."""
    waves: RandomFourier | None = None
    """A map of random features of the known columns alone, if there is one."""

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """Predict one output row for each input row."""
        y = np.asarray(self.linear(z))
        y += self._corrections(z[:, self.n_fed :])
        return y

    def drive(self, known: Float[np.ndarray, "b k"]) -> Drive:
        """Compute all that the known columns contribute, the trees included."""
        (driven,) = self.linear.drive(known)
        driven += self._corrections(known)
        return (driven,)

    def respond(self, fed: Float[np.ndarray, "b r"], drive: Drive) -> Float[np.ndarray, "b q"]:
        """Add the contribution of `fed`, which is linear."""
        return np.asarray(self.linear.respond(fed, drive))

    def _corrections(self, known: Float[np.ndarray, "b k"]) -> Float[np.ndarray, "b q"]:
        y = np.asarray(self.trees(known) @ self.directions)
        if self.waves is not None:
            rows = max(1, MAPPED // len(self.waves.linear.weights))
            for i in range(0, len(known), rows):
                y[i : i + rows] += self.waves(known[i : i + rows])
        return y
