"""Stores that a disk has damaged: the server starts with what is whole, and its log names what is not."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import numpy as safetensors

from psimlearn import PSIM, Trajectories
from psimlearn.serve.limits import Limits
from serving import Serving, recordings, saved, serving

pytestmark = pytest.mark.usefixtures("unchecked")
X = recordings(23, 1, 60).values.tolist()


def forecast(server: Serving, id: str) -> Any:
    return server.client.get(f"/v1/streams/{id}/forecast?steps=2").json()


def close(a: Any, b: Any, rtol: float = 1e-12) -> None:
    """The same forecasts, but for rounding: streams are replayed together, in other products."""
    assert a["rows"] == b["rows"]
    for bound in ("mean", "low", "high"):
        np.testing.assert_allclose(a[bound], b[bound], rtol=rtol, atol=rtol)


def logged(text: str, event: str) -> list[Any]:
    """The lines of the log that tell of an event."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def damage(path: Path, *statements: str) -> None:
    with sqlite3.connect(path.with_name("rows.store")) as store:
        for statement in statements:
            assert store.execute(statement).rowcount > 0
    store.close()


def begun(path: Path, **settings: Any) -> dict[str, Any]:
    """The forecasts of two streams of 30 rows, sent in three requests each, whose states are not stored."""
    with serving(path, step="1s", **settings) as server:
        for begin in (0, 10, 20):
            for id in ("bad", "good"):
                server.post(id, {"rows": X[begin : begin + 10], "times": [float(t) for t in range(begin, begin + 10)]})
        found = {id: forecast(server, id) for id in ("bad", "good")}
        server.engine.store.connection.execute("PRAGMA wal_checkpoint")
    damage(path, "DELETE FROM states")
    return found


@pytest.mark.parametrize("missing", [False, True])
def test_a_waiting_row_without_a_channel_is_kept_over_a_restart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], missing: bool
) -> None:
    """With feed-through the last row waits in the state, with its gaps; a running alarm goes on."""
    rng = np.random.default_rng(1)
    u = rng.standard_normal((8, 40, 1))
    drift = np.cumsum(u, axis=1) * 0.1
    x = np.concatenate([drift, -drift], axis=2) + 0.05 * rng.standard_normal((8, 40, 2))
    settings: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 2, "random_state": 0}
    path = tmp_path / "model.psim"
    data = Trajectories.of(list(x), inputs=list(u), names=("a", "b"))
    PSIM(window=2, feedthrough=True, **settings).fit(data).save(path)
    rows = np.concatenate([x[0], u[0]], axis=1)[:20].tolist()
    rows[-1][:2] = [9.0, None] if missing else [9.0, -9.0]
    with serving(path) as server:
        (*_, last) = server.post("s", rows)
        assert last["alarm"] == 1
        before, facts = forecast(server, "s"), server.client.get("/v1/streams/s").json()
    with serving(path) as server:
        assert forecast(server, "s") == before
        again = server.client.get("/v1/streams/s").json()
        assert [again[key] for key in ("rows", "alarm", "state")] == [facts[key] for key in ("rows", "alarm", "state")]
        assert server.client.get("/v1/alarms").json()["alarms"][0]["ended"] is None
    assert "refused" not in capfd.readouterr().err


@pytest.mark.parametrize("how", ["bytes", "shape", "infinite", "huge", "times"])
def test_a_damaged_state_is_rebuilt_from_rows_and_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    path = saved(tmp_path)
    with serving(path) as server:
        for id in ("bad", "good"):
            server.post(id, {"rows": X[:30], "times": [float(t) for t in range(30)]})
        before = {id: forecast(server, id) for id in ("bad", "good")}
    with sqlite3.connect(path.with_name("rows.store")) as store:
        ((state,),) = store.execute("SELECT state FROM states WHERE stream = 1")
        arrays = safetensors.load(state)
        if how == "shape":
            arrays["belief"] = arrays["belief"][:, :1]
        if how == "infinite":
            arrays["recent"][0, 0, 0] = np.nan
        if how == "huge":  # as versions that took any finite row left it
            arrays["belief"][:] = 1e300
        state = state[: len(state) // 2] if how == "bytes" else safetensors.save(arrays)
        times = ", times = '{\"last\": 3'" if how == "times" else ""
        store.execute(f"UPDATE states SET state = ? {times} WHERE stream = 1", (state,))
    store.close()
    with serving(path) as server:
        after = {id: forecast(server, id) for id in ("bad", "good")}
        close(after["bad"], before["bad"])
        assert after["good"] == before["good"]
        assert server.client.get("/v1/streams/bad").json()["rows"] == 30
        assert "ignored" in server.post("bad", {"rows": X[:1], "times": [29.0]})[0]
        assert "ignored" not in server.post("bad", {"rows": X[:1], "times": [30.0]})[0]
    (line,) = logged(capfd.readouterr().err, "state refused: rebuilt from the last rows")
    assert line["stream"] == "bad"


@pytest.mark.parametrize("part", ["numbers", "arrivals", "answers", "written", "times"])
def test_damaged_rows_count_as_not_observed_and_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], part: str
) -> None:
    path = saved(tmp_path)
    before = begun(path)
    value = "'[1,'" if part in ("written", "times") else "x'00ff'"
    damage(path, f"UPDATE rows SET {part} = {value} WHERE stream = 1 AND first = 10")
    with serving(path, step="1s") as server:
        close(forecast(server, "good"), before["good"])
        told = server.client.get("/v1/streams/bad/rows").json()
        assert len(told["x"]) == len(told["expected"]) == len(told["times"]) == 30
        assert told["x"][:10] + told["x"][20:] == X[:10] + X[20:30]
        assert told["x"][10:20] == ([[None, None]] * 10 if part == "numbers" else X[10:20])
        assert server.client.get("/v1/streams/bad").json()["rows"] == 30
        empty = [[None, None]] * 10 if part == "numbers" else X[10:20]
        server.post("alike", X[:10] + empty + X[20:30])
        close(forecast(server, "bad"), forecast(server, "alike"))
        assert "ignored" not in server.post("bad", {"rows": X[30:31], "times": [30.0]})[0]
    (line,) = logged(capfd.readouterr().err, "damaged rows")
    assert (line["stream"], line["first"], line["rows"]) == ("bad", 10, 10)
    assert part in line["parts"]


