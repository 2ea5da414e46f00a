"""Times of answers: of the rows after the end, and of rows that a file lacks, written as the file writes its times."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import run
from psimlearn import PSIM, Trajectories

SHOWN: dict[str, tuple[list[str], list[str], list[str]]] = {  # written, what follows, options
    "numbers": (["0", "0.1", "0.2", "0.3"], ["0.4", "0.5"], []),
    "whole numbers": (["7", "9", "11", "13"], ["15", "17"], []),
    "offset": (
        [f"2024-01-01T{hour:02}:00:00+02:00" for hour in (20, 21, 22, 23)],
        ["2024-01-02T00:00:00+02:00", "2024-01-02T01:00:00+02:00"],
        [],
    ),
    "Z": ([f"2024-01-01 00:00:{s:02}Z" for s in range(4)], ["2024-01-01 00:00:04Z", "2024-01-01 00:00:05Z"], []),
    "months": (["2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31"], ["2024-04-30", "2024-05-31"], []),
    "120 Hz": (
        [f"2024-01-01T00:00:00.{i * 10**9 // 120:09}" for i in range(4)],
        ["2024-01-01T00:00:00.033333333", "2024-01-01T00:00:00.041666666"],
        [],
    ),
    "format": (
        ["31/12/2023 22:00", "31/12/2023 22:30", "31/12/2023 23:00", "31/12/2023 23:30"],
        ["01/01/2024 00:00", "01/01/2024 00:30"],
        ["--time-format", "%d/%m/%Y %H:%M"],
    ),
    "clock": (["00:00:57", "00:00:58", "00:00:59", "00:01:00"], ["00:01:01", "00:01:02"], []),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows no step, and so takes any."""
    path = tmp_path_factory.mktemp("model") / "m.psim"
    x = np.sin(np.arange(60.0))[None, :, None] + 0.1 * np.random.default_rng(0).standard_normal((6, 60, 1))
    PSIM(window=2, lags=2, n_rounds=1, random_state=0).fit(Trajectories.of(x, names=("x",))).save(path)
    return path


def rows_of(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text().splitlines()]


@pytest.mark.parametrize("case", SHOWN)
def test_a_forecast_has_the_times_that_follow(case: str, model: Path, tmp_path: Path) -> None:
    written, ahead, options = SHOWN[case]
    (tmp_path / "now.csv").write_text("when,x\n" + "".join(f"{time},0.5\n" for time in written))
    words = ["--time", "when", "--steps", "2", *options]
    assert run("forecast", model, tmp_path / "now.csv", *words, "-o", tmp_path / "next.csv") == 0
    head, *rows = rows_of(tmp_path / "next.csv")
    assert head == ["when", "step", "x", "x.std", "x.low", "x.high"]
    assert [row[:2] for row in rows] == [[ahead[0], "1"], [ahead[1], "2"]]
    if case not in ("months", "120 Hz"):  # the rows may be answered in turn
        (tmp_path / "more.csv").write_text("when,x\n" + "".join(f"{time},0.5\n" for time in [*written, *ahead]))
        assert run("filter", model, tmp_path / "more.csv", "--time", "when", *options, "-o", tmp_path / "f.csv") == 0
        assert [row[0] for row in rows_of(tmp_path / "f.csv")[1:]] == [*written, *ahead]


def test_each_recording_goes_on_by_its_own_times(model: Path, tmp_path: Path) -> None:
    text = "id,Date,Time,x\n" + "".join(
        f"{id},2024-0{month}-01,{hour:02}:00,0.5\n" for hour in (21, 22, 23) for id, month in (("b", 5), ("a", 3))
    )
    (tmp_path / "now.csv").write_text(text)
    words = ["--id", "id", "--time", "Date,Time", "--steps", "2"]
    assert run("forecast", model, tmp_path / "now.csv", *words, "-o", tmp_path / "next.csv") == 0
    head, *rows = rows_of(tmp_path / "next.csv")
    assert head[:4] == ["id", "Date", "Time", "step"]
    assert [row[:4] for row in rows] == [
        ["b", "2024-05-02", "00:00:00", "1"],
        ["b", "2024-05-02", "01:00:00", "2"],
        ["a", "2024-03-02", "00:00:00", "1"],
        ["a", "2024-03-02", "01:00:00", "2"],
    ]


def test_times_that_do_not_count_do_not_go_on(model: Path, tmp_path: Path) -> None:
    (tmp_path / "now.csv").write_text("t,x\n0,1\n1,0\n2,1\n")
    for options in (["--time", "t", "--step", "none"], ["--no-guess"]):
        assert run("forecast", model, tmp_path / "now.csv", *options, "--steps", "1", "-o", tmp_path / "n.csv") == 0
        assert rows_of(tmp_path / "n.csv")[0][0] == "step"
        (tmp_path / "n.csv").unlink()


