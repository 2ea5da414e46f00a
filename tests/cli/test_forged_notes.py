"""The notes of a model file are as little trusted as the rest of it; signals end commands as Ctrl-C does."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from commands import run
from psimlearn.cli.signals import Stopped, exit_code, unwinding
from psimlearn.files.model import read, save
from small import model

FORGED: list[dict[str, Any]] = [
    {"report": []},
    {"report": "x"},
    {"report": {"columns": []}},
    {"report": {"columns": {"id": 3}}},
    {"report": {"columns": {"inputs": 5}}},
    {"report": {"columns": {"inputs": [5]}}},
    {"report": {"columns": {"hints": [["x"]]}}},
    {"report": {"columns": {"categories": [1]}}},
    {"report": {"columns": {"categories": {"u": 3}}}},
    {"report": {"columns": {"missing": {"a": 1}}}},
    {"report": {"errors": 3}},
    {"report": {"data": None}},
    {"step": "x"},
    {"step": 0.0},
    {"step": -1.0},
    {"step": True},
]


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_forged_notes_are_refused(forged: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.psim"
    model().save(path)
    assert run("info", path) == 0
    filter, notes, _ = read(path)
    save(filter, path, notes=notes | forged)
    assert run("info", path) == 2
    said = capsys.readouterr().err
    assert re.search(r"m\.psim: (step: )?required", said)
    assert "report it" not in said


def test_errors_of_methods_that_diverged_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file holds them as null, as JSON has no infinity."""
    path = tmp_path / "m.psim"
    model().save(path)
    filter, notes, _ = read(path)
    errors = notes["report"]["errors"]
    name = next(iter(errors))
    errors[name] = [None] * len(errors[name])
    save(filter, path, notes=notes)
    assert run("info", path) == 0
    assert "inf" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signals_unwind(name: str) -> None:
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # it may be ignored here, as under nohup
    try:
        with pytest.raises(Stopped) as stop, unwinding():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert exit_code(stop.value) == 128 + number
    assert exit_code(KeyboardInterrupt()) == 130


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with unwinding():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
