"""`psimlearn send`, and sensors that speak MQTT."""

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(
    not (shutil.which("mosquitto") or Path("/usr/sbin/mosquitto").exists()) or not shutil.which("mosquitto_sub"),
    reason="needs a broker: apt-get install mosquitto mosquitto-clients",
)
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
