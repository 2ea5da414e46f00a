"""The treatment of gaps, chosen by held-out error; rounds that do not forget; training that goes on from a file."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, RandomFourierRidge, Ridge, Trajectories
from psimlearn.choose import gaps
from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Start
from psimlearn.choose.gaps import MOST_ROUNDS, PATIENCE, treatment
from psimlearn.choose.runs import best_of
from psimlearn.choose.watch import Stage, Watch
from psimlearn.datasets import random_system
from psimlearn.filter import Filter, Linear
from psimlearn.learners import ByOutput, GramSums
from psimlearn.train.dagger import Aggregation
from psimlearn.train.recipe import Recipe
from psimlearn.train.score import Round, forgets, spectral_radius

RNG = np.random.default_rng


def filter_of(radius: float) -> Filter:
    """A filter whose map from one feedback to the next has this spectral radius."""
    known = random_system(RNG(0)).predictive_filter(2)
    weights = np.concatenate([np.diag([radius, 0.1, -0.2, 0.0]), np.ones((2, 4))])
    made = replace(known, regressors=(Linear(weights, np.zeros(4)),))
    assert spectral_radius(made) == pytest.approx(radius)
    return made


def rounds_of(*about: tuple[float, float]) -> list[Round]:
    """Rounds with these errors and spectral radii."""
    return [Round(i, filter_of(radius), error, 0.0, 0) for i, (error, radius) in enumerate(about)]


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_a_round_that_does_not_forget_is_chosen_only_if_no_other_does() -> None:
    assert best_of([rounds_of((0.5, 0.9), (0.1, 1.2), (0.3, 0.99))]) == (2, 0.3, True)
    assert best_of([rounds_of((0.5, 0.9), (0.1, 1.0))]) == (1, 0.1, True)
    assert best_of([rounds_of((0.5, 1.1), (0.1, 1.2), (0.3, 1.3))]) == (1, 0.1, False)
    assert best_of([rounds_of((np.inf, 0.5), (0.1, 1.2))]) == (1, 0.1, False)
    assert best_of([rounds_of((np.inf, 0.5))]) == (0, np.inf, True)


def test_a_candidate_that_does_not_forget_has_to_be_far_better() -> None:
    stable = Trial(Candidate(Recipe(), Ridge()), 0, 0, 0.5, 10)
    unstable = stable._replace(error=0.3, forgets=False)
    assert unstable.penalised_error > stable.penalised_error
    assert unstable._replace(error=0.1).penalised_error < stable.penalised_error
    likelihoods = stable._replace(error=-0.5), stable._replace(error=-0.6, forgets=False)
    assert likelihoods[1].penalised_error > likelihoods[0].penalised_error


def test_a_round_must_forget_on_every_course() -> None:
    one, other = rounds_of((0.5, 0.9), (0.1, 0.9)), rounds_of((0.5, 0.9), (0.1, 1.2))
    assert best_of([one, one]) == (1, 0.1, True)
    assert best_of([one, other]) == (0, 0.5, True)
    assert best_of([one, other[:1]]) == (0, 0.5, True)  # one course has gone only so far


# -- filled or exact ---------------------------------------------------------------------------------------------------


class Counted(Watch):
    """Ends a stage after some steps."""

    def __init__(self, most: int = 100) -> None:
        self.done = 0
        self.most = most

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        assert stage == "training with gaps"
        self.done = done
        return done < self.most


@pytest.fixture
def treated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`treatment` of filters with error 1, whose rounds with exact gaps have the given errors and radii."""

    def run(*lanes: list[tuple[float, float]], watch: Watch | None = None, filled: float = 1.0) -> Any:
        lane = iter(lanes)

        def followed(journal: Any, name: Any, path: Any, n_rounds: int) -> Iterator[Aggregation]:
            assert n_rounds == MOST_ROUNDS
            for round in rounds_of(*next(lane)):
                yield Aggregation(round.number, round.filter, None, round.error, 0.0, 0)

        monkeypatch.setattr(gaps, "followed", followed)
        monkeypatch.setattr(gaps, "can_be_refined", lambda *_: True)
        monkeypatch.setattr(gaps, "path_with_gaps", lambda *_: None)
        winners = rounds_of(*[(filled, 0.5)] * len(lanes))
        start: Any = Start(None, None)  # type: ignore[arg-type]
        return winners, treatment(winners, [start] * len(lanes), watch or Watch())

    return run


def test_the_best_round_with_exact_gaps_is_kept(treated: Callable[..., Any]) -> None:
    _, found = treated([(1.2, 0.5), (0.9, 0.5), (0.8, 0.5), (0.85, 0.5)])
    assert (found.n_rounds, found.error) == (2, 0.8)
    assert [round.number for round in found.winners] == [2]
    _, found = treated([(1.2, 0.5), (0.7, 0.5), (0.8, 0.5)], [(1.1, 0.5), (1.0, 0.5), (0.8, 0.5)])
    assert (found.n_rounds, found.error) == (2, 0.8)  # on average over splits


def test_exact_gaps_are_kept_unless_they_are_clearly_worse(treated: Callable[..., Any]) -> None:
    _, found = treated([(1.009, 0.5), (1.2, 0.5)])
    assert (found.n_rounds, found.error) == (0, 1.009)
    winners, found = treated([(1.02, 0.5), (1.5, 0.5)])
    assert found == (winners, None, 1.0)


def test_rounds_that_do_not_forget_or_diverge_are_not_kept(treated: Callable[..., Any]) -> None:
    _, found = treated([(1.0, 0.5), (0.5, 1.5), (0.9, 0.5)])
    assert (found.n_rounds, found.error) == (2, 0.9)
    winners, found = treated([(0.5, 1.5), (np.inf, 0.5)])
    assert found == (winners, None, 1.0)
    winners, found = treated([(np.inf, 0.5)], filled=np.inf)
    assert found == (winners, None, np.inf)


