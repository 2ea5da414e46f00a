"""`psimlearn filter --alarm`: the same alarms from files, CSV lines and JSON lines, as Python gives them."""

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from commands import run
from models import gappy
from psimlearn import PSIM

RATE = "0.01"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and new rows of two recordings in turn, with a blow, gaps and a huge value."""
    folder = tmp_path_factory.mktemp("alarms")
    parts = [part.values.copy() for part in gappy(1)]
    write(folder / "train.csv", [(i, t, *row) for i, part in enumerate(parts) for t, row in enumerate(part)])
    settings = ["--window", "2", "--lags", "1", "--seed", "0"]
    assert run("fit", folder / "train.csv", "-o", folder / "m.psim", "--id", "id", "--time", "t", *settings) == 0
    new = np.stack([part.values for part in gappy(2, n=2)])
    new[0, 20, 1] += 30.0
    new[1, 10:13] = np.nan
    new[1, 13, 0] = 1e200
    write(folder / "new.csv", [(i, t, *new[i, t]) for t in range(40) for i in range(2)])
    return folder


def write(path: Path, rows: list[tuple[float, ...]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "t", "force", "b"])
        writer.writerows([["" if np.isnan(cell) else cell for cell in row] for row in rows])


def alarms_of(text: str) -> list[tuple[str, str, str, str]]:
    return [(row["id"], row["t"], row["alarm"], row["alarm.channel"]) for row in csv.DictReader(io.StringIO(text))]


def piped(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> str:
    path = folder / "stdin"
    path.write_text(text)
    with path.open() as source:
        monkeypatch.setattr(sys, "stdin", source)
        assert run("filter", folder / "m.psim", "-", "--alarm", RATE) == 0
    return capsysbinary.readouterr().out.decode()


def test_files_and_pipes_ring_alike_and_as_python_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = folder / "answers.csv"
    assert run("filter", folder / "m.psim", folder / "new.csv", "--alarm", RATE, "-o", out, "--force") == 0
    found = alarms_of(out.read_text())
    new = list(csv.reader((folder / "new.csv").read_text().splitlines()))[1:]
    x = np.array([[float(cell or "nan") for cell in row[2:]] for row in new]).reshape(40, 2, 2).transpose(1, 0, 2)
    alarm, channel, _ = PSIM.load(folder / "m.psim").alarms(x, rate=float(RATE))
    expected = [(str(i), str(t), str(int(alarm[i, t])), channel[i, t] or "") for t in range(40) for i in range(2)]
    assert found == expected
    assert expected[2 * 20][2:] == ("1", "b")
    assert expected[2 * 13 + 1][2:] == ("1", "force")
    assert {row[2] for row in expected} == {"0", "1"}

    assert alarms_of(piped(folder, (folder / "new.csv").read_text(), monkeypatch, capsysbinary)) == expected

    lines = [dict(zip(("id", "t", "force", "b"), (json.loads(c or "null") for c in row), strict=True)) for row in new]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    answers = [json.loads(line) for line in piped(folder, text, monkeypatch, capsysbinary).splitlines()]
    assert [(str(a["id"]), str(a["t"]), str(a["alarm"]), a["alarm.channel"] or "") for a in answers] == expected


def test_parquet_has_whole_numbers_and_words(folder: Path) -> None:
    out = folder / "answers.parquet"
    assert run("filter", folder / "m.psim", folder / "new.csv", "--alarm", RATE, "-o", out, "--force") == 0
    table = pyarrow.parquet.read_table(out)
    assert set(table["alarm"].to_pylist()) == {0, 1}
    assert set(table["alarm.channel"].to_pylist()) == {None, "force", "b"}


def test_a_line_that_is_left_out_has_empty_cells(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = piped(folder, "id,t,force,b\n0,0,1,1\nnonsense\n0,1,1,1\n", monkeypatch, capsysbinary)
    assert [row[2:] for row in alarms_of(out)] == [("0", ""), ("", ""), ("0", "")]


def test_without_the_option_no_column_is_added(folder: Path) -> None:
    out = folder / "plain.csv"
    assert run("filter", folder / "m.psim", folder / "new.csv", "-o", out, "--force") == 0
    assert "alarm" not in out.read_text()


@pytest.mark.parametrize("rate", ["0", "0.5", "x", "1e-12"])
def test_rates_that_cannot_be_kept_are_refused(folder: Path, rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("filter", folder / "m.psim", folder / "new.csv", "--alarm", rate) == 2
    assert "required at least" in (said := capsys.readouterr().err) or "--alarm" in said


def test_a_column_called_alarm_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "new.csv").read_text().replace("id,", "alarm,", 1)
    (folder / "odd.csv").write_text(text)
    words = ("filter", folder / "m.psim", folder / "odd.csv", "--id", "alarm", "--alarm", RATE)
    assert run(*words) == 2
    assert "'alarm' twice" in capsys.readouterr().err
