"""`psimlearn send`, and sensors that speak MQTT."""

import csv
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from commands import run
from psimlearn.serve.limits import Limits
from serving import Process, Serving, recordings, saved, serving, until

pytestmark = pytest.mark.usefixtures("unchecked")
X = recordings(12, 1, 30).values


def sent(server: Serving, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "psimlearn", "send", f"http://localhost:{server.port}", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def test_rows_of_a_pipe_reach_their_streams(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        rows = [(f"m{i % 2}", *row) for i, row in enumerate(X.tolist())]
        table = "machine,a,b\n" + "".join(f"{id},{a!r},{b!r}\n" for id, a, b in rows) + "broken\n"
        done = sent(server, table, "--id", "machine")
        assert done.returncode == 0, done.stderr
        assert "Left out" in done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        direct = server.post("direct", X[::2].tolist())
        mine = [answer for answer in answers if answer["id"] == "m0"]
        assert [{**answer, "id": 0} for answer in mine] == [{"id": 0, **answer} for answer in direct]
        lines = "".join(json.dumps({"a": a, "b": None}) + "\n" for a, _ in X[:5].tolist())
        again = sent(server, lines, "--stream", "m0", "--quiet")
        assert (again.returncode, again.stdout) == (0, "")
        assert server.client.get("/v1/streams/m0").json()["rows"] == 20
        wrong = sent(server, '{"c": 1}\n', "--stream", "m0")
        assert wrong.returncode == 2
        assert "at least one of the channels" in wrong.stderr


ODD = ["1e3", "true", "FALSE", "1_000", "inf", "NA", "", "nan", "0.50", "007", "1,5", "-.5", "1e400", "٣", "abc"]


def test_a_cell_means_the_same_to_send_and_to_a_pipe(tmp_path: Path) -> None:
    """By hand: 1000, 1, 0, none, none, none, none, none, .5, 7, none, -.5, none, none, none; and the pipe agrees."""
    values = [1000, 1, 0, *[None] * 5, 0.5, 7, None, -0.5, None, None, None]
    path = saved(tmp_path)
    with serving(path, step="none") as server:
        cells = [f'"{cell}"' if "," in cell else cell for cell in ODD]
        table = "a,b\n" + "".join(f"{cell},0.25\n" for cell in cells)
        done = sent(server, table, "--stream", "csv")
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        by_hand = server.post("by-hand", [[value, 0.25] for value in values])
        bare = [{name: cell for name, cell in answer.items() if name not in ("id", "note")} for answer in answers]
        assert bare == by_hand
        noted = [cell for cell, answer in zip(ODD, answers, strict=True) if "note" in answer]
        assert noted == ["1_000", "inf", "1,5", "1e400", "٣", "abc"]
        lines = "".join(json.dumps({"a": cell, "b": 0.25}) + "\n" for cell in ODD)
        spoken = [json.loads(line) for line in sent(server, lines, "--stream", "json").stdout.splitlines()]
        assert [{**answer, "id": "csv"} for answer in spoken] == answers
    command = [sys.executable, "-m", "psimlearn", "filter", str(path), "-", "--step", "none"]
    piped = subprocess.run(command, input=table, capture_output=True, text=True, timeout=60)
    for mine, theirs in zip(answers, list(csv.DictReader(piped.stdout.splitlines())), strict=True):
        for name, text in theirs.items():
            assert abs(mine[name] - float(text)) <= 1e-10 * max(1, abs(mine[name])), name


def test_ids_are_sent_as_they_are_written(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        ids = ["007", "7", "1e3", "1000", "7.0", "NA", "true", "00"]
        done = sent(server, "id,a,b\n" + "".join(f"{id},0.1,0.2\n" for id in ids))
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ids
        assert {stream["id"] for stream in server.client.get("/v1/streams").json()["streams"]} == set(ids)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999", "1" + "0" * 400])
def test_numbers_that_json_cannot_hold_do_not_end_send(number: str, tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        good = '{"a": 0.1, "b": 0.2}\n'
        done = sent(server, f'{good}{{"a": {number}, "b": 0.2}}\n{good}', "--stream", "s")
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [{**answer, "note": "", "id": 0} for answer in answers] == [
            {**answer, "note": "", "id": 0} for answer in server.post("t", [[0.1, 0.2], [None, 0.2], [0.1, 0.2]])
        ]
        assert ["note" in answer for answer in answers] == [False, number != "NaN", False]


def test_words_and_times_are_sent_as_they_are_written(tmp_path: Path) -> None:
    """True and false may be words, dates of 8 digits stay dates, and nothing was left to guess."""
    rng, days = np.random.default_rng(0), [f"202401{day:02}" for day in range(1, 31)]
    modes = rng.choice(["true", "false", "x"], 30).tolist()
    table = "day,a,mode\n" + "".join(
        f"{d},{a!r},{m}\n" for d, a, m in zip(days, rng.random(30).tolist(), modes, strict=True)
    )
    path, file = tmp_path / "words.psim", tmp_path / "rows.csv"
    file.write_text(table)
    options = ["--time", "day", "--time-format", "%Y%m%d", "--inputs", "mode", "--horizon", "2"]
    assert run("fit", file, *options, "--window", "2", "--lags", "2", "-o", path) == 0
    with serving(path, no_alarms=True) as server:
        done = sent(server, table, "--stream", "s")
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [answer for answer in answers if "note" in answer or "ignored" in answer]
    command = [sys.executable, "-m", "psimlearn", "filter", str(path), "-"]
    piped = subprocess.run(command, input=table, capture_output=True, text=True, timeout=60)
    expected = [row["log_likelihood"] for row in csv.DictReader(piped.stdout.splitlines())]
    np.testing.assert_allclose([answer["log_likelihood"] for answer in answers], np.array(expected, float), rtol=1e-9)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(
    not (shutil.which("mosquitto") or Path("/usr/sbin/mosquitto").exists()) or not shutil.which("mosquitto_sub"),
    reason="needs a broker: apt-get install mosquitto mosquitto-clients",
)
def test_rows_that_are_too_many_for_a_request_are_sent_in_parts(tmp_path: Path) -> None:
    """By hand: 6 rows, each 500 steps after the one before, miss 5 x 499 rows; a request may miss 1000."""
    with serving(saved(tmp_path), Limits(rows=1000), step="1s") as server:
        table = "time,a,b\n" + "".join(f"{500 * i},0.1,0.2\n" for i in range(6))
        done = sent(server, table, "--stream", "sparse")
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["row"] for line in done.stdout.splitlines()] == list(range(6))


def test_sensors_that_speak_mqtt_come_in_through_the_pipe(tmp_path: Path) -> None:
    """A real broker: rows to the server by `send`, and answers by `filter` back to the broker."""
    path, port = saved(tmp_path), str(_free_port())
    broker = subprocess.Popen(
        [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-p", port],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = Process(path, "--store", tmp_path / "rows.store")
    client = ["-h", "127.0.0.1", "-p", port]
    psimlearn = f"{sys.executable} -m psimlearn"
    sub = f"mosquitto_sub {' '.join(client)} -t arm/1 -C {len(X)}"
    pipes = [
        f"{sub} | {psimlearn} send http://127.0.0.1:{server.port} --stream arm-1 --quiet",
        f"{sub} | {psimlearn} filter {path} - | mosquitto_pub {' '.join(client)} -t arm/1/answers -l",
    ]
    try:
        until(lambda: _listens(int(port)))
        listener = subprocess.Popen(
            ["mosquitto_sub", *client, "-t", "arm/1/answers", "-C", str(len(X))], stdout=subprocess.PIPE, text=True
        )
        running = [subprocess.Popen(["sh", "-c", pipe]) for pipe in pipes]
        time.sleep(1.0)  # until all have subscribed: a broker keeps nothing for subscribers to come
        lines = "".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in X.tolist())
        subprocess.run(["mosquitto_pub", *client, "-t", "arm/1", "-l"], input=lines, text=True, check=True, timeout=20)
        for each in running:
            assert each.wait(30) == 0
        until(lambda: server.get("/v1/streams")["streams"][0]["rows"] == len(X))
        answers = [json.loads(line) for line in listener.communicate(timeout=20)[0].splitlines()]
        history = server.get("/v1/streams/arm-1/rows")
        assert history["x"] == X.tolist()
        for answer, nats in zip(answers, history["log_likelihood"], strict=True):
            assert answer["log_likelihood"] == pytest.approx(nats, rel=1e-11, abs=1e-11)
    finally:
        server.stop()
        broker.terminate()
        broker.wait(10)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
