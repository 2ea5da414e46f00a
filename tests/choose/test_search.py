"""Searching: candidates share their starts without changing what is found."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import psimlearn.choose.courses
import psimlearn.choose.runs
import psimlearn.choose.search
import psimlearn.choose.systems
from oracles import ragged
from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, laid_out
from psimlearn.choose.numbers import hopeless
from psimlearn.choose.runs import Lane, Run, advanced, first_trials, race, runs, with_first_round_of, with_ridge
from psimlearn.choose.search import _beside, screened, search
from psimlearn.choose.space import Space, Systems
from psimlearn.choose.symbols import _contexts
from psimlearn.choose.watch import Stage, Watch
from psimlearn.datasets import random_system
from psimlearn.errors import DivergedError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import folds
from psimlearn.filter import OneHotProduct, Stack
from psimlearn.learners import GramSums, RandomFourierRidge, Ridge
from psimlearn.learners.trees import RidgeAndTrees
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, Round, dagger
from psimlearn.train.derived import initial_sums
from psimlearn.train.ground import ground
from psimlearn.train.recipe import Past
from psimlearn.train.start import begin

RNG = np.random.default_rng


SMALL: dict[str, Any] = {"window": 2, "n_rounds": 2, "validation": 0.5, "random_state": 0}


def recordings(seed: int = 0, missing: float = 0.0, n: int = 2) -> Trajectories:
    return ragged([30, 25, 40, 18, 33, 27], n, RNG(seed), missing)


def test_candidates_share_their_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ridges, priors and weights cost a solution each; only lags are laid out and summed anew."""
    counts = {"begin": 0, "ground": 0}

    def counted(name: str, function: Any) -> None:
        def counting(*given: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*given, **named)

        monkeypatch.setattr(psimlearn.choose.courses, name, counting)

    counted("begin", begin)
    counted("ground", ground)
    fitted = PSIM(**SMALL, init="history").fit(recordings())
    n_splits, n_lags = 2, 3
    assert fitted.report_["tried"] > 80
    assert counts["ground"] == n_splits + 1  # and once for all recordings
    # screened, varied and raced, and once for all recordings; one more on each split for the autoregression it reports
    assert counts["begin"] <= n_splits * (3 * n_lags + 1) + 1
    counts["begin"] = 0
    recipes = [Recipe(prior=p, belief_weight=w) for p in ("mean", "last") for w in (0.0, 0.3, 1.0)]
    candidates = Space((Ridge(),), tuple(recipes), (1e-4, 1e-2, 1.0)).candidates()
    assert len(screened(shuffled(candidates), courses()[:1])) == 18
    assert counts["begin"] == 1


