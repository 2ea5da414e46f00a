"""Choosing: shared sums equal fresh ones, nothing held out is trained on, and autoregression is contained."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

import psimlearn.choose.search
from oracles import ragged
from psimlearn.choose.search import Candidate, Course, Run, Space, Trial, screened, search
from psimlearn.choose.watch import Watch
from psimlearn.datasets import hard_system, random_system
from psimlearn.errors import DivergedError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon, folds, time_folds
from psimlearn.filter.features import Stack
from psimlearn.filter.fourier import fourier_features
from psimlearn.filter.regressors import Linear
from psimlearn.filter.rollout import inputs_at
from psimlearn.learners.ridge import GramSums, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.coordinates import relative
from psimlearn.train.dagger import aggregate
from psimlearn.train.derived import revised, with_ridge
from psimlearn.train.score import held_out
from psimlearn.train.start import Beginning, begin, ground

RNG = np.random.default_rng
SMALL: dict[str, Any] = {"window": 2, "n_rounds": 2, "validation": 0.5, "random_state": 0}


def recordings(seed: int = 0, missing: float = 0.0, n: int = 2) -> Trajectories:
    return ragged([30, 25, 40, 18, 33, 27], n, RNG(seed), missing)


# -- sums that are shared ----------------------------------------------------------------------------------------------


def beginning(data: Trajectories, recipe: Recipe, learner: Any, init: Any = "history") -> Beginning:
    return begin(ground(data, Stack(2), init, Recipe()), learner, init, recipe, RNG(0))


@pytest.mark.parametrize("init", ["history", "teacher"])
@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["whole", "gappy"])
@pytest.mark.parametrize("lags", [1, 3])
@pytest.mark.parametrize("belief_weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("prior", "level_weight"), [("mean", None), ("last", None), ("last", 1.0), ("last", 0.1)])
def test_revised_sums_equal_fresh_ones(
    prior: Any, level_weight: float | None, belief_weight: float, lags: int, missing: float, init: Any
) -> None:
    data, test = recordings(missing=missing), recordings(1, missing)
    shared = beginning(data, Recipe(lags=lags), Ridge(7.0), init)
    recipe = Recipe(lags=lags, prior=prior, belief_weight=belief_weight, level_weight=level_weight)
    fresh = beginning(data, recipe, Ridge(1e-3), init)
    ours = with_ridge(revised(shared, prior, belief_weight, level_weight), 1e-3)
    np.testing.assert_allclose(ours.filter.forecast(test, 4), fresh.filter.forecast(test, 4), rtol=0, atol=1e-8)
    rounds = [list(aggregate(b, held_out(b.filter, test, "window"), 1)) for b in (ours, fresh)]
    for mine, theirs in zip(*rounds, strict=True):
        assert mine.error == pytest.approx(theirs.error, rel=1e-8)
        assert mine.clipped == theirs.clipped
        np.testing.assert_allclose(mine.filter.forecast(test, 3), theirs.filter.forecast(test, 3), rtol=0, atol=1e-8)


def test_another_ridge_needs_no_other_sums() -> None:
    data, test = recordings(), recordings(1)
    for learner in (Ridge(1.0), RandomFourierRidge(20, 1.0)):
        ours = with_ridge(beginning(data, Recipe(), learner), 1e-4)
        fresh = beginning(data, Recipe(), replace(learner, alpha=1e-4))
        np.testing.assert_allclose(ours.filter.forecast(test, 3), fresh.filter.forecast(test, 3), rtol=0, atol=1e-9)


def examples() -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(0)
    z = rng.standard_normal((50, 4)) * [1.0, 2.0, 3.0, 4.0] + 5.0
    return z, z @ rng.standard_normal((4, 3)) + rng.standard_normal((50, 3))


def assert_same(ours: GramSums, theirs: GramSums) -> None:
    for name in GramSums._fields:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-9)


def test_scaled_sums_are_those_of_scaled_examples() -> None:
    z, y = examples()
    scale = np.array([0.0, 1.0, -2.0, 0.5])
    assert_same(Ridge().summarise(z, y).scaled(scale), Ridge().summarise(z * scale, y))


def test_sums_less_a_map_are_those_of_lessened_examples() -> None:
    z, y = examples()
    weights, constant = RNG(1).standard_normal((4, 3)), np.array([1.0, -2.0, 3.0])
    lessened = y - z @ weights - constant
    assert_same(Ridge().summarise(z, y).less(weights, constant), Ridge().summarise(z, lessened))


# -- coordinates -------------------------------------------------------------------------------------------------------


def in_coordinates(learner: Any, lags: int = 3) -> tuple[Beginning, np.ndarray, np.ndarray]:
    """A beginning in coordinates of levels and changes, and the examples that it was fitted to."""
    recipe = Recipe(lags=lags, prior="last", belief_weight=0.5, level_weight=0.2)
    base = ground(recordings(), Stack(2), "history", recipe)
    begun = begin(base, learner, "history", recipe, RNG(0))
    lessons = begun.lessons
    z = inputs_at(begun.filter, base.beliefs[lessons.rows], base.x, lessons.table.layout, lessons.rows)
    return begun, z, lessons.y


@pytest.mark.parametrize("alpha", [1e-4, 1.0])
def test_ridge_in_coordinates_is_ridge_on_explicit_columns(alpha: float) -> None:
    begun, z, y = in_coordinates(Ridge(alpha))
    assert isinstance(begun.learner, Ridge)
    assert begun.learner.coordinates is not None
    explicit = np.column_stack([z @ begun.learner.coordinates.ridge.toarray(), np.ones(len(z))])
    oracle = SklearnRidge(alpha=alpha * len(z), fit_intercept=False, solver="cholesky").fit(explicit, y)
    np.testing.assert_allclose(begun.filter.regressors[0](z), oracle.predict(explicit), rtol=0, atol=1e-10)


@pytest.mark.parametrize("alpha", [1e-4, 1.0])
def test_random_features_in_coordinates_are_ridge_on_explicit_columns(alpha: float) -> None:
    begun, z, y = in_coordinates(RandomFourierRidge(20, alpha))
    learner = begun.learner
    assert isinstance(learner, RandomFourierRidge)
    assert learner.coordinates is not None
    assert learner.directions is not None
    waves = fourier_features(z, learner.directions, raw_inputs=False) / np.sqrt(10)
    explicit = np.column_stack([waves, z @ learner.coordinates.ridge.toarray(), np.ones(len(z))])
    oracle = SklearnRidge(alpha=alpha * len(z), fit_intercept=False, solver="cholesky").fit(explicit, y)
    np.testing.assert_allclose(begun.filter.regressors[0](z), oracle.predict(explicit), rtol=0, atol=1e-10)


def test_coordinates_are_surprises_levels_and_changes() -> None:
    """By hand: z = [m; x_t; x_{t-1}; x_{t-2}] of two channels, with a window of 2."""
    begun, z, _ = in_coordinates(Ridge(1.0))
    feedback = begun.filter.feedback
    n, lags = 2, 3
    changed = z @ relative(feedback, Stack(2), n, lags, z.shape[1]).toarray()
    x = [z[:, 4 + 2 * j : 6 + 2 * j] for j in range(3)]
    np.testing.assert_allclose(changed[:, 4:6], x[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(changed[:, 6:8], x[0] - x[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(changed[:, 8:10], x[1] - x[2], rtol=0, atol=1e-12)
    stays = feedback.linear(np.tile(x[0], (1, 2)))
    np.testing.assert_allclose(changed[:, :4], z[:, :4] - stays, rtol=0, atol=1e-12)
    learner = begun.learner
    assert isinstance(learner, Ridge)
    assert learner.coordinates is not None
    deviations = np.std(z @ learner.coordinates.ridge.toarray(), axis=0)
    np.testing.assert_allclose(deviations, [*[0.5] * 4, *[0.2] * 2, *[1.0] * 4], rtol=1e-9)


def test_a_small_level_weight_forgives_offsets() -> None:
    """Every recording has an offset of its own: trained on few, a filter of changes does better on others."""
    rng = RNG(0)

    def drifting(m: int) -> Trajectories:
        x = np.zeros((m, 40, 1))
        for t in range(2, 40):
            x[:, t] = 1.6 * x[:, t - 1] - 0.7 * x[:, t - 2] + rng.standard_normal((m, 1))
        return Trajectories.of(x + 30 * rng.standard_normal((m, 1, 1)))

    train, test = drifting(4), drifting(200)
    small, none = (
        best(dagger(train, train, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=2, recipe=recipe)).filter
        for recipe in (Recipe(3, "last", 0.0, level_weight=0.01), Recipe(3, "mean", 0.0))
    )
    assert errors_by_horizon(small, test, skip=3)[0] < errors_by_horizon(none, test, skip=3)[0]


# -- autoregression is contained ---------------------------------------------------------------------------------------


def test_without_a_belief_it_is_direct_autoregression() -> None:
    data, test = recordings(), recordings(1)
    settings = SMALL | {"lags": 5, "belief_weight": 0.0, "prior": "mean", "level_weight": None}
    fitted = PSIM(**settings).fit(data)
    scaling, alpha = fitted.filter_.scaling, fitted.report_["choices"]["alpha"]
    np.testing.assert_allclose(scaling.mean, data.values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, data.values.std(axis=0), rtol=1e-12)

    def lagged(x: np.ndarray) -> np.ndarray:
        return np.array([np.concatenate([x[max(t - j, 0)] for j in range(5)]) for t in range(len(x))])

    parts = [scaling(part.values) for part in data]
    z = np.concatenate([lagged(x)[:-2] for x in parts])
    y = np.concatenate([np.stack([x[t + 1 : t + 3].ravel() for t in range(len(x) - 2)]) for x in parts])
    oracle = SklearnRidge(alpha=alpha * len(z), solver="cholesky").fit(z, y)
    for beliefs, part in zip(fitted.transform(test), test, strict=True):
        np.testing.assert_allclose(beliefs, oracle.predict(lagged(scaling(part.values))), rtol=0, atol=1e-9)


@pytest.mark.parametrize("angle", [0.1, 0.3, 1.0])
def test_never_worse_than_autoregression_where_that_is_perfect(angle: float) -> None:
    """One coordinate of a rotation: two observations tell all the rest."""
    starts = RNG(0).uniform(0, 2 * np.pi, (12, 1))
    x = np.cos(angle * np.arange(40) + starts)[:, :, None]
    errors = PSIM(**SMALL).fit(x).report_["errors"]
    assert (np.array(errors["PSIM"]) <= 1.05 * np.array(errors["autoregression"])).all()
    assert errors["PSIM"][0] < 0.1 * errors["last observation"][0]


# -- what is tried, and what it costs ----------------------------------------------------------------------------------


@cache
def chosen() -> PSIM:
    return PSIM(**SMALL).fit(recordings())


def test_trials_make_a_table() -> None:
    table = pd.DataFrame(chosen().trials_)
    assert len(table) == chosen().report_["tried"]
    assert {"learner", "alpha", "lags", "prior", "belief_weight", "level_weight", "rank", "error"} <= set(table)
    assert set(table["lags"]) == {1, 2, 4}
    assert set(table["prior"]) == {"mean", "last"}
    assert {0.0, 1.0} <= set(table["belief_weight"])
    assert table["alpha"].nunique() >= 6
    row = chosen().report_["choices"]
    assert any(all(trial[name] == row[name] for name in trial) for trial in chosen().trials_)


def test_no_trial_is_much_better_than_the_one_chosen() -> None:
    """Levels count for a little more where recordings are few, and only what ran to the end can win."""
    lowest = min(trial["error"] for trial in chosen().trials_)
    assert chosen().report_["choices"]["error"] <= 1.05 * lowest


def test_candidates_share_their_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ridges, priors and weights cost a solution each; only lags are laid out and summed anew."""
    counts = {"begin": 0, "ground": 0}

    def counted(name: str, function: Any) -> None:
        def counting(*given: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*given, **named)

        monkeypatch.setattr(psimlearn.choose.search, name, counting)

    counted("begin", begin)
    counted("ground", ground)
    fitted = PSIM(**SMALL).fit(recordings())
    n_splits, n_lags = 2, 3
    assert fitted.report_["tried"] > 80
    assert counts["ground"] == n_splits + 1  # and once for all recordings
    assert counts["begin"] <= n_splits * 4 * n_lags + 1  # screened, varied, raced, and the best raced on
    counts["begin"] = 0
    course = courses()[0]
    recipes = tuple(Recipe(prior=p, belief_weight=w) for p in ("mean", "last") for w in (0.0, 0.3, 1.0))
    assert len(screened(Space((Ridge(),), recipes, (1e-4, 1e-2, 1.0)).candidates(), [course])) == 18
    assert counts["begin"] == 1


