"""Tables and times for a terminal: 80 columns, the winner, the seconds, and the time left of the whole job."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from commands import run
from psimlearn import PSIM
from psimlearn.cli import tables
from psimlearn.cli.comparison import time_left, timed
from psimlearn.cli.evaluate import TITLES
from psimlearn.cli.progress import Pace, left_in_words
from psimlearn.evaluate import Comparison
from small import ONE, several


@pytest.fixture
def comparison() -> Comparison:
    """Every method; the third has the least error one step ahead, the first five steps ahead."""
    errors = np.random.default_rng(0).uniform(1, 2, (len(TITLES), 10, 5)) * 1e-3
    errors[2, :, 0], errors[0, :, 4], errors[1] = 0.00012345, 0.00012345, np.inf
    return Comparison(tuple(TITLES.values()), errors)


def shown(
    comparison: Comparison, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(tables, "_console", lambda: Console(highlight=False, markup=False, width=width))
    tables.comparison_table(comparison, {name: 12.345 * i for i, name in enumerate(comparison.methods)})
    return capsys.readouterr().out


@pytest.mark.parametrize(("width", "n_steps"), [(80, 2), (160, 3)])
def test_a_comparison_fits_the_terminal(
    comparison: Comparison,
    width: int,
    n_steps: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(comparison, width, monkeypatch, capsys).splitlines()
    assert max(map(len, lines)) <= width
    for i, name in enumerate(comparison.methods):
        (line,) = (line for line in lines if line.startswith(f"{name}  ") and "+-" in line)  # one line, unbroken
        assert line.count("+-") == n_steps
        assert "\u2026" not in line
        assert line.endswith(f"{12.345 * i:.2g}")


def test_the_least_error_of_every_column_has_a_star(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line in shown(comparison, 80, monkeypatch, capsys).splitlines() if "+-" in line]
    starred = [line for line in lines[1:] if "*" in line]
    first, last = (line.split("*")[0].count("+-") for line in starred[::-1])
    assert [line[:8].strip() for line in starred] == ["training", "autoregr"]
    assert (first, last) == (1, 2)


def test_an_error_table_marks_the_least(capsys: pytest.CaptureFixture[str]) -> None:
    tables.error_table({"last observation": np.array([1.0, 2.0]), "PSIM": np.array([1.5, 1.0])}, "errors")
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines()[2:4]] == [
        ["last", "observation", "1*", "2"],
        ["PSIM", "1.5", "1*"],
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (0.2, "about 1 s left"), (42.4, "about 42 s left"), (600.0, "about 10 min left")],
)
def test_the_time_left_in_words(seconds: float | None, words: str) -> None:
    assert left_in_words(seconds) == words


def test_the_time_left_of_a_comparison_is_that_of_all_folds() -> None:
    assert time_left({"fast": [1.0], "slow": []}, 5) is None
    assert time_left({"fast": [1.0, 3.0], "slow": [100.0]}, 5) == 3 * 2.0 + 4 * 100.0


def test_fits_are_timed_even_if_they_fail() -> None:
    seconds: list[float] = []

    def fails(_: object) -> None:
        raise ValueError("no fit")

    with pytest.raises(ValueError, match="no fit"):
        timed(fails, seconds)(None)  # type: ignore[arg-type]
    assert len(seconds) == 1


def rounds(pace: Pace, stage: str, totals: Sequence[int], begin: float) -> list[float | None]:
    """The seconds left after each round, where every round takes one second."""
    steps = [(done, total) for total in totals for done in range(1, total + 1)]
    return [pace.left(stage, done, total, begin + i) for i, (done, total) in enumerate(steps)]  # type: ignore[arg-type]


def test_the_time_left_of_a_fit_counts_the_stages_to_come() -> None:
    pace = Pace()
    assert rounds(pace, "trying settings", [30], 0.0) == [None] * 30
    racing = rounds(pace, "racing", [6] * 5 + [21], 30.0)
    assert racing[1] == 29 + 40  # the other rounds of the race, twenty of the leader and twenty of training
    assert racing[-1] == 21
    training = rounds(pace, "training", [20], 30.0 + len(racing))
    assert training[-1] == 0
    known = [seconds for seconds in (*racing, *training) if seconds is not None]
    assert all(later <= earlier + 3 for earlier, later in pairwise(known))


@pytest.mark.parametrize("literal", [False, True])
def test_errors_are_said_in_the_units_of_the_model(
    literal: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = PSIM.as_published(2, n_rounds=1, random_state=0) if literal else PSIM(**ONE)
    model.fit(several()).save(tmp_path / "model.psim")
    rows = ["a,b", *(",".join(map(repr, row)) for row in several(1)[3].tolist())]
    (tmp_path / "new.csv").write_text("\n".join(rows) + "\n")
    assert run("evaluate", tmp_path / "model.psim", tmp_path / "new.csv") == 0
    units = "units of the recordings" if literal else "standard deviations"
    assert f"squared error by steps ahead, in {units}, channels summed" in " ".join(capsys.readouterr().out.split())
