"""Ids and counters that no name tells: the command says what a column may be, and which option to use."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from commands import run
from psimlearn.recordings.trajectories import Trajectories

RUNS, ROWS = 4, 25
MACHINES = ["m3", "m7", "m4", "m9"]


class StopError(Exception):
    """Nothing is learnt: the recordings are all that is asked for."""


def walks() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.standard_normal() * 9 + np.cumsum(rng.standard_normal(ROWS)) for _ in range(RUNS)])


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns | {"x": walks()})


NUMBERS, WORDS = np.repeat([3, 7, 4, 9], ROWS), np.repeat(MACHINES, ROWS)
SAMPLES = np.tile(np.arange(ROWS), RUNS)


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The recordings that `psimlearn fit` makes of a table, and what it says on standard error."""

    def fitted(frame: pd.DataFrame, *options: str) -> tuple[Trajectories, str]:
        found: list[Trajectories] = []

        def learnt(model: Any, data: Trajectories, columns: Any, *, checkpoint: Any, groups: Any = None) -> None:
            found.append(data)
            raise StopError

        monkeypatch.setattr("psimlearn.cli.progress.learnt", learnt)
        frame.to_csv(tmp_path / "log.csv", index=False)
        assert run("fit", tmp_path / "log.csv", "-o", tmp_path / "m.psim", *options) == 2
        return found[0], capsys.readouterr().err

    return fitted


@pytest.mark.parametrize(
    "name", ["machine", "subject", "patient", "device", "asset", "vehicle", "session", "unit", "track"]
)
@pytest.mark.parametrize("cells", [NUMBERS, WORDS], ids=["numbers", "words"])
def test_an_id_with_a_usual_name_is_recognised(name: str, cells: np.ndarray, heard: Any) -> None:
    data, said = heard(table(**{name: cells}))
    assert f"guessed: column '{name}' tells recordings apart (--id {name}; --no-guess if not)." in said
    assert data.ids == tuple(map(str, dict.fromkeys(cells.tolist())))
    np.testing.assert_array_equal(data.values[:, 0], walks())


@pytest.mark.parametrize("name", ["Zeit", "Zeitstempel", "time [s]"])
def test_a_time_with_a_usual_name_is_recognised(name: str, heard: Any) -> None:
    data, said = heard(table(machine=NUMBERS, **{name: SAMPLES * 0.5}))
    assert f"guessed: column '{name}' is the time" in said
    assert (len(data), data.step, data.names) == (RUNS, 0.5, ("x",))


def test_a_course_is_no_id(heard: Any) -> None:
    data, said = heard(table(track=180 + walks()))
    assert "--id" not in said
    assert data.names == ("track", "x")


@pytest.mark.parametrize(
    ("column", "note"),
    [
        (
            {"part": NUMBERS},
            "apart: each value fills one block of rows. It is a channel now: use --id part if so, else --exclude part,",
        ),
        (
            {"part": WORDS},
            "note: column 'part' may tell recordings apart: each value fills one block of rows. It is left",
        ),
        (
            {"n": SAMPLES},
            "note: column 'n' may be the time: it counts up. It is a channel now: use --time n if so, else",
        ),
        (
            {"sample": SAMPLES},
            "note: column 'sample' may be the time. It is a channel now: use --time sample if so, else",
        ),
        ({"frame": SAMPLES, "machine": NUMBERS}, "note: column 'frame' may be the time. It is a channel now"),
        (
            {"seen": pd.date_range("2024-01-01", periods=RUNS * ROWS, freq="s")},
            "note: column 'seen' may be the time: it holds dates. It is left out now: use --time seen if so, else",
        ),
    ],
)
def test_a_column_that_may_be_an_id_or_a_time_is_told(column: dict[str, Any], note: str, heard: Any) -> None:
    data, said = heard(table(**column))
    assert note in said
    for quiet in (["--no-guess"], ["--channels", "x"], ["--exclude", ",".join(column)]):
        assert "note: column" not in heard(table(**column), *quiet)[1]
    (name, *_) = column
    option = "--id" if "apart" in note else "--time"
    if name == "seen" or "machine" in column or option == "--id":
        data, said = heard(table(**column), option, name)
        assert "note: column" not in said
        assert data.names == ("x",)


def test_channels_are_not_taken_for_ids(heard: Any) -> None:
    """Flags, set points with decimal points and levels that come again."""
    flag = (np.arange(RUNS * ROWS) >= 60).astype(int)
    for cells in (flag, np.repeat(["20.0", "21.0", "19.0", "25.0"], ROWS), np.tile(np.repeat([1, 2], 10), 5)):
        data, said = heard(table(level=cells))
        assert "note: column" not in said
        assert data.names == ("level", "x")


def test_files_are_recordings_already(tmp_path: Path, heard: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").mkdir()
    for i in range(3):
        table(part=NUMBERS, n=np.arange(RUNS * ROWS)).to_csv(tmp_path / "runs" / f"{i}.csv", index=False)
    heard(table(y=walks()))  # nothing is learnt from here on
    assert run("fit", tmp_path / "runs", "-o", tmp_path / "m.psim") == 2
    said = capsys.readouterr().err
    assert "note: column 'n' may be the time: it counts up." in said
    assert "'part' may" not in said


def test_a_channel_that_is_missing_is_added_with_empty_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, log = tmp_path / "m.psim", tmp_path / "log.csv"
    table(y=walks()[::-1]).to_csv(log, index=False)
    assert run("fit", log, "-o", model, "--window", "1", "--lags", "1", "--validation", "0.5") == 0
    table().to_csv(log, index=False)
    assert run("filter", model, log) == 2
    assert "if a channel was not measured, add its column with empty cells" in capsys.readouterr().err
    table(y=np.nan).to_csv(log, index=False)
    assert run("filter", model, log) == 0
