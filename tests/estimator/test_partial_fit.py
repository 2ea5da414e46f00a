"""More recordings for a fitted model."""

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.neighbors import KNeighborsRegressor

from psimlearn.errors import DataError, DivergedError, PsimlearnError, PsimlearnWarning, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe
from small import ONE, called, model, several, with_inputs

RNG = np.random.default_rng
quiet = pytest.mark.filterwarnings("ignore::psimlearn.errors.PsimlearnWarning")


def regime(coefficient: float, seed: int, m: int = 20, offset: float = 0.0) -> Trajectories:
    rng = RNG(seed)
    x = np.zeros((m, 30, 1))
    for t in range(1, 30):
        x[:, t] = coefficient * x[:, t - 1] + rng.standard_normal((m, 1))
    return Trajectories.of(x + offset)


def test_a_first_partial_fit_is_fit() -> None:
    np.testing.assert_array_equal(
        PSIM(**ONE).partial_fit(several()).predict(several())[0], model().predict(several())[0]
    )


@quiet
@pytest.mark.parametrize("learner", [Ridge(1e-2), RandomFourierRidge(20, 1e-2), KNeighborsRegressor(5)], ids=called)
def test_more_recordings_teach_a_new_regime(learner: Any) -> None:
    fitted = PSIM(**ONE | {"learner": learner}).fit(regime(0.8, 0))
    scaling, box, sums = fitted.filter_.scaling, fitted.filter_.feedback, fitted.sums_
    test = regime(-0.8, 2)
    before = fitted.score(test)
    fitted.partial_fit(regime(-0.8, 1, m=200))
    assert fitted.score(test) > before + 0.5
    for ours, theirs in zip((*fitted.filter_.scaling, *fitted.filter_.feedback), (*scaling, *box), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if isinstance(learner, Ridge | RandomFourierRidge):
        assert fitted.sums_.n == sums.n + (fitted.n_rounds_ + 1) * 200 * 28


@quiet
def test_more_recordings_equal_one_bigger_regression() -> None:
    """Without a belief nothing depends on the order: the sums of both are those of a regression on all rows."""
    first, more = regime(0.8, 0), regime(0.3, 1)
    fitted = PSIM(2, lags=3, prior="mean", belief_weight=0.0, learner=Ridge(1e-2), random_state=0).fit(first)
    assert fitted.n_rounds_ == 0
    fitted.partial_fit(more)
    scaling = fitted.filter_.scaling
    z_all, y_all = [], []
    for data in (first, more):
        for part in data:
            x = scaling(part.values)
            for t in range(len(x) - 2):
                z_all.append(np.concatenate([x[max(t - j, 0)] for j in range(3)]))
                y_all.append(x[t + 1 : t + 3].ravel())
    z, y = np.array(z_all), np.array(y_all)
    oracle = SklearnRidge(alpha=1e-2 * len(z), solver="cholesky").fit(z, y)
    x = scaling(more[0].values)
    history = np.array([np.concatenate([x[max(t - j, 0)] for j in range(3)]) for t in range(len(x))])
    np.testing.assert_allclose(fitted.transform(more[0].values), oracle.predict(history), rtol=0, atol=1e-10)


def told(work: Callable[[], Any]) -> list[str]:
    """The warnings of psimlearn that work gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    assert all(warning.category is PsimlearnWarning for warning in caught)
    return [str(warning.message) for warning in caught]


@quiet
def test_recordings_outside_the_box_are_told() -> None:
    fitted = PSIM(**ONE).fit(regime(0.8, 0))
    assert "outside" not in fitted.summary()
    assert fitted.partial_fit(regime(0.8, 1)).report_["outside"] == 0
    assert fitted.partial_fit(regime(0.8, 1, offset=14.0)).report_["outside"] > 0.8  # nine deviations
    assert "of later examples outside it" in fitted.summary()
    assert "note: 8" in fitted.summary()


@pytest.mark.parametrize("learner", [Ridge(1e-2), RandomFourierRidge(20, 1e-2), SklearnRidge()], ids=called)
def test_harm_to_earlier_recordings_is_told(learner: Any) -> None:
    fitted = PSIM(**ONE | {"learner": learner}).fit(regime(0.8, 0))
    test = regime(0.8, 2)
    before = fitted.score(test)
    said = told(lambda: fitted.partial_fit(regime(-0.8, 1, m=15)))
    assert fitted.score(test) < before - 0.1
    assert any("the error on the earlier examples rose by" in each and "fit() on all" in each for each in said)
    assert any("the new ones are of another kind" in each for each in said)
    assert fitted.report_["later"]["harm"] > 1.1
    assert "note: the error on the earlier examples rose by" in fitted.summary()


def test_the_error_on_sums_is_the_error_on_the_examples() -> None:
    """The factor of harm in two ways: from sums, and from the examples themselves."""
    settings: dict[str, Any] = {"lags": 3, "prior": "mean", "belief_weight": 0.0, "random_state": 0}
    first, more = regime(0.8, 0), regime(-0.8, 1, m=15)
    fitted = PSIM(2, learner=Ridge(1e-2), **settings).fit(first)
    old = fitted.filter_
    told(lambda: fitted.partial_fit(more))

    def error(filter: Any) -> float:
        beliefs = PSIM.transform(fitted if filter is fitted.filter_ else with_filter(fitted, filter), first)
        parts = zip(beliefs, first, strict=True)
        errors = [
            np.sum((m[:-2] - np.lib.stride_tricks.sliding_window_view(filter.scaling(x.values)[1:, 0], 2)) ** 2, axis=1)
            for m, x in parts
        ]
        return float(np.mean(np.concatenate(errors)))

    assert fitted.report_["later"]["harm"] == pytest.approx(error(fitted.filter_) / error(old), rel=1e-9)


def with_filter(model: PSIM, filter: Any) -> PSIM:
    other = copy.copy(model)
    other.filter_ = filter
    return other


def test_more_of_the_same_is_no_harm_and_the_report_goes_on() -> None:
    fitted = PSIM(**ONE).fit(regime(0.8, 0))
    new = regime(0.8, 1, m=10)
    errors = (np.stack(fitted.predict(new)) - new.values.reshape(10, 30, 1)) / fitted.filter_.scaling.scale
    assert told(lambda: fitted.partial_fit(new)) == []
    assert fitted.report_["data"]["recordings"] == 30
    assert fitted.report_["data"]["rows"] == 900
    later = fitted.report_["later"]
    assert (later["updates"], later["recordings"], later["rows"]) == (1, 10, 300)
    assert later["harm"] == pytest.approx(1.0, abs=0.05)
    # of the filter that had not seen them, without first rows, and where the second step ahead is there as well
    assert later["errors"][0] == pytest.approx(np.mean(errors[:, 1:-1] ** 2), rel=1e-9)
    assert "30 recordings of 30 rows" in fitted.summary()
    assert "later      10 recordings of these, 300 rows, in 1 update" in fitted.summary()
    (due,) = told(lambda: fitted.partial_fit(regime(0.8, 3, m=10)))
    assert "settings and uncertainty come from the first 600 rows, and 600 rows came later" in due
    assert told(lambda: fitted.partial_fit(regime(0.8, 4, m=1))) == []  # said once; the summary goes on to say it
    assert "came later; fit() on all recordings is due" in fitted.summary()


def test_the_report_of_updates_survives_a_file(tmp_path: Path) -> None:
    fitted = PSIM(**ONE).fit(regime(0.8, 0))
    told(lambda: fitted.partial_fit(regime(-0.8, 1, m=15)))
    fitted.save(tmp_path / "model.psim", with_sums=True)
    loaded = PSIM.load(tmp_path / "model.psim")
    assert loaded.summary() == fitted.summary()
    told(lambda: loaded.partial_fit(regime(0.8, 3, m=5)))
    assert loaded.report_["later"]["recordings"] == 20


def test_a_partial_fit_that_fails_changes_nothing() -> None:
    fitted = PSIM(**ONE).fit(with_inputs())
    state = dict(vars(fitted))
    fresh = with_inputs(seed=5)
    bad: list[tuple[Any, type[PsimlearnError]]] = [
        (np.zeros((20, 5, 2)), DataError),
        (Trajectories.of(np.full((2, 9, 1), 1e200), np.zeros((2, 9, 1))), DataError),
        (Trajectories.of(np.zeros((1, 1, 1)), np.zeros((1, 1, 1))), DataError),
        (Trajectories.of(fresh, hints=np.zeros((20, 15, 5))), DataError),
    ]
    for data, error in bad:
        with pytest.raises(error):
            fitted.partial_fit(data)
        assert vars(fitted).keys() == state.keys()
        assert all(vars(fitted)[name] is state[name] for name in state)


@quiet
@pytest.mark.parametrize("recipe", [None, Recipe.as_published()], ids=["standardised", "as published"])
def test_recordings_in_other_units_are_refused(recipe: Recipe | None) -> None:
    """They outweigh all earlier examples: the R^2 of recordings in the old units would be far below 0."""
    free = {name: value for name, value in ONE.items() if name not in ("lags", "prior", "belief_weight")}
    fitted = PSIM(**ONE if recipe is None else free | {"recipe": recipe, "learner": Ridge(1e-2)}).fit(regime(0.8, 0))
    test, state = regime(0.8, 2), dict(vars(fitted))
    before, kelvin = fitted.score(test), regime(0.8, 1, offset=273.15)
    for wrong in (Trajectories.of([1000 * part.values for part in regime(0.8, 1)]), kelvin):
        with pytest.raises(DataError, match=r"channel 0: .* \d{3} times as far .* any_range=True"):
            fitted.partial_fit(wrong)
        assert all(vars(fitted)[name] is state[name] for name in state)
    assert fitted.partial_fit(kelvin, any_range=True).score(test) < before


def test_channels_and_inputs_in_other_units_are_named() -> None:
    data = with_inputs()
    named = Trajectories.of(data, names=["force"])
    fitted = PSIM(**ONE).fit(named)
    inputs = np.array(data.inputs).reshape(20, 15, 1)
    with pytest.raises(DataError, match=r"input 0: .* 1\.01e\+06 times"):
        fitted.partial_fit(Trajectories.of(named, inputs * 1e6))
    with pytest.raises(DataError, match="channel 'force': "):
        fitted.partial_fit(Trajectories.of(data.values.reshape(20, 15, 1) * 1e6, inputs, names=["force"]))


def test_one_wild_value_is_refused() -> None:
    wild = regime(0.8, 1).values.reshape(20, 30, 1).copy()
    wild[3, 4] = 1e6
    with pytest.raises(DataError, match="channel 0"):
        PSIM(**ONE).fit(regime(0.8, 0)).partial_fit(wild)


@quiet
@pytest.mark.parametrize("drift", [-3.0, 0.0, 3.0, 5.0])
def test_honest_recordings_are_learnt_from(drift: float) -> None:
    """The same system drifted by a few of its deviations, rows that were not observed, other lengths."""
    fitted = PSIM(**ONE).fit(regime(0.8, 0))
    unit = float(fitted.filter_.scaling.scale[0])
    more = [part.values[: 10 + i].copy() for i, part in enumerate(regime(0.8, 1, offset=drift * unit))]
    more[0][:] = np.nan
    earlier, drifted = regime(0.8, 2), regime(0.8, 2, offset=drift * unit)
    before, before_drifted = fitted.score(earlier), fitted.score(drifted)
    fitted.partial_fit(more)
    assert fitted.score(earlier) > before - 0.05
    assert fitted.score(drifted) > before_drifted + (0.1 if drift else -0.05)


def test_a_filter_that_diverges_on_far_recordings_is_refused() -> None:
    with pytest.raises(DivergedError):
        PSIM(**ONE).fit(regime(0.8, 0)).partial_fit(np.full((2, 9, 1), 1e200), any_range=True)


def test_forward_training_has_no_partial_fit() -> None:
    assert not hasattr(PSIM(trainer="forward"), "partial_fit")
    assert hasattr(PSIM(), "partial_fit")


@quiet
def test_hints_go_on_learning() -> None:
    """Hints measured at other rows than before, or not at all, do no harm."""
    fitted = PSIM(**ONE).fit(with_inputs())
    fresh = with_inputs(seed=5)
    hints = np.array(fresh.hints)
    hints[::3, 0] = np.nan
    fitted.partial_fit(Trajectories.of(fresh, hints=hints.reshape(20, 15, 2)))
    fitted.partial_fit(Trajectories.of(fresh.values.reshape(20, 15, 1), np.array(fresh.inputs).reshape(20, 15, 1)))
    test = with_inputs(5, seed=4)
    for estimate, part in zip(fitted.hints(test), test, strict=True):
        np.testing.assert_allclose(estimate, part.values * [2.0, 3.0], rtol=0, atol=1e-3)


@quiet
@pytest.mark.parametrize(
    "own",
    [{}, {"learner": RandomFourierRidge(20, 1e-2)}, {"prior": "last", "level_weight": 0.3}, {"rank": 1}],
    ids=called,
)
def test_learning_goes_on_from_a_file(own: dict[str, Any], tmp_path: Path) -> None:
    fitted = PSIM(**ONE | own).fit(with_inputs())
    fitted.save(tmp_path / "model.psim", with_sums=True)
    loaded = PSIM.load(tmp_path / "model.psim")
    more, test = with_inputs(seed=5), with_inputs(5, seed=4)
    for one in (fitted, loaded):
        one.partial_fit(more)
    for ask in (PSIM.predict, PSIM.transform, PSIM.hints, PSIM.score_samples):
        for ours, theirs in zip(ask(fitted, test), ask(loaded, test), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7)  # exact hints are solved from singular sums
    assert loaded.sums_.n == fitted.sums_.n


def test_a_file_without_sums_does_not_go_on(tmp_path: Path) -> None:
    model().save(tmp_path / "model.psim")
    with pytest.raises(SettingsError, match=r"save\(path, with_sums=True\)"):
        PSIM.load(tmp_path / "model.psim").partial_fit(several())
