"""Filters that were fitted once answer as they did; `freeze.py` beside this file says what they are and writes them."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import psimlearn
from contract.freeze import CASES, FOLDER, answers_of, files_of
from psimlearn.files.parts import PARTS
from psimlearn.files.regressors import REGRESSORS, regressor_name

TOLERANCE = 1e-9
"""Relative to the largest answer of its kind: sums in another order differ by some 1e-13."""


@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_the_day_it_was_fitted(case: str) -> None:
    model, answers = files_of(case)
    kept = load_file(answers)
    rows = {name.removeprefix("row "): values for name, values in kept.items() if name.startswith("row ")}
    said = {name.removeprefix("said "): values for name, values in kept.items() if name.startswith("said ")}
    found = answers_of(psimlearn.load(model), rows)
    assert found.keys() == said.keys()
    for name, before in said.items():
        allowed = TOLERANCE * np.nanmax(np.abs(before))
        np.testing.assert_allclose(found[name], before, rtol=0, atol=allowed, err_msg=f"{case}: {name}")


def test_every_part_and_regressor_of_a_file_is_frozen() -> None:
    filters = [psimlearn.load(files_of(case)[0]) for case in CASES]
    assert not [part for part in PARTS if all(getattr(each, part) is None for each in filters)]
    kinds = {regressor_name(regressor) for each in filters for regressor in each.regressors}
    assert kinds == set(REGRESSORS) - {"MeanAndVariance", "Conditional by softmax"}  # of learners that may go


def test_no_file_is_left_of_a_case_that_went() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {path.name for case in CASES for path in files_of(case)}
