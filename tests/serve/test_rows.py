"""The form of live rows: pipe and server say the same of names that mean nothing, and of words that are numbers."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from psimlearn.serve.rows import ParsedRow, Wanted, csv_rows, json_rows
from serving import Serving, saved, serving

WANTED = Wanted(("x", "y"), (), "id", "t")
TYPO = "required the names ['y'] too, received ['Y'], which the model does not know. Taken as not observed"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(saved(tmp_path_factory.mktemp("rows")), step="none") as server:
        yield server


def read(line: str, wanted: Wanted = WANTED) -> tuple[ParsedRow, list[str]]:
    said: list[str] = []
    return json_rows(wanted)(line, said.append), said


@pytest.mark.parametrize(
    ("line", "noted"),
    [
        ('{"x": 1, "Y": 2}', TYPO),
        ('{"x": 1, "y": null}', ""),
        ('{"x": 1}', ""),  # not observed, and said so by every name that is there
        ('{"x": 1, "id": "a", "t": 3}', ""),
        ('{"x": 1, "y": 2, "battery": 3.3, "topic": "arm"}', ""),  # rows of sensors carry more than a model needs
        ('{"x": 1, "battery": 3.3, "topic": "arm"}', "received ['battery', 'topic']"),
        ('{"x": true, "y": 2}', "['x']: true counts as 1, false as 0."),
        ('{"x": 1, "Y": true}', TYPO),
    ],
)
def test_names_that_mean_nothing_are_noted_where_a_channel_is_absent(line: str, noted: str) -> None:
    row, said = read(line)
    assert not said
    assert noted in row.note
    assert bool(noted) == bool(row.note)
    assert row.numbers[0] == 1


def test_inputs_and_words_are_names_of_the_model() -> None:
    driven = WANTED._replace(inputs=("u",))
    assert "the names ['u'] too, received ['U']" in read('{"x": 1, "y": 2, "U": 3}', driven)[0].note
    assert not read('{"x": 1, "y": 2, "u": 3, "w": 4}', driven)[0].note


@pytest.mark.parametrize("cell", ["1.5", " 2e1 ", "true", "False", "NA", "", "?", "-999", "inf", "1,5", "1_0", "up"])
def test_a_text_of_json_is_a_cell_of_csv(cell: str) -> None:
    from psimlearn.recordings.cells import Absent

    wanted = WANTED._replace(id=None, time=None, absent=Absent.of(["?", "-999"]))
    said: list[str] = []
    by_csv = csv_rows("x;y", wanted)[0](f"{cell};2", said.append)
    by_json, told = read(json.dumps({"x": cell, "y": 2}), wanted)
    assert str(by_json.numbers) == str(by_csv.numbers)
    assert (told, by_json.note) == (said, "")


@pytest.mark.parametrize("code", ["-999", "-999.0", "-99.5", "1e3"])
def test_a_code_of_missing_values_is_a_number_of_json_too(code: str) -> None:
    """Whole or not; another number stays what it is."""
    from psimlearn.recordings.cells import Absent

    wanted = WANTED._replace(absent=Absent.of(["-999", "-99.5", "1000"]))
    row, said = read(f'{{"x": {code}, "y": -99.25}}', wanted)
    assert np.isnan(row.numbers[0])
    assert row.numbers[1] == -99.25
    assert not said


def test_the_server_notes_the_same(server: Serving) -> None:
    rows = [{"a": 0.1, "B": 0.2}, {"a": 0.1}, {"a": 0.1, "b": 0.2, "c": 3}, {"a": 0.1, "time": 3}, {"a": True, "b": 0}]
    answers = server.post("noted", rows)
    assert ["note" in answer for answer in answers] == [True, False, False, False, True]
    assert "required the names ['b'] too, received ['B']" in answers[0]["note"]
    assert answers[4]["note"] == "['a']: true counts as 1, false as 0."
    numbers = server.post("plain", [[0.1, None], [0.1, None], [0.1, 0.2], [0.1, None], [1, 0]])
    assert [{**answer, "note": 0, "time": 0} for answer in answers] == [
        {**answer, "note": 0, "time": 0} for answer in numbers
    ]
    assert "true counts as 1" in server.post("lists", [[True, 0.2]])[0]["note"]
    both = server.post("both", [{"a": "x", "B": 2}])[0]["note"]
    assert "received 'x'" in both
    assert "received ['B']" in both


def test_rows_of_many_streams_are_noted_by_row(server: Serving) -> None:
    body = {"rows": [{"id": "m1", "a": 0.1, "b": 0.2}, {"id": "m2", "a": 0.1, "B": 0.2}]}
    answers = server.client.post("/v1/rows", json=body).json()["rows"]
    assert ["note" in answer for answer in answers] == [False, True]


def test_a_pipe_tells_the_form_of_its_rows_once(tmp_path: Path) -> None:
    import subprocess
    import sys

    lines = ['{"a": 0.1, "b": 0.2, "c": 3}', *['{"a": 0.1, "B": 0.2}'] * 3, '{"a": 0.1}', *['{"a": true, "b": 0}'] * 2]
    command = [sys.executable, "-m", "psimlearn", "filter", str(saved(tmp_path)), "-"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(lines)
    told = [line.split(",", 1)[0] for line in done.stderr.splitlines() if "told once" in line]
    assert told == ["line 2", "line 6"]
