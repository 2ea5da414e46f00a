"""`psimlearn fit --checkpoint`: stopped by a signal, the same command goes on to the same model."""

import re
import signal
from pathlib import Path

import numpy as np
import pytest

from commands import run
from psimlearn.choose.watch import Stage
from psimlearn.cli import progress

FAST = ["--window", "2", "--lags", "1", "--validation", "0.5"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [f"{i},{a},{b}" for i in range(6) for a, b in rng.standard_normal((20, 2)).cumsum(axis=0)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["trial,a,b", *rows]))
    return path


def test_stopped_by_signals_the_same_command_goes_on_to_the_same_model(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, model, folder = (tmp_path / each for each in ("plain.psim", "m.psim", "work"))
    assert run("fit", table, "--id", "trial", "-o", plain, *FAST) == 0
    before, signals = progress.Shown.goes_on, iter(["SIGINT", "SIGTERM"])

    def goes_on(self: progress.Shown, stage: Stage, done: int, total: int) -> bool:
        if stage == "racing" and done == 2 and (name := next(signals, None)):
            signal.raise_signal(getattr(signal, name))
        return before(self, stage, done, total)

    monkeypatch.setattr(progress.Shown, "goes_on", goes_on)
    command: list[str | Path] = ["fit", table, "--id", "trial", "-o", model, *FAST, "--checkpoint", folder]
    for code in (130, 143):
        assert run(*command) == code
        told = capsys.readouterr().err.splitlines()[-1]
        assert re.fullmatch(r"psimlearn: stopped; .* are in .*work: the same call goes on from there\.", told)
        assert not model.exists()
        assert list(folder.glob("rounds-*.psim"))
    assert run(*command) == 0
    assert model.read_bytes() == plain.read_bytes()
    assert re.search(r"work: \d+ settings tried and \d+ rounds done already", capsys.readouterr().err)
    assert run(*command, "--force", "--seed", "1") == 2
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "checkpoint" in line]
    assert "the same random_state" in told
    assert str(folder) in told
