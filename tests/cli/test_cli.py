"""The command line: what it says, what it writes, and that its numbers are those of the library."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from commands import run
from psimlearn import PSIM, Trajectories
from psimlearn.baselines import LastObservation, TrainingMean
from psimlearn.choose.watch import Stage, Watch
from psimlearn.cli import progress
from psimlearn.cli.evaluate import TITLES, USUAL
from psimlearn.cli.files import written
from psimlearn.cli.methods import METHODS
from psimlearn.datasets import random_system
from psimlearn.evaluate import errors_by_horizon, folds

COMMANDS = ["demo", "fit", "info", "filter", "forecast", "impute", "evaluate", "compare", "completion"]
FAST = ["--window", "2", "--validation", "0.5"]


def simulated(seed: int, n: int = 12, length: int = 40) -> Trajectories:
    rng = np.random.default_rng(seed)
    data = random_system(np.random.default_rng(0)).simulate(n, length, rng)
    values = [part.values[: length - i] for i, part in enumerate(data)]
    return Trajectories.of(values, names=("a", "b"), ids=[f"{i:03}" for i in range(n)])


def write_csv(path: Path, data: Trajectories) -> None:
    """Rows of all recordings in turn, so that those of one are not adjacent."""
    assert data.ids is not None
    rows = [
        (t, [data.ids[i], t, *("" if np.isnan(v) else repr(float(v)) for v in row)])
        for i, part in enumerate(data)
        for t, row in enumerate(part.values)
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [["trial", "t", *(data.names or ())], *(row for _, row in sorted(rows, key=by_time))]
        )


def by_time(row: tuple[int, list[Any]]) -> int:
    return row[0]


class Kit:
    """Recordings in files, and a model learnt from them by the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.train, self.test = simulated(1), simulated(2, n=5)
        self.train_csv, self.test_csv, self.model = (folder / n for n in ("train.csv", "test.csv", "model.psim"))
        write_csv(self.train_csv, self.train)
        write_csv(self.test_csv, self.test)
        with redirect_stderr(io.StringIO()) as err, redirect_stdout(io.StringIO()) as out:
            assert run("fit", self.train_csv, "-o", self.model, *FAST) == 0
        self.said, self.shown = err.getvalue(), out.getvalue()


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return Kit(tmp_path_factory.mktemp("kit"))


def table(text: str) -> tuple[list[str], list[list[str]]]:
    head, *rows = csv.reader(io.StringIO(text))
    return head, rows


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "--help") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: psimlearn {command}")
    if command not in ("demo", "completion"):
        assert f"Examples:\n    psimlearn {command} " in said


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    said = capsys.readouterr().out
    assert all(f"\n  {command} " in said for command in COMMANDS)


