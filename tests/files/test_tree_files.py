"""Trees in files: only trees that end are read, and files that were changed give the right answer or an error."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelfiles import Array, accepted, contents, forged, model_bytes, recordings, refused
from psimlearn.errors import ModelFileError
from psimlearn.filter import Filter, Forest

CASE = "trees lags"
MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "200"))
"""How many files to damage."""


def changed(name: str, at: int, value: float) -> bytes:
    """The file with one number of the regressor changed, and hashed anew."""
    about, arrays = contents(model_bytes(CASE))
    arrays[f"regressors.0.{name}"].flat[at] = value
    return forged(about, arrays)


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("feature", 0, -1, "inputs from 0 to 5"),
        ("feature", 0, 6, "inputs from 0 to 5"),
        ("feature", 0, 0.5, "whole numbers"),
        ("right", 0, 0, "splits after the split above"),  # a split below itself
        ("left", 1, 0, "splits after the split above"),
        ("left", 0, -2, "one place for every split and leaf"),  # a leaf twice
        ("right", 0, 2, "one place for every split and leaf"),  # a split of two trees
        ("right", 0, 3, "one place for every split and leaf"),  # beyond the last split
        ("left", 0, -7, "one place for every split and leaf"),  # beyond the last leaf
        ("roots", 0, 1, "one place for every split and leaf"),
        ("roots", 0, 2.0**63, "whole numbers up to"),
        ("left", 0, np.nan, "finite"),
        ("threshold", 0, np.inf, "finite"),
        ("values", 0, np.nan, "finite"),
        ("directions", 0, -np.inf, "finite"),
    ],
)
def test_trees_that_cannot_be_are_refused(name: str, at: int, value: float, message: str, tmp_path: Path) -> None:
    refused(changed(name, at, value), tmp_path, message)


def test_numbers_that_trees_can_have_are_accepted(tmp_path: Path) -> None:
    """Else the refusals would prove nothing."""
    for name, value in (("feature", 5.0), ("threshold", -1e30), ("values", 1e30), ("directions", 2.0)):
        regressor = accepted(changed(name, 0, value), tmp_path).regressors[0]
        assert isinstance(regressor, Forest)
        held: Any = regressor.directions if name == "directions" else getattr(regressor.trees, name)
        np.testing.assert_allclose(held.flat[0], value, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("values", lambda array: array[:2]),
        ("values", lambda array: array[:, :0]),
        ("roots", lambda array: array[:0]),
        ("roots", lambda array: np.repeat(array, 3)),
        ("left", lambda array: array[:-1]),
        ("directions", lambda array: array[:, :-1]),
        ("values", lambda array: array.astype(np.float64)),
        ("weights", lambda array: array.astype(np.float32)),
    ],
)
def test_arrays_of_other_shapes_and_types(name: str, change: Callable[[Array], Array], tmp_path: Path) -> None:
    about, arrays = contents(model_bytes(CASE))
    arrays[f"regressors.0.{name}"] = change(arrays[f"regressors.0.{name}"])
    refused(forged(about, arrays), tmp_path)


def test_a_tree_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    about, arrays = contents(model_bytes(CASE))

    def chain(n: int) -> bytes:
        """One tree in which split i leads to a leaf or to split i + 1."""
        nodes = {"feature": np.zeros(n), "threshold": np.zeros(n), "left": -1.0 - np.arange(n), "roots": np.zeros(1)}
        nodes |= {"right": np.append(np.arange(1.0, n), -1.0 - n), "values": np.ones((n + 1, 3))}
        return forged(about, arrays | {f"regressors.0.{name}": a.astype("<f4") for name, a in nodes.items()})

    assert isinstance(accepted(chain(64), tmp_path).regressors[0], Forest)
    refused(chain(65), tmp_path, "at most 64 splits")
    refused(chain(100_000), tmp_path, "at most 64 splits")


def by_hand(filter: Filter, z: Array) -> Array:
    """The outputs of the regressor for one row, written once more, split by split."""
    forest = filter.regressors[0]
    assert isinstance(forest, Forest)
    known, total = z[forest.n_fed :].astype(np.float32), np.zeros(len(forest.directions))
    for node in forest.trees.roots:
        while node >= 0:
            below = known[forest.trees.feature[node]] <= forest.trees.threshold[node]
            node = (forest.trees.left if below else forest.trees.right)[node]
        total += forest.trees.values[-1 - node]
    return np.asarray(forest.linear(z[None])[0] + total / len(forest.trees.roots) @ forest.directions)


@settings(max_examples=MANY, derandomize=True, deadline=None, database=None)
@given(draws=st.data())
def test_changed_files_answer_rightly_or_are_refused(draws: st.DataObject, tmp_path_factory: Any) -> None:
    about, arrays = contents(model_bytes(CASE))
    names = sorted(name for name in arrays if name.startswith("regressors"))
    for _ in range(draws.draw(st.integers(0, 2))):
        array = arrays[draws.draw(st.sampled_from(names))]
        at = draws.draw(st.integers(0, array.size - 1))
        array.flat[at] = draws.draw(st.one_of(st.integers(-8, 8), st.floats(width=32)))
    folder = tmp_path_factory.getbasetemp()
    try:
        filter = accepted(forged(about, arrays), folder)
    except ModelFileError:
        return
    rows = np.random.default_rng(0).standard_normal((3, len(arrays["regressors.0.weights"])))
    with np.errstate(all="ignore"):
        expected = np.array([by_hand(filter, z) for z in rows])
        np.testing.assert_allclose(filter.regressors[0](rows), expected, rtol=1e-12, atol=1e-12)
        assert filter.forecast(recordings(filter), 2).shape == (50, 2, 2)
