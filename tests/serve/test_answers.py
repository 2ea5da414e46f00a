"""The answers of the server are those of `psimlearn filter` on the same rows."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from modelfiles import situated
from psimlearn import PSIM, Trajectories
from psimlearn.cli.models import opened
from psimlearn.files.model import save
from psimlearn.filter.live import Live
from psimlearn.filter.tabulate import answer_names, answers_to
from serving import Serving, model, recordings, saved, serving

pytestmark = pytest.mark.usefixtures("unchecked")
CLOSE = 1e-12


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Serving]:
    with serving(place, step="none") as server:
        yield server


def gappy(seed: int, n: int = 50) -> np.ndarray:
    """Rows with single cells missing, and some rows empty."""
    rng = np.random.default_rng(seed)
    x = recordings(seed, 1, n).values.copy()
    x[rng.random(x.shape) < 0.1] = np.nan
    x[20:24] = np.nan
    return x


def as_json(x: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(v) else v for v in row] for row in x.tolist()]


def column(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows], dtype=float)


def close(rows: list[dict[str, Any]], expected: np.ndarray, names: list[str]) -> None:
    for name, values in zip(names, expected.T, strict=True):
        np.testing.assert_allclose(column(rows, name), values, rtol=CLOSE, atol=CLOSE, err_msg=name)


@pytest.mark.parametrize("form", ["arrays", "names", "single", "pieces"])
def test_answers_are_those_of_whole_recordings(server: Serving, form: str) -> None:
    x = gappy(3)
    rows: Any = as_json(x)
    if form == "names":
        rows = [{"b": b} if a is None and b is not None else {"a": a, "b": b} for a, b in rows]
    pieces = {"single": 1, "pieces": 7}.get(form, len(rows))
    found = [
        answer
        for i in range(0, len(rows), pieces)
        for answer in server.post(f"one-{form}", rows[i : i + pieces] if pieces > 1 else rows[i], "?horizons=1,2,3")
    ]
    filter = opened(server.path).filter
    close(found, answers_to(filter, Trajectories.of(x), 3), answer_names(("a", "b"), 3))
    alarms = filter.alarms(Trajectories.of(x), 0.001)
    assert [row["alarm"] for row in found] == alarms.alarm.astype(int).tolist()


def test_a_local_scale_acts_as_in_whole_recordings(tmp_path: Path) -> None:
    """Deviations follow, for rows with and without gaps, also after the server began again; alarms do not."""
    filter, path = situated(model().filter_), tmp_path / "model.psim"
    save(filter, path)
    wild = recordings(5, 1, 50).values * np.where(np.arange(50) < 25, 1.0, 3.0)[:, None]
    for id, x in (("wild", wild), ("gappy", gappy(3))):
        with serving(path, step="none") as server:
            found = server.post(id, as_json(x[:20]), "?horizons=1,2,3")
        with serving(path, step="none") as server:
            found += [answer for row in as_json(x[20:]) for answer in server.post(id, row, "?horizons=1,2,3")]
        expected = answers_to(filter, Trajectories.of(x), 3)
        close(found, expected, answer_names(("a", "b"), 3))
        alike = replace(filter, local=None)
        assert np.abs(expected - answers_to(alike, Trajectories.of(x), 3)).max() > 0.02
        assert [row["alarm"] for row in found] == alike.alarms(Trajectories.of(x), 0.001).alarm.astype(int).tolist()


def test_a_stream_in_the_place_of_a_deleted_one_begins_anew(tmp_path: Path) -> None:
    """The deleted one was in doubt, in alarm and full of unrest; another one lives on, and is in doubt as well."""
    filter, path = situated(model().filter_), tmp_path / "model.psim"
    save(filter, path)
    wild, x = 5 * recordings(5, 1, 12).values, recordings(6, 1, 8).values
    wild[-3:, 0] = np.nan
    with serving(path, step="none") as server:
        ended = [server.post(id, as_json(wild))[-1] for id in ("gone", "other")]
        assert [row["alarm"] for row in ended] == [1, 1]
        assert server.client.delete("/v1/streams/gone").status_code == 204
        found = [answer for row in as_json(x) for answer in server.post("new", row, "?horizons=1,2,3")]
        other = server.post("other", as_json(x), "?horizons=1,2,3")
    names = answer_names(("a", "b"), 3)
    close(found, answers_to(filter, Trajectories.of(x), 3), names)
    close(other, answers_to(filter, Trajectories.of(np.concatenate([wild, x])), 3)[len(wild) :], names)
    assert [row["alarm"] for row in found] == [0] * 8


def test_answers_are_those_of_the_pipe(server: Serving, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = gappy(4)
    x[30:36] += 5.0
    table = place.with_name("rows.csv")
    table.write_text("a,b\n" + "".join(f"{a!r},{b!r}\n".replace("nan", "") for a, b in x.tolist()))
    assert run("filter", place, table, "--alarm", "0.001", "--step", "none") == 0
    expected = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    found = server.post("as-pipe", as_json(x))
    assert sum(row["alarm"] for row in found) > 0
    for mine, theirs in zip(found, expected, strict=True):
        for name, text in theirs.items():
            value = mine[name]
            if name == "alarm.channel":
                assert (value or "") == text
            else:  # the pipe writes twelve digits
                assert (value is None and not text) or abs(value - float(text)) <= 1e-11 * max(1.0, abs(value)), name


def test_streams_that_come_together_answer_as_alone(server: Serving) -> None:
    x = np.stack([gappy(seed, 20) for seed in range(5)])
    ids = [f"bank-{i}" for i in range(5)]
    for t in range(20):
        body = {"ids": ids, "rows": as_json(x[:, t])}
        response = server.client.post("/v1/rows", json=body)
        assert [row["id"] for row in response.json()["rows"]] == ids
        for i, row in enumerate(response.json()["rows"]):
            (alone,) = server.post(f"alone-{i}", as_json(x[i, t : t + 1]))
            for name, value in alone.items():
                close_enough = value == row[name] or abs(value - row[name]) < CLOSE
                assert close_enough, (t, name, value, row[name])


def test_several_rows_of_a_stream_among_many(server: Serving) -> None:
    x = gappy(6, 6)
    rows = [{"id": f"many-{i % 2}", "a": a, "b": b} for i, (a, b) in enumerate(as_json(x))]
    found = server.client.post("/v1/rows", json={"rows": rows}).json()["rows"]
    assert [row["row"] for row in found] == [0, 0, 1, 1, 2, 2]
    alone = server.post("many-alone", as_json(x[::2]))
    close(found[::2], np.array([list(row.values())[1:-2] for row in alone], dtype=float), list(alone[0])[1:-2])


def test_the_forecast_is_that_of_the_model(server: Serving) -> None:
    x = gappy(7)
    server.post("ahead", as_json(x))
    found = server.client.get("/v1/streams/ahead/forecast?steps=5").json()
    live = Live(opened(server.path).filter)
    for row in x:
        live.update(row)
    mean, low, high = live.forecast(5, coverage=0.9)
    np.testing.assert_allclose(found["mean"], mean, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(found["low"], low, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(found["high"], high, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("feedthrough", [False, True])
def test_inputs_act_as_in_whole_recordings(tmp_path: Path, feedthrough: bool) -> None:
    rng = np.random.default_rng(1)
    u = rng.standard_normal((8, 40, 1))
    x = np.cumsum(u, axis=1) * 0.1 + 0.05 * rng.standard_normal((8, 40, 1))
    data = Trajectories.of(list(x), inputs=list(u), names=("x",))
    settings: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 2, "random_state": 0}
    model = PSIM(window=2, feedthrough=feedthrough, **settings).fit(data)
    model.save(tmp_path / "model.psim")
    x[0, 11] = np.nan
    test = Trajectories.of([x[0]], inputs=[u[0]], names=("x",))
    expected = answers_to(model.filter_, test, 1)
    with serving(tmp_path / "model.psim") as server:
        rows = [[*a, *b] for a, b in zip(as_json(x[0]), u[0].tolist(), strict=True)]
        found = server.post("s", rows[:13]) + [row for part in rows[13:] for row in server.post("s", part)]
        wrong = server.post("s", [[1.0, None]])
        assert "finite inputs" in wrong[0]["ignored"]
        assert server.client.get("/v1/streams/s").json()["rows"] == 40
        assert server.client.get("/v1/streams/s/forecast?steps=3").status_code == 400
    close(found, expected, answer_names(("x",), 1))


def test_symbols_have_probabilities(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [[str(w) for w in rng.choice(["sun", "rain"], 30)] for _ in range(4)]
    PSIM(window=2, features="onehot", lags=1, n_rounds=1, random_state=0).fit(Trajectories.of_symbols(words)).save(
        tmp_path / "model.psim"
    )
    with serving(tmp_path / "model.psim", no_alarms=True) as server:
        rows = server.post("s", [{"symbol": "sun"}, {"symbol": None}, {"symbol": "snow"}])
        assert rows[0]["sun.expected"] + rows[0]["rain.expected"] == pytest.approx(1.0)
        assert "alarm" not in rows[0]
        assert rows[1]["log_likelihood"] == 0
        assert "snow" in rows[2]["note"]


def test_times_say_which_rows_were_missed(tmp_path: Path) -> None:
    x = recordings(9, 1, 12).values
    kept = [0, 1, 2, 5, 6, 7, 8, 9, 10, 11]
    with serving(saved(tmp_path), step="1s") as server:
        body = {"rows": x[kept].tolist(), "times": [float(t) for t in kept]}
        found = server.post("s", body)
        assert "2 rows were missed" in found[3]["note"]
        holes = x.copy()
        holes[3:5] = np.nan
        expected = answers_to(opened(server.path).filter, Trajectories.of(holes), 1)[kept]
        close(found, expected, answer_names(("a", "b"), 1))
        again = server.post("s", body)
        assert all("ignored" in row for row in again)
        far = server.post("s", {"rows": x[:4].tolist(), "times": [1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3]})
        assert ["ignored" in row for row in far] == [True, True, False, False]
        assert "a new recording begins" in far[2]["note"]
        fresh = answers_to(opened(server.path).filter, Trajectories.of(x[2:4]), 1)
        close(far[2:], fresh, answer_names(("a", "b"), 1))
        back = server.post("s", {"rows": x[:5].tolist(), "times": [float(t) for t in range(20, 25)]})
        assert all("ignored" in row for row in back)
        assert server.client.get("/v1/streams/s").json()["rows"] == 12


def test_rows_without_times_are_counted_by_their_sender(server: Serving) -> None:
    x = as_json(recordings(2, 1, 10).values)
    server.post("counted", {"rows": x[:6], "at": 0})
    again = server.post("counted", {"rows": x, "at": 0})
    assert ["ignored" in row for row in again] == [True] * 6 + [False] * 4
    ahead = server.client.post("/v1/streams/counted/rows", json={"rows": x, "at": 11})
    assert ahead.status_code == 400
    assert "at most 10" in ahead.json()["error"]["message"]
    whole = server.post("uncounted", x)
    for name, value in whole[-1].items():
        assert value == again[-1][name] or abs(value - again[-1][name]) < CLOSE


def test_history_tells_rows_and_their_answers(server: Serving) -> None:
    x = gappy(8)
    found = [row for part in np.array_split(x, 9) for row in server.post("told", as_json(part))]
    told = server.client.get("/v1/streams/told/rows?last=20").json()
    assert told["first"] == 30
    np.testing.assert_array_equal(np.array(told["x"], dtype=float), x[30:])
    np.testing.assert_array_equal(told["log_likelihood"], column(found[30:], "log_likelihood"))
    np.testing.assert_array_equal(np.array(told["std"])[:, 1], column(found[30:], "b.std"))
    assert json.dumps(server.client.get("/v1/streams/told").json())
