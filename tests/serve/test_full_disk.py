"""A disk that takes no more, rows that are written behind, and keys that are never given twice."""

from pathlib import Path
from typing import Any

import pytest

from serving import Serving, recordings, saved, serving

pytestmark = pytest.mark.usefixtures("unchecked")
X = recordings(22, 1, 600).values.tolist()
STRANGE = [[9.0, -8.0]]


def fill(server: Serving) -> None:
    """Let the disk be full."""
    store = server.engine.store.connection
    (pages,) = store.execute("PRAGMA page_count").fetchone()
    store.execute(f"PRAGMA max_page_count = {pages}")


def free(server: Serving) -> None:
    """Let the disk have room."""
    server.engine.store.connection.execute("PRAGMA max_page_count = 1000000")


def rows_of(server: Serving) -> dict[str, int]:
    return {s["id"]: s["rows"] for s in server.client.get("/v1/streams").json()["streams"]}


def test_rows_that_were_answered_are_written_once_there_is_room(tmp_path: Path) -> None:
    """Without durability: at most one group is behind, it waits for room, and all later ones are refused."""
    path = saved(tmp_path)
    with serving(path, durable=False) as server:
        server.post("s", X[:100])
        server.post("s", X[100:101])
        fill(server)
        n = 101
        for begin in range(101, 600, 100):
            answer = server.client.post("/v1/streams/s/rows", X[begin : begin + 100])
            if answer.status_code != 200:
                break
            n = begin + 100
        assert answer.status_code == 507, "the disk is full, and rows are taken"
        assert answer.json()["error"]["code"] == "disk_full"
        assert n <= 301
        for method, where, body in [
            ("POST", "/v1/streams/s/rows", X[:1]),
            ("POST", "/v1/streams/new/rows", X[:1]),
            ("PUT", "/v1/streams/new", None),
            ("DELETE", "/v1/streams/s", None),
        ]:
            assert server.client.ask(method, where, body).status_code == 507, (method, where)
        assert server.client.get("/v1/streams/new").status_code == 404
        assert server.client.get("/readyz").status_code == 503
        assert rows_of(server) == {"s": n}
        free(server)
        server.post("s", {"rows": X, "at": 0})
        assert server.client.get("/readyz").status_code == 200
    with serving(path, durable=False) as server:
        assert rows_of(server) == {"s": 600}
        assert server.client.get("/v1/streams/s/rows?last=600").json()["x"] == X


def test_a_stream_that_began_on_a_full_disk_is_not_lost_and_no_other_gets_its_rows(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with serving(path, durable=False) as server:
        server.post("first", X[:1])
        server.client.get("/v1/streams/first/rows")  # what is behind is written
        fill(server)
        taken = [id for id in "abcdef" if server.client.post(f"/v1/streams/{id}/rows", X[:200]).status_code == 200]
        assert len(taken) < 6
        free(server)
        for id in taken:
            server.post(id, X[200:203])
    with serving(path, durable=False) as server:
        assert rows_of(server) == {"first": 1} | dict.fromkeys(taken, 203)
        server.post("other", X[300:303])
        assert server.client.get("/v1/streams/other/rows").json()["x"] == X[300:303]
        for id in taken:
            assert server.client.get(f"/v1/streams/{id}/rows").json()["x"] == X[:203]


def test_what_never_found_room_is_told_at_the_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(saved(tmp_path), durable=False) as server:
        server.post("s", X[:1])
        server.client.get("/v1/streams/s/rows")
        fill(server)
        assert 507 in [server.client.post("/v1/streams/s/rows", X[:200]).status_code for _ in range(4)]
    assert '"event": "rows lost", "rows": 200' in capfd.readouterr().err


@pytest.mark.parametrize("durable", [True, False])
def test_a_server_is_not_ready_while_its_disk_is_full(tmp_path: Path, durable: bool) -> None:
    with serving(saved(tmp_path), durable=durable) as server:
        server.post("s", X[:1])
        fill(server)
        answers = [server.client.post("/v1/streams/s/rows", X[:200]).status_code for _ in range(4)]
        assert answers[-1] == 507
        assert server.client.get("/readyz").status_code == 503
        assert server.client.get("/healthz").status_code == 200
        free(server)
        server.post("s", X[:1])
        assert server.client.get("/readyz").status_code == 200


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_stream_has_nothing_of_one_that_was_removed(tmp_path: Path, restart: bool) -> None:
    """Its key is new, so that neither alarms nor rows of the removed stream are its own."""
    path = saved(tmp_path)

    def begun(server: Any) -> None:
        server.post("new", X[:2])
        assert server.client.get("/v1/streams/new/alarms").json()["alarms"] == []
        assert [alarm["id"] for alarm in server.client.get("/v1/alarms").json()["alarms"]] == ["old"]
        assert server.client.get("/v1/streams/new/rows").json()["x"] == X[:2]
        assert server.engine.streams.by_id["new"].key == 3

    with serving(path) as server:
        server.post("old", X[:20] + STRANGE)
        assert len(server.client.get("/v1/streams/old/alarms").json()["alarms"]) == 1
        server.client.put("/v1/streams/short")  # leaves nothing but its key
        for id in ("old", "short"):
            assert server.client.delete(f"/v1/streams/{id}").status_code == 204
        if not restart:
            begun(server)
    if restart:
        with serving(path) as server:
            begun(server)


def test_a_new_stream_at_the_place_of_a_removed_one_is_in_no_doubt(tmp_path: Path) -> None:
    """Its place in memory is used again, and a gap had left doubt there."""
    with serving(saved(tmp_path)) as server:
        server.post("old", [*X[:5], [None, None], [None, None]])
        place = server.engine.streams.by_id["old"].place
        server.client.delete("/v1/streams/old")
        new = [answer for row in X[:4] for answer in server.post("new", row)]
        assert server.engine.streams.by_id["new"].place == place
        other = [answer for row in X[:4] for answer in server.post("other", row)]
        assert new == other


def test_stores_of_earlier_versions_give_no_key_twice(tmp_path: Path) -> None:
    """They do not note the last key: rows and alarms that a stream has left tell it."""
    path = saved(tmp_path)
    with serving(path) as server:
        server.post("old", X[:20] + STRANGE)
        server.client.delete("/v1/streams/old")
        server.engine.store.connection.execute("DELETE FROM about WHERE name = 'last_key'")
    with serving(path) as server:
        server.post("new", X[:2])
        assert server.client.get("/v1/streams/new/alarms").json()["alarms"] == []