def courses() -> list[Course]:
    data = recordings()
    return [
        Course(train, held, Stack(2), "history", "window", "dagger", 0, len(data), Recipe())
        for train, held in folds(data, 2, RNG(0))
    ]


def test_sharing_does_not_change_what_is_found() -> None:
    """Candidates in any order, with others before them or alone, have the same errors."""
    priors: list[tuple[Any, float | None]] = [("mean", None), ("last", None), ("last", 0.1)]
    recipes = tuple(
        Recipe(lags, prior, weight, level) for lags in (1, 2) for prior, level in priors for weight in (0.0, 0.3, 1.0)
    )
    candidates = Space((Ridge(),), recipes, (1e-4, 1.0)).candidates()
    together = screened(candidates, courses())
    shuffled = [candidates[i] for i in RNG(0).permutation(len(candidates))]
    again = {trial.candidate: trial.error for trial in screened(shuffled, courses())}
    for trial in together:
        assert trial.error == again[trial.candidate]
        alone = [
            next(dagger(c.train, c.validation, Stack(2), l, rng=RNG(0), recipe=r, criterion="window"))
            for c in courses()
            for r, l in [trial.candidate]
        ]
        assert trial.error == pytest.approx(np.mean([round.error for round in alone]), rel=1e-7)


def test_a_race_gives_the_rounds_of_dagger() -> None:
    candidate = Candidate(Recipe(lags=2), Ridge(1e-2))
    run = Run.of(candidate, courses(), 3).advance(1)
    assert [len(rounds) for rounds in run.rounds] == [2, 2]
    run.advance(3)
    for course, rounds in zip(courses(), run.rounds, strict=True):
        options: Any = {"n_rounds": 3, "recipe": candidate.recipe, "criterion": "window"}
        alone = list(dagger(course.train, course.validation, Stack(2), Ridge(1e-2), rng=RNG(0), **options))
        np.testing.assert_allclose([r.error for r in rounds], [r.error for r in alone], rtol=1e-7)
    mean = [np.mean([a.error, b.error]) for a, b in zip(*run.rounds, strict=True)]
    trial = run.trial()
    assert trial.error == min(mean)
    assert trial.best_round == int(np.argmin(mean))
    assert [winner.number for winner in run.winners()] == [trial.best_round] * 2