def test_initial_examples_are_summed_again_only_where_the_sums_of_others_do_not_hold_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums of two lags hold those of one, with either prior; not those of three, nor those without a prior."""
    known: dict[tuple[int, str], bool] = {}

    def noting(ground: Any, learner: Any, init: Any, recipe: Recipe, rng: Any, sums: Any = None, **named: Any) -> Any:
        known[recipe.lags, recipe.prior] = sums is not None
        return begin(ground, learner, init, recipe, rng, sums, **named)

    train, held = next(folds(recordings(), 2, RNG(0)))
    course = laid_out(train, held, Stack(2), Recipe(), init="history", n_recordings=6)
    course = course._replace(initial=initial_sums(course.ground, course.init, Recipe(lags=2)))
    monkeypatch.setattr(psimlearn.choose.courses, "begin", noting)
    for recipe in (Recipe(lags=q, prior=p) for q in (1, 2, 3) for p in ("mean", "zero")):
        candidate = Candidate(recipe, Ridge(1e-2))
        (trial,) = screened([candidate], [course])
        assert trial.error == pytest.approx(by_dagger(candidate, course, 0)[0].error, rel=1e-7)
    expected = {(1, "mean"): True, (2, "mean"): True, (3, "mean"): False}
    assert known == expected | dict.fromkeys([(1, "zero"), (2, "zero"), (3, "zero")], False)


def shuffled(candidates: list[Candidate]) -> list[Candidate]:
    return [candidates[i] for i in RNG(0).permutation(len(candidates))]


def courses(init: Any = "history") -> list[Course]:
    data = recordings()
    return [
        laid_out(train, held, Stack(2), Recipe(), init=init, n_recordings=len(data))
        for train, held in folds(data, 2, RNG(0))
    ]


def by_dagger(candidate: Candidate, course: Course, n_rounds: int) -> list[Round]:
    recipe, learner = candidate
    options: Any = {"n_rounds": n_rounds, "init": course.init, "recipe": recipe, "criterion": "window"}
    return list(dagger(course.ground.train, course.validation, Stack(2), learner, rng=RNG(0), **options))


def test_sharing_does_not_change_what_is_found() -> None:
    """Candidates in any order, with others before them or alone, have the same errors, told in the order given."""
    priors: list[tuple[Any, float | None]] = [("mean", None), ("last", None), ("last", 0.1)]
    recipes = tuple(
        Recipe(lags, prior, weight, level) for lags in (1, 2) for prior, level in priors for weight in (0.0, 0.3, 1.0)
    )
    candidates = Space((Ridge(),), recipes, (1e-4, 1.0)).candidates()
    together = screened(candidates, courses())
    assert [trial.candidate for trial in together] == candidates
    mixed = shuffled(candidates)
    again = screened(mixed, courses())
    assert [trial.candidate for trial in again] == mixed
    errors = {trial.candidate: trial.error for trial in again}
    for trial in together:
        assert trial.error == errors[trial.candidate]
        alone = [by_dagger(trial.candidate, course, 0)[0].error for course in courses()]
        assert trial.error == pytest.approx(np.mean(alone), rel=1e-7)


@pytest.mark.parametrize("init", ["history", "zero"])
def test_a_race_gives_the_rounds_of_dagger(init: Any) -> None:
    candidate = Candidate(Recipe(lags=2), Ridge(1e-2))
    (start,) = runs([candidate], courses(init))
    halfway = advanced(start, 1)
    assert [len(lane.rounds) for lane in halfway.lanes] == [2, 2]
    run = advanced(halfway, 3)
    assert [len(lane.rounds) for lane in halfway.lanes] == [2, 2]  # a run is a value: that one stays where it was
    again, other = advanced(halfway, 3), advanced(with_ridge(halfway, 1e-3), 3)
    for course, lane, same, ridge in zip(courses(init), run.lanes, again.lanes, other.lanes, strict=True):
        assert [r.error for r in lane.rounds] == [r.error for r in same.rounds]
        for rounds, own in ((lane.rounds, candidate), (ridge.rounds, candidate.with_alpha(1e-3))):
            np.testing.assert_allclose(
                [r.error for r in rounds], [r.error for r in by_dagger(own, course, 3)], rtol=1e-7
            )
    mean = [np.mean([a.error, b.error]) for a, b in zip(*(lane.rounds for lane in run.lanes), strict=True)]
    trial = run.trial()
    assert trial.error == min(mean)
    assert trial.best_round == int(np.argmin(mean))
    assert [winner.number for winner in run.winners()] == [trial.best_round] * 2


def errors_of(run: Run) -> list[float]:
    return [float(np.mean([r.error for r in same])) for same in zip(*(lane.rounds for lane in run.lanes), strict=True)]


def test_a_run_ends_once_its_best_round_lies_back(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate, n = Candidate(Recipe(lags=2), Ridge(1e-2)), 12
    curves = [[r.error for r in by_dagger(candidate, course, n)] for course in courses()]
    whole, ended = np.mean(curves, axis=0), []
    for patience in (1, 3, 20):
        monkeypatch.setattr("psimlearn.choose.runs.PATIENCE", patience)
        (start,) = runs([candidate], courses())
        run = advanced(start, n)
        ended.append(len(errors_of(run)))
        np.testing.assert_allclose(errors_of(run), whole[: ended[-1]], rtol=1e-7)
        best = int(np.argmin(whole[: ended[-1]]))
        assert run.trial().best_round == best
        assert ended[-1] == min(n + 1, best + patience + 1)
    assert ended[0] < ended[-1] == n + 1


def test_a_run_ends_once_it_trails_another_one_without_catching_up() -> None:
    good, bad = (Candidate(Recipe(lags=2), Ridge(alpha)) for alpha in (1e-2, 1e3))
    first, second = race(list(runs([good, bad], courses())), 6)
    alone = [advanced(run, 6) for run in runs([good, bad], courses())]
    assert errors_of(first) == errors_of(alone[0])
    n, theirs, whole = len(errors_of(second)), np.array(errors_of(first)), np.array(errors_of(alone[1]))
    assert 3 <= n < 7
    np.testing.assert_array_equal(errors_of(second), whole[:n])
    ratio = whole / theirs
    assert ratio[n - 1] > 1.05
    assert ratio[n - 1] * (ratio[n - 1] / ratio[n - 2]) ** (7 - n) > 1
    assert min(theirs) < min(whole)  # it would not have won


class Refusing(Ridge):
    """A ridge that finds nothing finite."""

    def solve(self, stats: GramSums) -> Any:
        raise DivergedError("nothing finite")


def test_a_run_ends_once_it_trails_a_filter_without_a_belief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a filter has one round, as nothing changes in it."""
    monkeypatch.setattr(psimlearn.choose.runs, "BEHIND", 1.02)  # nothing is further behind on these recordings
    plain, behind = Candidate(Recipe(belief_weight=0.0), Ridge()), Candidate(Recipe(), Ridge(1e6))
    run, other = runs([plain, behind], courses()[:1])
    first = advanced(run, 0)
    assert len(errors_of(advanced(other, 9, rivals=[first]))) == 3 < len(errors_of(advanced(other, 9)))


