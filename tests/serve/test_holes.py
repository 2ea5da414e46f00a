"""Holes in the times of live rows: no stream falls silent after one, and no hole keeps other clients waiting."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Trajectories
from psimlearn.cli.models import opened
from psimlearn.filter.tabulate import answers, answers_to
from psimlearn.serve import streams, taking
from psimlearn.serve.limits import Limits
from psimlearn.serve.running import ran
from serving import Held, recordings, saved, serving

pytestmark = pytest.mark.usefixtures("unchecked")
X = recordings(21, 1, 30).values.tolist()


def test_rows_that_come_one_by_one_begin_a_new_recording_after_a_hole(tmp_path: Path) -> None:
    """The third row whose time agrees with the two before it is taken, however the rows are sent."""
    with serving(saved(tmp_path), step="1s") as server:
        times = [0.0, 1.0, 2.0, 5000.0, 5001.0, 5002.0, 5003.0]
        found = [server.post("s", {"rows": [x], "times": [t]})[0] for x, t in zip(X, times, strict=False)]
        assert ["ignored" in row for row in found] == [False] * 3 + [True] * 2 + [False] * 2
        assert "a new recording begins" in found[5]["note"]


def test_missed_rows_count_as_rows_do(tmp_path: Path) -> None:
    """A request of a few bytes may not ask for hundreds of thousands of steps; what is refused changes nothing."""
    with serving(saved(tmp_path), Limits(rows=1200), step="1s") as server:
        server.post("s", {"rows": X[:1], "times": [0.0]})
        refused = server.client.post("/v1/streams/s/rows", {"rows": X[:3], "times": [700.0, 1400.0, 1401.0]})
        assert refused.status_code == 413
        assert "at most 1200" in refused.json()["error"]["message"]
        assert "received 1398" in refused.json()["error"]["message"]
        taken = server.post("s", {"rows": X[:2], "times": [700.0, 701.0]})
        assert "699 rows were missed" in taken[0]["note"]
        ids = [f"s{i}" for i in range(20)]
        server.client.post("/v1/rows", {"ids": ids, "rows": [X[0]] * 20, "times": [0.0] * 20})
        some = server.client.post("/v1/rows", {"ids": ids, "rows": [X[0]] * 20, "times": [901.0] * 20}).json()["rows"]
        assert [row.get("error", {}).get("status") for row in some] == [None] * 13 + [413] * 7  # 13 x 900 < 12 000


def test_a_single_row_is_taken_after_the_longest_hole_whatever_the_limit(tmp_path: Path) -> None:
    with serving(saved(tmp_path), Limits(rows=1), step="1s") as server:
        server.post("s", {"rows": X[:1], "times": [0.0]})
        assert "1000 rows were missed" in server.post("s", {"rows": X[:1], "times": [1001.0]})[0]["note"]


@pytest.mark.parametrize("feedthrough", [None, False, True])
def test_a_hole_acts_as_empty_rows_but_only_rows_that_came_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feedthrough: bool | None
) -> None:
    """Inputs are held in a hole; the work of an answer is done for rows that came."""
    rng = np.random.default_rng(2)
    if feedthrough is None:
        path, x, u, names = saved(tmp_path), np.array(X), np.empty((30, 0)), ["a", "b"]
    else:
        inputs = rng.standard_normal((8, 60, 1))
        x = np.cumsum(inputs, axis=1) * 0.1 + 0.05 * rng.standard_normal((8, 60, 1))
        settings: dict[str, Any] = {"lags": 2, "prior": "mean", "belief_weight": 1.0, "n_rounds": 1, "random_state": 0}
        path = tmp_path / "model.psim"
        PSIM(window=2, feedthrough=feedthrough, **settings).fit(
            Trajectories.of(list(x), inputs=list(inputs), names=("x",))
        ).save(path)
        x, u, names = x[0, :30], inputs[0, :30], ["x"]
    kept = [*range(8), *range(20, 30)]  # a hole of 12 rows
    answered: list[int] = []

    def counted(filter: Any, before: Any, rows: np.ndarray, *others: Any) -> np.ndarray:
        answered.append(len(rows))
        return answers(filter, before, rows, *others)

    monkeypatch.setattr(taking, "answers", counted)
    with serving(path, step="1s") as server:
        rows = np.concatenate([x, u], axis=1)[kept].tolist()
        found = server.post("s", {"rows": rows, "times": [float(t) for t in kept]})
    assert sum(answered) == len(kept)
    holes, held = x.copy(), u.copy()
    holes[8:20], held[8:20] = np.nan, u[7]
    whole_recording = Trajectories.of([holes], inputs=None if feedthrough is None else [held], names=names)
    expected = answers_to(opened(path).filter, whole_recording, 1)[kept]
    for i, row in enumerate(found):
        values = [value for name, value in row.items() if name not in ("row", "time", "note", "alarm", "alarm.channel")]
        np.testing.assert_allclose(values, expected[i], rtol=1e-10, atol=1e-10, err_msg=str(i))


def test_other_clients_are_answered_while_much_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is free: another client is answered before the computation, which waits for it, may end."""
    slow = Held(ran)
    with serving(saved(tmp_path), step="1s") as server:
        server.post("s", {"rows": X[:1], "times": [0.0]})
        monkeypatch.setattr(streams, "ran", slow)
        times = [float(t) for t in range(1000, 7000, 1000)]
        with slow.meanwhile(server.port, lambda: server.post("s", {"rows": X[:6], "times": times})) as other:
            assert other.get("/healthz").status_code == 200
            assert other.get("/v1/streams").json()["streams"][0]["rows"] == 1
            assert other.get("/v1/streams/s/forecast?steps=2").status_code == 200
        assert server.client.get("/v1/streams/s").json()["rows"] == 7


def test_few_rows_are_computed_in_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread costs more than a few rows do."""
    monkeypatch.setattr(asyncio, "to_thread", None)
    with serving(saved(tmp_path), step="1s") as server:
        assert len(server.post("s", {"rows": X, "times": [float(t) for t in range(30)]})) == 30