class Refusing(Ridge):
    """A ridge that finds nothing finite."""

    def solve(self, stats: GramSums) -> Any:
        raise DivergedError("nothing finite")


def test_what_diverges_is_infinite_and_does_not_win() -> None:
    space = Space((Refusing(), Ridge(1e-2)), (Recipe(),), refine=False)
    run, trials = search(courses(), space, 2, Watch())
    assert type(run.candidate.learner) is Ridge
    assert [trial.error for trial in trials if isinstance(trial.candidate.learner, Refusing)] == [np.inf]
    with pytest.raises(DivergedError, match=r"required one of .* settings with a finite closed-loop error"):
        search(courses(), space._replace(learners=(Refusing(),)), 2, Watch())


def test_diverging_settings_are_counted() -> None:
    rng = RNG(1)
    data = hard_system(rng).simulate(8, 40, rng)
    fitted = PSIM(**SMALL | {"box": False, "validation": 0.2}).fit(data)
    infinite = [trial for trial in fitted.trials_ if trial["error"] == np.inf]
    assert len(infinite) > 0
    assert fitted.report_["diverged"] == len(infinite)
    assert f"{len(infinite)} diverged" in fitted.summary()
    assert np.isfinite(fitted.report_["choices"]["error"])
    assert np.isfinite(np.concatenate(fitted.predict(data))).all()