def test_wide_regressions_leave_out_ridges_beyond_worse_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = tuple(Recipe(lags=q, prior=p) for q in (1, 3) for p in ("mean", "last"))
    ridges = tuple(10.0 ** np.arange(-8.0, 5.0))
    candidates = Space((Ridge(),), recipes, ridges).candidates()
    every = screened(candidates, courses())
    monkeypatch.setattr(psimlearn.choose.runs, "WIDE", 1)
    fewer = screened(candidates, courses())
    assert len(every) == len(candidates) > 1.5 * len(fewer)
    assert [trial for trial in every if trial in fewer] == fewer
    for recipe in recipes:
        best, others = (
            min((t for t in trials if t.candidate.recipe == recipe), key=lambda t: t.error) for trials in (every, fewer)
        )
        assert best == others


def test_wide_regressions_begin_with_the_best_ridge_of_a_like_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psimlearn.choose.runs, "WIDE", 1)
    ridges = tuple(10.0 ** np.arange(-8.0, 5.0))
    first, second = (Space((Ridge(),), (Recipe(lags=q),), ridges).candidates() for q in (2, 3))
    trials = {trial.candidate: trial for trial in first_trials([*first, *second], courses())}
    alone = {trial.candidate: trial for trial in first_trials(second, courses())}
    best = min((trials[each] for each in first if each in trials), key=lambda t: t.penalised_error)
    tried = [candidate.alpha for candidate in trials if candidate in second]
    assert tried[0] == best.candidate.alpha
    assert len(tried) <= len(alone)
    assert min(t.error for c, t in trials.items() if c in second) == min(t.error for t in alone.values())


def thirds() -> list[Course]:
    """Three courses, so that one of them may be left out, of a system that is easy to predict."""
    data = random_system(RNG(3)).simulate(6, 40, RNG(1))
    return [
        laid_out(train, held, Stack(2), Recipe(), init="history", n_recordings=len(data))
        for train, held in folds(data, 3, RNG(0))
    ]


def test_settings_far_behind_on_the_first_splits_are_not_scored_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = Space((Ridge(),), (Recipe(), Recipe(lags=2)), (1e-2, 1.0, 1e2, 1e4)).candidates()
    fewer = screened(candidates, thirds())
    monkeypatch.setattr(psimlearn.choose.runs, "FAR_BEHIND", np.inf)
    every = screened(candidates, thirds())
    assert not any(trial.estimated for trial in every)
    assert 0 < sum(trial.estimated for trial in fewer) < len(fewer)
    for one, other in zip(fewer, every, strict=True):
        assert one.estimated or one == other
    for lags in (1, 2):  # the best is never an estimate, and estimates rank behind it
        alike = [trial for trial in fewer if trial.candidate.recipe.lags == lags]
        first = min(alike, key=lambda trial: trial.error)
        assert first == min((t for t in every if t.candidate.recipe.lags == lags), key=lambda trial: trial.error)
        for trial in alike:
            assert not trial.estimated or trial.error > 1.1 * first.error


