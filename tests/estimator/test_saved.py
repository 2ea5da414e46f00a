"""Model files of PSIM: what is kept, what is refused, and that no recordings are in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.neighbors import KNeighborsRegressor

import psimlearn
from psimlearn.errors import DataError, ModelFileError
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.saved import with_infinities, without_infinities
from psimlearn.files import model as io
from psimlearn.filter import StackSquares
from psimlearn.learners import RandomFourierRidge
from small import ONE, QUICK, Bare, called, model, several, with_inputs


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"learner": "rff"},
        {"trainer": "forward"},
        {"features": StackSquares(2), "random_state": np.random.RandomState(0)},
        {"lags": np.int64(2), "n_rounds": np.int64(2), "refit": np.True_},
        {"validation": several(3)},
    ],
    ids=called,
)
def test_a_file_gives_the_model_back(own: dict[str, Any], tmp_path: Path) -> None:
    fitted = PSIM(**QUICK | own).fit(several())
    fitted.save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    np.testing.assert_array_equal(loaded.forecast(several(1), 5), fitted.forecast(several(1), 5))
    for ours, theirs in zip(loaded.score_samples(several(1)), fitted.score_samples(several(1)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.summary() == fitted.summary()
    assert loaded.trials_ == fitted.trials_
    assert loaded.report_ == fitted.report_
    assert loaded.n_rounds_ == fitted.n_rounds_
    assert loaded.recipe_ == fitted.recipe_
    kept = {"random_state": 0 if "random_state" not in own else None, "validation": 0.5}
    kept |= {"validation": 0.2} if "validation" in own else {}
    assert loaded.get_params() == fitted.get_params() | kept
    loaded.save(tmp_path / "again.psim")
    assert (tmp_path / "again.psim").read_bytes() == (tmp_path / "model.psim").read_bytes()


def test_a_file_remembers_the_names_of_channels(tmp_path: Path) -> None:
    frame = pd.DataFrame(several()[3], columns=["left", "right"])
    PSIM(**ONE).fit(frame).save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    assert list(loaded.predict(frame).columns) == ["left", "right"]
    pd.testing.assert_frame_equal(loaded.predict(frame[["right", "left"]]), loaded.predict(frame))
    with pytest.raises(DataError, match=r"required the channels.*as in fit"):
        loaded.predict(frame[["right"]])


def test_infinite_errors_go_through_a_file(tmp_path: Path) -> None:
    fitted = PSIM(**ONE).fit(several())
    fitted.trials_ = [*fitted.trials_, fitted.trials_[0] | {"error": np.inf, "alpha": None}]
    fitted.report_ = fitted.report_ | {"errors": {"PSIM": [1.0, 2.0], "autoregression": [np.inf, 1.0]}}
    fitted.save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    assert loaded.trials_ == fitted.trials_
    assert loaded.trials_[-1]["error"] == np.inf
    assert loaded.trials_[-1]["alpha"] is None
    assert loaded.report_ == fitted.report_
    assert loaded.summary() == fitted.summary()
    nested = {"error": np.inf, "errors": {"a": [np.inf, 1.0]}, "rank": None, "rows": [{"error": np.inf}]}
    assert with_infinities(without_infinities(nested)) == nested


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"learner": SklearnRidge()}, "learner: required .* received Ridge"),
        ({"learner": KNeighborsRegressor(3)}, "learner: required .* received KNeighborsRegressor"),
        ({"features": Bare()}, "features: required .* received Bare"),
    ],
)
def test_what_only_code_can_hold_is_not_saved(own: dict[str, Any], message: str, tmp_path: Path) -> None:
    fitted = PSIM(**ONE | own).fit(several())
    with pytest.raises(ModelFileError, match=message):
        fitted.save(tmp_path / "model.psim")
    assert not any(tmp_path.iterdir())


def test_no_sums_to_save_after_forward_training(tmp_path: Path) -> None:
    fitted = PSIM(**ONE | {"trainer": "forward"}).fit(several())
    with pytest.raises(ModelFileError, match="with_sums=True needs the sums"):
        fitted.save(tmp_path / "model.psim", with_sums=True)


def test_the_file_of_a_filter_is_not_that_of_an_estimator(tmp_path: Path) -> None:
    psimlearn.save(model().filter_, tmp_path / "filter.psim")
    with pytest.raises(ModelFileError, match=r"required a file written by PSIM.save.*psimlearn.load"):
        PSIM.load(tmp_path / "filter.psim")
    model().save(tmp_path / "model.psim")
    assert isinstance(psimlearn.load(tmp_path / "model.psim"), psimlearn.Filter)


@pytest.mark.parametrize("own", [{}, {"learner": RandomFourierRidge(20, 1e-2)}, {"prior": "last", "level_weight": 0.3}])
def test_sums_that_do_not_fit_are_refused(own: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.psim"
    PSIM(**ONE | own).fit(with_inputs()).save(path, with_sums=True)
    filter, notes, arrays = io.read(path)
    assert arrays
    io.save(filter, path, notes=notes, arrays=arrays)
    assert PSIM.load(path).sums_ is not None  # as they are, they are accepted
    for name, array in arrays.items():
        tampered: list[dict[str, Any]] = [
            {name: np.concatenate([array, array[:1]])},
            {name: array[:-1]},
            {name: array[..., None]},
            {"surplus": array},
            {},
        ]
        for change in tampered:
            kept = {other: own for other, own in arrays.items() if change or other != name}
            io.save(filter, path, notes=notes, arrays=kept | change)
            with pytest.raises(ModelFileError, match=r"required a file written by PSIM\.save"):
                PSIM.load(path)


def test_notes_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.psim"
    model().save(path)
    filter, notes, _ = io.read(path)
    strange: list[dict[str, Any]] = [{}, {"n_rounds": 0}, {"trials": []}, {"more": 1}, {"settings": {"window": 3}}]
    for change in strange:
        io.save(filter, path, notes=notes | change)
        PSIM.load(path)  # of one piece all the same
    senseless: list[dict[str, Any]] = [
        *({name: None} for name in notes),
        {"settings": {"windows": 5}},
        {"settings": notes["settings"] | {"learner": {"type": "os.system", "command": "true"}}},
        {"settings": notes["settings"] | {"learner": {"type": "Ridge", "alpha": -1}}},
        {"settings": notes["settings"] | {"learner": {"type": "Ridge", "alpha": "much"}}},
        {"learner": {"type": "Recipe"}},
        {"recipe": "as published"},
        {"report": {}},
        {"report": notes["report"] | {"data": {}}},
        *(
            {"report": notes["report"] | {"columns": columns}}
            for columns in (
                [1],
                {"id": [1]},
                {"inputs": "ab"},
                {"channels": 5},
                {"channels": [[1]]},
                {"hints": {"a": 1}},
                {"categories": 5},
                {"categories": {"a": "xy"}},
                {"categories": {"a": [None]}},
            )
        ),
        {"n_rounds": -1},
        {"n_rounds": 10**9},
        {"n_rounds": True},
        {"trials": {}},
    ]
    for change in senseless:
        io.save(filter, path, notes=notes | change)
        with pytest.raises(ModelFileError, match=r"required a file written by PSIM\.save"):
            PSIM.load(path)


def test_a_file_holds_no_recordings(tmp_path: Path) -> None:
    """A value that stands in the recordings stands nowhere in the file, with sums or without, as number or as text."""
    telling = 123.456789012345
    data = several()
    for part in data:
        part[4, 0] = telling
    fitted = PSIM(**QUICK | {"validation": data}).fit(data)
    for with_sums in (False, True):
        fitted.save(tmp_path / "model.psim", with_sums=with_sums)
        held = (tmp_path / "model.psim").read_bytes()
        assert np.float64(telling).tobytes() not in held
        assert b"123.45678" not in held