def test_few_recordings_cast_doubt_on_levels() -> None:
    level, change = Recipe(prior="last", level_weight=1.0), Recipe(prior="last", level_weight=0.1)
    for m, more in ((1, False), (2, True), (5, True), (1000, False)):
        one, other = (Trial(Candidate(recipe, Ridge()), 0, 0, 1.0, m).judged for recipe in (level, change))
        assert (one > 1.01 * other) is more


def test_rank_auto_compresses_what_is_redundant() -> None:
    """One hidden state behind two channels: of ten numbers in a belief, two do."""
    rng = RNG(0)
    data = random_system(rng, n_states=1, n_outputs=2).simulate(30, 30, rng)
    own = {"window": 5, "lags": 1, "prior": "mean", "belief_weight": 1.0, "rank": "auto"}
    fitted = PSIM(**SMALL | own).fit(data)
    assert fitted.report_["choices"]["rank"] == 2
    assert fitted.filter_.feedback.mean.shape == (2,)
    full = PSIM(**SMALL | own | {"rank": None}).fit(data)
    ours, theirs = (np.array(m.report_["errors"]["PSIM"]) for m in (fitted, full))
    assert (ours <= 1.02 * theirs).all()


def test_the_better_learner_wins() -> None:
    """A logistic map is deterministic, and no line describes it."""
    x = np.empty((12, 40, 1))
    x[:, 0] = RNG(0).uniform(0.1, 0.9, (12, 1))
    for t in range(39):
        x[:, t + 1] = 3.9 * x[:, t] * (1 - x[:, t])
    settings = SMALL | {"lags": 2, "prior": "mean"}
    linear, either = (PSIM(**settings | {"learner": learner}).fit(x) for learner in ("ridge", "auto"))
    assert either.report_["choices"]["learner"] == "RandomFourierRidge"
    assert either.report_["errors"]["PSIM"][0] < 0.3 * linear.report_["errors"]["PSIM"][0]
    assert either.report_["tried"] > linear.report_["tried"]