def test_an_estimate_is_the_error_of_the_best_times_how_far_it_was_behind() -> None:
    good, bad = (Candidate(Recipe(), Ridge(alpha)) for alpha in (1e-2, 1e4))
    first, second = screened([good, bad], thirds())
    early = [trial.error for trial in screened([good, bad], thirds()[:2])]
    assert second.estimated
    assert second.error == pytest.approx(first.error * early[1] / early[0], rel=1e-12)


def test_recipes_from_one_system_share_the_score_of_its_filter() -> None:
    """F_0 is the filter of the system whatever the lags: the score that is handed on is the score of each."""
    recipes = [Recipe(lags=q, states=2, past=3) for q in (1, 2)] + [Recipe(2, "last", states=2, past=3)]
    begun = list(runs([Candidate(recipe, Ridge(1e-1)) for recipe in recipes], courses()))
    simplest = advanced(begun[0], 0)
    for run in begun[1:]:
        given, scored = advanced(with_first_round_of(simplest, run), 2), advanced(run, 2)
        assert errors_of(given) == pytest.approx(errors_of(scored), rel=1e-9)
        for ours, theirs in zip(given.lanes, scored.lanes, strict=True):
            one, other = (lane.rounds[0].filter.covariance for lane in (ours, theirs))
            np.testing.assert_allclose(one, other, rtol=1e-9)


def test_wide_runs_that_are_behind_end_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = (Candidate(Recipe(lags=2), Ridge(alpha)) for alpha in (1e-2, 1e3))
    narrow = race(list(runs([good, bad], courses())), 6)
    monkeypatch.setattr(psimlearn.choose.runs, "WIDE", 1)
    wide = race(list(runs([good, bad], courses())), 6)
    assert errors_of(wide[0]) == errors_of(narrow[0])
    n = len(errors_of(wide[1]))
    assert errors_of(wide[1]) == errors_of(narrow[1])[:n]
    assert 2 <= n <= len(errors_of(narrow[1]))
    whole = errors_of(advanced(narrow[1], 6))
    assert min(errors_of(wide[0])) < min(whole)  # it would not have won


def from_systems() -> tuple[list[Course], Space]:
    recipes = (Recipe(lags=1), Recipe(lags=2), Recipe(lags=2, prior="last"))
    sizes = tuple((Past(5, 1e-3), states) for states in (1, 2, 3, 4))
    systems = Systems(sizes, (1e-2,), recipes, (1e-1, 1e-2, 1.0))
    return courses(), Space((Ridge(),), recipes, (1e-2, 1.0), systems=systems)


