"""The text of a report: numbers agree with their nouns, the winner is marked, the best simple method is the measure."""

import re
from typing import Any

import pytest

from psimlearn.choose.summary import counted, summarised, verdict
from small import model


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(n, "recording") for n in (0, 1, 2)] == ["0 recordings", "1 recording", "2 recordings"]


def report(**changes: Any) -> dict[str, Any]:
    return model().report_ | changes


def test_one_recording_has_one_length() -> None:
    data = report()["data"] | {"recordings": 1, "rows": 7040, "shortest": 7040, "longest": 7040, "channels": 1}
    assert summarised(report(data=data, tried=1)).startswith("data       1 recording of 7040 rows, 1 channel\n")
    assert "; 1 setting tried" in summarised(report(data=data, tried=1))


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (
            {"training mean": 2.0, "last observation": 4.0, "PSIM": 1.0},
            "PSIM is 50.0% of that of training mean, the best",
        ),
        (
            {"training mean": 1.0, "last observation": 4.0, "PSIM": 1.5},
            "training mean does better: .* PSIM is 50.0% above",
        ),
        ({"training mean": 1.0, "last observation": 4.0, "PSIM": 1.0004}, "PSIM and training mean, .* are level"),
    ],
)
def test_the_measure_is_the_best_simple_method(errors: dict[str, float], said: str) -> None:
    table = {name: [error, error] for name, error in errors.items()}
    text = summarised(report(errors=table))
    lines = {line[:18].strip(): line for line in text.splitlines()}
    best = min(errors, key=errors.__getitem__)
    assert [name for name in errors if "*" in lines[name]] == [best]
    assert lines[best].count("*") == 2
    (last,) = (line for line in text.splitlines() if line.startswith("* the least; "))
    assert re.search(said, last)


def test_there_is_no_verdict_without_both() -> None:
    assert verdict({}) == verdict({"PSIM": [1.0]}) == verdict({"PSIM": [float("inf")], "training mean": [1.0]}) == ""


def test_methods_stand_from_the_simplest_to_the_filter_whatever_their_order() -> None:
    """A method that the table does not know stands first."""
    names = ["PSIM", "autoregression", "training mean", "another"]
    text = summarised(report(errors={name: [1.0 + i, 2.0] for i, name in enumerate(names)}))
    lines = [line[:18].strip() for line in text.splitlines()]
    assert [name for name in lines if name in names] == ["another", "training mean", "autoregression", "PSIM"]
