"""What was acknowledged lasts: over restarts, kill -9, full disks and newer models."""

import asyncio
import json
import os
import random
import shutil
import signal
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import numpy as safetensors

from modelfiles import situated
from psimlearn import PSIM
from psimlearn.errors import DataError
from psimlearn.filter.step import State
from psimlearn.serve.bank import new_kept
from psimlearn.serve.engine import Retention
from psimlearn.serve.limits import Limits
from psimlearn.serve.snapshot import kept_from, kept_to_bytes
from psimlearn.serve.streams import SNAPSHOT
from serving import Client, Process, Serving, recordings, saved, served, serving, until

pytestmark = pytest.mark.usefixtures("unchecked")
KILLS = int(os.environ.get("PSIMLEARN_KILLS", "6"))


def state_of(server: Serving, id: str) -> State:
    """The memory of a stream."""
    streams = server.engine.streams
    return streams.bank.get(np.array([streams.by_id[id].place])).memory.state


def equal(a: State, b: State, close: float = 1e-12) -> None:
    for mine, theirs in zip(a[:5], b[:5], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=close, atol=close)
    assert (a.doubt is None) == (b.doubt is None)
    if a.doubt is not None and b.doubt is not None:
        np.testing.assert_allclose(a.doubt.spread @ a.doubt.spread.mT, b.doubt.spread @ b.doubt.spread.mT, atol=close)


def rows_of(seed: int, n: int) -> list[list[float | None]]:
    x = recordings(seed, 1, n).values.tolist()
    return [[None if (i + seed) % 13 == 0 else a, b] for i, (a, b) in enumerate(x)]


@pytest.mark.parametrize("in_order", [True, False], ids=["stopped", "killed"])
def test_streams_go_on_where_they_were(tmp_path: Path, in_order: bool) -> None:
    path, rows = saved(tmp_path), rows_of(1, SNAPSHOT + 350)
    with serving(path, store="whole.store") as server:
        server.post("s", rows)
        whole, last = state_of(server, "s"), server.client.get("/v1/streams/s").json()
    with serving(path) as server:
        for part in np.array_split(np.array(rows, dtype=object), 8)[:6]:
            server.post("s", part.tolist())
        n = server.client.get("/v1/streams/s").json()["rows"]
        if not in_order:  # the files as a power cut would leave them
            shutil.copy(path.with_name("rows.store"), path.with_name("cut.store"))
            shutil.copy(path.with_name("rows.store-wal"), path.with_name("cut.store-wal"))
    with serving(path, store="rows.store" if in_order else "cut.store") as server:
        assert server.client.get("/v1/streams/s").json()["rows"] == n
        server.post("s", {"rows": rows, "at": 0})
        equal(state_of(server, "s"), whole)
        again = server.client.get("/v1/streams/s").json()
        assert again["rows"] == last["rows"]
        assert again["log_likelihood"] == pytest.approx(last["log_likelihood"], abs=1e-12)


class Sender(threading.Thread):
    """Sends rows of one stream until the server is gone, and remembers which were acknowledged."""

    def __init__(self, id: str, port: int, rows: list[Any], first: int) -> None:
        super().__init__()
        self.id, self.port, self.rows, self.n_known = id, port, rows, first

    def run(self) -> None:
        client, rng = Client(self.port), random.Random(self.n_known)
        try:
            while self.n_known < len(self.rows):
                n = rng.choice([1, 1, 1, 20])
                body = {"rows": self.rows[self.n_known : self.n_known + n], "at": self.n_known}
                answer = client.post(f"/v1/streams/{self.id}/rows", body)
                assert answer.status_code == 200, answer.text
                self.n_known += len(answer.json()["rows"])
        except (OSError, HTTPException):
            pass
        finally:
            client.close()


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """Killed at random moments under load; then states equal those of a server that was never interrupted."""
    path, chance = saved(tmp_path), random.Random(5)
    rows = {f"s{i}": rows_of(i, 4000) for i in range(4)}
    known = dict.fromkeys(rows, 0)
    n_cut = 0
    for _ in range(KILLS):
        process = Process(path, "--store", tmp_path / "rows.store")
        try:
            found = {s["id"]: s["rows"] for s in process.get("/v1/streams")["streams"]}
            for id, n in known.items():
                assert found.get(id, 0) >= n, "an acknowledged row was lost"
            n_cut += sum(found.get(id, 0) > n for id, n in known.items())
            senders = [Sender(id, process.port, rows[id], found.get(id, 0)) for id in rows]
            for sender in senders:
                sender.start()
            time.sleep(chance.uniform(0.02, 0.25))
        finally:
            process.kill()
        for sender in senders:
            sender.join()
            known[sender.id] = sender.n_known
    assert all(known.values())
    with serving(path) as server:
        counts = {s["id"]: s["rows"] for s in server.client.get("/v1/streams").json()["streams"]}
        states = {id: state_of(server, id) for id in rows}
    with serving(path, store="whole.store") as server:
        for id, n in counts.items():
            assert n >= known[id]
            server.post(id, rows[id][:n])
            equal(states[id], state_of(server, id))