# -- what is held out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("rows", "n_folds", "window"), [(40, 5, 3), (31, 4, 1), (100, 2, 10), (12, 3, 2)])
def test_no_training_target_reaches_into_the_test(rows: int, n_folds: int, window: int, shuffled: bool) -> None:
    recording = Trajectories.of(np.arange(float(rows))[:, None])
    tested: list[float] = []
    for train, test in time_folds(recording, n_folds, window, RNG(0) if shuffled else None):
        held = set(test.values[:, 0])
        tested += held
        for part in train:
            times = part.values[:, 0]
            assert (np.diff(times) == 1).all()  # no recording jumps over the test
            for t in times:
                assert held.isdisjoint(t + np.arange(-window, window + 1))
    assert sorted(tested) == list(range(rows))


def test_a_single_recording_is_cut_in_time() -> None:
    fitted = PSIM(**SMALL | {"validation": 0.25}).fit(recordings(n=1)[2].values)
    assert fitted.report_["splits"] == "4 splits, 4 recordings held out"
    assert fitted.report_["data"]["recordings"] == 1


def test_many_rows_are_split_once() -> None:
    fitted = PSIM(**SMALL | {"lags": 1, "learner": Ridge(1e-2)}).fit(RNG(0).standard_normal((50, 100, 1)))
    assert fitted.report_["splits"] == "1 split, 25 recordings held out"


@pytest.mark.parametrize("rows", [3, 10, 29])
@pytest.mark.parametrize("learner", ["ridge", "rff", "auto"])
def test_too_few_rows_are_told(rows: int, learner: str) -> None:
    x = RNG(0).standard_normal((rows, 2))
    fitted = PSIM(**SMALL | {"learner": learner}).fit(x)
    assert f"note: too few rows ({rows}) to hold any out" in fitted.summary()
    assert fitted.report_["splits"] == "nothing held out"
    assert np.isfinite(fitted.forecast(x, 5)).all()
    assert np.isfinite(fitted.predict_interval(x)[0]).all()


def test_thirty_rows_are_enough() -> None:
    fitted = PSIM(**SMALL | {"lags": 1, "prior": "mean", "validation": 0.2}).fit(RNG(0).standard_normal((30, 1)))
    assert "too few rows" not in fitted.summary()


