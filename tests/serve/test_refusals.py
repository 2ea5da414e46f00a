"""What is refused is refused in words and in one shape, whoever refuses it; and the log is JSON, whoever writes it."""

import asyncio
import json
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Trajectories
from psimlearn.serve import api
from psimlearn.serve.answering import row_answers
from psimlearn.serve.limits import Limits
from serving import Answer, Client, Held, Process, recordings, saved, serving, until

pytestmark = pytest.mark.usefixtures("unchecked")
X = recordings(24, 1, 60).values.tolist()
DEEP = "[" * 1000 + "]" * 1000
DEEP_BODIES = [
    DEEP,
    f"[{DEEP}]",
    f"[[0.1, {DEEP}]]",
    f'{{"a": {DEEP}, "b": 1}}',
    f'{{"rows": {DEEP}}}',
    f'{{"rows": [[0.1, 0.2]], "times": [{DEEP}]}}',
    f'{{"rows": [[0.1, 0.2]], "times": {DEEP}}}',
    f'{{"rows": [[0.1, 0.2]], "at": {DEEP}}}',
    f'{{"a": 0.1, "time": {DEEP}}}',
]


def error_of(answer: Answer, status: int) -> dict[str, Any]:
    """Every error has one shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()
    assert set(error) == {"error"}
    assert set(error["error"]) == {"status", "code", "message"}
    assert error["error"]["status"] == status
    found: dict[str, Any] = error["error"]
    return found


def raw(port: int, sent: bytes) -> Answer:
    """The answer to bytes, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(sent)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    head, _, body = b"".join(parts).decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


