"""A journal of rounds that are done, so that a fit that was interrupted goes on where it stopped.

A fit is deterministic. The same call makes the same starts again, and asks the journal for every round after F_0; only
rounds that the journal does not know are computed. A round is known by its lane: the name of the course, the candidate,
and the bits of F_0. So rounds that go on from another F_0, as of another version of numpy, are not taken for these.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from psimlearn.choose.fingerprints import described
from psimlearn.errors import ModelFileError
from psimlearn.files.regressors import REGRESSORS, regressor_name
from psimlearn.filter import Filter
from psimlearn.train.dagger import Aggregation

__all__ = ["LOST", "Journal", "Path", "followed", "lane_of", "taken_further", "with_sums"]

LOST: Any = type("Lost", (), {"__repr__": lambda _: "LOST"})()
"""The sums of a round whose sums the journal does not have. None would mean that there were no examples yet."""


class Journal:
    """Keeps rounds, and numbers, under the names of lanes; this one keeps nothing. `Folder` is one of files."""

    def lane(self, name: str, candidate: object, *starts: Filter | None) -> str | None:
        """The name of a lane, as `lane_of` makes it; None for a lane of which nothing can be kept."""
        return None

    def recall(self, lane: str, number: int) -> Aggregation | None:
        """The round of a lane that was kept under this number; its sums are `LOST` unless it was the latest."""
        return None

    def keep(self, lane: str, current: Aggregation) -> None:
        """Keep a round, and its sums until the next round of the lane is kept."""

    def recall_numbers(self, lane: str) -> Sequence[float] | None:
        """The numbers that were kept for a lane."""
        return None

    def keep_numbers(self, lane: str, numbers: Sequence[float]) -> None:
        """Keep some numbers."""

    def end(self, stage: str) -> None:
        """End a stage: no lane whose name begins with this word is taken further, and its sums may go."""


class Path(NamedTuple):
    """Rounds of which each follows from the one before."""

    first: Callable[[], Aggregation]
    following: Callable[[Aggregation], Aggregation]


def lane_of(name: str, candidate: object, *starts: Filter | None) -> str | None:
    """The name of a lane; None if a regressor among the starts is one that no file can hold.

    Args:
        name: the course; its first word is the stage.
        candidate: whatever runs on it, told apart by `repr`.
        starts: the filters from which it goes on; None for one that diverged.
    """
    digest = sha256(f"{name}: {described(candidate)}".encode())
    with suppress(ModelFileError):
        for part in starts:
            for array in () if part is None else _arrays(part):
                digest.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
            digest.update(b"end")
        return f"{name.replace(' ', '-')}-{digest.hexdigest()[:32]}"
    return None


def _arrays(filter: Filter) -> Iterator[np.ndarray]:
    """The arrays of all regressors of a filter."""
    for regressor in filter.regressors:
        held = REGRESSORS[regressor_name(regressor)].codec.arrays(regressor)
        yield from (array for _, array in sorted(held.items()) if array is not None)


def taken_further(journal: Journal, lane: str | None, path: Path, current: Aggregation | None) -> Aggregation:
    """The round after `current`, from the journal if it knows it; F_0, which every start has, if that is None."""
    if current is None:
        return path.first()
    known = None if lane is None else journal.recall(lane, current.number + 1)
    if known is not None:
        return known
    following = path.following(with_sums(path, current))
    if lane is not None:
        journal.keep(lane, following)
    return following


def followed(journal: Journal, lane: str | None, path: Path, n_rounds: int) -> Iterator[Aggregation]:
    """Yield the first round of a path and `n_rounds` more."""
    current = None
    for _ in range(n_rounds + 1):
        current = taken_further(journal, lane, path, current)
        yield current


def with_sums(path: Path, current: Aggregation) -> Aggregation:
    """The round with its sums: if the journal did not have them, all rounds up to it are computed again."""
    if current.sums is not LOST:
        return current
    again = path.first()
    while again.number < current.number:
        again = path.following(again)
    return again