def test_short_recordings_are_left_out_and_told() -> None:
    data = [part.values for part in recordings()]
    settings = SMALL | {"learner": Ridge(1e-2), "lags": 1}
    with_short, without = PSIM(**settings).fit([*data, data[0][:2], data[1][:1]]), PSIM(**settings).fit(data)
    assert "2 of 8 recordings are no longer than the window" in with_short.summary()
    np.testing.assert_array_equal(with_short.forecast(data, 3), without.forecast(data, 3))
    with pytest.raises(ValueError, match="required a recording with more rows than the window, at least 3"):
        PSIM(**settings).fit([part[:2] for part in data])


def test_own_validation_recordings_are_used_as_they_are() -> None:
    data, held = recordings(), recordings(1)
    recipe = Recipe(lags=2)
    settings = SMALL | {"learner": Ridge(1e-3), "recipe": recipe, "validation": held}
    fitted = PSIM(**settings).fit(data)
    rounds = list(dagger(data, held, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=2, recipe=recipe, criterion="window"))
    np.testing.assert_allclose([r.error for r in fitted.rounds_], [r.error for r in rounds], rtol=1e-9)
    np.testing.assert_allclose(
        fitted.filter_.forecast(held, 3), best(rounds).filter.forecast(held, 3), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(fitted.filter_.scaling.mean, data.values.mean(axis=0), rtol=1e-12)
    assert fitted.report_["splits"] == "1 split, 6 recordings held out"
    errors = errors_by_horizon(best(rounds).filter, held, 2, skip=1, scale=best(rounds).filter.scaling.scale)
    np.testing.assert_allclose(fitted.report_["errors"]["PSIM"], errors, rtol=1e-9)


def test_refit_learns_from_all_recordings() -> None:
    data = recordings()
    settings = SMALL | {"learner": Ridge(1e-3), "lags": 1, "prior": "mean", "belief_weight": 1.0}
    everything, part = (PSIM(**settings | {"refit": refit}).fit(data) for refit in (True, False))
    rows = len(data.values) - 2 * len(data)
    assert everything.sums_.n == rows * (everything.n_rounds_ + 1)
    assert part.sums_.n < 0.7 * rows * (part.n_rounds_ + 1)
    assert part.report_["errors"] == everything.report_["errors"]
    np.testing.assert_allclose(everything.filter_.scaling.mean, data.values.mean(axis=0), rtol=1e-12)


# -- the same again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["ridge", "rff"])
def test_the_seed_decides_everything(learner: str) -> None:
    data = recordings()
    settings = SMALL | {"learner": learner, "lags": 1, "prior": "mean"}
    one, same, other = (PSIM(**settings | {"random_state": seed}).fit(data) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.forecast(data, 5), same.forecast(data, 5))
    assert one.trials_ == same.trials_
    assert one.summary() == same.summary()
    assert one.trials_ != other.trials_


@pytest.mark.parametrize("own", [True, False], ids=["own validation", "a share"])
def test_as_published_is_the_published_algorithm(own: bool) -> None:
    rng = RNG(0)
    system = random_system(rng)
    data, held = system.simulate(250, 50, rng), system.simulate(30, 50, rng)
    fitted = PSIM.as_published(3, n_rounds=4, random_state=0, validation=held if own else 0.2).fit(data)
    if not own:  # so many rows are split just once
        seed = int(np.random.RandomState(0).randint(2**31))
        data, held = next(folds(data, 5, RNG(seed)))
    options: Any = {"n_rounds": 4, "init": "zero", "recipe": Recipe.as_published()}
    rounds = list(dagger(data, held, Stack(3), Ridge(intercept=False), rng=RNG(0), **options))
    assert [round.error for round in fitted.rounds_] == [round.error for round in rounds]
    winner = best(rounds).filter
    ours, theirs = fitted.filter_.regressors[0], winner.regressors[0]
    assert isinstance(ours, Linear)
    assert isinstance(theirs, Linear)
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    np.testing.assert_array_equal(fitted.filter_.forecast(held, 5), winner.forecast(held, 5))
    assert fitted.recipe_ == Recipe.as_published()
    assert not ours.intercept.any()
    assert fitted.filter_.feedback.low is None
    assert (fitted.filter_.scaling.scale == 1).all()
