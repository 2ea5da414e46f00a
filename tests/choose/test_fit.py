"""From recordings to a finished filter: autoregression is contained, the seed decides, the paper's algorithm stays."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import ragged
from psimlearn.datasets import hard_system, random_system
from psimlearn.errors import DivergedError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import folds
from psimlearn.filter import Linear, Stack
from psimlearn.learners import Ridge
from psimlearn.recordings.order import one_order
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger

RNG = np.random.default_rng


SMALL: dict[str, Any] = {"window": 2, "n_rounds": 2, "validation": 0.5, "random_state": 0}


def recordings(seed: int = 0, missing: float = 0.0, n: int = 2) -> Trajectories:
    return ragged([30, 25, 40, 18, 33, 27], n, RNG(seed), missing)


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


def test_rank_auto_compresses_what_is_redundant() -> None:
    """One hidden state behind two channels: of ten numbers in a belief, two do."""
    rng = RNG(0)
    data = random_system(rng, n_states=1, n_outputs=2).simulate(30, 30, rng)
    own = {"window": 5, "lags": 1, "prior": "mean", "belief_weight": 1.0, "rank": "auto", "init": "history"}
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


def test_refit_learns_from_all_recordings() -> None:
    data = recordings()
    settings = SMALL | {"learner": Ridge(1e-3), "lags": 1, "prior": "mean", "belief_weight": 1.0}
    everything, part = (PSIM(**settings | {"refit": refit}).fit(data) for refit in (True, False))
    rows = len(data.values) - 2 * len(data)
    assert everything.sums_.n == rows * (everything.n_rounds_ + 1)
    assert part.sums_.n < 0.7 * rows * (part.n_rounds_ + 1)
    assert part.report_["errors"] == everything.report_["errors"]
    np.testing.assert_allclose(everything.filter_.scaling.mean, data.values.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("learner", ["ridge", "rff"])
def test_the_seed_decides_everything(learner: str) -> None:
    data = recordings()
    settings = SMALL | {"learner": learner, "lags": 1, "prior": "mean"}
    one, same, other = (PSIM(**settings | {"random_state": seed}).fit(data) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.forecast(data, 5), same.forecast(data, 5))
    assert one.trials_ == same.trials_
    assert one.summary() == same.summary()
    assert one.trials_ != other.trials_


@pytest.mark.parametrize("validation", [0.5, recordings(1)], ids=["a share", "recordings"])
def test_the_order_of_recordings_decides_nothing(validation: Any) -> None:
    data = recordings()
    settings = SMALL | {"lags": 1, "prior": "mean"}
    fits = []
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]):
        held = validation[order] if isinstance(validation, Trajectories) else validation
        fits.append(PSIM(**settings | {"validation": held}).fit(data[order]))
    assert fits[0].trials_ == fits[1].trials_
    assert fits[0].summary() == fits[1].summary()
    np.testing.assert_array_equal(fits[0].forecast(data, 5), fits[1].forecast(data, 5))


def test_inputs_decide_the_order_of_recordings_with_equal_observations() -> None:
    u = RNG(0).standard_normal((4, 3, 1))
    given = (Trajectories.of(np.zeros((4, 3, 1)), u[order]) for order in ([0, 1, 2, 3], [2, 0, 3, 1]))
    one, other = (data[one_order(data)] for data in given)
    np.testing.assert_array_equal(np.asarray(one.inputs), np.asarray(other.inputs))


@pytest.mark.parametrize("own", [True, False], ids=["own validation", "a share"])
def test_as_published_is_the_published_algorithm(own: bool) -> None:
    rng = RNG(0)
    system = random_system(rng)
    data, held = system.simulate(250, 50, rng), system.simulate(30, 50, rng)
    fitted = PSIM.as_published(3, n_rounds=4, random_state=0, validation=held if own else 0.2).fit(data)
    data, held = data[one_order(data)], held[one_order(held)]
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


@dataclass(frozen=True)
class Diverging(Ridge):
    """A regression that never finds finite weights."""

    def solve(self, sums: Any) -> Any:
        raise DivergedError("required a finite solution, received infinity or NaN.")


def test_where_nothing_is_left_to_choose_a_filter_that_diverges_is_an_error() -> None:
    """Too few rows to hold any out, and a first round that diverges."""
    rows = np.random.default_rng(0).standard_normal((12, 2))
    with pytest.raises(DivergedError, match=r"received a filter that diverged.*wild values.*larger ridge"):
        PSIM(2, learner=Diverging(1.0)).fit(rows)
