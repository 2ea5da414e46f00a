"""Safety: who may come in, what is too much, and what is refused in words."""

import json
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from psimlearn.serve import streams
from psimlearn.serve.limits import Limits
from psimlearn.serve.tokens import Tokens
from serving import Client, Process, recordings, saved, serving, until

pytestmark = pytest.mark.usefixtures("unchecked")
READ, WRITE = "r" * 20, "w" * 20


def refused(answer: Any, status: int, words: str) -> None:
    """Every error has one shape."""
    assert answer.status_code == status, answer.text
    error = answer.json()
    assert set(error) == {"error"}
    assert set(error["error"]) == {"status", "code", "message"}
    assert error["error"]["status"] == status
    assert words in error["error"]["message"]


def test_tokens_say_who_may_read_and_write(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(saved(tmp_path), tokens=Tokens(READ, WRITE)) as server:
        clients = {
            who: Client(server.port, token) for who, token in [("r", READ), ("w", WRITE), ("x", "z" * 20), ("-", None)]
        }
        seen = {
            who: (c.get("/v1/streams").status_code, c.post("/v1/streams/a/rows", [1, 2]).status_code)
            for who, c in clients.items()
        }
        assert seen == {"r": (200, 401), "w": (200, 200), "x": (401, 401), "-": (401, 401)}
        refused(clients["-"].get("/metrics"), 401, "read token")
        assert clients["-"].get("/healthz").status_code == clients["-"].get("/").status_code == 200
        for client in clients.values():
            client.close()
    out = capfd.readouterr()
    assert READ not in out.out + out.err
    assert WRITE not in out.out + out.err


def test_other_machines_need_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("serve", saved(tmp_path), "--host", "0.0.0.0", "--port", "0") == 2
    assert "required a read token and a write token" in capsys.readouterr().err
    (tmp_path / "short").write_text("abc")
    assert run("serve", tmp_path / "model.psim", "--read-token-file", tmp_path / "short") == 2
    assert "at least 16" in capsys.readouterr().err


def test_bodies_that_are_refused(tmp_path: Path) -> None:
    with serving(saved(tmp_path), Limits(rows=5, body=2000)) as server:
        rows = "/v1/streams/a/rows"
        ask = server.client.post
        for body, words in [
            (b"{", "required JSON"),
            (b"\xff\xfe", "required JSON"),
            (b"[" * 1900, "required JSON"),
            (b"[[1e400, 2]]", "required JSON"),
            (b"3", "required a row"),
            (b"[]", "required a row"),
            (b'{"c": 1}', "at least one of the channels"),
            (b"[1]", "lists of 2 cells"),
            (b'{"rows": [[1, 2]], "time": [1]}', "only the names"),
            (b'{"rows": [[1, 2]], "times": [1, 2]}', "one for each row"),
            (b'{"rows": [[1, 2]], "at": -1}', "number of rows"),
            (json.dumps([[1, 2]] * 6).encode(), "1 to 5 rows"),
        ]:
            refused(ask(rows, body), 400, words)
        refused(ask(rows, b" " * 3000), 413, "at most 2000 bytes")
        refused(ask(rows + "?horizons=0", [1, 2]), 400, "horizons")
        refused(ask(rows + "?horizons=1,9999", [1, 2]), 400, "horizons")
        refused(ask("/v1/rows", {"rows": [[1, 2]]}), 400, "id")
        refused(server.client.get("/v1/streams?limit=x"), 400, "whole number")
        refused(server.client.get("/v1/streams/none"), 404, "'none'")
        refused(server.client.get("/nothing"), 404, "address")
        refused(server.client.ask("PATCH", "/v1/streams"), 405, "method")
        for id in ["..", "%2e%2e%2fetc", "a%00b", "a%20b", "%3Cscript%3E", "x" * 129, "%C3%A9"]:
            answer = ask(f"/v1/streams/{id}/rows", [1, 2])
            assert answer.status_code in (400, 404), (id, answer.text)
        assert server.client.get("/page/../app.py").status_code == 404
        assert server.client.get("/page/%2e%2e/app.py").status_code == 404
        assert server.client.get("/v1/streams").json()["n"] == 0, "a refused request has left a stream"
        notes = [row.get("note", "") for row in server.post("b", [["x", 1], [None, "y"]])]
        assert all("Taken as not observed" in note for note in notes)


def test_headers_keep_other_sites_out(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        page = server.client.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        refused(server.client.get("/v1/streams", host="evil.example"), 421, "name of this server")
        refused(server.client.post("/v1/streams/a/rows", [1, 2], origin="http://evil.example"), 403, "another site")
        assert server.client.get("/v1/streams", origin="http://localhost").status_code == 200


def test_clients_have_a_rate(tmp_path: Path) -> None:
    with serving(saved(tmp_path), Limits(rate=5.0)) as server:
        codes = [server.client.get("/healthz").status_code for _ in range(20)]
        assert codes[:10] == [200] * 10
        assert 429 in codes


def test_slow_clients_do_not_stay(tmp_path: Path) -> None:
    with serving(saved(tmp_path), Limits(patience=0.5)) as server:
        half_head = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        half_head.sendall(b"POST /v1/streams/a/rows HTTP/1.1\r\nHost: local")
        half_body = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        half_body.sendall(b"POST /v1/streams/a/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n[1,")
        huge_head = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        gone = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        gone.sendall(b"POST /v1/streams/a/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n[1,")
        gone.close()
        with pytest.raises(OSError, match=r"reset|Broken"):
            huge_head.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 60_000_000)
        assert half_body.recv(12) == b"HTTP/1.1 408"
        assert _closed(half_head)
        for each in (half_head, half_body, huge_head):
            each.close()
        assert server.client.get("/v1/streams").json()["n"] == 0


def _closed(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def test_huge_bodies_are_refused_at_once(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        begun = time.monotonic()
        sender = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        sender.sendall(b"POST /v1/streams/a/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n")
        assert sender.recv(12) == b"HTTP/1.1 413"
        sender.close()
        chunked = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        chunked.sendall(b"POST /v1/streams/a/rows HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(100):
                chunked.sendall(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        except OSError:
            pass  # the server has closed the connection
        chunked.close()
        assert time.monotonic() - begun < 30
        assert server.client.get("/healthz").status_code == 200


def test_slow_readers_of_events_are_dropped(tmp_path: Path) -> None:
    with serving(saved(tmp_path), Limits(patience=0.5)) as server:
        server.client.put("/v1/streams/a")
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(b"GET /v1/streams/a/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: len(server.engine.hub) == 1)
        rows = recordings(1, 1, 500).values.tolist()
        for _ in range(200):
            server.post("a", rows)
            if not len(server.engine.hub):
                break
        until(lambda: not len(server.engine.hub))
        reader.close()
        assert "psimlearn_watchers_dropped_total 1" in server.client.get("/metrics").text


def test_a_flood_of_ids_stays_within_the_limit(tmp_path: Path) -> None:
    with serving(saved(tmp_path), Limits(streams=50)) as server:
        ids = [f"flood-{i}" for i in range(5000)]
        answer = server.client.post("/v1/rows", {"ids": ids, "rows": [[0.1, 0.2]] * 5000}).json()["rows"]
        assert sum("row" in row for row in answer) == 50
        assert all(row["error"]["status"] == 429 for row in answer[50:])
        assert server.client.get("/v1/streams").json()["n_streams"] == 50


def test_the_log_is_json_and_ends_in_order(tmp_path: Path) -> None:
    server = Process(saved(tmp_path), "--store", tmp_path / "x.store")
    assert server.get("/readyz")["ready"]
    assert server.stop() == 0
    told = [line for line in server.lines if not line.startswith("psimlearn: ")]
    assert [json.loads(line)["event"] for line in told] == ["ready", "stopped"]


def test_rows_that_cannot_be_computed_with_harm_no_other_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(served: Any, kept: Any, came: Any, steps: int) -> Any:
        if any((each.numbers > 1e6).any() for each in came):
            raise np.linalg.LinAlgError("singular")
        return whole(served, kept, came, steps)

    from psimlearn.serve.running import ran as whole

    monkeypatch.setattr(streams, "ran", ran)
    with serving(saved(tmp_path)) as server:
        ids = [f"s{i}" for i in range(7)]
        rows = [[0.1, 1e9 if i == 4 else 0.2] for i in range(7)]
        answers = server.client.post("/v1/rows", {"ids": ids, "rows": rows}).json()["rows"]
        assert [answer.get("error", {}).get("status") for answer in answers] == [None] * 4 + [422] + [None] * 2
        assert server.client.get("/v1/streams").json()["n"] == 6
        refused(server.client.post("/v1/streams/s4/rows", [1e9, 1]), 422, "left out")
