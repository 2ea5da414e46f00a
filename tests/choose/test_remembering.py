"""Random features of the belief and the last row, which "auto" tries beside features of several rows."""

from typing import Any

import numpy as np
import pytest

from psimlearn.choose import remembering
from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import laid_out
from psimlearn.choose.remembering import remembering_search, tries_remembering
from psimlearn.choose.runs import Run, advanced, runs
from psimlearn.choose.settings import Settings
from psimlearn.choose.watch import Watch
from psimlearn.datasets import noisy_pendulum
from psimlearn.estimator.parameters import interpreted
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import Stack
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger

pytestmark = pytest.mark.usefixtures("unchecked")
RNG = np.random.default_rng
TRAIN, HELD = (Trajectories.of([r.values for r in noisy_pendulum(n, 60, RNG(n))]) for n in (30, 10))


def settings(**given: Any) -> Settings:
    parameters = PSIM(3, learner="auto", n_rounds=5, **given).get_params(deep=False)
    return interpreted(parameters, TRAIN)


def searched() -> tuple[Run, list[Trial], Run]:
    """The leading run, all trials, and the autoregression that it had to beat."""
    course = laid_out(TRAIN, HELD, Stack(3), Recipe(), n_recordings=len(TRAIN), opens=False)
    (rival,) = runs([Candidate(Recipe(lags=3, belief_weight=0.0), Ridge(1e-3))], [course])
    rival = advanced(rival, 0)
    return *remembering_search([course], settings(), 600, Watch(), [rival]), rival


def test_points_race_and_the_best_beats_an_autoregression() -> None:
    leader, trials, rival = searched()
    assert leader.trial().error < 0.8 * rival.trial().error
    points = [(t.candidate.alpha, getattr(t.candidate.learner, "bandwidth_factor", None)) for t in trials]
    assert {remembering.FIRST, *remembering.GRID} <= set(points)
    assert len(points) == len(set(points))  # no point raced twice
    assert leader.trial().error == min(trial.error for trial in trials)


def test_a_first_point_that_is_far_behind_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "FAR", 0.0)
    leader, trials, _ = searched()
    assert [trial.n_rounds for trial in trials] == [remembering.FEW]
    assert leader.trial() == trials[0]


@pytest.mark.parametrize(
    "given", [{"lags": 3}, {"prior": "last"}, {"belief_weight": 1.0}, {"level_weight": None}, {"recipe": Recipe()}]
)
def test_settings_that_are_given_are_kept(given: dict[str, Any]) -> None:
    assert tries_remembering(settings())
    assert not tries_remembering(settings(**given))


def test_the_filter_is_that_of_the_paper() -> None:
    """Two ways to one filter: the search, and DAgger called with the settings that it chose."""
    leader, *_ = searched()
    learner, trial = leader.candidate.learner, leader.trial()
    assert isinstance(learner, RandomFourierRidge)
    again = RandomFourierRidge(learner.n_features, learner.alpha, False, learner.bandwidth_factor)
    rounds = dagger(TRAIN, HELD, Stack(3), again, rng=RNG(0), n_rounds=trial.n_rounds, criterion="window")
    assert trial.error == pytest.approx(best(rounds).error, rel=1e-9)