def test_rounds_end_when_they_get_no_better_or_when_told_to(treated: Callable[..., Any]) -> None:
    watch = Counted()
    rounds = [(0.9, 0.5), (0.8, 0.5), *[(0.95, 0.5)] * 8]
    _, found = treated(rounds, watch=watch)
    assert found.n_rounds == 1
    assert watch.done == PATIENCE + 1  # the last round found that patience was over, and did not ask
    _, found = treated([(1.0 - 0.01 * i, 0.5) for i in range(11)], watch=Counted(3))
    assert found.n_rounds == 2


def test_filters_without_a_model_keep_their_gaps_filled() -> None:
    twice = filter_of(0.5)
    twice = replace(twice, regressors=twice.regressors * 2)
    winners = [Round(0, twice, 1.0, 0.0, 0)]
    assert treatment(winners, [], Watch()) == (winners, None, 1.0)


# -- whole fits --------------------------------------------------------------------------------------------------------

QUICK: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "level_weight": None, "n_rounds": 3}


def recordings(seed: int, m: int = 40) -> Trajectories:
    """Half of the entries are missing."""
    rng = RNG(seed)
    x = random_system(RNG(4)).simulate(m, 30, rng).values.reshape(m, 30, 2).copy()
    x[rng.random(x.shape) < 0.5] = np.nan
    return Trajectories.of(x)


@cache
def fitted(learner: Any) -> PSIM:
    return PSIM(2, learner=learner, random_state=0, validation=0.3, **QUICK).fit(recordings(0))


LEARNERS = [Ridge(1e-3), RandomFourierRidge(10, 1e-3)]


@pytest.mark.parametrize("learner", LEARNERS, ids=["ridge", "random features"])
def test_training_goes_on_from_a_file_bit_for_bit(learner: Any, tmp_path: Path) -> None:
    model = fitted(learner)
    assert model.filter_.gaps == "exact"
    assert isinstance(model.sums_, ByOutput)
    model.save(tmp_path / "model.psim", with_sums=True)
    here, there = PSIM.load(tmp_path / "model.psim"), PSIM.load(tmp_path / "model.psim")
    for ours, theirs in zip(model.sums_.parts, here.sums_.parts, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    more, test = recordings(1, 15), recordings(2, 5)
    here.partial_fit(more)
    here.save(tmp_path / "again.psim", with_sums=True)
    again = PSIM.load(tmp_path / "again.psim").partial_fit(more)
    there.partial_fit(more).partial_fit(more)
    straight = PSIM.load(tmp_path / "model.psim")
    straight.partial_fit(more)
    for a, b in ((here, straight), (again, there)):
        assert isinstance(a.sums_, ByOutput)
        np.testing.assert_array_equal(a.predict(test), b.predict(test))
        np.testing.assert_array_equal(
            a.filter_.regressors[0](np.ones((1, 6))), b.filter_.regressors[0](np.ones((1, 6)))
        )
    assert not np.array_equal(here.predict(test), model.predict(test))


def test_sums_of_whole_recordings_go_on_with_gaps(tmp_path: Path) -> None:
    whole = random_system(RNG(4)).simulate(40, 30, RNG(3))
    model = PSIM(2, learner=Ridge(1e-3), random_state=0, validation=0.3, **QUICK).fit(whole)
    kinds = [type(model.sums_), type(model.partial_fit(recordings(5, 10)).sums_)]
    assert kinds == [GramSums, ByOutput]
    model.save(tmp_path / "model.psim", with_sums=True)
    again = PSIM.load(tmp_path / "model.psim")
    more = random_system(RNG(4)).simulate(5, 30, RNG(6))  # without gaps the sums stay apart
    np.testing.assert_array_equal(again.partial_fit(more).predict(more), model.partial_fit(more).predict(more))


def test_sums_of_filled_rounds_keep_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a round of training with exact gaps the sums are of the rounds before, and `partial_fit` has to know."""
    monkeypatch.setattr("psimlearn.train.refined.MOST_ENTRIES", 0)
    monkeypatch.setattr(gaps, "WORSE", np.inf)
    model = PSIM(2, learner=Ridge(1e-3), random_state=0, validation=0.3, **QUICK).fit(recordings(0))
    assert model.filter_.gaps == "exact"
    assert isinstance(model.sums_, GramSums)
    assert model.n_rounds_ == model.report_["choices"]["best_round"] > 0
    assert model.sums_.n == (model.n_rounds_ + 1) * 40 * 28


def test_all_rounds_are_counted() -> None:
    """Rounds with gaps filled in, and those with exact gaps that go on from them."""
    model = fitted(LEARNERS[0])
    choices = model.report_["choices"]
    assert choices["rounds_with_gaps"] > 0
    assert model.n_rounds_ == choices["best_round"] + choices["rounds_with_gaps"]


def test_new_recordings_weigh_as_much_as_earlier_ones(tmp_path: Path) -> None:
    """Earlier rounds have faded, so each earlier example counts 1.6 to 2.5 times; a new one counts twice."""
    fitted(LEARNERS[0]).save(tmp_path / "model.psim", with_sums=True)
    model = PSIM.load(tmp_path / "model.psim")
    before = np.array([part.n for part in model.sums_.parts])
    model.partial_fit(recordings(1, 20))
    added = np.array([part.n for part in model.sums_.parts]) - before
    ratio = added / (0.5 * before)  # half as many recordings
    assert (ratio > 0.7).all(), ratio
    assert (ratio < 1.4).all(), ratio


def test_a_fit_with_gaps_forgets_its_start() -> None:
    for learner in LEARNERS:
        assert forgets(fitted(learner).filter_)