def test_runs_from_a_system_that_wait_go_on_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ridges of the best run share its start, and none is begun twice."""
    begun: list[Candidate] = []
    before = psimlearn.choose.runs._next_round

    def counted(course: Any, candidate: Candidate, start: Any, current: Any) -> Any:
        if current is None and candidate.recipe.states is not None:
            begun.append(candidate)
        return before(course, candidate, start, current)

    monkeypatch.setattr(psimlearn.choose.runs, "_next_round", counted)
    run, _ = search(*from_systems(), 8, Watch())
    raced = [candidate for candidate in begun if candidate.alpha in (1e-1, 1e-2, 1.0)]
    each = len(courses())
    assert all(raced.count(candidate) == each for candidate in raced)
    assert np.isfinite(run.trial().error)


def test_wide_searches_leave_out_small_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    laid, space = from_systems()
    _, every = search(laid, space, 2, Watch())
    monkeypatch.setattr(psimlearn.choose.systems, "WIDE", 1)
    _, fewer = search(laid, space, 2, Watch())
    of = [
        [t for t in trials if t.candidate.recipe.states and not t.n_rounds and t.candidate.recipe.past_ridge == 1e-3]
        for trials in (every, fewer)
    ]
    assert {t.candidate.recipe.states for t in of[0]} >= {1, 2, 3, 4}
    errors = [t.error for t in of[1]]
    assert len(errors) == 4 or min(errors) < min(errors[-2:])  # none, or two that are worse came before
    assert min(errors) == min(t.error for t in of[0])


def test_what_diverges_is_infinite_and_does_not_win() -> None:
    space = Space((Refusing(), Ridge(1e-2)), (Recipe(),), refine=False)
    run, trials = search(courses(), space, 2, Watch())
    assert type(run.candidate.learner) is Ridge
    assert [trial.error for trial in trials if isinstance(trial.candidate.learner, Refusing)] == [np.inf]
    with pytest.raises(DivergedError, match=r"required one of .* settings with a finite closed-loop error"):
        search(courses(), space._replace(learners=(Refusing(),)), 2, Watch())


def test_nothing_races_that_is_hopeless() -> None:
    plain = Recipe(lags=2, belief_weight=0.0)
    space = Space((RandomFourierRidge(20),), (plain,), (1e-4, 1e-2), racing_weights=(1.0,), refine=False)
    least = min(trial.penalised_error for trial in screened(space.candidates(), courses()))
    for limit, races in ((1.01 * least, True), (0.99 * least, False)):
        _, trials = search(courses(), space._replace(hopeless=limit), 2, Watch())
        assert any(trial.candidate.recipe.belief_weight > 0 for trial in trials) is races


def test_random_features_race_if_a_belief_could_make_them_win() -> None:
    """By hand: a belief leaves 0.8 of the error of linear regression."""

    def tried(weight: float, error: float) -> Trial:
        return Trial(Candidate(Recipe(belief_weight=weight), Ridge()), 0, 0, error, 1)

    (rival,) = runs([Candidate(Recipe(lags=2, belief_weight=0.0), Ridge())], courses())
    rival = advanced(rival, 0)
    least = rival.trial().penalised_error
    trials = [tried(0.0, 1.0), tried(1.0, 0.8), tried(0.3, 0.9), tried(0.0, 1.2)]
    assert hopeless(trials, [rival]) == pytest.approx(1.02 * least / 0.8)
    assert hopeless(trials[:1], [rival]) == np.inf  # nothing is known of beliefs
    assert hopeless([tried(0.0, 1.0), tried(1.0, 3.0)], [rival]) == pytest.approx(1.02 * least)
    assert hopeless(trials, []) == np.inf


def test_learners_that_see_levels_are_doubted_whatever_their_level_weight() -> None:
    change = Recipe(prior="last", level_weight=0.1)
    learners = (Ridge(), RandomFourierRidge(), RidgeAndTrees())
    ridge, *others = (Trial(Candidate(change, learner), 0, 0, 1.0, 4).penalised_error for learner in learners)
    level = Trial(Candidate(Recipe(prior="last", level_weight=1.0), Ridge()), 0, 0, 1.0, 4).penalised_error
    assert others == [level, level]
    assert ridge < level


def test_few_recordings_cast_doubt_on_levels() -> None:
    level, change = Recipe(prior="last", level_weight=1.0), Recipe(prior="last", level_weight=0.1)
    for m, more in ((1, False), (2, True), (5, True), (1000, False)):
        one, other = (Trial(Candidate(recipe, Ridge()), 0, 0, 1.0, m).penalised_error for recipe in (level, change))
        assert (one > 1.01 * other) is more


DOUBTED: list[tuple[Recipe, dict[str, Any]]] = [
    (Recipe(), {"forgets": False}),
    (Recipe(cross_weight=0.3), {}),
    (Recipe(prior="last", level_weight=1.0), {"n_recordings": 4}),
    (Recipe(), {"n_recordings": 4}),  # sees levels
]


@pytest.mark.parametrize("error", [2.0, 0.0, -2.0])
@pytest.mark.parametrize(("recipe", "others"), DOUBTED, ids=str)
def test_doubt_never_makes_an_error_smaller(error: float, recipe: Recipe, others: dict[str, Any]) -> None:
    """A likelihood may be negative: doubt adds the same to it as to an error of its size."""
    trial = Trial(Candidate(recipe, Ridge()), 0, 0, error, 1000)._replace(**others)
    opposite = trial._replace(error=-error)
    added = trial.penalised_error - error
    assert added == pytest.approx(opposite.penalised_error + error, rel=1e-12)
    assert added > 0 or error == 0


@pytest.mark.parametrize("error", [1.0, -1.0])
@pytest.mark.parametrize(("share", "taken"), [(0.0, True), (0.004, True), (0.006, False)])
def test_a_rank_is_taken_if_it_does_no_harm(
    error: float, share: float, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that is as good, or nearly, will do; whatever the sign of the loss."""
    course = laid_out(ragged([25, 30], 1, RNG(0)), ragged([25, 30], 1, RNG(1)), Stack(2), Recipe(), n_recordings=1000)

    def run_of(candidate: Candidate, loss: float) -> Run:
        filter = begin(course.ground, Ridge(), "history", Recipe(belief_weight=0.0), RNG(0)).filter  # forgets
        return Run(candidate, (Lane(course, None, (Round(0, filter, loss, 0.0, 0),)),))

    whole, fewer = Candidate(Recipe(), Ridge()), Candidate(Recipe(rank=1), Ridge())
    monkeypatch.setattr(psimlearn.choose.search, "runs", lambda *_: [run_of(fewer, error + share * abs(error))])
    monkeypatch.setattr(psimlearn.choose.search, "advanced", lambda run, _: run)
    chosen = psimlearn.choose.search._compressed(run_of(whole, error), (1,), [course], 0)
    assert (chosen.candidate == fewer) is taken


