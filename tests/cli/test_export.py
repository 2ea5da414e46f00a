"""`psimlearn export`: which file is written, and when none is."""

import json
from pathlib import Path

import pytest

from commands import run
from psimlearn.files.model import save
from psimlearn.filter import Stack
from random_filters import WINDOW, made
from small import model


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file in the working folder."""
    monkeypatch.chdir(tmp_path)
    model().save("arm.psim")
    return Path("arm.psim")


def test_the_name_of_the_model_names_the_file_and_all_that_is_in_it(arm: Path) -> None:
    assert run("export", arm, "--format", "c") == 0
    text = Path("arm.h").read_text()
    assert "arm_step(" in text
    model().export("arm2.h")
    assert Path("arm2.h").read_text().replace("arm2", "arm").replace("ARM2", "ARM") == text


def test_the_ending_of_the_file_names_the_format(arm: Path) -> None:
    assert run("export", arm, "-o", "matrices.json") == 0
    assert json.loads(Path("matrices.json").read_text())["format"] == "psimlearn state space"
    assert run("export", arm, "-o", "small.json", "--tolerance", "0.5") == 0
    assert len(Path("small.json").read_text()) < len(Path("matrices.json").read_text())


def test_a_file_is_replaced_by_force_only(arm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("arm.h").write_text("mine")
    assert run("export", arm, "--format", "c") == 2
    assert "--force" in capsys.readouterr().err
    assert Path("arm.h").read_text() == "mine"
    assert run("export", arm, "--format", "c", "--force") == 0
    assert Path("arm.h").read_text() != "mine"


def test_what_cannot_be_written_is_said_in_one_line(arm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", arm) == 2
    assert "--format" in capsys.readouterr().err
    assert run("export", arm, "-o", "arm.txt") == 2
    assert "required one of c" in capsys.readouterr().err
    save(made("waves", Stack(WINDOW), "none", 1, "mean", False, True, 1), "waves.psim")
    assert run("export", "waves.psim", "--format", "json") == 2
    assert "required a linear filter" in capsys.readouterr().err
    assert not Path("waves.json").exists()