def test_days_in_a_zone_keep_their_time_of_day(model: Path, tmp_path: Path) -> None:
    """The clocks of Berlin go forward on 31 March 2024: noon is 11:00 UTC before, and 10:00 after."""
    noon = [datetime(2024, 3, day, 11, tzinfo=UTC) for day in (27, 28, 29, 30)]
    times = pa.array(noon, pa.timestamp("us", tz="Europe/Berlin"))
    pq.write_table(pa.table({"t": times, "x": [0.1, 0.2, 0.3, 0.4]}), tmp_path / "now.parquet")
    for ending in (".parquet", ".csv"):
        words = ["--time", "t", "--steps", "2"]
        assert run("forecast", model, tmp_path / "now.parquet", *words, "-o", tmp_path / f"next{ending}") == 0
    assert [row[0] for row in rows_of(tmp_path / "next.csv")[1:]] == [
        "2024-03-31T12:00:00+02:00",
        "2024-04-01T12:00:00+02:00",
    ]
    found = pq.read_table(tmp_path / "next.parquet")["t"].cast(pa.timestamp("us", tz="UTC")).to_pylist()
    assert found == [datetime(2024, 3, 31, 10, tzinfo=UTC) + timedelta(days=i) for i in range(2)]


LACKS: dict[str, tuple[str, list[str], list[str], list[str]]] = {  # header, rows, all times by hand, options
    "offset": (
        "when",
        ["2024-01-01T09:00:00+05:30", "2024-01-01T10:00:00+05:30", "2024-01-01T12:00:00+05:30"],
        [f"2024-01-01T{hour:02}:00:00+05:30" for hour in (9, 10, 11, 12)],
        ["--time", "when"],
    ),
    "two offsets": (
        "when",
        ["2024-03-31T00:00:00+01:00", "2024-03-31T01:00:00+01:00", "2024-03-31T04:00:00+02:00"],
        [
            "2024-03-31T00:00:00+01:00",
            "2024-03-31T01:00:00+01:00",
            "2024-03-31T02:00:00+01:00",
            "2024-03-31T04:00:00+02:00",
        ],
        ["--time", "when"],
    ),
    "space": (
        "when",
        ["2024-01-01 09:00", "2024-01-01 09:01", "2024-01-01 09:03"],
        ["2024-01-01 09:00", "2024-01-01 09:01", "2024-01-01 09:02:00", "2024-01-01 09:03"],
        ["--time", "when"],
    ),
    "format": (
        "when",
        ["1.1.2024 9:58", "1.1.2024 9:59", "1.1.2024 10:01"],
        ["1.1.2024 9:58", "1.1.2024 9:59", "01.01.2024 10:00", "1.1.2024 10:01"],
        ["--time", "when", "--time-format", "%d.%m.%Y %H:%M"],
    ),
    "date and clock": (
        "Date,Time",
        ["2024-01-01,23:00:00", "2024-01-01,23:30:00", "2024-01-02,00:30:00"],
        ["2024-01-01,23:00:00", "2024-01-01,23:30:00", "2024-01-02,00:00:00", "2024-01-02,00:30:00"],
        ["--time", "Date,Time"],
    ),
    "numbers": ("when", ["1.0", "1.5", "2.50"], ["1.0", "1.5", "2", "2.50"], ["--time", "when"]),
}


@pytest.mark.parametrize("case", LACKS)
def test_imputed_rows_have_times_as_the_rows_beside_them(case: str, model: Path, tmp_path: Path) -> None:
    header, rows, by_hand, options = LACKS[case]
    (tmp_path / "gappy.csv").write_text(f"{header},x\n" + "".join(f"{row},0.5\n" for row in rows))
    assert run("impute", model, tmp_path / "gappy.csv", *options, "-o", tmp_path / "filled.csv") == 0
    head, *filled = rows_of(tmp_path / "filled.csv")
    assert head == [*header.split(","), "x"]
    assert [",".join(row[:-1]) for row in filled] == by_hand
    assert all(np.isfinite(float(row[-1])) for row in filled)


def test_imputed_rows_of_several_recordings_come_one_after_the_other(model: Path, tmp_path: Path) -> None:
    rows = ["b,2024-01-01T00:00:00-03:00", "a,2024-01-01T00:00:00Z", "b,2024-01-01T00:01:00-03:00"]
    rows += ["a,2024-01-01T00:01:00Z", "b,2024-01-01T00:03:00-03:00"]
    (tmp_path / "gappy.csv").write_text("id,t,x\n" + "".join(f"{row},0.5\n" for row in rows))
    words: list[Any] = ["--id", "id", "--time", "t", "-o", tmp_path / "filled.csv"]
    assert run("impute", model, tmp_path / "gappy.csv", *words) == 0
    assert [",".join(row[:2]) for row in rows_of(tmp_path / "filled.csv")[1:]] == [
        *(f"b,2024-01-01T00:0{minute}:00-03:00" for minute in range(4)),
        *(f"a,2024-01-01T00:0{minute}:00Z" for minute in range(2)),
    ]


def test_resampled_rows_have_times_as_the_file_writes_them(model: Path, tmp_path: Path) -> None:
    rows = [f"2024-01-01T00:{minute:02}:00+02:00,0.5\n" for minute in (0, 10, 20, 30)]
    (tmp_path / "coarse.csv").write_text("t,x\n" + "".join(rows))
    words = ["--time", "t", "--step", "5min", "--resample"]
    assert run("impute", model, tmp_path / "coarse.csv", *words, "-o", tmp_path / "filled.csv") == 0
    by_hand = [f"2024-01-01T00:{minute:02}:00+02:00" for minute in range(0, 31, 5)]
    assert [row[0] for row in rows_of(tmp_path / "filled.csv")[1:]] == by_hand
