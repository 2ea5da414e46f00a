"""Passes over shards: a function of every portion of every shard, and a merge in an order that is fixed.

Results are merged in pairs by shard number: 0 with 1, 2 with 3, then the results of these, and so on. So the same
shards give the same bits, however many workers there are and whichever of them ends first.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from psimlearn.checks import whole
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.threads import one_thread

__all__ = ["Engine", "InTurn", "Pass", "Portion", "Processes", "in_pairs", "merged", "of_shard"]
__all__ += ["Tell", "pairs", "plus", "silent"]

PORTION = 1_000_000
"""The most numbers of a portion, unless one recording has more: bounds the memory of a pass, whatever the shards."""
Result = TypeVar("Result")
Tell = Callable[[int, int], None]
"""Receives how many shards are done, and how many there are."""


def plus(a: Any, b: Any) -> Any:
    """Merge two results that know how."""
    return a.plus(b)


def silent(_: int, __: int) -> None:
    """Tell nothing."""


class Portion(NamedTuple):
    """Some recordings of one shard, as many as are worked on at a time."""

    data: Trajectories
    shard: int
    first: int
    """The number of its first recording in the shard."""


@dataclass(frozen=True)
class Pass:
    """One pass: a pure function of `given` and a portion, and a merge of two of its results."""

    name: str
    """Tells people what is computed, such as "round 3"."""
    function: Callable[[Any, Portion], Any]
    """None as a result says that a portion has nothing to contribute."""
    merge: Callable[[Any, Any], Any]
    given: Any = None
    """The same for all portions, such as the filter of a round; sent once to every worker."""


@runtime_checkable
class Engine(Protocol):
    """Where passes are computed."""

    def map_merge(self, work: Pass, shards: Shards, tell: Tell) -> Any:
        """The merged result of a pass over all shards; None if no portion contributed."""


@dataclass(frozen=True)
class InTurn:
    """One shard after the other, in this process: the memory is that of one shard."""

    def map_merge(self, work: Pass, shards: Shards, tell: Tell) -> Any:
        """The merged result of a pass over all shards."""

        def results() -> Iterator[Any]:
            for i in range(len(shards)):
                yield of_shard(work, shards.alone(i), i)
                tell(i + 1, len(shards))

        return in_pairs(results(), work.merge)


class Processes:
    """Shards side by side in processes on this machine, one thread each: the memory is that of `n` shards.

    Processes start anew rather than as a copy of this one: a script guards its main part with
    `if __name__ == "__main__":`. They end with `close`, or when this process ends.
    """

    def __init__(self, n: int) -> None:
        self.n = whole(n, "n", most=1024)
        self._pool: ProcessPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"Processes({self.n})"

    def map_merge(self, work: Pass, shards: Shards, tell: Tell) -> Any:
        """The merged result of a pass over all shards."""
        if self._pool is None:  # a copy of this process would inherit threads of BLAS, which may wait forever
            self._pool = ProcessPoolExecutor(self.n, get_context("spawn"))
        packed = pickle.dumps(work)
        waiting: deque[Future[Any]] = deque()
        try:
            return in_pairs(_in_order(self._pool, packed, shards, waiting, 2 * self.n, tell), work.merge)
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _in_order(
    pool: ProcessPoolExecutor, packed: bytes, shards: Shards, waiting: deque[Future[Any]], ahead: int, tell: Tell
) -> Iterator[Any]:
    """The result of each shard, by shard number; at most `ahead` shards are computed before they are merged."""
    for i in range(len(shards)):
        while len(waiting) < min(ahead, len(shards) - i):
            next_one = i + len(waiting)
            waiting.append(pool.submit(_unpacked, packed, shards.alone(next_one), next_one))
        yield waiting.popleft().result()
        tell(i + 1, len(shards))


def _unpacked(packed: bytes, shard: Shards, number: int) -> Any:
    """The result of one shard in another process, which unpacks the pass once."""
    if _UNPACKED.get("packed") != packed:
        _UNPACKED.update(packed=packed, work=pickle.loads(packed))
    return of_shard(_UNPACKED["work"], shard, number)


_UNPACKED: dict[str, Any] = {}
"""The pass that a process has unpacked last."""


def of_shard(work: Pass, shard: Shards, number: int) -> Any:
    """The merged result of one shard, which is the only one of `shard`; with one thread, so that bits are the same."""
    data = shard.load(0)
    with one_thread():
        return in_pairs((work.function(work.given, portion) for portion in portions(data, number)), work.merge)


def merged(merge: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Two results merged, either of which may be None."""
    return b if a is None else a if b is None else merge(a, b)


def portions(data: Trajectories, shard: int) -> Iterator[Portion]:
    """Adjacent recordings of a shard, as many at a time as have at most `PORTION` numbers."""
    most = max(1, PORTION // data.n_channels)
    first = 0
    while first < len(data):
        fits = int(np.searchsorted(data.offsets, data.offsets[first] + most, side="right")) - 1
        beyond = max(fits, first + 1)
        yield Portion(data if beyond - first == len(data) else data[first:beyond], shard, first)
        first = beyond


def in_pairs(results: Iterable[Result | None], merge: Callable[[Result, Result], Result]) -> Result | None:
    """Merge results in pairs, and the results of that in pairs, as they arrive; None contributes nothing.

    Only one result of each level is kept: of a thousand shards, ten.

    >>> in_pairs("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    kept: list[tuple[int, Result | None]] = []
    for result in results:
        level, current = 0, result
        while kept and kept[-1][0] == level:
            current = merged(merge, kept.pop()[1], current)
            level += 1
        kept.append((level, current))
    if not kept:
        return None
    last = kept.pop()[1]
    while kept:
        last = merged(merge, kept.pop()[1], last)
    return last


def pairs(n: int) -> list[tuple[int, int, int]]:
    """The merges of n results by level, as `in_pairs` makes them: level, place of the first, place of the second.

    >>> pairs(5)
    [(0, 0, 1), (0, 2, 3), (1, 0, 2), (2, 0, 4)]
    """
    merges: list[tuple[int, int, int]] = []
    places, level = list(range(n)), 0
    while len(places) > 1:
        merges += [(level, *couple) for couple in zip(places[::2], places[1::2], strict=False)]
        places, level = places[::2], level + 1
    return merges
