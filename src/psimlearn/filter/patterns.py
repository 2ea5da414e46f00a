"""Covariances of a linear filter in long recordings with gaps, each computed once.

In a linear filter the covariance after a row depends on the covariance before it and on which entries of the row are
missing, not on their values. So covariances are nodes, and patterns of missing entries lead from node to node: a gap
like an earlier gap follows nodes that are known. `doubt.py` computes the new ones.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.doubt import Doubt, Given, conditioned, moved
from psimlearn.filter.innovations import Innovations
from psimlearn.filter.regressors import Linear
from psimlearn.filter.spreads import Covariances
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Met", "Patterns", "has_patterns", "numbered"]

MOST_NUMBERS = 2**24
"""The numbers of all nodes; beyond it, nodes that no stream has reached are forgotten."""


class Met(NamedTuple):
    """One row of b streams, taken with its gaps; as in `innovations.Taken`."""

    z: Float[np.ndarray, "b p"]
    x: Float[np.ndarray, "b n"]
    hints: Float[np.ndarray, "b h"]
    doubt: Doubt | None


def has_patterns(model: Innovations) -> bool:
    """Tell whether covariances depend on patterns alone, and are kept in full."""
    return isinstance(model.map, Linear) and isinstance(model.kind, Covariances)


class Patterns:
    """The covariances met so far; node e was reached by edge e, which has a gain."""

    def __init__(self, model: Innovations, x: Float[np.ndarray, "rows n"], n_streams: int) -> None:
        self.model = model
        most = min(MOST_NUMBERS // model.s**2, 2 * len(x)) + 2 * n_streams  # memory is taken when it is first written
        self.pattern, seen = numbered(x)
        self.n_patterns, self.young = len(seen), 1 if model.opened is None else model.opened.ages
        self.edges: dict[int, int] = {}
        """The edge for each pair of a node and a pattern, in one number."""
        self.gain = np.empty((most, model.s + model.n, model.n))
        self.spread = np.empty((most, model.s, model.s))
        self.after = np.empty(most, dtype=np.int64)
        """The node at the end of each edge; -1 where the doubt has died away."""
        self.size = 0

    def take(
        self,
        S: Float[np.ndarray, "b s"],
        doubt: Doubt | None,
        x: Float[np.ndarray, "b n"],
        u: Float[np.ndarray, "b q"],
        age: Int[np.ndarray, " b"],
        pattern: Int[np.ndarray, " b"],
    ) -> Met:
        """`Innovations.take`; the groups of doubts are nodes, and each stream has the pattern of its row.

        Only the means of streams in doubt are corrected, in copies of S and x.
        """
        model, node = self.model, np.full(len(x), -1) if doubt is None else doubt.group
        start, opened = model.starts(age), model.opened
        if self.size + len(x) > len(self.after):
            node = self._forget(node)
        some = np.flatnonzero((node >= 0) | (pattern > 0))
        S, x, after = S.copy(), x.copy(), np.full(len(x), -1)  # S holds feedback inside its box
        if opened is not None and len(fresh := opened.fresh(np.where(pattern > 0, 0, node), age)):
            S[fresh] = self._inside(opened.corrected(S[fresh], x[fresh] - model.expected(S[fresh]), age[fresh]))
        if len(some):
            edge = self._edges(node[some], pattern[some], np.minimum(age[some], self.young), x[some])
            S[some], x[some] = self._corrected(edge, S[some], x[some])
            after[some] = self.after[edge]
        hints = S[:, model.r + model.n : model.r + model.n + model.n_hints]
        z = model.arranged(S[:, : model.r], S, x, u, start)
        return Met(z, x, hints, Doubt(after, self.spread) if (after >= 0).any() else None)

    def _corrected(
        self, edge: Int[np.ndarray, " b"], S: Float[np.ndarray, "b s"], x: Float[np.ndarray, "b n"]
    ) -> tuple[Float[np.ndarray, "b s"], Float[np.ndarray, "b n"]]:
        """The means of S and x, given the entries of x that are seen."""
        model, seen, expected = self.model, ~np.isnan(x), self.model.expected(S)
        innovation = np.where(seen, x - expected, 0.0)
        moved = np.matmul(self.gain[edge], innovation[:, :, None])[:, :, 0]
        return self._inside(S + moved[:, : model.s]), np.where(seen, x, expected + moved[:, model.s :])

    def _inside(self, S: Float[np.ndarray, "b s"]) -> Float[np.ndarray, "b s"]:
        """S with its feedback inside the box, in place."""
        if self.model.r:
            S[:, : self.model.r] = self.model.feedback.boxed(S[:, : self.model.r])
        return S

    def _edges(
        self,
        node: Int[np.ndarray, " b"],
        pattern: Int[np.ndarray, " b"],
        age: Int[np.ndarray, " b"],
        x: Float[np.ndarray, "b n"],
    ) -> Int[np.ndarray, " b"]:
        """The edges that streams follow; those not met before are made. From some age on, age makes no difference."""
        keys = ((node + 1) * self.n_patterns + pattern) * (self.young + 1) + age
        known, first, number = np.unique(keys, return_index=True, return_inverse=True)
        found = np.array([self.edges.get(key, -1) for key in known.tolist()])
        new = np.flatnonzero(found < 0)
        if len(new):
            streams = first[new]
            found[new] = self.size + np.arange(len(new))
            self.edges.update(zip(known[new].tolist(), found[new].tolist(), strict=True))
            self._make(node[streams], age[streams], ~np.isnan(x[streams]))
        return np.asarray(found[number])

    def _make(self, node: Int[np.ndarray, " g"], age: Int[np.ndarray, " g"], seen: Bool[np.ndarray, "g n"]) -> None:
        """Compute new edges and the nodes at their ends; most rows are complete, and cost less."""
        complete, new = seen.all(axis=1), slice(self.size, self.size + len(node))
        self.after[new] = -1
        for some, given_by in ((complete, self._given_all), (~complete, self._given)):
            which = np.flatnonzero(some)
            if not len(which):
                continue
            start = self.model.starts(age[which])
            given = given_by(node[which], age[which], start, seen[which])
            self.gain[new][which] = given.gain[given.group]
            T = self.model.transition(np.empty((len(which), 0)), start[given.first])[..., : given.left.shape[1]]
            left = moved(self.model.kind, given, T, self.model.noise_level)
            if left is not None:
                alive = np.flatnonzero(left.group >= 0)
                self.spread[new][which[alive]] = left.spread[left.group[alive]]
                self.after[new][which[alive]] = self.size + which[alive]
        self.size += len(node)

    def _given(
        self,
        node: Int[np.ndarray, " g"],
        age: Int[np.ndarray, " g"],
        start: Bool[np.ndarray, " g"],
        seen: Bool[np.ndarray, "g n"],
    ) -> Given:
        """[S; x] at each of these nodes, after a row with these entries."""
        model, each = self.model, np.arange(len(node))
        before: Doubt | None = Doubt(np.where(node >= 0, each, -1), self.spread[node])
        if model.opened is not None:
            before = model.opened.begun(before, age, np.asarray(~seen.all(axis=1)))
        V = np.where(start[:, None, None], model.first_noise, model.noise)
        return conditioned(model.kind, before, V, seen, model.r, model.s, None)

    def _given_all(
        self,
        node: Int[np.ndarray, " g"],
        _: Int[np.ndarray, " g"],
        start: Bool[np.ndarray, " g"],
        seen: Bool[np.ndarray, "g n"],
    ) -> Given:
        """S at each of these nodes, after a complete row: streams without doubt have no edge for it."""
        model, (g, n), each = self.model, seen.shape, np.arange(len(node))
        assert isinstance(model.kind, Covariances)  # see has_patterns
        V = np.where(start[:, None, None], model.first_noise, model.noise) if start.any() else model.noise
        gain, left = model.kind.given_all(self.spread[node], V, model.r)
        return Given(each, each, np.concatenate([gain, np.tile(np.eye(n), (g, 1, 1))], axis=1), left)

    def _forget(self, node: Int[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
        """Forget all but the nodes that streams are at; return their new numbers."""
        kept, number = np.unique(node[node >= 0], return_inverse=True)
        self.spread[: len(kept)] = self.spread[kept]
        self.edges, self.size = {}, len(kept)
        out = np.full(len(node), -1)
        out[node >= 0] = number
        return out


def numbered(x: Float[np.ndarray, "rows n"]) -> tuple[Int[np.ndarray, " rows"], Bool[np.ndarray, "patterns n"]]:
    """The number of the pattern of missing entries in each row; and the entries seen in each pattern, in 0 all."""
    missing = np.isnan(x)
    gappy = np.flatnonzero(missing.any(axis=1))
    pattern = np.zeros(len(x), dtype=np.int64)
    patterns, number = np.unique(np.packbits(missing[gappy], axis=1), axis=0, return_inverse=True)
    pattern[gappy] = 1 + number.ravel()
    seen = np.unpackbits(patterns, axis=1, count=x.shape[1]) == 0
    return pattern, np.concatenate([np.ones((1, x.shape[1]), dtype=bool), seen])