def test_one_of_two_who_delete_a_stream_finds_none(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        server.post("s", X[:3])
        lock, loop = server.engine.lock, server.engine._tasks[0].get_loop()
        asyncio.run_coroutine_threadsafe(lock.acquire(), loop).result(10)
        found: list[Answer] = []

        def delete() -> None:
            client = Client(server.port)
            found.append(client.delete("/v1/streams/s"))
            client.close()

        threads = [threading.Thread(target=delete) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len(lock._waiters or ()) == 3)
        loop.call_soon_threadsafe(lock.release)
        for thread in threads:
            thread.join(10)
        assert sorted(answer.status_code for answer in found) == [204, 404, 404]
        for answer in found:
            assert answer.status_code == 204 or "is none" in error_of(answer, 404)["message"]


def test_json_of_many_levels_is_refused(tmp_path: Path) -> None:
    with serving(saved(tmp_path), step="1s") as server:
        for body in DEEP_BODIES:
            error_of(server.client.ask("POST", "/v1/streams/s/rows", body.encode()), 400)
        for body in (f'{{"ids": ["s"], "rows": [{DEEP}]}}', f'{{"ids": {DEEP}, "rows": [[1, 2]]}}'):
            error_of(server.client.ask("POST", "/v1/rows", body.encode()), 400)
        assert server.client.get("/v1/streams").json()["n"] == 0


def test_the_head_of_events_ends(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        server.client.put("/v1/streams/s")
        for path in ("/v1/events", "/v1/streams/s/events"):
            head = server.client.ask("HEAD", path)
            assert head.status_code == 200
            assert head.headers["content-type"].startswith("text/event-stream")
            assert len(server.engine.hub) == 0
        assert server.client.ask("HEAD", "/v1/streams/none/events").status_code == 404


def test_what_is_no_http_is_refused_in_the_shape_of_all_errors(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        for sent in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n"):
            error = error_of(raw(server.port, sent), 400)
            assert error["code"] == "bad_request"
            assert "required HTTP" in error["message"]


def test_connections_beyond_the_limit_are_refused_in_the_shape_of_all_errors(tmp_path: Path) -> None:
    with serving(saved(tmp_path), Limits(connections=3)) as server:
        assert server.client.get("/healthz").status_code == 200
        others = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(2)]
        answer = raw(server.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        error = error_of(answer, 503)
        assert error["code"] == "busy"
        assert "fewer than 3" in error["message"]
        assert answer.headers["retry-after"] == "1"
        for other in others:
            other.close()
        until(lambda: server.client.get("/healthz").status_code == 200)


def test_a_method_that_is_not_there_is_told_those_that_are(tmp_path: Path) -> None:
    """RFC 9110, 15.5.6: the answer 405 must name all methods of the address."""
    with serving(saved(tmp_path)) as server:
        for path, method, allowed in [
            ("/v1/streams/s/rows", "PATCH", "GET, HEAD, POST"),
            ("/v1/streams/s", "POST", "DELETE, GET, HEAD, PUT"),
            ("/v1/rows", "GET", "POST"),
            ("/healthz", "POST", "GET, HEAD"),
            ("/page/page.js", "PUT", "GET, HEAD"),
        ]:
            answer = server.client.ask(method, path)
            assert allowed in error_of(answer, 405)["message"]
            assert answer.headers["allow"] == allowed, path


def test_every_line_of_the_log_is_json(tmp_path: Path) -> None:
    """Also what libraries warn of; lines for people begin with the name of the program."""
    server = Process(saved(tmp_path), "--store", tmp_path / "x.store", "--max-connections", "2")
    try:
        raw(server.port, b"nonsense\r\n\r\n")
        with socket.create_connection(("127.0.0.1", server.port), timeout=10):
            answer = raw(server.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer.status_code == 503
        upgrade = (
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"
        )
        raw(server.port, upgrade)
    finally:
        assert server.stop() == 0
    told = [json.loads(line) for line in server.lines if not line.startswith("psimlearn: ")]
    assert {"ready", "library", "stopped"} <= {line["event"] for line in told}
    assert any("Invalid HTTP" in line.get("message", "") for line in told)


def test_rows_that_were_ignored_do_not_count_when_rows_are_sent_again(tmp_path: Path) -> None:
    """By `at`: no row is taken twice, and none is left out."""
    rng = np.random.default_rng(1)
    u = rng.standard_normal((8, 40, 1))
    x = np.cumsum(u, axis=1) * 0.1 + 0.05 * rng.standard_normal((8, 40, 1))
    settings: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 1, "random_state": 0}
    data = Trajectories.of(list(x), inputs=list(u), names=("x",))
    PSIM(window=2, **settings).fit(data).save(tmp_path / "model.psim")
    with serving(tmp_path / "model.psim") as server:
        rows = [[0.1, 0.2], [0.3, None], [0.5, 0.6], [0.7, 0.8]]
        first = server.post("s", {"rows": rows[:3], "at": 0})
        assert ["ignored" in row for row in first] == [False, True, False]
        again = server.post("s", {"rows": rows, "at": 0})
        assert ["ignored" in row for row in again] == [True, True, True, False]
        assert "row 0 was taken before" in again[0]["ignored"]
        assert "finite inputs" in again[1]["ignored"]
        assert "row 1 was taken before" in again[2]["ignored"]
        assert again[3]["row"] == 2
        assert server.client.get("/v1/streams/s/rows").json()["x"] == [[0.1], [0.5], [0.7]]


@pytest.mark.parametrize("wrong", [5000.0, -7.0, "soon"])
def test_rows_with_wrong_times_do_not_count_when_rows_are_sent_again(tmp_path: Path, wrong: Any) -> None:
    """A row without a time is known by its number only."""
    with serving(saved(tmp_path), step="1s") as server:
        times = [0.0, 1.0, wrong, 2.0, None]
        first = server.post("s", {"rows": X[:5], "times": times, "at": 0})
        assert ["ignored" in row for row in first] == [False, False, True, False, False]
        again = server.post("s", {"rows": X[:6], "times": [*times, 4.0], "at": 0})
        assert ["ignored" in row for row in again] == [True] * 5 + [False]
        assert again[5]["row"] == 4
        assert server.client.get("/v1/streams/s/rows").json()["x"] == [X[0], X[1], X[3], X[4], X[5]]


def test_an_answer_of_too_many_predictions_is_refused(tmp_path: Path) -> None:
    """A small request may not ask for a large answer; one horizon is always allowed."""
    with serving(saved(tmp_path), Limits(predictions=100)) as server:
        hundred = "?horizons=" + ",".join(map(str, range(1, 101)))
        error = error_of(server.client.post(f"/v1/streams/s/rows{hundred}", X), 413)
        assert "at most 100 predictions" in error["message"]
        assert "12000" in error["message"]
        many = {"ids": [f"s{i}" for i in range(60)], "rows": X}
        error_of(server.client.post(f"/v1/rows{hundred}", many), 413)
        assert server.client.get("/v1/streams").json()["n"] == 0, "rows of a refused request were taken"
        assert len(server.post("s", X, "?horizons=100")) == 60
        assert len(server.post("s", X[:5], "?horizons=" + ",".join(map(str, range(1, 11))))) == 5


def test_other_clients_are_answered_while_a_long_answer_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Held(row_answers)
    monkeypatch.setattr(api, "row_answers", slow)
    with serving(saved(tmp_path)) as server:
        query = "?horizons=" + ",".join(map(str, range(1, 51)))
        with slow.meanwhile(server.port, lambda: server.post("s", X, query)) as other:
            assert other.get("/healthz").status_code == 200