def test_help_needs_no_numbers() -> None:
    """What makes it quick: neither numpy nor rich nor anything that trains is imported."""
    code = (
        "import sys\nfrom psimlearn.cli.main import cli\ntry: cli.main(['fit', '--help'], prog_name='psimlearn')\n"
        "except SystemExit: pass\nprint(sorted({'numpy', 'rich', 'scipy', 'sklearn', 'jaxtyping'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_version_by_module() -> None:
    said = subprocess.run([sys.executable, "-m", "psimlearn", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"psimlearn, version {version('psimlearn')}\n"


def test_shells_complete_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", "zsh") == 0
    assert "_PSIMLEARN_COMPLETE=zsh_complete psimlearn" in capsys.readouterr().out
    asked = os.environ | {"_PSIMLEARN_COMPLETE": "bash_complete", "COMP_WORDS": "psimlearn fi", "COMP_CWORD": "1"}
    told = subprocess.run([sys.executable, "-m", "psimlearn"], env=asked, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["plain,filter", "plain,fit"]


# -- errors ------------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[Kit], list[str | Path]], str]] = {
    "no data": (lambda kit: ["fit", kit.folder / "none.csv"], "required a file or a folder"),
    "no model": (lambda kit: ["info", kit.folder / "none.psim"], "received no file"),
    "not a model": (lambda kit: ["filter", kit.train_csv, kit.test_csv], "required a safetensors file"),
    "no such column": (lambda kit: ["fit", kit.train_csv, "--channels", "a,z", "-o", kit.folder / "x"], "['z']"),
    "no such folder": (lambda kit: ["fit", kit.train_csv, "-o", kit.folder / "no/x.psim"], "Create it"),
    "a folder": (lambda kit: ["fit", kit.train_csv, "-o", kit.folder], "received a folder"),
    "bad ending": (lambda kit: ["filter", kit.model, kit.test_csv, "-o", kit.folder / "x.txt"], ".csv or .parquet"),
    "bad share": (lambda kit: ["fit", kit.train_csv, "--validation", "7", "-o", kit.folder / "x"], "from 0.001 to 0.5"),
    "bad method": (lambda kit: ["compare", kit.train_csv, "--methods", "arima"], "received 'arima'"),
    "bad option": (lambda kit: ["fit", kit.train_csv, "--windows", "3"], "No such option"),
    "inputs unasked": (
        lambda kit: ["forecast", kit.model, kit.test_csv, "--steps", "2", "--future-inputs", kit.test_csv],
        "learnt without inputs",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_one_line_and_exit_code_2(case: str, kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    words, told = WRONG[case]
    before = sorted(kit.folder.iterdir())
    assert run(*words(kit)) == 2
    said = capsys.readouterr()
    (line,) = [line for line in said.err.splitlines() if told in line]
    assert said.err.splitlines()[-1] == line
    assert "Traceback" not in said.err
    assert sorted(kit.folder.iterdir()) == before


def test_debug_shows_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fit", tmp_path / "none.csv", "--debug") == 2
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert said.splitlines()[-1].startswith("psimlearn: ")


def test_what_was_not_foreseen_is_one_line_too(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("psimlearn.cli.models.opened", broken)
    assert run("info", kit.model) == 2
    assert capsys.readouterr().err.startswith("psimlearn: two lines (RuntimeError). Run it again with --debug")


def test_nothing_is_replaced_without_force(kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answers.csv"
    out.write_text("mine")
    assert run("filter", kit.model, kit.test_csv, "-o", out) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert run("filter", kit.model, kit.test_csv, "-o", out, "--force") == 0
    assert out.read_text().startswith("trial,t,log_likelihood")
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_is_not_finished_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), written(path) as file:  # noqa: PT012
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# -- fit ---------------------------------------------------------------------------------------------------------------


def test_fit_is_what_python_does(kit: Kit) -> None:
    ours = PSIM(2, validation=0.5, random_state=0).fit(kit.train)
    loaded = PSIM.load(kit.model)
    np.testing.assert_array_equal(loaded.filter_.forecast(kit.test, 3), ours.filter_.forecast(kit.test, 3))
    noted = loaded.report_["columns"]
    assert [noted[what] for what in ("id", "time", "channels", "inputs")] == ["trial", "t", ["a", "b"], []]


def test_guesses_are_said_aloud(kit: Kit) -> None:
    assert "guessed: column 'trial' tells recordings apart (--id trial" in kit.said
    assert "guessed: column 't' is the time" in kit.said
    assert "channels: a, b (" in kit.said
    assert "psimlearn: tried" in kit.said
    assert "held-out error by steps ahead" in kit.shown
    assert kit.shown.endswith(f"saved to {kit.model}\n")


def test_nothing_is_guessed_when_asked_not_to(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--no-guess", "--id", "trial", "--methods", "last", "--folds", "2"]
    assert run("compare", kit.train_csv, *words) == 0
    said = capsys.readouterr()
    assert "guessed" not in said.err
    assert "channels: t, a, b (" in said.err


def test_two_candidates_for_a_guess_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,Trial,a\n1,1,0.5\n")
    assert run("fit", path, "-o", tmp_path / "m.psim") == 2
    assert "['id', 'Trial'] could all be the --id" in capsys.readouterr().err


def test_fit_from_standard_input(kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with recordings of one's own to choose by."""
    parquet = tmp_path / "train.parquet"
    text = pyarrow.csv.ConvertOptions(column_types={"trial": pyarrow.string()})
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(kit.train_csv, convert_options=text), parquet)
    expected = PSIM(1, lags=1, validation=kit.test, random_state=0).fit(kit.train)
    for i, source in enumerate((kit.train_csv, parquet)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(source.read_bytes())))
        model = tmp_path / f"{i}.psim"
        assert run("fit", "-", "--validation", kit.test_csv, "-o", model, "--window", "1", "--lags", "1") == 0
        np.testing.assert_array_equal(
            PSIM.load(model).filter_.forecast(kit.test, 1), expected.filter_.forecast(kit.test, 1)
        )


def test_json_lines_cannot_be_learnt_from(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}\n')))
    assert run("fit", "-", "-o", "unused.psim") == 2
    assert "received JSON lines" in capsys.readouterr().err


def interrupting(monkeypatch: pytest.MonkeyPatch, at: Callable[[Stage, int], bool]) -> None:
    """Press Ctrl-C when fitting is so far."""
    before = progress.Shown.goes_on

    def goes_on(self: progress.Shown, stage: Stage, done: int, total: int) -> bool:
        if at(stage, done):
            signal.raise_signal(signal.SIGINT)
        return before(self, stage, done, total)

    monkeypatch.setattr(progress.Shown, "goes_on", goes_on)


def test_interrupted_the_best_so_far_is_kept(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, pressed = tmp_path / "m.psim", iter([True])
    interrupting(monkeypatch, lambda stage, done: stage == "trying settings" and done == 5 and next(pressed, False))
    assert run("fit", kit.train_csv, "-o", model, *FAST) == 0
    assert "ending the choice of settings with the best so far" in capsys.readouterr().err
    tried = PSIM.load(model).report_["tried"]
    assert 5 <= tried < 20 < PSIM.load(kit.model).report_["tried"]


def test_interrupted_twice_nothing_is_kept(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupting(monkeypatch, lambda stage, _: stage == "trying settings")
    assert run("fit", kit.train_csv, "-o", tmp_path / "m.psim", *FAST) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "psimlearn: stopped; nothing was written."
    assert list(tmp_path.iterdir()) == []


class Ending(Watch):
    """Ends a stage at its first report."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.heard: list[tuple[Stage, int, int]] = []

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        self.heard.append((stage, done, total))
        return stage != self.stage


PLAIN: dict[str, Any] = {"random_state": 0, "lags": 1, "prior": "mean", "belief_weight": 1.0, "validation": 0.5}


@cache
def fitted_to_the_end() -> PSIM:
    return PSIM(2, **PLAIN).fit(simulated(1))


@pytest.mark.parametrize("stage", ["trying settings", "racing", "training"])
def test_any_stage_of_fitting_can_be_ended(stage: Stage) -> None:
    """What is left is a filter like any other; without its last rounds there is nothing to go on learning with."""
    data = simulated(1)
    watch = Ending(stage)
    model = PSIM(2, **PLAIN, verbose=watch).fit(data)
    assert np.isfinite(model.filter_.forecast(data, 5)).all()
    whole = fitted_to_the_end()
    assert watch.heard
    assert all(done <= total for _, done, total in watch.heard)
    if stage == "training":
        assert model.report_["choices"] == whole.report_["choices"]
        assert model.n_rounds_ == 0 < whole.n_rounds_
        with pytest.raises(ValueError, match="partial_fit needs the sums"):
            model.partial_fit(data)
    else:
        assert len(model.trials_) < len(whole.trials_) or len(model.rounds_) < len(whole.rounds_)


# -- using a model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_filter_answers_every_row_where_it_stood(kit: Kit, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"answers{ending}"
    assert run("filter", kit.model, kit.test_csv, "--ahead", "4", "-o", out) == 0
    if ending == ".csv":
        names, cells = table(out.read_text())
    else:
        read = pyarrow.parquet.read_table(out)
        names, cells = read.column_names, [[str(cell) for cell in row.values()] for row in read.to_pylist()]
    with kit.test_csv.open() as file:
        head, *asked = csv.reader(file)
    assert names[:3] == ["trial", "t", "log_likelihood"]
    assert head[:2] == names[:2]
    assert [[row[0], float(row[1])] for row in cells] == [[row[0], float(row[1])] for row in asked]
    model = PSIM.load(kit.model)
    mean, std = model.forecast(kit.test, 4, return_std=True)
    expected = [model.score_samples(kit.test), model.predict(kit.test, 1), model.predict(kit.test, 2)]
    for i, id in enumerate(kit.test.ids or ()):
        rows = np.array([row[2:] for row in cells if row[0] == id], dtype=float)
        np.testing.assert_allclose(rows[:, 0], expected[0][i], rtol=1e-10)
        np.testing.assert_allclose(rows[:, 1:3], expected[1][i], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(rows[:-2, 9:11], expected[2][i][2:], rtol=1e-10, atol=1e-10)  # two steps ahead
        np.testing.assert_allclose(rows[-1, 5:].reshape(4, 2, 2)[:, 0], mean[i], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(rows[-1, 5:].reshape(4, 2, 2)[:, 1], std[i], rtol=1e-10)


def test_forecast_goes_beyond_the_end(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("forecast", kit.model, kit.test_csv, "--steps", "30", "--coverage", "0.8") == 0
    names, cells = table(capsys.readouterr().out)
    assert names == ["trial", "t", "step", *(f"{c}{part}" for c in "ab" for part in ("", ".std", ".low", ".high"))]
    assert [row[:3] for row in cells[28:31]] == [["000", "68", "29"], ["000", "69", "30"], ["001", "39", "1"]]
    model = PSIM.load(kit.model)
    mean, low, high = model.forecast(kit.test, 30, coverage=0.8)
    numbers = np.array([[float(cell or "nan") for cell in row[3:]] for row in cells]).reshape(5, 30, 2, 4)
    for part, truth in ((0, mean), (2, low), (3, high)):
        np.testing.assert_allclose(numbers[..., part], truth, rtol=1e-10, atol=1e-10)
    assert (numbers[:, -1, :, 1] >= numbers[:, 0, :, 1]).all()  # beyond the errors measured, the model goes on


def test_impute_fills_gaps_and_leaves_the_rest_alone(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = kit.test.values.copy()
    values[5:9, 0], values[50:53] = np.nan, np.nan
    gappy = replace(kit.test, values=values)
    write_csv(tmp_path / "gappy.csv", gappy)
    assert run("impute", kit.model, tmp_path / "gappy.csv", "--std") == 0
    names, cells = table(capsys.readouterr().out)
    assert names == ["trial", "t", "a", "a.std", "b", "b.std"]
    mean, std = PSIM.load(kit.model).smooth(gappy, return_std=True)
    rows = [(id, str(t)) for id, part in zip(gappy.ids or (), gappy, strict=True) for t in range(len(part))]
    expected = dict(zip(rows, np.stack([np.concatenate(mean), np.concatenate(std)], axis=-1), strict=True))
    assert len(cells) == len(rows)
    for id, t, *numbers in cells:
        np.testing.assert_allclose(
            np.array(numbers, dtype=float).reshape(2, 2), expected[id, t], rtol=1e-10, atol=1e-10
        )
    assert run("impute", kit.model, tmp_path / "gappy.csv", "-o", tmp_path / "filled.csv") == 0
    names, cells = table((tmp_path / "filled.csv").read_text())
    assert names == ["trial", "t", "a", "b"]
    assert all(cell for row in cells for cell in row)


def test_models_with_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file says which columns they are, and forecasts need those to come."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((8, 40, 1))
    x = np.cumsum(u, axis=1) * 0.3 + 0.1 * rng.standard_normal((8, 40, 1))
    data, model = tmp_path / "x.csv", tmp_path / "m.psim"

    def rows(start: int, end: int) -> str:
        own = [f"r{i},{x[i, t, 0]},{u[i, t, 0]}\n" for i in range(8) for t in range(start, end)]
        return "id,x,u\n" + "".join(own)

    data.write_text(rows(0, 30))
    assert run("fit", data, "--inputs", "u", "-o", model, *FAST) == 0
    assert run("forecast", model, data, "--steps", "8") == 2
    assert "--future-inputs: required" in capsys.readouterr().err
    for steps in (1, 2):  # the input of the last row acts on the next row, and is known
        assert run("forecast", model, data, "--steps", str(steps)) == 0
        assert ("inputs to come are not known" in capsys.readouterr().err) == (steps == 2)
    future = tmp_path / "future.csv"
    future.write_text(rows(30, 38))
    assert run("forecast", model, data, "--steps", "8", "--future-inputs", future) == 0
    out, err = capsys.readouterr()
    assert "inputs to come" not in err
    _, cells = table(out)
    told = np.array([row[2] for row in cells], dtype=float).reshape(8, 8, 1)
    past = Trajectories.of(x[:, :30], u[:, :30], names=["x"])
    np.testing.assert_allclose(
        told, PSIM.load(model).forecast(past, 8, future_inputs=u[:, 30:38]), rtol=1e-9, atol=1e-9
    )
    future.write_text(rows(30, 33))
    assert run("forecast", model, data, "--steps", "8", "--future-inputs", future) == 2
    assert "required 8 rows for each recording" in capsys.readouterr().err
    assert run("filter", model, data, "--ahead", "9") == 2
    assert "required at most 2" in capsys.readouterr().err


def test_evaluate_sets_it_beside_simple_methods(kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "errors.csv"
    assert run("evaluate", kit.model, kit.test_csv, "--train", kit.train_csv, "-o", out) == 0
    said = capsys.readouterr().out
    names, cells = table(out.read_text())
    assert names == ["method", "step1", "step2"]
    found = {row[0]: np.array(row[1:], dtype=float) for row in cells}
    assert list(found) == ["training mean", "last observation", "autoregression", "PSIM"]
    model = PSIM.load(kit.model)
    scale = model.filter_.scaling.scale
    truth = np.concatenate([part.values[1:-1] for part in kit.test])
    ours = np.concatenate([own[1:-1] for own in model.predict(kit.test, 1)])
    np.testing.assert_allclose(found["PSIM"][0], np.mean(((truth - ours) / scale) ** 2, axis=0).sum(), rtol=1e-9)
    usual = errors_by_horizon(TrainingMean.fit(kit.train), kit.test, 2, skip=1, scale=scale)
    np.testing.assert_allclose(found["training mean"], usual, rtol=1e-9)
    assert found["autoregression"][0] < found["last observation"][0]
    low, high = model.predict_interval(kit.test, 1, 0.8)
    inside = [(low[i] <= part.values) & (part.values <= high[i]) for i, part in enumerate(kit.test)]
    share = np.concatenate([own[1:] for own in inside]).mean()
    (line,) = [line for line in said.splitlines() if line.startswith("1 step ahead")]
    assert line.split()[4] == f"{share:.1%}"


def test_evaluate_finds_an_autoregression_of_its_own(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    """Fitted to recordings that it is not scored on; one single recording is enough for that, a short one is not."""
    assert run("evaluate", kit.model, kit.test_csv) == 0
    assert "\nautoregression " in capsys.readouterr().out
    one, short = kit.folder / "one.csv", kit.folder / "short.csv"
    write_csv(one, kit.test[:1])
    short.write_text("a,b\n1,2\n3,4\n5,6\n7,8\n")
    assert run("evaluate", kit.model, one, "--steps", "2") == 0
    assert "\nautoregression " in capsys.readouterr().out
    assert run("evaluate", kit.model, short) == 0
    said = capsys.readouterr()
    assert "note: no autoregression to compare with" in said.err
    assert "\nautoregression " not in said.out
    assert "\nPSIM " in said.out


def test_compare_scores_all_on_the_same_folds(kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "folds.csv"
    words: list[str | Path] = [
        "--methods",
        "mean,last,ar,psim",
        "--steps",
        "2",
        "--folds",
        "2",
        "--window",
        "1",
        "-o",
        out,
    ]
    assert run("compare", kit.train_csv, *words) == 0
    said = capsys.readouterr().out
    names, cells = table(out.read_text())
    assert names == ["method", "fold", "step1", "step2"]
    scale = kit.train.values.std(axis=0)
    for method, title in ((TrainingMean, "training mean"), (LastObservation, "last observation")):
        pairs = folds(kit.train, 2, np.random.default_rng(0))
        truth = [errors_by_horizon(method.fit(a), b, 2, skip=1, scale=scale) for a, b in pairs]
        found = np.array([row[2:] for row in cells if row[0] == title], dtype=float)
        np.testing.assert_allclose(found, truth, rtol=1e-9)
        assert f"{np.mean(truth, axis=0)[0]:.4g} +- " in said
    assert " 2/2 " in said or " 1/2 " in said or " 0/2 " in said


def test_every_method_that_can_be_compared_has_a_title() -> None:
    assert list(METHODS) == list(TITLES)
    assert set(USUAL) == set(METHODS) - {"rnn"}


def test_a_method_without_its_extra_is_told(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    words = ["--methods", "last,rnn", "--steps", "1", "--folds", "2"]
    assert run("compare", kit.train_csv, *words) == 0
    assert re.search(r"note: recurrent network failed: .*psimlearn\[grad\]", capsys.readouterr().out)


def test_a_method_that_fails_is_told_and_the_others_go_on(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recordings of nine rows are too short for subspaces of ten."""
    short = tmp_path / "short.csv"
    write_csv(short, replace(kit.train.blocks(9)[:8], ids=tuple("abcdefgh")))
    assert run("compare", short, "--id", "trial", "--methods", "last,n4sid", "--steps", "1", "--folds", "2") == 0
    said = capsys.readouterr().out
    assert "note: N4SID failed: " in said
    assert any(line.split()[:4] == ["N4SID", "-", "+-", "-"] for line in said.splitlines())


def test_info(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", kit.model) == 0
    said = capsys.readouterr().out
    assert "channels   a, b\nid         trial\ntime       t\nstep       1 s\nbeliefs    of the next 2 steps" in said
    assert PSIM.load(kit.model).summary() in said
    assert run("info", kit.model, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["channels"], told["id"], told["window"]) == (["a", "b"], "trial", 2)
    assert told["errors"] == PSIM.load(kit.model).report_["errors"]


def test_models_from_python_say_less(kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A filter without names takes the columns as they come."""
    from psimlearn import save
    from psimlearn.filter import Filter

    model = PSIM(2, lags=1, prior="mean", belief_weight=1.0, n_rounds=1, random_state=0)
    bare: Filter = model.fit([part.values for part in kit.train]).filter_
    path, data = tmp_path / "bare.psim", tmp_path / "x.npz"
    save(bare, path)
    np.savez(data, *(part.values for part in kit.test))
    assert run("info", path) == 0
    assert "report     none" in capsys.readouterr().out
    assert run("filter", path, data) == 0
    names, cells = table(capsys.readouterr().out)
    assert names[:4] == ["recording", "log_likelihood", "channel0.expected", "channel1.expected"]
    likelihoods = np.array([row[1] for row in cells], dtype=float)
    np.testing.assert_allclose(likelihoods, bare.log_likelihood(kit.test), rtol=1e-10)