def test_a_full_disk_refuses_rows_and_recovers(tmp_path: Path) -> None:
    rows = rows_of(2, 400)
    with serving(saved(tmp_path)) as server:
        server.post("s", rows[:100])
        store = server.engine.store.connection
        before = state_of(server, "s")
        (pages,) = store.execute("PRAGMA page_count").fetchone()
        store.execute(f"PRAGMA max_page_count = {pages}")
        refused = server.client.post("/v1/streams/s/rows", rows[100:])
        assert refused.status_code == 507
        assert refused.json()["error"]["code"] == "disk_full"
        assert server.client.post("/v1/streams/new/rows", rows).status_code == 507
        assert server.client.get("/v1/streams/new").status_code == 404
        equal(state_of(server, "s"), before, 0.0)
        assert server.client.get("/v1/streams/s/forecast?steps=2").status_code == 200
        store.execute("PRAGMA max_page_count = 1000000")
        server.post("s", {"rows": rows, "at": 0})
        after = state_of(server, "s")
    with serving(tmp_path / "model.psim", store="whole.store") as server:
        server.post("s", rows)
        equal(after, state_of(server, "s"))


def test_a_newer_model_goes_on_from_the_last_rows(tmp_path: Path) -> None:
    path, rows = saved(tmp_path), rows_of(3, 120)
    with serving(path) as server:
        server.post("s", rows[:100])
        PSIM(window=3, lags=1, prior="mean", belief_weight=1.0, n_rounds=2, random_state=1).fit(recordings(7)).save(
            path
        )
        told = server.client.post("/v1/model/reload")
        assert (told.status_code, told.json()["rows_replayed"], told.json()["window"]) == (200, 100, 3)
        server.post("s", rows[100:])
        assert server.client.get("/v1/streams/s").json()["rows"] == 120
        newer = state_of(server, "s")
    with serving(path, store="whole.store") as server:
        server.post("s", rows)
        equal(newer, state_of(server, "s"))
        other = recordings(7)
        one = PSIM(window=2, lags=1, prior="mean", belief_weight=1.0, n_rounds=1, random_state=1)
        one.fit(other.values[:, 0].reshape(8, 60, 1)).save(path)
        refused = server.client.post("/v1/model/reload")
        assert refused.status_code == 409
        assert "The old model goes on" in refused.json()["error"]["message"]
        server.post("s", rows[:1])


def test_a_signal_reads_the_model_again(tmp_path: Path) -> None:
    path = saved(tmp_path)
    process = Process(path)
    try:
        client = Client(process.port)
        assert client.post("/v1/streams/s/rows", rows_of(3, 40)).status_code == 200
        client.close()
        PSIM(window=3, lags=1, prior="mean", belief_weight=1.0, n_rounds=1, random_state=1).fit(recordings(7)).save(
            path
        )
        process.process.send_signal(signal.SIGHUP)
        until(lambda: process.get("/v1/model")["window"] == 3, 30)
        assert process.get("/v1/streams/s")["rows"] == 40
    finally:
        assert process.stop() == 0
    assert any(json.loads(line).get("event") == "reloaded" for line in process.lines if line.startswith("{"))


def test_old_rows_are_removed_but_none_that_a_state_needs(tmp_path: Path) -> None:
    path, rows = saved(tmp_path), recordings(4, 1, 300).values.tolist()
    with serving(path, retention=Retention(age=0.0)) as server:
        server.post("s", rows)
        server.engine.store.shrink(time.time() + 1)
        assert len(server.client.get("/v1/streams/s/rows").json()["x"]) == 300, "no state was stored yet"
        _sweep(server)
        assert server.client.get("/v1/streams/s/rows").json()["x"] == []
        state = state_of(server, "s")
    with serving(path) as server:
        equal(state_of(server, "s"), state, 0.0)
        assert server.client.get("/v1/streams/s").json()["rows"] == 300
    with serving(path, retention=Retention(size=200_000), store="small.store") as server:
        for _ in range(40):
            server.post("s", rows)
            _sweep(server)
            assert server.engine.store.size() < 250_000
        assert len(server.client.get("/v1/streams/s/rows").json()["x"]) > 0


def _sweep(server: Serving) -> None:
    loop = server.engine._tasks[0].get_loop()
    asyncio.run_coroutine_threadsafe(server.engine.sweep(), loop).result(20)


def test_without_durability_rows_are_written_behind(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with serving(path, durable=False) as server:
        server.post("s", rows_of(1, 50))
    with serving(path) as server:
        assert server.client.get("/v1/streams/s").json()["rows"] == 50


def test_deleted_streams_are_gone(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with serving(path, Limits(streams=2)) as server:
        assert server.client.put("/v1/streams/a").status_code == 201
        assert server.client.put("/v1/streams/a").status_code == 200
        server.post("b", rows_of(1, 5))
        full = server.client.put("/v1/streams/c")
        assert full.status_code == 429
        assert server.client.post("/v1/streams/c/rows", [1, 2]).status_code == 429
        assert server.client.delete("/v1/streams/b").status_code == 204
        assert server.client.get("/v1/streams/b").status_code == 404
        server.post("c", rows_of(2, 3))
    with serving(path) as server:
        found = json.loads(server.client.get("/v1/streams").text)["streams"]
        assert [(s["id"], s["rows"], s["state"]) for s in found] == [("a", 0, "new"), ("c", 3, "normal")]


def test_streams_kept_by_earlier_versions_go_on(tmp_path: Path) -> None:
    """They have no unrest, and need none; a model whose intervals follow the situation refuses them."""
    found = served(saved(tmp_path))
    kept = new_kept(found, 1)
    arrays = safetensors.load(kept_to_bytes(kept))
    assert arrays.pop("unrest").shape == (1, 0)
    equal(kept_from(safetensors.save(arrays), found).memory.state, kept.memory.state)
    follows = found._replace(filter=situated(found.filter))
    with pytest.raises(DataError, match="required unrest of shape"):
        kept_from(safetensors.save(arrays), follows)
    again = kept_from(kept_to_bytes(new_kept(follows, 1)), follows).memory.state
    assert again.unrest is not None
    np.testing.assert_array_equal(again.unrest, np.ones((1, 2)))
