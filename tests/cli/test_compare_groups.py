"""`compare --group` and `evaluate --group`: recordings of one group are never on both sides of a split."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from psimlearn.baselines import TrainingMean
from psimlearn.cli import methods
from psimlearn.cli.methods import METHODS, Setup, cross_fitted
from psimlearn.estimator.psim import PSIM
from psimlearn.recordings.trajectories import Trajectories
from small import model, several

GROUPS = {str(i): f"s{i % 4}" for i in range(8)}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Recordings of four people, as a file."""
    path = tmp_path / "people.csv"
    lines = [f"{i},s{i % 4},{a},{b}" for i, part in enumerate(several()) for a, b in part.tolist()]
    path.write_text("\n".join(["trial,person,a,b", *lines, ""]))
    return path


def people(ids: Sequence[Any] | None) -> set[str]:
    return {GROUPS[str(id)] for id in ids or ()}


def test_methods_are_compared_by_group(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[set[str]] = []

    class Listening(TrainingMean):
        def forecast(self, trajectories: Trajectories, horizon: int) -> Any:
            tested.append(people(trajectories.ids))
            return super().forecast(trajectories, horizon)

    tested: list[set[str]] = []

    def fit(train: Trajectories) -> TrainingMean:
        trained.append(people(train.ids))
        return Listening(TrainingMean.fit(train).mean)

    monkeypatch.setitem(METHODS, "mean", lambda _: fit)
    command: list[str | Path] = ["compare", table, "--id", "trial", "--methods", "mean", "--folds", "9"]
    assert run(*command, "--group", "person") == 0
    assert "4 folds by group" in capsys.readouterr().out
    assert sorted(map(sorted, tested)) == [["s0"], ["s1"], ["s2"], ["s3"]]
    for train, test in zip(trained, tested, strict=True):
        assert train == {"s0", "s1", "s2", "s3"} - test
    trained.clear()
    tested.clear()
    assert run(*command) == 0  # without --group, people are on both sides
    assert "8 folds\n" in capsys.readouterr().out
    assert any(train & test for train, test in zip(trained, tested, strict=True))


def test_settings_are_chosen_by_group_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The split in which a baseline is tuned, and the groups that PSIM receives."""
    data = Trajectories.of(several(), ids=list(range(8)))
    setup = Setup(1, 2, 0, {i: i % 4 for i in range(8)})
    _, train, held = setup.split(data[[0, 1, 2, 4, 5, 6]])
    assert people(train.ids).isdisjoint(people(held.ids))
    assert people(train.ids) | people(held.ids) == {"s0", "s1", "s2"}
    heard: list[Any] = []
    known = model().filter_

    def fit(self: PSIM, X: Trajectories, y: Any = None, *, groups: Any = None) -> PSIM:
        heard.append((X.ids, groups.tolist()))
        self.filter_ = known
        return self

    monkeypatch.setattr(PSIM, "fit", fit)
    METHODS["psim"](setup)(data[[0, 3, 4, 7]])
    assert heard == [((0, 3, 4, 7), [0, 3, 0, 3])]


def test_the_autoregression_of_evaluate_sees_no_recording_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Trajectories.of(several(), ids=list(range(8)))
    fitted = []

    def listening(split: Any, horizon: int) -> Any:
        fitted.append(people(split.everything.ids))
        return TrainingMean(np.full(2, float(len(fitted))))

    monkeypatch.setattr(methods, "autoregression", listening)
    predicted = cross_fitted(data, Setup(1, 2, 0, {i: i % 4 for i in range(8)})).predictions[:, 0, 0]
    for i, part in enumerate(np.split(predicted, data.offsets[1:-1])):
        (fold,) = set(part.tolist())  # one autoregression for all its rows
        assert f"s{i % 4}" not in fitted[int(fold) - 1]
    assert all(len(others) == 3 for others in fitted)


def test_groups_are_asked_for_where_there_are_too_few(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(table.read_text().replace(",s2,", ",s0,").replace(",s3,", ",s1,"))
    assert run("compare", table, "--id", "trial", "--group", "person", "--methods", "mean") == 2
    assert "--group: required at least 3 groups" in capsys.readouterr().err
    assert run("compare", table, "--id", "trial", "--group", "nobody", "--methods", "mean") == 2
    assert "nobody" in capsys.readouterr().err


def test_evaluate_takes_groups(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.psim"
    PSIM(2, lags=1, prior="mean", belief_weight=1.0, n_rounds=1, random_state=0).fit(
        Trajectories.of(several(), names=("a", "b"))
    ).save(path)
    assert run("evaluate", path, table, "--id", "trial", "--group", "person") == 0
    by_group = capsys.readouterr().out
    assert run("evaluate", path, table, "--id", "trial") == 0
    assert capsys.readouterr().out != by_group  # other recordings teach the autoregression
