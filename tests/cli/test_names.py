"""Tables of answers have one column for each name, or they are refused before any work is done."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from commands import run
from psimlearn import Trajectories
from psimlearn.cli.files import write_table
from psimlearn.errors import DataError
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import Filter
from small import ONE


def prepared(folder: Path, names: Sequence[str], beside: Sequence[str] = ()) -> tuple[Path, Path]:
    """A model with channels of these names, and recordings with further columns of rising numbers."""
    x = np.random.default_rng(0).standard_normal((6, 20, len(names)))
    model, data = folder / "m.psim", folder / "d.csv"
    PSIM(**ONE).fit(Trajectories.of(x, names=names)).save(model)
    rows = [[*map(repr, row.tolist()), *[str(t)] * len(beside)] for t, row in enumerate(x[0])]
    data.write_text("\n".join(map(",".join, [[*names, *beside], *rows])))
    return model, data


@pytest.mark.parametrize(
    ("command", "names", "beside", "options", "twice"),
    [
        ("forecast", ("x", "x.std"), (), (), "x.std"),
        ("forecast", ("x", "x.low"), (), (), "x.low"),
        ("forecast", ("step", "x"), (), (), "step"),
        ("forecast", ("x",), ("step",), ("--id", "step"), "step"),
        ("forecast", ("x",), ("x.high",), ("--id", "x.high"), "x.high"),
        ("filter", ("x", "x.ahead1"), (), (), "x.ahead1.std"),
        ("filter", ("x",), ("log_likelihood",), ("--time", "log_likelihood"), "log_likelihood"),
        ("filter", ("x",), ("x.std",), ("--id", "x.std"), "x.std"),
    ],
)
def test_names_that_would_occur_twice_are_refused(
    command: str,
    names: Sequence[str],
    beside: Sequence[str],
    options: Sequence[str],
    twice: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, data = prepared(tmp_path, names, beside)
    monkeypatch.delattr(Filter, "run")  # no work before the check
    steps = ["--steps", "2"] if command == "forecast" else ["--ahead", "2"]
    for out in ([], ["-o", f"{tmp_path}/answers.csv"], ["-o", f"{tmp_path}/answers.parquet"]):
        assert run(command, model, data, *steps, *options, *out) != 0
        said = capsys.readouterr()
        assert f"columns with different names, received {twice!r} twice" in said.err
        assert not said.out
        assert not list(tmp_path.glob("answers*"))


def test_a_pipe_refuses_them_before_the_first_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = prepared(tmp_path, ("x",), ("x.std",))
    assert run("filter", model, "-", "--id", "x.std") != 0  # standard input is not read, so its end is not awaited
    assert "received 'x.std' twice" in capsys.readouterr().err


def test_no_table_is_written_with_a_name_twice(tmp_path: Path) -> None:
    """Whichever command asks for it."""
    for keys, names in (({"a": [1]}, ["a"]), ({}, ["a", "a"])):
        with pytest.raises(DataError, match="'a' twice"):
            write_table(tmp_path / "t.csv", keys, names, np.zeros((1, len(names))))


def test_names_that_differ_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = prepared(tmp_path, ("x", "y.std"))
    assert run("forecast", model, data, "--steps", "1") == 0
    assert capsys.readouterr().out.startswith("step,x,x.std,x.low,x.high,y.std,y.std.std,")


def test_names_cannot_command_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in what `info` prints, nor in messages and errors."""
    hostile = "\x1b]0;title\x07\x1b[31m\x9b31m\u202e\ud800"
    x = np.random.default_rng(0).standard_normal((6, 20, 2))
    model = tmp_path / "m.psim"
    PSIM(**ONE).fit(Trajectories.of(x, names=(hostile, "b"))).save(model)
    (tmp_path / "d.csv").write_text("b\n1\n")
    assert run("info", model) == 0
    assert run("filter", model, tmp_path / "d.csv") == 2
    assert run("info", tmp_path / "\x1b[31m") == 2
    shown = capsys.readouterr()
    for text in shown:
        assert "\\x1b" in text
        assert not set(text) & set(hostile[:1] + "\x07\x9b\u202e\ud800")
