"""A subspace start: the filter of an identified linear system as the first round of DAgger."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.baselines import n4sid
from psimlearn.choose import spaces
from psimlearn.choose.candidates import Candidate
from psimlearn.choose.courses import laid_out, start
from psimlearn.datasets import LinearSystem, random_system
from psimlearn.errors import DataError, PsimlearnWarning, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Filter, Stack, StackSquares
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, dagger
from psimlearn.train.ground import ground, relating
from psimlearn.train.openings import with_opening
from psimlearn.train.recipe import Past
from psimlearn.train.score import held_out, scored, telling_openings
from psimlearn.train.start import begin

RNG = np.random.default_rng


def simulated(seed: int = 0) -> tuple[LinearSystem, Trajectories, Trajectories]:
    rng = RNG(seed)
    system = random_system(rng)
    return system, system.simulate(40, 60, rng), system.simulate(40, 60, rng)


def first_filter(train: Trajectories, window: int = 3, **recipe: Any) -> Filter:
    chosen = Recipe(**{"states": 3, "past": 5, "box": None} | recipe)
    return begin(ground(train, Stack(window), "history", Recipe()), Ridge(), "history", chosen, RNG(0)).filter


@pytest.mark.parametrize(
    "recipe", [{}, {"prior": "last"}, {"lags": 4}, {"prior": "last", "lags": 4, "level_weight": 1.0}]
)
def test_the_first_round_predicts_as_n4sid_does(recipe: dict[str, Any]) -> None:
    """N4SID has larger gains in the first rows, which both forget."""
    _, train, test = simulated()
    theirs = n4sid(train, 3, block_rows=5, ridge=Recipe().past_ridge).forecast(test, 3)
    ours = first_filter(train, **recipe).forecast(test, 3)
    late = np.concatenate([np.arange(length) >= 50 for length in test.lengths])
    np.testing.assert_allclose(ours[late], theirs[late], atol=1e-9 * np.abs(test.values).max())


def test_dagger_goes_on_from_a_system() -> None:
    system, train, test = simulated(1)
    rounds = list(
        dagger(train, test, Stack(3), Ridge(1e-3), rng=RNG(0), n_rounds=4, recipe=Recipe(states=3, past=5), criterion=3)
    )
    optimal = errors_by_horizon(system.kalman(), test, 3, skip=10)
    for each in (rounds[0], rounds[-1]):
        assert (errors_by_horizon(each.filter, test, 3, skip=10) < 1.02 * optimal).all()
    assert rounds[0].filter.feedback.mean.shape == rounds[-1].filter.feedback.mean.shape == (3,)


def behind_noise() -> tuple[Trajectories, Trajectories]:
    """A slow system of two states behind eight noisy channels, in few rows: history-regressed beliefs shrink."""
    rng = RNG(3)
    A, C = 0.97 * np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]]), rng.standard_normal((8, 2))
    recordings = []
    for _ in range(24):
        s, rows = 4 * rng.standard_normal(2), []
        for _ in range(60):
            s = A @ s + 0.5 * rng.standard_normal(2)
            rows.append(C @ s + 3 * rng.standard_normal(8))
        recordings.append(np.array(rows))
    return Trajectories.of(recordings[:10]), Trajectories.of(recordings[10:])


@pytest.fixture(scope="module")
def begun_with_a_system() -> PSIM:
    return PSIM(5, init="auto", random_state=0).fit(behind_noise()[0])


def test_noise_does_not_turn_the_belief_off(begun_with_a_system: PSIM) -> None:
    train, test = behind_noise()
    before, after = PSIM(5, init="history", random_state=0).fit(train), begun_with_a_system
    assert after.report_["choices"]["states"] is not None
    assert after.report_["choices"]["belief_weight"] > 0
    errors = [errors_by_horizon(model.filter_, test, 5, skip=10).mean() for model in (before, after)]
    assert errors[1] < 1.005 * errors[0]
    assert "begun with a linear system of" in after.summary()


def test_a_model_that_began_with_a_system_is_kept_and_says_that_a_regression_follows(
    begun_with_a_system: PSIM, tmp_path: Path
) -> None:
    _, test = behind_noise()
    begun_with_a_system.save(tmp_path / "m.psim", with_sums=True)
    model = PSIM.load(tmp_path / "m.psim")
    assert np.array_equal(model.filter_.forecast(test, 5), begun_with_a_system.filter_.forecast(test, 5))
    error = errors_by_horizon(model.filter_, test[7:], 5, skip=10).mean()
    assert model.report_["choices"]["best_round"] == 0
    with pytest.warns(PsimlearnWarning, match="gives way to a regression"):
        model.partial_fit(test[:7])
    assert errors_by_horizon(model.filter_, test[7:], 5, skip=10).mean() < 1.1 * error


def test_other_learners_are_tried_where_a_system_did_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "N_FOURIER", 20)
    model = PSIM(5, learner="auto", n_rounds=2, random_state=0).fit(behind_noise()[0])
    tried = {trial["learner"]: trial for trial in model.trials_}
    assert {"Ridge", "RandomFourierRidge"} <= set(tried)
    assert tried["RandomFourierRidge"]["states"] is None


def test_relations_serve_several_sizes() -> None:
    _, train, test = simulated()
    plain = ground(train, Stack(2), "history", Recipe())
    related = relating(plain, [Past(3, 1e-3), Past(5, 1e-3)])
    assert {past.rows for past in related.related} == {3, 5}
    assert not relating(plain, [Past(1000, 1e-3)]).related  # recordings are shorter
    for recipe in (Recipe(states=2, past=3), Recipe(states=4, past=5)):
        alone, shared = (begin(g, Ridge(), "history", recipe, RNG(0)).filter for g in (plain, related))
        np.testing.assert_array_equal(alone.forecast(test, 2), shared.forecast(test, 2))


def test_another_ridge_relates_the_same_moments() -> None:
    """Known moments or rows: the same system, and the same as N4SID with that ridge."""
    _, train, test = simulated()
    plain = ground(train, Stack(2), "history", Recipe())
    known = relating(relating(plain, [Past(5, 1e-3)]), [Past(5, 1e-1)])
    assert set(known.related) == {Past(5, 1e-3), Past(5, 1e-1)}
    recipe = Recipe(states=2, past=5, past_ridge=1e-1)
    alone, shared = (begin(g, Ridge(), "history", recipe, RNG(0)).filter for g in (plain, known))
    np.testing.assert_allclose(alone.forecast(test, 2), shared.forecast(test, 2), rtol=0, atol=1e-9)
    late = np.concatenate([np.arange(length) >= 50 for length in test.lengths])
    theirs = n4sid(train, 2, block_rows=5, ridge=1e-1).forecast(test, 2)
    np.testing.assert_allclose(shared.forecast(test, 2)[late], theirs[late], rtol=0, atol=1e-6)


def test_larger_ridges_relate_noisy_rows_while_errors_fall(begun_with_a_system: PSIM) -> None:
    chosen = begun_with_a_system.report_["choices"]
    first = [t for t in begun_with_a_system.trials_ if t["n_rounds"] == 0 and t["states"] == chosen["states"]]
    errors = {t["past_ridge"]: t["error"] for t in first if t["past"] == chosen["past"]}
    *falling, last = (errors[ridge] for ridge in sorted(errors))
    assert chosen["past_ridge"] == min(errors, key=errors.__getitem__) > 1e-3
    assert falling == sorted(falling, reverse=True)
    assert last > falling[-1] or chosen["past_ridge"] == max(errors)


def swinging(radius: float, driven: float, noise: float) -> tuple[Trajectories, Trajectories]:
    """Two states that swing, behind three channels with noise: recordings begin in the midst of it."""
    rng = RNG(0)
    A = radius * np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    C, recordings = rng.standard_normal((3, 2)), []
    for _ in range(120):
        s, rows = 3 * rng.standard_normal(2), []
        for _ in range(60):
            s = A @ s + driven * rng.standard_normal(2)
            rows.append(C @ s + noise * rng.standard_normal(3))
        recordings.append(np.array(rows))
    return Trajectories.of(recordings[:60]), Trajectories.of(recordings[60:])


def test_a_filter_that_forgets_slowly_is_scored_with_its_opening() -> None:
    train, test = swinging(0.99, 0.05, 2.0)  # a small gain: rows tell little of the state
    slow = first_filter(train, states=2, past=10)
    held, opens = held_out(slow, test, "window", skip=10), telling_openings(slow, train)
    plain, opened = (scored(0, slow, held, opens=some) for some in (None, opens))
    assert opened.error < 0.99 * plain.error
    assert opened.filter.opening is None  # it learns one once it is chosen
    learnt = with_opening(plain.filter, train, "any moment")
    assert learnt is not None
    assert opened.error == scored(0, learnt, held_out(learnt, test, "window", skip=10)).error


def test_a_filter_that_forgets_soon_is_scored_as_it_is() -> None:
    train, test = swinging(0.5, 1.0, 0.1)
    quick = first_filter(train, states=2, past=10)
    held, opens = held_out(quick, test, "window", skip=10), telling_openings(quick, train)
    plain, opened = (scored(0, quick, held, opens=some) for some in (None, opens))
    assert opened.error == plain.error


def test_what_scores_a_system_holds_no_training_rows() -> None:
    """Held-out rows, laid out, score a filter alike whichever recordings the system was identified from."""
    train, test = swinging(0.99, 0.05, 2.0)
    candidate = Candidate(Recipe(states=2, past=10, standardise=False), Ridge())
    parts = [train[: len(train) // 2], train[len(train) // 2 :]]
    courses = [laid_out(part, test, Stack(3), candidate.recipe, n_recordings=len(part)) for part in parts]
    begun, helds = start(candidate, courses[0]).begun, [start(candidate, course).held for course in courses]
    assert begun.opens is not None  # training rows stand beside what scores
    one, other = (scored(0, begun.filter, held, opens=begun.opens).error for held in helds)
    assert one == other < scored(0, begun.filter, helds[0]).error


def test_gaps_are_filled_in_first() -> None:
    _, train, test = simulated()
    holes = RNG(0).random(train.values.shape) < 0.1
    gappy = replace(train, values=np.where(holes, np.nan, train.values))
    whole, with_gaps = (errors_by_horizon(first_filter(each), test, skip=10)[0] for each in (train, gappy))
    assert with_gaps < 1.02 * whole


@pytest.mark.parametrize(
    ("features", "recipe", "words"),
    [
        (Stack(2), {"states": 5}, "at most 2 times the number of channels"),
        (Stack(5), {"states": 5, "past": 3}, "at most 2 times the number of channels"),
        (Stack(2), {"states": 2, "rank": 2}, "rank=None"),
        (Stack(2), {"states": 2, "belief_weight": 0.0}, "belief weight above 0"),
        (StackSquares(2), {"states": 2}, "Stack features"),
    ],
)
def test_what_does_not_go_together_is_refused(features: Any, recipe: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ground(ragged([30, 30], 2, RNG(0)), features, "history", Recipe(**recipe))


def test_recordings_with_inputs_have_no_subspace_start() -> None:
    rng = RNG(0)
    data = Trajectories.of(list(rng.standard_normal((6, 30, 2))), list(rng.standard_normal((6, 30, 1))))
    with pytest.raises(SettingsError, match="without inputs"):
        ground(data, Stack(2), "history", Recipe(states=2))
    model = PSIM(2, n_rounds=2, random_state=0).fit(data)
    assert all(trial["states"] is None for trial in model.trials_)


def test_a_number_of_steps_is_a_criterion() -> None:
    """The errors of fed-back predictions, each relative to that of the last observation."""
    _, train, test = simulated()
    filter = first_filter(train)
    steps = 7
    error = scored(0, filter, held_out(filter, test, steps)).error
    scale = filter.scaling.scale
    ours = errors_by_horizon(filter, test, steps, skip=1, scale=scale)

    class Stays:
        def forecast(self, trajectories: Trajectories, horizon: int) -> np.ndarray:
            last = np.vstack([trajectories.values[:1], trajectories.values[:-1]])
            return np.repeat(last[:, None], horizon, axis=1)

    stays = errors_by_horizon(Stays(), test, steps, skip=1, scale=scale)
    assert error == pytest.approx((ours / stays).mean(), rel=1e-9)


def test_first_rows_can_be_left_out_of_the_score() -> None:
    _, train, test = simulated()
    filter = first_filter(train)
    scale = filter.scaling.scale
    error = scored(0, filter, held_out(filter, test, "one-step", skip=10)).error
    assert error == pytest.approx(errors_by_horizon(filter, test, skip=10, scale=scale)[0], rel=1e-9)
    within = scored(0, filter, held_out(filter, test, 2, skip=10))
    assert within.error != scored(0, filter, held_out(filter, test, 2)).error


def test_a_criterion_needs_rows_and_squared_errors() -> None:
    data = ragged([12, 12, 12, 12], 1, RNG(0))
    with pytest.raises(DataError, match="more than 20 rows"):
        PSIM(2, criterion=20, n_rounds=1).fit(data)
    with pytest.raises(SettingsError, match="criterion: required"):
        PSIM(2, criterion="far").fit(data)
    with pytest.raises(SettingsError, match="at most the window"):
        PSIM(2, criterion=20, features="onehot").fit([list("abababab")] * 4)
    assert PSIM(2, criterion=4, n_rounds=1, random_state=0).fit(data).report_["criterion"] == 4
