"""Passes over shards on a Dask cluster.

Each worker loads its shards itself, sums travel and recordings do not. Tasks are pure and the tree of merges is fixed
by shard number, so the result has the same bits as one process gives, also if workers die or join in the middle: Dask
computes lost results again. Dask's dashboard shows the pass, the shard and the level of each task.
"""

import pickle
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any
from uuid import uuid4

from psimlearn.errors import PsimlearnError
from psimlearn.extras import imported
from psimlearn.recordings.passes import Pass, Tell, merged, of_shard, pairs
from psimlearn.recordings.shards import Shards

__all__ = ["Dask"]


class Dask:
    """Shards on the workers of a Dask cluster.

    Args:
        client: a `distributed.Client`, or the address of a scheduler such as "tcp://10.0.0.5:8786". Workers need
            psimlearn, the libraries that read the shards, and the files of the shards at the same paths.
    """

    def __init__(self, client: Any) -> None:
        distributed = imported("distributed", "cluster")
        self.client = distributed.Client(client) if isinstance(client, str) else client

    def __repr__(self) -> str:
        return f"Dask({self.client!r})"

    def map_merge(self, work: Pass, shards: Shards, tell: Tell) -> Any:
        """The merged result of a pass over all shards."""
        lost = (CancelledError, imported("distributed", "cluster").KilledWorker, OSError)
        try:
            return self._computed(work, shards, tell)
        except lost as error:
            raise PsimlearnError(
                f"the cluster was lost during the pass {work.name!r}: {type(error).__name__}: {error}. Check the "
                "scheduler, the workers and their memory, and fit again."
            ) from error

    def _computed(self, work: Pass, shards: Shards, tell: Tell) -> Any:
        client, name, token = self.client, work.name.replace(" ", "_"), uuid4().hex[:8]
        # a task rather than scattered data: if its worker dies, Dask can compute it again
        given = client.submit(_given, pickle.dumps(work), key=f"given_to_{name}-{token}")
        results = [
            client.submit(_of_shard, given, shards.alone(i), i, key=f"{name}-{i}-{token}") for i in range(len(shards))
        ]
        parts = list(results)
        for level, a, b in pairs(len(parts)):
            key = f"merge_{name}-{level}-{a}-{token}"
            parts[a] = client.submit(_merged, work.merge, parts[a], parts[b], key=key)
        try:
            _told(results, tell)
            return parts[0].result()
        except BaseException:  # also Ctrl-C: the workers are to stop, too
            with suppress(CancelledError, OSError):
                client.cancel([given, *results, *parts])
            raise


def _told(results: list[Any], tell: Tell) -> None:
    """Tell how many shards are done, until all are; the first error ends it."""
    as_completed: Callable[..., Any] = imported("distributed", "cluster").as_completed
    for done, future in enumerate(as_completed(results), 1):
        if future.status != "finished":
            future.result()  # raises
        tell(done, len(results))


def _given(packed: bytes) -> Pass:
    work: Pass = pickle.loads(packed)
    return work


def _of_shard(work: Pass, shard: Shards, number: int) -> Any:
    return of_shard(work, shard, number)


def _merged(merge: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    return merged(merge, a, b)
