"""The table "On the command line" of docs/my-data.md: every command of it, on data as its row describes them."""

import io
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from commands import run
from psimlearn.recordings.trajectories import Trajectories

PAGE = Path(__file__).parents[2] / "docs" / "my-data.md"
COMMANDS = re.findall(
    r"`(psimlearn fit [^`]*)`", PAGE.read_text().partition("## On the command line")[2].partition("\n## ")[0]
)

FILES = {
    "log.csv": "t,x,y\n0,1,2\n1,3,4\n",
    "people.csv": "person,trip,x\nann,1,1\nann,1,2\nann,2,3\nbob,3,4\n",
    "runs/a.csv": "x\n1\n2\n",
    "runs/b.csv": "x\n3\n",
    "pandas.csv": ",x\n0,1\n1,2\n",
    "bare.csv": "0,1,2\n1,3,4\n",
    "tabs.tsv": "x\ty\n1\t2\n",
    "logger.csv": "Date,Time,x\n2024-01-01,23:59:00,1\n2024-01-02,00:00:00,2\n",
    "slashes.csv": "when,x\n31/12/2023 23:59,1\n01/01/2024 00:00,2\n",
    "holes.csv": "t,x\n0,1\n1,2\n2,3\n5,6\n",
    "uneven.csv": "t,x\n0,0\n1,1\n2,2\n2.5,2.5\n4,4\n",
    "mixed.csv": "t,x\n1,1\n0,0\n2,2\n2,4\n",
    "codes.csv": "x,y,row\n1,?,1\n-999,2,2\n",
    "switches.csv": "x,on\n1,true\n2,False\n",
    "driven.csv": "x,force,mode,pose\n1,0.5,up,7\n2,0.1,down,8\n3,0.2,up,9\n",
    "wards.csv": "patient,ward\n1,A\n1,B\n2,A\n",
}
NAN = np.nan


class Expected(NamedTuple):
    """The recordings that a command learns from."""

    lengths: list[int]
    values: Any = None
    n_inputs: int = 0
    n_hints: int = 0
    groups: list[str] | None = None


EXPECTED = {
    "psimlearn fit log.csv": Expected([2], [[1, 2], [3, 4]]),
    "psimlearn fit people.csv --id person": Expected([3, 1], [[1, 1], [1, 2], [2, 3], [3, 4]]),
    "psimlearn fit runs/": Expected([2, 1], [[1], [2], [3]]),
    "psimlearn fit runs/a.csv runs/b.csv": Expected([2, 1], [[1], [2], [3]]),
    "psimlearn fit pandas.csv": Expected([2], [[1], [2]]),
    "psimlearn fit bare.csv --no-header": Expected([2], [[0, 1, 2], [1, 3, 4]]),
    "psimlearn fit bare.csv --header t,x,y": Expected([2], [[1, 2], [3, 4]]),
    "psimlearn fit tabs.tsv": Expected([1], [[1, 2]]),
    "psimlearn fit logger.csv": Expected([2], [[1], [2]]),
    "psimlearn fit logger.csv --time Date,Time": Expected([2], [[1], [2]]),
    "psimlearn fit slashes.csv --time when --time-format '%d/%m/%Y %H:%M'": Expected([2], [[1], [2]]),
    "psimlearn fit holes.csv": Expected([6], [[1], [2], [3], [NAN], [NAN], [6]]),
    "psimlearn fit uneven.csv --step 1s --resample": Expected([5], [[0], [1], [2], [3], [4]]),
    "psimlearn fit mixed.csv --sort --duplicates mean": Expected([3], [[0], [1], [3]]),
    "psimlearn fit uneven.csv --step none": Expected([5], [[0], [1], [2], [2.5], [4]]),
    "psimlearn fit codes.csv --missing '-999,?'": Expected([2], [[1, NAN, 1], [NAN, 2, 2]]),
    "psimlearn fit codes.csv --missing '-999,?' --exclude row": Expected([2], [[1, NAN], [NAN, 2]]),
    "psimlearn fit switches.csv": Expected([2], [[1, 1], [2, 0]]),
    "psimlearn fit driven.csv --inputs force,mode": Expected([3], [[1, 7], [2, 8], [3, 9]], 3),
    "psimlearn fit driven.csv --inputs force,mode --hints pose": Expected([3], [[1], [2], [3]], 3, 1),
    "psimlearn fit people.csv --id trip --group person": Expected(
        [2, 1, 1], [[1], [2], [3], [4]], groups=["ann", "ann", "bob"]
    ),
    "psimlearn fit wards.csv --id patient --symbols ward": Expected([2, 1], [[1, 0], [0, 1], [1, 0]]),
    "psimlearn fit cube.npy": Expected([3, 3]),
    "psimlearn fit arrays.npz": Expected([3, 2]),
    "psimlearn fit arrays.npz --array first": Expected([3]),
    "psimlearn fit turned.npy --channels-first": Expected([5], np.arange(10).reshape(2, 5).T),
    "psimlearn fit - < log.csv": Expected([2], [[1, 2], [3, 4]]),
}


class StopError(Exception):
    """Nothing is learnt: the recordings are all that is asked for."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page in the current folder."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "cube.npy", np.zeros((2, 3, 2)))
    np.save(tmp_path / "turned.npy", np.arange(10.0).reshape(2, 5))
    np.savez(tmp_path / "arrays.npz", first=np.zeros((3, 2)), second=np.ones((2, 2)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_and_this_test_know_the_same_commands() -> None:
    assert set(COMMANDS) == set(EXPECTED)


@pytest.mark.parametrize("command", EXPECTED)
def test_my_data(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[Trajectories, Any]] = []

    def learnt(model: Any, data: Trajectories, columns: Any, *, checkpoint: Any, groups: Any = None) -> None:
        heard.append((data, groups))
        raise StopError

    monkeypatch.setattr("psimlearn.cli.progress.learnt", learnt)
    words, _, source = command.partition(" < ")
    if source:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((folder / source).read_bytes())))
    assert run(*shlex.split(words)[1:]) == 2
    ((data, groups),) = heard
    expected = EXPECTED[command]
    assert data.lengths.tolist() == expected.lengths
    if expected.values is not None:
        np.testing.assert_allclose(data.values, expected.values)
    assert (data.n_inputs, data.n_hints, groups) == (expected.n_inputs, expected.n_hints, expected.groups)
