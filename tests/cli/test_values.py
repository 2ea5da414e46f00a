"""Every number on the command line: a wrong type, NaN, a huge or a negative value ends with one line that says so."""

from pathlib import Path

import numpy as np
import pytest

from commands import run
from small import model, several

HUGE = str(10**12)
OPTIONS = [
    ("fit", "--window", ["-1", "0", "1.5", "nan", "x", HUGE]),
    ("fit", "--horizon", ["-1", "0", "1.5", "nan", "x"]),
    ("fit", "--validation", ["-1", "0", "0.99", "nan", "1e30", "inf"]),
    ("fit", "--seed", ["-1", "1.5", "nan", "x", HUGE]),
    ("evaluate", "--steps", ["-1", "0", "1.5", "nan", "x", HUGE]),
    ("forecast", "--steps", ["-1", "0", "1.5", "nan", "x", HUGE]),
    ("filter", "--steps", ["-1", "1.5", "nan", "x", HUGE]),
    ("compare", "--steps", ["-1", "0", "1.5", "nan", "x", HUGE]),
    ("compare", "--folds", ["-1", "0", "1.5", "nan", "x"]),
    ("compare", "--window", ["-1", "0", "1.5", "nan", "x"]),
    ("compare", "--seed", ["-1", "1.5", "nan", "x"]),
    ("demo", "--recordings", ["-1", "0", "1.5", "nan", "x", HUGE]),
    ("demo", "--length", ["-1", "0", "1.5", "nan", "x", HUGE]),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    model().save(folder / "model.psim")
    np.savetxt(folder / "rows.csv", np.concatenate(several()), delimiter=",", header="a,b", comments="")
    return folder


@pytest.mark.parametrize(("command", "option", "values"), OPTIONS, ids=[" ".join(case[:2]) for case in OPTIONS])
def test_values_without_meaning_are_refused(
    command: str,
    option: str,
    values: list[str],
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words: dict[str, list[str | Path]] = {
        "fit": [files / "rows.csv", "-o", tmp_path / "new.psim"],
        "compare": [files / "rows.csv", "--methods", "last"],
        "demo": ["--folder", tmp_path / "demo"],
    }
    for value in values:
        assert run(command, *words.get(command, [files / "model.psim", files / "rows.csv"]), option, value) == 2, value
        said = capsys.readouterr().err
        assert option.strip("-") in said or "numbers" in said, (value, said)
        assert "report it" not in said
        assert not (tmp_path / "new.psim").exists()
