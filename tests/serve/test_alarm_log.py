"""Alarms of the server: they begin, end, last, are told to readers of events, and run a command."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from psimlearn.filter.alarms import CALM
from psimlearn.serve import events as telling
from psimlearn.serve.commands import Commands
from serving import Process, recordings, saved, serving, until

pytestmark = pytest.mark.usefixtures("unchecked")

X = recordings(11, 1, 60).values
STRANGE = X.copy()
STRANGE[30:33] += 6.0


def events(port: int, path: str) -> socket.socket:
    """A reader of events."""
    reader = socket.create_connection(("127.0.0.1", port), timeout=10)
    reader.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return reader


def told(reader: socket.socket, kind: str) -> Any:
    """The data of the next event of a kind."""
    text = b""
    while True:
        text += reader.recv(65536)
        for part in text.split(b"\n\n")[:-1]:
            if f"event: {kind}\n".encode() in part:
                return json.loads(part.split(b"data: ")[1].split(b"\r\n")[0])


def test_an_alarm_begins_ends_and_lasts(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with serving(path) as server:
        server.post("s", {"rows": STRANGE[:31].tolist(), "times": [f"2026-01-01T00:00:{t:02}Z" for t in range(31)]})
        facts = server.client.get("/v1/streams/s").json()
        assert (facts["state"], facts["alarm"]) == ("alarm", True)
        (open_alarm,) = server.client.get("/v1/streams/s/alarms").json()["alarms"]
        assert open_alarm["row"] == 30
        assert open_alarm["ended"] is None
        assert open_alarm["time"] == "2026-01-01T00:00:30Z"
        assert open_alarm["channel"] in ("a", "b")
    with serving(path) as server:
        assert server.client.get("/v1/streams?state=alarm").json()["n"] == 1
        rows = server.post("s", STRANGE[31:].tolist())
        n_in_alarm = sum(row["alarm"] for row in rows)
        assert CALM - 1 <= n_in_alarm < 29
        (ended,) = server.client.get("/v1/alarms").json()["alarms"]
        assert ended["ended"] is not None
        assert ended["last"] == 31 + n_in_alarm
        assert server.client.get("/v1/model").json()["alarm_one_in"] == 1000


def test_events_tell_rows_and_alarms(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        server.client.put("/v1/streams/s")
        one, all = events(server.port, "/v1/streams/s/events"), events(server.port, "/v1/events")
        until(lambda: len(server.engine.hub) == 2)
        answers = server.post("s", STRANGE[:40].tolist())
        rows = told(one, "rows")
        assert rows["x"] == STRANGE[:40].tolist()
        assert rows["alarm"] == [row["alarm"] for row in answers]
        assert rows["expected"][7][1] == answers[7]["b.expected"]
        alarm = told(all, "alarm")
        assert (alarm["id"], alarm["row"], alarm["begins"]) == ("s", 30, True)
        (entry,) = told(all, "moved")
        assert entry[:2] == ["s", 40]
        for reader in (one, all):
            reader.close()
        until(lambda: len(server.engine.hub) == 0)


def test_without_a_rate_there_are_no_alarms(tmp_path: Path) -> None:
    with serving(saved(tmp_path), no_alarms=True) as server:
        assert "alarm" not in server.post("s", STRANGE.tolist())[0]
        assert server.client.get("/v1/alarms").json()["alarms"] == []


def test_a_command_runs_for_each_alarm_without_a_shell(tmp_path: Path) -> None:
    program = tmp_path / "note.py"
    program.write_text(
        "import sys, pathlib\n"
        f"with open({str(tmp_path / 'notes')!r}, 'a') as f: f.write(sys.argv[1] + ' ' + sys.stdin.read() + '\\n')\n"
    )
    server = Process(
        saved(tmp_path), "--on-alarm", f"{sys.executable} {program} '$(whoami); x'", "--store", tmp_path / "s"
    )
    try:
        import urllib.request

        body = json.dumps(STRANGE.tolist()).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/streams/s/rows", body, timeout=20).close()
        until(lambda: (tmp_path / "notes").exists() and (tmp_path / "notes").read_text().endswith("}\n"), 20)
    finally:
        assert server.stop() == 0
    word, _, alarm = (tmp_path / "notes").read_text().partition(" {")
    assert word == "$(whoami); x"
    assert json.loads("{" + alarm)["id"] == "s"


def test_alarms_that_nobody_was_told_of_are_told_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    with serving(path) as server:
        server.post("s", STRANGE.tolist())
        assert [alarm["row"] for alarm in server.engine.store.untold()] == [30]
    heard: list[Any] = []

    async def tell(_: Commands, alarm: Any) -> None:
        heard.append(alarm)

    monkeypatch.setattr(Commands, "_tell", tell)
    with serving(path) as server:
        commands = Commands(["true"], server.engine)
        loop = server.engine._tasks[0].get_loop()
        loop.call_soon_threadsafe(commands.start)
        until(lambda: heard and not server.engine.store.untold())
        loop.call_soon_threadsafe(lambda: commands._task and commands._task.cancel())
    assert [alarm["row"] for alarm in heard] == [30]


def test_many_streams_are_told_of_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "MOST_TOLD", 3)
    with serving(saved(tmp_path)) as server:
        reader = events(server.port, "/v1/events")
        until(lambda: len(server.engine.hub) == 1)
        ids = [f"s{i}" for i in range(7)]
        server.client.post("/v1/rows", {"ids": ids, "rows": [[0.1, 0.2]] * 7})
        text, found = b"", set[str]()
        while len(found) < 7:
            text += reader.recv(65536)
            parts = [part for part in text.split(b"\n\n")[:-1] if b"event: moved" in part]
            told_of = [json.loads(part.split(b"data: ")[1].split(b"\r\n")[0]) for part in parts]
            assert all(len(each) <= 3 for each in told_of)
            found = {entry[0] for each in told_of for entry in each}
        reader.close()
        assert found == set(ids)
