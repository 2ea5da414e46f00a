"""Candidates that cannot be computed lose; they never end a fit. Records of one measured channel and many commands."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM
from psimlearn.errors import DivergedError
from psimlearn.train import subspace

pytestmark = pytest.mark.usefixtures("unchecked")

WIDE = 9
"""Matrices of so many rows are those on which the quick routine of these tests gives up."""


def commanded(rows: int = 200, n: int = 5, still: int = 2, seed: int = 0) -> np.ndarray:
    """One measured channel that lags behind commands of 0 and 1, some of which are never given, or always."""
    rng = np.random.default_rng(seed)
    x = np.zeros((rows, n))
    for j, share in enumerate(np.geomspace(0.01, 0.5, n - 1 - still), start=1):
        x[:, j] = rng.random(rows) < share
    x[:, n - 1] = 1.0
    for t in range(1, rows):
        x[t, 0] = 0.9 * x[t - 1, 0] + x[t - 1, 1:].sum() + 0.01 * rng.standard_normal()
    return x


def settings() -> dict[str, Any]:
    return {"window": 2, "n_rounds": 2, "random_state": 0}


def gives_up_on_wide(quick: Callable[..., Any]) -> Callable[..., Any]:
    """As gesdd does on some finite matrices."""

    def wrapped(matrix: np.ndarray, *given: Any, **how: Any) -> Any:
        if len(matrix) >= WIDE:
            raise np.linalg.LinAlgError("SVD did not converge")
        return quick(matrix, *given, **how)

    return wrapped


@pytest.mark.parametrize("name", ["svd", "eigh"])
def test_a_fit_goes_the_slower_way_where_a_quick_routine_gives_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = commanded()
    plain = PSIM(**settings()).fit(x)
    monkeypatch.setattr(np.linalg, name, gives_up_on_wide(getattr(np.linalg, name)))
    other = PSIM(**settings()).fit(x)
    assert other.report_["diverged"] == plain.report_["diverged"]
    np.testing.assert_allclose(other.predict(x), plain.predict(x), atol=1e-6)


@pytest.mark.parametrize("error", [DivergedError, np.linalg.LinAlgError])
def test_systems_that_cannot_be_computed_count_as_infinitely_bad(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error("nothing converges")

    monkeypatch.setattr(subspace, "svd", fails)
    model = PSIM(**settings()).fit(commanded())
    assert model.recipe_.states is None
    assert np.isfinite(model.report_["errors"]["PSIM"]).all()
    monkeypatch.undo()
    without = PSIM(**settings(), init="history").fit(commanded())  # tries no systems
    np.testing.assert_array_equal(model.predict(commanded()), without.predict(commanded()))


def test_a_learner_that_cannot_be_solved_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """learner="auto": trees that cannot be grown lose against linear regression."""
    from psimlearn.learners.trees import RidgeAndTrees

    def fails(*_: Any) -> None:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(RidgeAndTrees, "solve", fails)
    model = PSIM(**settings(), learner="auto", lags=2, prior="mean", belief_weight=0.0).fit(
        commanded(1300, n=3, still=1)
    )
    assert type(model.learner_).__name__ != "RidgeAndTrees"
    tried = [trial for trial in model.trials_ if trial["learner"] == "RidgeAndTrees"]
    assert tried == [] or not np.isfinite([trial["error"] for trial in tried]).any()


def test_what_cannot_be_learnt_from_all_rows_leaves_the_filter_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    from psimlearn.choose import fit

    x, quick, calls = commanded(), fit._trained, list[int]()

    def first_fails(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise np.linalg.LinAlgError("Singular matrix")
        return quick(*given)

    monkeypatch.setattr(fit, "_trained", first_fails)
    model = PSIM(**settings()).fit(x)
    assert len(calls) == 2
    assert any("the one chosen is kept" in note for note in model.report_["notes"])


@pytest.mark.parametrize(("rows", "n", "still"), [(200, 4, 0), (200, 7, 3), (2073, 5, 2)])
def test_records_of_commands_are_learnt(rows: int, n: int, still: int) -> None:
    """The measured channel is predicted by its commands: far better than by its mean."""
    x = commanded(rows, n, still, seed=rows)
    model = PSIM(**settings()).fit(x)
    errors = x[10:, 0] - model.predict(x)[10:, 0]
    assert np.isfinite(model.predict(x)).all()
    assert np.mean(errors**2) <= 0.05 * x[:, 0].var()