def test_inputs_of_damaged_rows_are_those_of_the_row_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    u = rng.standard_normal((8, 40, 1))
    x = np.cumsum(u, axis=1) * 0.1 + 0.05 * rng.standard_normal((8, 40, 1))
    path = tmp_path / "model.psim"
    settings: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 1, "random_state": 0}
    PSIM(window=2, **settings).fit(Trajectories.of(list(x), inputs=list(u), names=("x",))).save(path)
    rows = np.concatenate([x[0], u[0]], axis=1).tolist()
    with serving(path) as server:
        for begin in (0, 10, 20):
            server.post("bad", rows[begin : begin + 10])
    damage(path, "DELETE FROM states", "UPDATE rows SET numbers = x'' WHERE first = 10")
    with serving(path) as server:
        held = rows[:10] + [[None, rows[9][1]]] * 10 + rows[20:30]
        server.post("alike", held)
        close(forecast(server, "bad"), forecast(server, "alike"))


def test_a_stream_whose_rows_cannot_be_computed_with_begins_anew(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path)
    before = begun(path)
    huge = np.full((10, 2), 8e307).tobytes().hex()
    damage(path, f"UPDATE rows SET numbers = x'{huge}' WHERE stream = 1 AND first = 10")
    with serving(path, step="1s") as server:
        close(forecast(server, "good"), before["good"])
        server.post("bad", {"rows": X[:5], "times": [float(t) for t in range(30, 35)]})
        server.post("fresh", X[:5])
        np.testing.assert_allclose(forecast(server, "bad")["mean"], forecast(server, "fresh")["mean"], rtol=1e-12)
        assert server.client.get("/v1/streams/bad").json()["rows"] == 35
    (line,) = logged(capfd.readouterr().err, "stream begins anew")
    assert line["stream"] == "bad"


def test_more_streams_than_the_limit_are_all_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path)
    ids = [f"s{i}" for i in range(5)]
    with serving(path) as server:
        server.client.post("/v1/rows", {"ids": ids, "rows": X[:5]})
    with serving(path, Limits(streams=3)) as server:
        assert [s["id"] for s in server.client.get("/v1/streams").json()["streams"]] == ids
        server.post("s4", X[:1])
        assert server.client.put("/v1/streams/new").status_code == 429
    (line,) = logged(capfd.readouterr().err, "more streams than --max-streams")
    assert (line["streams"], line["most"]) == (5, 3)


def test_a_file_that_cannot_be_read_stops_the_start_in_words(tmp_path: Path) -> None:
    """The page that leads to all rows is gone: nobody knows what is whole, so nothing is written over it."""
    path = saved(tmp_path)
    with serving(path) as server:
        for _ in range(20):
            server.post("s", X)
    store = path.with_name("rows.store")
    with sqlite3.connect(store) as connection:
        ((page, size),) = connection.execute(
            "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = 'rows_of_stream'"
        )
    connection.close()
    data = bytearray(store.read_bytes())
    data[(page - 1) * size : page * size] = b"\xa5" * size
    store.write_bytes(data)
    command = [sys.executable, "-m", "psimlearn", "serve", str(path), "--store", str(store), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("psimlearn: ")
    assert "malformed" in last
    assert "Traceback" not in done.stdout + done.stderr


def test_a_huge_row_is_refused_and_its_stream_lives(tmp_path: Path) -> None:
    """A row that could be taken, but after which no other could, is refused."""
    with serving(saved(tmp_path)) as server:
        server.post("s", X[:5])
        before = forecast(server, "s")
        for huge in (8e307, -8e307, 1e200):
            refused = server.client.post("/v1/streams/s/rows", [[huge, 0.1]])
            assert refused.status_code == 422
            assert "Check their units" in refused.json()["error"]["message"]
        assert forecast(server, "s") == before
        assert server.post("s", [[1e30, 0.1]])[0]["alarm"] == 1
        assert len(server.post("s", X[5:60])) == 55