def test_a_cross_weight_has_to_gain_more_than_chance() -> None:
    alike, less = (Trial(Candidate(Recipe(cross_weight=w), Ridge()), 0, 0, 1.0, 1000) for w in (1.0, 0.3))
    assert alike.penalised_error < less.penalised_error
    assert less._replace(error=0.98).penalised_error < alike.penalised_error


def test_cross_weights_are_tried_from_four_channels_on() -> None:
    for n, tried in ((3, {1.0}), (4, {1.0, 0.3})):
        model = PSIM(**SMALL, init="history").fit(ragged([25, 30, 28, 27], n, np.random.default_rng(0)))
        assert {trial["cross_weight"] for trial in model.trials_} == tried
        assert {
            trial["cross_weight"] for trial in model.trials_ if trial["lags"] == 1
        } == tried  # of each number of lags


def test_progress_counts_the_settings_that_were_tried() -> None:
    told: list[tuple[str, int, int]] = []

    class Noted(Watch):
        def goes_on(self, stage: Stage, done: int, total: int) -> bool:
            told.append((stage, done, total))
            return True

    screened([Candidate(Recipe(), Ridge(alpha)) for alpha in (1e-4, 1e-2, 1.0)], courses()[:1], Noted())
    assert told == [("trying settings", done, 3) for done in (1, 2, 3)]


def test_beside_the_best_point_of_a_grid_none_is_tried_twice() -> None:
    """By hand: the weakest ridge is best; one beyond it is new, with the same bandwidth and, as a corner, the wider."""
    grid = list(product((1e-5, 1e-3), (0.25, 1.0, 4.0)))
    trials = [
        Trial(Candidate(Recipe(), RandomFourierRidge(8, a, bandwidth_factor=b)), 0, 0, 1.0 + (i != 1), 10)
        for i, (a, b) in enumerate(grid)
    ]
    found: list[Any] = [candidate.learner for candidate in _beside(trials[1], trials)]
    assert sorted(each.bandwidth_factor for each in found) == [1.0, 4.0]
    assert [each.alpha for each in found] == pytest.approx([1e-7, 1e-7])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("n_symbols", "lengths"), [(97, [2, 3, 4, 6, 8]), (98, [2, 3, 4, 6]), (1000, [2, 3, 4])])
def test_contexts_are_as_long_as_they_can_be_numbered(
    n_symbols: int, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: 98^8 numbers of contexts, of 97 symbols or none, are below 2^53; 99^8 and 1001^6 are not."""
    tried: list[Candidate] = []

    def noted(candidates: Any, *_: Any) -> list[Trial]:
        tried.extend(candidates)
        return [Trial(candidate, 0, 0, 1.0, 10) for candidate in candidates]

    monkeypatch.setattr("psimlearn.choose.symbols.screened", noted)
    course: Any = SimpleNamespace(ground=SimpleNamespace(train=SimpleNamespace(n_channels=n_symbols)))
    _contexts([course], OneHotProduct(1), Recipe(), None, Watch())
    assert [candidate.recipe.lags for candidate in tried][: len(lengths) + 1] == [*lengths, 2]
