"""The catalogue of shards: which recordings each of them holds, read once, before anything is learnt from them."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from operator import add
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.completeness import complete
from psimlearn.recordings.order import Key, content_keys
from psimlearn.recordings.passes import Engine, Pass, Portion, Tell
from psimlearn.recordings.roles import Roles
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.steps import check_step
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Bool, Int

__all__ = ["Catalogue", "catalogued", "drawn"]

SHORTEST = 1000
"""The rows up to which a recording in a sample is not cut."""


class Catalogue(NamedTuple):
    """All recordings of shards, in the order of the shards; `kept` leaves some out of training."""

    shards: Shards
    shard: Int[np.ndarray, " m"]
    """The shard of each recording."""
    number: Int[np.ndarray, " m"]
    """The place of each recording in its shard."""
    lengths: Int[np.ndarray, " m"]
    rank: Int[np.ndarray, " m"]
    """The place of each recording in an order that contents decide: it does not depend on shards."""
    missing: Int[np.ndarray, " m"]
    """How many numbers of each recording were not observed."""
    complete: Bool[np.ndarray, " m"]
    """Whether every channel of a recording was observed at least once."""
    n_channels: int
    n_inputs: int
    n_hints: int
    names: tuple[str, ...] | None
    step: float | None
    fingerprint: str
    """Stands for the contents of all recordings."""
    roles: Roles | None = None
    """The meaning of the columns, for a model to remember."""

    @property
    def rows(self) -> int:
        """The number of rows of all recordings."""
        return int(self.lengths.sum())

    def only(self, kept: Bool[np.ndarray, " m"]) -> "Catalogue":
        """Some of the recordings."""
        of_each = ("shard", "number", "lengths", "rank", "missing", "complete")
        return self._replace(**{name: getattr(self, name)[kept] for name in of_each})

    def described(self) -> dict[str, Any]:
        """Counts and lengths of recordings, and the share that is missing, as in the report of a fit."""
        return {
            "recordings": len(self.lengths),
            "rows": self.rows,
            "channels": self.n_channels,
            "inputs": self.n_inputs,
            "hints": self.n_hints,
            "shortest": int(self.lengths.min()),
            "longest": int(self.lengths.max()),
            "missing": float(self.missing.sum() / (self.rows * self.n_channels)),
        }


class _Facts(NamedTuple):
    """A portion of a shard, for the catalogue."""

    shard: int
    lengths: tuple[int, ...]
    keys: tuple[Key, ...]
    missing: tuple[int, ...]
    complete: tuple[bool, ...]
    ids: tuple[Any, ...] | None
    columns: tuple[int, int, int, tuple[str, ...] | None]
    step: float | None
    roles: Roles | None


def catalogued(shards: Shards, engine: Engine, tell: Tell) -> Catalogue:
    """Load every shard once; refuse shards with other columns, or with a recording that another shard has, too."""
    parts: tuple[_Facts, ...] = engine.map_merge(Pass("catalogue", _facts, add), shards, tell)
    _check_same(parts, shards)
    _check_apart(parts, shards)
    of_shard = [[part for part in parts if part.shard == i] for i in range(len(shards))]
    sizes = [[length for part in some for length in part.lengths] for some in of_shard]
    keys = [key for part in parts for key in part.keys]
    rank = np.empty(len(keys), dtype=np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return Catalogue(
        replace(shards, sizes=tuple((len(lengths), sum(lengths)) for lengths in sizes)),
        np.repeat(np.arange(len(shards)), [len(lengths) for lengths in sizes]),
        np.concatenate([np.arange(len(lengths)) for lengths in sizes]),
        np.concatenate(sizes).astype(np.int64),
        rank,
        np.array([count for part in parts for count in part.missing], dtype=np.int64),
        np.array([each for part in parts for each in part.complete], dtype=bool),
        *parts[0].columns,
        parts[0].step,
        blake2b(b"".join(content for _, content in sorted(keys))).hexdigest(),
        parts[0].roles,
    )


def drawn(catalogue: Catalogue, rows: int, seed: int) -> Trajectories:
    """Recordings drawn at random over all shards, until they have about so many rows; at least two of them.

    Of a recording with more than a quarter of these rows, only the first rows are taken. Ids are places in the
    catalogue.
    """
    lengths = catalogue.lengths
    if catalogue.rows > rows:
        lengths = np.minimum(lengths, max(rows // 4, SHORTEST))
    by_rank = np.argsort(catalogue.rank)
    order = by_rank[np.random.default_rng(seed).permutation(len(by_rank))]
    n = max(2, int(np.searchsorted(np.cumsum(lengths[order]), rows, side="right")))
    places = np.sort(order[:n])
    shard = catalogue.shard[places]
    parts = [catalogue.shards.load(i)[catalogue.number[places[shard == i]]] for i in np.unique(shard).tolist()]
    return _together(parts, lengths[places], tuple(places.tolist()))


def _together(parts: Sequence[Trajectories], lengths: Int[np.ndarray, " m"], ids: tuple[int, ...]) -> Trajectories:
    """The first rows of all recordings; without their times, which may count from another day in every part."""
    first, whole = parts[0], np.concatenate([part.lengths for part in parts])
    offsets = np.cumsum([0, *whole])
    kept = np.concatenate([np.arange(begin, begin + n) for begin, n in zip(offsets, lengths, strict=False)])

    def rows_of(name: str) -> np.ndarray | None:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)[kept]

    values = rows_of("values")
    assert values is not None
    beside = (rows_of("inputs"), first.names, ids, rows_of("hints"), None, first.step)
    return Trajectories(values, np.cumsum([0, *lengths]), *beside)


def _facts(_: None, portion: Portion) -> tuple[_Facts, ...]:
    data = portion.data
    if data.alphabet is not None:
        raise DataError(
            f"shard {portion.shard}: required recordings of numbers, received symbols. Fit them in memory, or a part "
            "of them: model.fit(shards.load(0))."
        )
    missing = np.add.reduceat(np.isnan(data.values).sum(axis=1), data.offsets[:-1])
    columns = (data.n_channels, data.n_inputs, data.n_hints, data.names)
    lengths, keys, whole = tuple(data.lengths.tolist()), tuple(content_keys(data)), tuple(complete(data).tolist())
    beside = (data.ids, columns, data.step, data.roles)
    return (_Facts(portion.shard, lengths, keys, tuple(missing.tolist()), whole, *beside),)


def _check_same(parts: Sequence[_Facts], shards: Shards) -> None:
    """Refuse shards whose columns or steps differ from the first."""
    first = parts[0]
    for part in parts:
        if part.columns != first.columns:
            raise DataError(
                f"{shards.called(part.shard)}: required the columns of {shards.called(first.shard)}, "
                f"{_columns(first)}, received {_columns(part)}. Name the channels that all shards have."
            )
        if _words(part) != _words(first):
            raise DataError(
                f"{shards.called(part.shard)}: required inputs with the words of {shards.called(first.shard)}, "
                f"{_words(first)!s:.300}, received {_words(part)!s:.300}. Name the words of all shards: "
                "Shards.from_files(.., inputs=.., words={name: [..]})."
            )
        check_step(first.step, part.step, max(part.lengths), f"{shards.called(part.shard)}: ")


def _words(part: _Facts) -> dict[Any, list[Any]]:
    """The words of each input that holds words: an input has a column for each of them."""
    return {} if part.roles is None else {name: list(words.symbols) for name, words in part.roles.categories.items()}


def _columns(part: _Facts) -> str:
    n, p, h, names = part.columns
    beside = "".join(f", {count} {what}" for count, what in ((p, "inputs"), (h, "hints")) if count)
    some = "" if names is None else f" ({', '.join(names[:8])}{', ..' * (n > 8)})"
    return f"{n} channels{some}{beside}"


def _check_apart(parts: Sequence[_Facts], shards: Shards) -> None:
    """Refuse a recording that lies in two shards."""
    home: dict[Any, int] = {}
    for part in parts:
        for id in part.ids or ():
            if home.setdefault(id, part.shard) != part.shard:
                raise DataError(
                    f"{shards.called(part.shard)}: required every recording in one shard, received the id {id!r}, "
                    f"which {shards.called(home[id])} has, too. Write the rows of a recording to one file."
                )
