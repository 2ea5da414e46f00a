"""Training goes on from arrays and JSON as if it had never stopped, and from no others."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import ragged
from psimlearn.choose.resume import OBJECTS, Training, from_json, made_by, to_json, training_arrays, with_arrays
from psimlearn.errors import ModelFileError
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import OneHotProduct, Stack
from psimlearn.learners import GramSums, RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.learners.gaussian import GaussianLearner
from psimlearn.learners.symbolic import SymbolLogistic, SymbolRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.recipe import Recipe

RNG = np.random.default_rng
CASES: dict[str, dict[str, Any]] = {
    "ridge": {},
    "hints": {"hints": True},
    "fourier": {"learner": RandomFourierRidge(10, 1e-2)},
    "coordinates": {"prior": "last", "level_weight": 0.3},
    "fourier in coordinates": {"learner": RandomFourierRidge(10, 1e-2), "prior": "last", "level_weight": 0.3},
    "cross weight": {"prior": "last", "level_weight": 0.3, "cross_weight": 0.3},
    "symbols": {"features": "onehot"},
    "symbols, linear": {"features": "onehot", "learner": SymbolRidge(OneHotProduct(2), update="linear")},
}


def trained(case: str) -> Training:
    own = dict(CASES[case])
    data: Any = ragged([30, 25, 20, 18], 2, RNG(0))
    if own.pop("hints", False):
        hints = RNG(1).standard_normal((len(data.values), 3))
        hints[::2, 1] = np.nan  # not measured together with the others
        data = Trajectories.of(list(data), hints=np.split(hints, data.offsets[1:-1]))
    elif "features" in own:
        data = RNG(0).integers(2, size=(6, 20)).tolist()
    settings: dict[str, Any] = {
        "lags": 1,
        "prior": "auto",
        "belief_weight": "auto",
        "level_weight": "auto",
        "cross_weight": "auto",
    }
    if "features" not in own:
        settings = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "level_weight": None, "cross_weight": 1.0}
    model = PSIM(2, **settings | own, n_rounds=1, validation=0.5, random_state=0).fit(data)
    return Training(model.filter_, model.recipe_, model.learner_, model.sums_, model.hint_sums_)


def without_arrays(training: Training) -> Training:
    """As much of it as JSON and a filter hold."""
    learner, recipe = (from_json(to_json("", part)) for part in (training.learner, training.recipe))
    return training._replace(learner=learner, recipe=recipe, sums=None, hint_sums=[])


def equal(a: GramSums, b: GramSums) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in GramSums._fields)


@pytest.mark.parametrize("case", CASES)
def test_training_goes_on_as_if_it_had_never_stopped(case: str) -> None:
    training = trained(case)
    again = with_arrays(without_arrays(training), training_arrays(training))
    assert again.learner == training.learner
    assert equal(again.sums, training.sums)
    assert [which for which, _ in again.hint_sums] == [which for which, _ in training.hint_sums]
    assert all(equal(a, b) for (_, a), (_, b) in zip(again.hint_sums, training.hint_sums, strict=True))
    m, x = RNG(2).random((5, len(training.filter.feedback.mean))), np.eye(2)[[0, 1, 1, 0, 1]]
    z = np.hstack([m, x])
    solved, expected = again.learner.solve(again.sums), training.learner.solve(training.sums)
    assert type(solved) is type(expected)
    # directions, coordinates and contexts are the same; a sparse map may have had its entries in another order
    np.testing.assert_allclose(solved(z), expected(z), rtol=1e-13, atol=1e-15)
    arrays, rewritten = training_arrays(training), training_arrays(again)
    assert arrays.keys() == rewritten.keys()
    assert all(np.array_equal(arrays[name], rewritten[name]) for name in arrays)


@pytest.mark.parametrize("case", CASES)
def test_arrays_of_another_shape_are_refused(case: str) -> None:
    training, n_refused = trained(case), 0
    known, arrays = without_arrays(training), training_arrays(training)
    with_arrays(known, arrays)  # as they are, they are accepted
    for name, array in arrays.items():
        for change in ({name: array[:-1]}, {name: array[..., None]}, {f"{name}.more": array}, {"more": array}):
            with pytest.raises(ModelFileError, match=r"required|missing|surplus"):
                with_arrays(known, {**arrays, **change})
            n_refused += 1
        with pytest.raises(ModelFileError, match="missing arrays"):
            with_arrays(known, {other: arrays[other] for other in arrays if other != name})
    assert n_refused == 4 * len(arrays)


def test_hints_with_wrong_numbers_are_refused() -> None:
    training = trained("hints")
    known, arrays = without_arrays(training), training_arrays(training)
    numbers = {name: array for name, array in arrays.items() if name.endswith(".which")}
    assert sorted(np.concatenate(list(numbers.values()))) == [0, 1, 2]
    for name, array in numbers.items():
        for other in (array + 0.5, array + 1, array - 1, np.full_like(array, np.nan)):
            with pytest.raises(ModelFileError):
                with_arrays(known, {**arrays, name: other})
    with pytest.raises(ModelFileError, match="required those of 3 hints"):
        with_arrays(known, {name: array for name, array in arrays.items() if not name.startswith("hints")})


def test_a_forged_cross_weight_needs_features_that_belong_to_channels() -> None:
    settings: dict[str, Any] = {"features": "squares", "lags": 1, "prior": "mean", "belief_weight": 1.0}
    model = PSIM(2, **settings, n_rounds=1, validation=0.5, random_state=0).fit(ragged([30, 25, 20, 18], 2, RNG(0)))
    training = Training(model.filter_, model.recipe_, model.learner_, model.sums_, model.hint_sums_)
    known, arrays = without_arrays(training), training_arrays(training)
    with pytest.raises(ModelFileError, match=r"required cross_weight=1 with StackSquares, received 0\.3"):
        with_arrays(known._replace(recipe=replace(training.recipe, cross_weight=0.3)), arrays)


def test_some_learners_have_no_sums_that_a_file_can_hold() -> None:
    training = trained("ridge")
    others: list[dict[str, Any]] = [
        {"sums": None},
        {"learner": GaussianLearner()},
        {"learner": SklearnLearner(SklearnRidge())},
    ]
    for other in others:
        with pytest.raises(ModelFileError, match=r"with_sums=True needs .* received .* save without sums"):
            training_arrays(training._replace(**other))
    with pytest.raises(ModelFileError, match="required none for a GaussianLearner"):
        with_arrays(training._replace(learner=GaussianLearner()), training_arrays(training))


def test_learners_make_regressors_of_their_kind() -> None:
    features = OneHotProduct(2)
    learners = [Ridge(), RandomFourierRidge(), GaussianLearner(), SymbolRidge(features), SymbolLogistic(features)]
    for case, index in (("ridge", 0), ("fourier", 1), ("symbols", 3), ("symbols, linear", 3)):
        regressor = trained(case).regressor
        assert [made_by(learner, regressor) for learner in learners] == [i == index for i in range(len(learners))]


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 0.5, "auto"),
        *(Ridge(0.1), RandomFourierRidge(8, raw_inputs=False), GaussianLearner(), Recipe(lags=3, prior="last")),
        *(Stack(3), SymbolRidge(OneHotProduct(2), 0.1, "linear"), SymbolLogistic(OneHotProduct(1), seed=2)),
    ],
    ids=repr,
)
def test_settings_as_json(value: Any) -> None:
    again = from_json(to_json("value", value))
    assert again == value
    assert type(again) is type(value)


def test_json_that_describes_nothing_is_refused() -> None:
    assert to_json("lags", np.int64(3)) == 3
    assert type(to_json("lags", np.int64(3))) is int
    odds: list[Any] = [{1, 2}, [1], Ridge, SklearnLearner(SklearnRidge())]
    for odd in odds:
        with pytest.raises(ModelFileError, match="value: required a word, a number or one of"):
            to_json("value", odd)
    described: list[Any] = [{}, {"type": "os.system"}, {"type": []}, {"type": "Ridge", "alpha": -1}]
    described += [{"type": "Ridge", "coordinates": 3}, {"type": "Ridge", "more": 3}, {"type": "Stack"}]
    for value in described:
        with pytest.raises((LookupError, TypeError, ValueError)):
            from_json(value)
    assert all(from_json({"type": name}) for name in ("Ridge", "Recipe", "GaussianLearner"))
    assert len(OBJECTS) == 12
