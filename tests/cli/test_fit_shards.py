"""Files that are loaded one at a time: fit, filter, and what is said about it."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import run
from psimlearn.cli.shards import _read
from psimlearn.estimator.psim import PSIM


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three Parquet files with four recordings each."""
    made, rng = tmp_path / "years", np.random.default_rng(0)
    made.mkdir()
    for year in range(3):
        phase = rng.uniform(0, 6, (4, 1)) + 0.3 * np.arange(40)
        columns = {"trip": np.repeat([f"{year}-{i}" for i in range(4)], 40), "x": (np.sin(phase) + 0.1).ravel()}
        pq.write_table(
            pa.table(columns | {"y": np.cos(phase).ravel() + 0.1 * rng.standard_normal(160)}), made / f"{year}.parquet"
        )
    return made


def fitted(folder: Path, output: Path, *options: str) -> int:
    return run("fit", folder, "--id", "trip", "--window", "2", "--lags", "1", "-o", output, *options)


def test_shards_are_asked_for(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fitted(folder, tmp_path / "m.psim", "--shards", "--sample-rows", "200") == 0
    assert "12 recordings of 40 rows, 480 in all" in capsys.readouterr().out
    assert PSIM.load(tmp_path / "m.psim").report_["columns"]["id"] == "trip"
    assert run("filter", tmp_path / "m.psim", folder, "--shards", "-o", tmp_path / "answers") == 0
    answers = [pq.read_table(tmp_path / "answers" / f"{year}.parquet") for year in range(3)]
    assert run("filter", tmp_path / "m.psim", folder, "-o", tmp_path / "all.parquet") == 0
    whole = pq.read_table(tmp_path / "all.parquet")
    np.testing.assert_allclose(
        np.concatenate([part["y.expected"].to_numpy() for part in answers]), whole["y.expected"].to_numpy(), rtol=1e-10
    )
    assert run("filter", tmp_path / "m.psim", folder, "--shards", "-o", tmp_path / "answers") == 2
    assert "--force" in capsys.readouterr().err


def test_errors_over_shards_are_those_in_memory(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, output = tmp_path / "m.psim", tmp_path / "errors.csv"
    assert fitted(folder, model) == 0
    printed = []
    for options in ((), ("--shards",)):
        capsys.readouterr()
        assert run("evaluate", model, folder, "-o", output, "--force", *options) == 0
        numbers = {line.split(",")[0]: line.split(",")[1:] for line in output.read_text().splitlines()[1:]}
        printed.append(
            ([*map(float, numbers["PSIM"] + numbers["last observation"])], capsys.readouterr().out.splitlines())
        )
    (in_memory, said), (over_shards, said_too) = printed
    np.testing.assert_allclose(over_shards, in_memory, rtol=1e-9)
    assert said_too[0] == "3 shards, 480 rows"
    tail = [line for line in said if "%" in line or "nats" in line]
    assert len(tail) == 4  # the levels, two horizons, the likelihood
    assert tail == [line for line in said_too if "%" in line or "nats" in line]
    assert run("evaluate", model, folder, "--shards", "--report", tmp_path / "r.html") == 2
    assert "need recordings in memory" in capsys.readouterr().err
    (folder / "1.parquet").write_bytes(b"PAR1 and nothing else")
    assert run("evaluate", model, folder, "--shards") == 2
    assert "shard 1 (" in capsys.readouterr().err


def test_each_file_is_read_once_to_measure_a_filter(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, taken = tmp_path / "m.psim", []
    assert fitted(folder, model) == 0
    far = pq.read_table(folder / "1.parquet").to_pydict()
    pq.write_table(pa.table(far | {"x": [1e3 + x for x in far["x"]]}), folder / "1.parquet")

    def counted(model: Any, file: str, options: Any) -> Any:
        taken.append(Path(file).name)
        return _read(model, file, options)

    monkeypatch.setattr("psimlearn.cli.shards._read", counted)
    capsys.readouterr()
    assert run("evaluate", model, folder, "--shards") == 0
    assert taken == ["0.parquet", "1.parquet", "2.parquet"]
    assert capsys.readouterr().err.count("note: ") == 1  # on the range of the second file, and once


def test_shards_are_chosen_and_said_aloud_when_tables_do_not_fit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("psimlearn.cli.shards.MAX_BYTES", 5000)
    assert fitted(folder, tmp_path / "m.psim") == 0
    assert "do not fit in memory: each is loaded as a shard" in capsys.readouterr().err


def test_options_that_need_memory_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, words in (
        ("--group=x", "need recordings in memory"),
        ("--symbols=x", "need recordings in memory"),
        ("--report=r.html", "--report needs"),
    ):
        assert fitted(folder, tmp_path / "m.psim", "--shards", option) == 2
        assert words in capsys.readouterr().err
    assert fitted(folder, tmp_path / "m.psim", "--workers", "2", "--cluster", "tcp://nowhere:1") == 2
    (folder / "3.parquet").write_bytes(b"PAR1 and nothing else")
    assert fitted(folder, tmp_path / "m.psim", "--shards") == 2
    assert "shard 3 (" in capsys.readouterr().err
    assert not (tmp_path / "m.psim").exists()
