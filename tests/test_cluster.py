"""A Dask cluster of separate processes: the same bits as in one process, also if a worker dies in the middle.

Clients that lose their connection live in processes of their own, `python test_cluster.py`: a client that tries to
reconnect cannot be closed, and would leave its threads and sockets to the tests that follow.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Shards, Trajectories
from psimlearn.choose.watch import Stage, Watch
from psimlearn.cluster import Dask
from psimlearn.errors import DataError, PsimlearnError
from psimlearn.learners import RandomFourierRidge
from psimlearn.recordings.passes import Engine, InTurn, Processes
from psimlearn.train import Recipe

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
N_SHARDS = 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine files of recordings of a noisy turn."""
    made, rng = tmp_path_factory.mktemp("shards"), np.random.default_rng(0)
    for number in range(N_SHARDS):
        phase = rng.uniform(0, 6, (6, 1)) + 0.3 * np.arange(30)
        x = np.stack([np.sin(phase), np.cos(phase)], axis=2) + 0.1 * rng.standard_normal((6, 30, 2))
        np.savez(made / f"part{number}.npz", **{f"walk{number}-{i}": rows for i, rows in enumerate(x)})
    return made


def learnt(folder: Path, engine: Engine, watch: Watch = Watch(), checkpoint: Path | None = None) -> Any:
    learner = RandomFourierRidge(30, 1e-3)
    model = PSIM(3, learner=learner, recipe=Recipe(lags=2), n_rounds=3, random_state=0, verbose=watch)
    return model.fit(Shards.from_files(folder), engine=engine, sample_rows=400, checkpoint=checkpoint)


def bits(model: Any) -> bytes:
    """The learnt numbers, to the last bit."""
    filter, regressor = model.filter_, model.filter_.regressors[0]
    arrays = (regressor.directions, regressor.linear.weights, regressor.linear.intercept, filter.initial)
    scaling = (*filter.scaling, filter.covariance, filter.calibration.quantiles)
    return b"".join(np.asarray(array).tobytes() for array in (*arrays, *scaling))


@pytest.fixture(scope="module")
def alone(folder: Path) -> bytes:
    return bits(learnt(folder, InTurn()))


def started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """A scheduler or a worker in a process of its own."""
    command = [sys.executable, "-m", "distributed.cli." + words[0], "--scheduler-file", str(folder / "scheduler.json")]
    null = subprocess.DEVNULL
    return subprocess.Popen([*command, *words[1:]], cwd=folder, stdout=null, stderr=null)


def worker(folder: Path) -> subprocess.Popen[bytes]:
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")
    return started(folder, "dask_worker", *options)


