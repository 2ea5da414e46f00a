"""Symbols as one-hot rows, words of one frame as those of another, cells as numbers: all by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.alphabet import Alphabet, sequences_of
from psimlearn.recordings.cells import USUAL, Absent
from psimlearn.recordings.numbers import joined, numbers_in
from psimlearn.recordings.recoded import recoded
from psimlearn.recordings.roles import Roles
from psimlearn.recordings.trajectories import Trajectories

nan = np.nan


# -- alphabets ---------------------------------------------------------------------------------------------------------


def test_symbols_are_sorted_numbers_before_words() -> None:
    found = Alphabet.of([["b", 3, None], np.array([10.0, nan, 2.0]), pd.Series(["a", None])], other="z")
    assert found.symbols == (2, 3, 10, "a", "b", "z")
    assert [type(symbol) for symbol in found.symbols[:3]] == [int] * 3
    assert Alphabet.listed(["c", None, "a"]).symbols == ("c", "a")
    assert len(found) == 6


def test_codes_and_one_hot_rows() -> None:
    letters = Alphabet(("a", "b", "c"))
    assert letters.codes(["c", None, "a", nan]).tolist() == [2, -1, 0, -1]
    np.testing.assert_array_equal(letters.one_hot(["b", None]), [[0, 1, 0], [nan] * 3])
    assert Alphabet(("a", "b"), other="b").codes(["x", "a", None]).tolist() == [1, 0, -1]
    with pytest.raises(DataError, match=r"sequence, row 2: required one of \['a', 'b', 'c'\], received 'd'"):
        letters.codes(["a", None, "d"])


def test_symbols_from_codes_and_from_probabilities() -> None:
    letters, digits, both = Alphabet(("a", "b", "c")), Alphabet((4, 5)), Alphabet((4, "b"))
    assert letters.likeliest(np.array([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])).tolist() == ["b", "a"]
    assert letters.decoded(np.array([[2, 0]])).tolist() == [["c", "a"]]
    assert digits.decoded(np.array([1])).dtype.kind == "i"
    assert letters.decoded(np.array([1])).dtype.kind == "U"
    assert both.decoded(np.array([1, 0])).tolist() == ["b", 4]


@pytest.mark.parametrize(
    ("symbols", "other", "message"),
    [((), None, "at least one"), (("a", "a"), None, "distinct"), (("a",), "b", "other: required one of")],
)
def test_alphabets_that_are_refused(symbols: tuple[Any, ...], other: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Alphabet(symbols, other)


@pytest.mark.parametrize(
    ("given", "parts", "single"),
    [
        ("abba", ["abba"], True),
        ([1, 2, 1], [[1, 2, 1]], True),
        ([[1, 2], [1]], [[1, 2], [1]], False),
        ([np.array([1, 2]), [1]], None, False),
        (np.array([1, 2]), None, True),
        (np.array([[1], [2]]), None, True),
        (pd.Series([1, 2]), None, True),
    ],
)
def test_one_recording_or_several(given: Any, parts: Any, single: bool) -> None:
    found, alone = sequences_of(given)
    assert alone == single
    assert len(found) == (1 if single else 2)
    if parts is not None:
        assert found == parts


@pytest.mark.parametrize("given", [["ab", "ba"], [], 5, {"a": 1}])
def test_sequences_that_might_mean_two_things_are_refused(given: Any) -> None:
    with pytest.raises(DataError, match="required a list of sequences of symbols"):
        sequences_of(given)


@pytest.mark.parametrize(
    ("entry", "message"),
    [(1.5, "row 1: required a whole number, a string, or None"), (b"a", "row 1"), ([1], "row 1")],
)
def test_entries_that_are_no_symbols(entry: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Alphabet.of([[1, entry]])
    with pytest.raises(DataError, match=r"shape \(2, 2\)"):
        Alphabet.of([np.eye(2)])


# -- words of inputs ---------------------------------------------------------------------------------------------------


def frame(inputs: tuple[str, ...], values: list[list[float]], **words: tuple[str, ...]) -> Trajectories:
    roles = Roles(inputs=inputs, categories={name: Alphabet(each) for name, each in words.items()})
    return replace(Trajectories.of(np.zeros((2, 1)), np.array(values)), roles=roles)


def test_inputs_are_put_in_the_order_and_the_words_of_the_model() -> None:
    """A number, and one of two words of which the model knows three, in another order."""
    theirs = frame(("mode", "power"), [[1, 0, 7], [0, 1, 8]], mode=("stop", "go"))
    roles = Roles(inputs=("power", "mode"), categories={"mode": Alphabet(("go", "idle", "stop"))})
    found = recoded(theirs, roles)
    assert found.inputs is not None
    assert found.inputs.tolist() == [[7, 0, 0, 1], [8, 1, 0, 0]]
    assert found.roles == roles
    assert recoded(found, roles) is found


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (Roles(inputs=("power",)), "required the inputs"),
        (Roles(inputs=("mode", "power")), "input 'mode': required numbers as in fit, received words"),
        (
            Roles(
                inputs=("mode", "power"), categories={"mode": Alphabet(("go", "stop")), "power": Alphabet(("7", "8"))}
            ),
            "input 'power': required words as in fit, received numbers",
        ),
        (Roles(inputs=("mode", "power"), categories={"mode": Alphabet(("go",))}), "received .*stop.* too"),
    ],
)
def test_inputs_of_another_kind_are_refused(roles: Roles, message: str) -> None:
    with pytest.raises(DataError, match=message):
        recoded(frame(("mode", "power"), [[1, 0, 7], [0, 1, 8]], mode=("stop", "go")), roles)


# -- cells -------------------------------------------------------------------------------------------------------------


def test_cells_as_numbers() -> None:
    """Numbers, truths, words, words that look like numbers, and cells that mean "not observed"."""
    plain = numbers_in(["1", "-2.5", "3e2"], USUAL)
    assert (plain.values.tolist(), plain.n_numbers, plain.word) == ([1, -2.5, 300], 3, None)
    found = numbers_in(["1", "", "true", "5%", "red", " 4 ", "NA"], USUAL)
    np.testing.assert_array_equal(found.values, [1, nan, 1, nan, nan, 4, nan])
    assert (found.n_numbers, found.n_truths, found.n_words, found.n_marked) == (2, 1, 2, 1)
    assert (found.word, found.marked) == ((3, "5%"), (3, "5%"))
    np.testing.assert_array_equal(numbers_in(["1", "-999"], Absent.of(["-999.0"])).values, [1, nan])


def test_parts_of_a_column_are_joined() -> None:
    """A column of words is none of numbers; the row of a mistake is counted over all parts."""
    numbers, words = numbers_in(["1", "2"], USUAL), numbers_in(["3", "x"], USUAL)
    place = "row {}".format
    whole = joined([numbers, numbers], "a", place, text_allowed=False)
    assert whole is not None
    assert whole.tolist() == [1, 2, 1, 2]
    with pytest.raises(DataError, match=r"row 3, column 'a'"):
        joined([numbers, words], "a", place, text_allowed=True)
    only = numbers_in(["x", "y", "5%"], USUAL)
    assert joined([only, only], "a", place, text_allowed=True) is None
    with pytest.raises(DataError, match=r"row 0, column 'a'"):
        joined([only], "a", place, text_allowed=False)
    mostly = [numbers_in(["x", "", "", "y"], USUAL), numbers_in(["5%", "6%"], USUAL)]
    with pytest.raises(DataError, match=r"row 4, column 'a'.*5%"):
        joined(mostly, "a", place, text_allowed=True)
    few = [numbers_in(["x", "", "z", "y"], USUAL), numbers_in(["5%", "6%"], USUAL)]
    assert joined(few, "a", place, text_allowed=True) is None
    assert joined([], "a", place, text_allowed=False) is not None