@contextmanager
def running(home: Path, n_workers: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes of a scheduler and its workers; the test may kill some and add others."""
    processes = [started(home, "dask_scheduler", "--port", "0", "--no-dashboard", "--no-show")]
    processes += [worker(home) for _ in range(n_workers)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def client_of(home: Path, n_workers: int) -> Any:
    client = distributed.Client(scheduler_file=str(home / "scheduler.json"), timeout=60)
    client.wait_for_workers(n_workers, timeout=60)
    return client


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, list[subprocess.Popen[bytes]], Path]]:
    """A client of a scheduler with three workers, and their processes."""
    home = tmp_path_factory.mktemp("cluster")
    with running(home, 3) as processes, client_of(home, 3) as client:
        yield client, processes, home


class Disaster(Watch):
    """Does harm once, in the middle of the first round of training."""

    trains = done = False
    rounds = 0

    def __init__(self, harm: Callable[[], Any]) -> None:
        self.harm = harm

    def __call__(self, message: str) -> None:
        self.trains = "shards with the settings chosen" in message

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        if stage == "shards" and self.rounds == 1 and done == 2 and not self.done:
            self.done = True
            self.harm()
        self.rounds += self.trains and stage == "training"
        return True


def test_engines_give_the_same_bits(folder: Path, alone: bytes, cluster: Any) -> None:
    assert bits(learnt(folder, Dask(cluster[0]))) == alone
    with Processes(2) as engine:
        assert bits(learnt(folder, engine)) == alone


@pytest.mark.parametrize("n_workers", [1, 2])
def test_fewer_workers_give_the_same_bits(folder: Path, alone: bytes, tmp_path: Path, n_workers: int) -> None:
    with running(tmp_path, n_workers), client_of(tmp_path, n_workers) as client:
        assert len(client.scheduler_info()["workers"]) == n_workers
        assert bits(learnt(folder, Dask(client))) == alone


def test_a_bad_shard_is_named(folder: Path, tmp_path: Path, cluster: Any) -> None:
    np.savez(tmp_path / "other.npz", one=np.zeros((30, 5)))
    files = [*sorted(folder.iterdir()), tmp_path / "other.npz"]
    with pytest.raises(DataError, match=r"shard 9 \(.*other.npz\): required the columns .* 2 channels, received 5"):
        PSIM(3).fit(Shards.from_files(files), engine=Dask(cluster[0]))
    (tmp_path / "broken.npz").write_bytes((folder / "part0.npz").read_bytes()[:-200])
    with pytest.raises(DataError, match=r"shard 9 \(.*broken.npz\)"):
        PSIM(3).fit(Shards.from_files([*files[:-1], tmp_path / "broken.npz"]), engine=Dask(cluster[0]))


def test_recordings_in_memory_can_be_sent() -> None:
    """Shards without files travel with their tasks."""
    data = Trajectories.of(np.random.default_rng(0).standard_normal((12, 20, 2)))
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        shards = Shards.cut(data, 5)
        model = PSIM(2, lags=1, prior="mean", n_rounds=1, random_state=0)
        one = model.fit(shards, engine=Dask(client), sample_rows=100).predict(data)
        other = model.fit(shards, sample_rows=100).predict(data)
        np.testing.assert_array_equal(one, other)


def test_a_worker_dies_and_another_joins(folder: Path, alone: bytes, cluster: Any) -> None:
    client, processes, home = cluster

    def replaced() -> None:
        os.kill(processes[1].pid, signal.SIGKILL)
        processes.append(worker(home))

    watch = Disaster(replaced)
    assert bits(learnt(folder, Dask(client), watch)) == alone
    assert watch.done
    assert processes[1].wait(10) == -signal.SIGKILL


def test_after_a_dropped_connection_a_fit_goes_on_or_can_go_on(
    folder: Path, alone: bytes, tmp_path: Path, cluster: Any
) -> None:
    client, _, home = cluster
    words, found = learnt_elsewhere(folder, home, tmp_path / "kept")
    if words:
        assert "the cluster was lost during the pass 'round'" in words
        found = bits(learnt(folder, Dask(client), Watch(), tmp_path / "kept"))
    assert found == alone


def test_a_lost_scheduler_is_an_error_in_words_and_the_fit_can_go_on(
    folder: Path, alone: bytes, tmp_path: Path
) -> None:
    with running(tmp_path, 2) as processes:
        words, _ = learnt_elsewhere(folder, tmp_path, tmp_path / "kept", processes[0].pid)
        assert processes[0].wait(10) == -signal.SIGKILL
    assert "the cluster was lost during the pass 'round'" in words
    watch = Disaster(lambda: None)
    assert bits(learnt(folder, InTurn(), watch, tmp_path / "kept")) == alone
    assert watch.rounds


def learnt_elsewhere(folder: Path, home: Path, kept: Path, *scheduler: int) -> tuple[str, bytes]:
    """The error in words and the bits learnt by a process whose connection, or whose scheduler, is lost meanwhile."""
    command = [sys.executable, __file__, *map(str, (folder, home, kept, *scheduler))]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["harmed"]
    return told["words"], bytes.fromhex(told["bits"])


def unlucky(folder: str, home: str, kept: str, *scheduler: str) -> None:
    """Fit on a cluster, lose it in the middle, and print the outcome."""
    client = client_of(Path(home), 2)

    async def dropped() -> None:
        client.scheduler_comm.comm.abort()

    def harm() -> None:
        if scheduler:
            os.kill(int(scheduler[0]), signal.SIGKILL)
        else:
            client.sync(dropped)

    watch, words, found = Disaster(harm), "", b""
    try:
        found = bits(learnt(Path(folder), Dask(client), watch, Path(kept)))
    except PsimlearnError as error:
        words = str(error)
    print(json.dumps({"harmed": watch.done, "words": words, "bits": found.hex()}), flush=True)
    os._exit(0)  # without closing the client, which may still try to reconnect


if __name__ == "__main__":
    unlucky(*sys.argv[1:])
