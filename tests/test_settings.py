"""Every setting of every public constructor and function: a wrong type, NaN, a huge or a negative value is refused.

Each case names a setting, its kind, and a call that takes a value for it. Values that no setting of the kind can mean
must raise an error of psimlearn that names the setting, and a usual value must not.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import psimlearn
from psimlearn import PSIM, Live, PsimlearnError, Recipe, Ridge, SettingsError, Stack, Trajectories, TrajectoryScaler
from psimlearn.baselines import Autoregression, KGram, Lagged, em, ivr, n4sid, spectral, word_moments
from psimlearn.datasets import noisy_pendulum, random_system, three_state_hmm, two_state_hmm
from psimlearn.evaluate import compare, errors_by_horizon, folds, time_folds
from small import ONE, model, several

pytestmark = pytest.mark.usefixtures("unchecked")
RNG = np.random.default_rng
HUGE = 10**400
"""Larger than any float."""

FROM_0 = ["x", None, np.nan, np.inf, -1, 1.5, 1e30, HUGE, [-2], np.array([-2, 3]), True, object()]
COUNT = [*FROM_0, 0]
NUMBER = ["x", None, np.nan, np.inf, -1.0, HUGE, [1.0], np.array([1.0, 2.0]), True, 1j]
BAD: dict[str, list[Any]] = {
    "count": COUNT,
    "count or none": [value for value in COUNT if value is not None],
    "from 0": FROM_0,
    "number": NUMBER,
    "number or none": [value for value in NUMBER if value is not None],
    "above 0": [*NUMBER, 0],
    "share": [*NUMBER, 1.0, 2],
    "to 1": [*NUMBER, 0, 2],
    "switch": ["x", None, np.nan, 2, [True], 1.0],
    "word": ["x", None, np.nan, 1, ["mean"], b"mean", HUGE],
    "rng": ["x", None, 0, np.nan, np.random],
    "seed": ["x", np.nan, -1, 1.5, HUGE, [1], True],
    "coverage": [*(value for value in NUMBER if value is not None), 0, 1, 0.9999],
    "object": ["x", 3, np.nan, int],
    "list": ["xy", 3, np.nan, int],
}


class Case(NamedTuple):
    name: str
    kind: str
    call: Callable[[Any], Any]
    good: Any


def data() -> Trajectories:
    return Trajectories.of(several())


def symbols() -> Trajectories:
    return Trajectories.of_symbols([list("abab"), list("babba")])


def used(usual: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return usual | given


def settings_of(make: Callable[..., Any], **kinds: tuple[str, Any]) -> list[Case]:
    """A case for each keyword of a constructor or function."""
    label = getattr(make, "__name__", str(make))

    def call(name: str) -> Callable[[Any], Any]:
        return lambda value: make(**{name: value})

    return [Case(f"{label}.{name}", kind, call(name), good) for name, (kind, good) in kinds.items()]


def fit(**settings: Any) -> PSIM:
    return PSIM(**ONE | settings).fit(several())


def autoregression(**settings: Any) -> Any:
    return Autoregression.fit(data(), **used({"lags": 1, "horizon": 1}, settings))


def tuned(**settings: Any) -> Any:
    return Autoregression.tuned(data(), data(), **used({"lags": 1, "horizon": 1, "alphas": [1.0]}, settings))


def trained(**settings: Any) -> Any:
    return list(psimlearn.dagger(data(), data(), Stack(2), Ridge(), **used({"rng": RNG(0), "n_rounds": 1}, settings)))


def one_for_each_step(**settings: Any) -> Any:
    many = random_system(RNG(0)).simulate(60, 5, RNG(0))
    return list(psimlearn.forward(many, many, Stack(1), Ridge(), **used({"rng": RNG(0)}, settings)))


def descended(**settings: Any) -> Any:
    pytest.importorskip("optax")
    return psimlearn.backprop(data(), data(), model().filter_, **settings)  # not begun: to compile takes seconds


def scored(**settings: Any) -> Any:
    return errors_by_horizon(psimlearn.LastObservation.fit(data()), data(), **settings)


def compared(**settings: Any) -> Any:
    usual = {"n_folds": 2, "rng": RNG(0)}
    return compare({"last": psimlearn.LastObservation.fit}, data(), **used(usual, settings))


LEARNERS = [
    *settings_of(Ridge, alpha=("number", 0), intercept=("switch", np.False_)),
    *settings_of(
        psimlearn.RandomFourierRidge,
        n_features=("count", 4),
        alpha=("number", 1e-3),
        raw_inputs=("switch", False),
        bandwidth_factor=("above 0", 2),
        intercept=("switch", False),
    ),
    *settings_of(psimlearn.GaussianLearner, alpha=("number", 1), max_rows=("count", 9), seed=("seed", None)),
    *settings_of(
        lambda **given: psimlearn.SklearnLearner(**used({"estimator": LinearRegression()}, given)),
        estimator=("object", LinearRegression()),
        max_rows=("count or none", None),
        seed=("seed", 3),
    ),
    *settings_of(
        lambda **given: psimlearn.SymbolRidge(**used({"features": psimlearn.OneHotProduct(1)}, given)),
        features=("object", psimlearn.OneHotMarginals(2)),
        alpha=("number", 1),
        update=("word", "linear"),
        floor=("share", 0),
        strength=("above 0", 2.0),
    ),
    *settings_of(
        lambda **given: psimlearn.SymbolLogistic(**used({"features": psimlearn.OneHotProduct(1)}, given)),
        features=("object", psimlearn.OneHotMarginals(2)),
        alpha=("number", 1),
        max_rows=("count", 5),
        floor=("share", 0),
        seed=("seed", 1),
        strength=("above 0", 2.0),
    ),
    *settings_of(
        lambda **given: psimlearn.SymbolClassifier(
            **used({"features": psimlearn.OneHotProduct(1), "estimator": LogisticRegression()}, given)
        ),
        features=("object", psimlearn.OneHotMarginals(2)),
        estimator=("object", LogisticRegression()),
        max_rows=("count", 5),
        floor=("share", 0),
        seed=("seed", 1),
    ),
]
VALUES = [
    *(
        case
        for make in (Stack, psimlearn.StackSquares, psimlearn.SecondMoment, psimlearn.OneHotProduct)
        for case in settings_of(make, window=("count", np.int64(2)))
    ),
    *settings_of(psimlearn.OneHotMarginals, window=("count", 2)),
    *settings_of(
        Recipe,
        lags=("count", 2),
        prior=("word", "last"),
        belief_weight=("number", 0),
        level_weight=("number or none", None),
        cross_weight=("to 1", 1),
        rank=("count or none", 2),
        box=("number or none", 0),
        standardise=("switch", False),
        feedthrough=("switch", True),
        guard=("number or none", 3),
        keep_start=("switch", False),
        skip=("from 0", 3),
    ),
    *settings_of(lambda **given: Live(model().filter_, **given), n_streams=("count", 3)),
]
ESTIMATOR = [
    *settings_of(
        fit,
        window=("count", 2),
        features=("object", "squares"),
        learner=("object", Ridge(1.0)),
        trainer=("word", "dagger"),
        n_rounds=("count", 1),
        init=("word", "teacher"),
        lags=("count", 2),
        prior=("word", "last"),
        belief_weight=("number", 0.5),
        level_weight=("number or none", None),
        cross_weight=("to 1", 1),
        rank=("count or none", 1),
        box=("switch", False),
        feedthrough=("switch", False),
        opening=("switch", True),
        recipe=("object", Recipe(guard=5.0)),
        criterion=("count", "one-step"),
        validation=("share", 0.5),
        refit=("switch", False),
        random_state=("seed", 3),
        verbose=("switch", False),
    )[:-1],  # scikit-learn's verbose may be a number
    *settings_of(lambda **given: TrajectoryScaler(**given).fit(several()), with_mean=("switch", False)),
    *settings_of(lambda **given: TrajectoryScaler(**given).fit(several()), with_std=("switch", False)),
    *settings_of(lambda **given: model().predict(several(), **given), horizon=("count", 3)),
    *settings_of(lambda **given: model().predict_interval(several(), **given), horizon=("count", 2)),
    *settings_of(lambda **given: model().predict_interval(several(), **given), coverage=("coverage", 0.8)),
    *settings_of(
        lambda **given: model().forecast(several(), **used({"steps": 2}, given)),
        steps=("count", 3),
        return_std=("switch", True),
        coverage=("coverage", 0.8),
    ),
    *settings_of(lambda **given: model().smooth(several(), **given), return_std=("switch", True)),
    *settings_of(lambda **given: model().smooth(several(), **given), coverage=("coverage", 0.8)),
    *settings_of(lambda **given: model().start().predict(**given), horizon=("count", 2), return_std=("switch", True)),
    *settings_of(
        lambda **given: model().start().forecast(**used({"steps": 2}, given)),
        steps=("count", 2),
        return_std=("switch", True),
        coverage=("coverage", 0.8),
    ),
    *settings_of(lambda **given: model().start(**given), n_streams=("count", 2)),
]
FUNCTIONS = [
    *settings_of(autoregression, lags=("count", 2), horizon=("count", 2), alpha=("number", 1), prior=("word", "last")),
    *settings_of(tuned, lags=("count", [1, 2])),
    *settings_of(tuned, criterion=("word", "window")),
    *settings_of(lambda **given: Lagged.fit(data(), LinearRegression(), **given), lags=("count", 1)),
    *settings_of(lambda **given: Lagged.fit(data(), LinearRegression(), **given), horizon=("count", 1)),
    *settings_of(lambda estimator: Lagged.fit(data(), estimator), estimator=("object", LinearRegression())),
    *settings_of(
        lambda **given: n4sid(data(), **used({"order": 1, "block_rows": 2}, given)),
        order=("count", 1),
        block_rows=("count", 2),
        weighting=("word", "cva"),
        ridge=("number", 1e-3),
        standardise=("switch", False),
    )[1:],  # order=None asks for validation recordings
    *settings_of(
        lambda **given: ivr(data(), **used({"rank": 1, "past": 2, "window": 2}, given)),
        window=("count", 2),
        past=("count", 2),
        ridge=("number", 1e-3),
        standardise=("switch", False),
    ),
    *settings_of(
        lambda **given: em(data(), **used({"order": 1, "block_rows": 2, "n_iter": 1}, given)),
        n_iter=("from 0", 0),
        tolerance=("number", 0.1),
    ),
    *settings_of(lambda **given: KGram.fit(symbols(), **used({"order": 1}, given)), order=("count", 2)),
    *settings_of(lambda **given: KGram.fit(symbols(), **used({"order": 1}, given)), strength=("above 0", 2)),
    *settings_of(lambda **given: word_moments(symbols(), **given), window=("count", 1)),
    *settings_of(lambda **given: spectral(word_moments(symbols()), **used({"rank": 1}, given)), rank=("count", 1)),
    *settings_of(lambda **given: spectral(word_moments(symbols()), **used({"rank": 1}, given)), floor=("share", 0)),
    *settings_of(trained, rng=("rng", RNG(0)), n_rounds=("from 0", 0), init=("word", "zero")),
    *settings_of(trained, criterion=("count", "window")),
    *settings_of(one_for_each_step, rng=("rng", RNG(0)), disjoint=("switch", False)),
    *settings_of(
        descended,
        n_epochs=("from 0", 1),
        batch=("count or none", 2),
        rate=("number or none", None),
        halving=("count or none", None),
        clip=("number or none", None),
        intercept=("switch", True),
        patience=("count", 1),
        criterion=("count", "window"),
        optimiser=("word", "adam"),
    ),
    *settings_of(scored, horizon=("count", 2), skip=("from 0", 1)),
    *settings_of(compared, horizon=("count", 2), n_folds=("count", 2), rng=("rng", RNG(1)), skip=("from 0", 1)),
    *settings_of(
        lambda **given: list(folds(data(), **used({"n_folds": 2, "rng": RNG(0)}, given))), n_folds=("count", 2)
    ),
    *settings_of(
        lambda **given: list(time_folds(Trajectories.of(np.zeros((40, 1))), **used({"n_folds": 2, "gap": 1}, given))),
        n_folds=("count", 2),
        gap=("from 0", 0),
    ),
    *settings_of(
        lambda **given: random_system(**used({"rng": RNG(0)}, given)),
        rng=("rng", RNG(0)),
        n_states=("count", 2),
        n_outputs=("count", 1),
        radius=("number", 0.5),
        noise=("above 0", 2),
    ),
    *settings_of(three_state_hmm, rng=("rng", RNG(0))),
    *(
        case
        for make, first in (
            (noisy_pendulum, "n_trajectories"),
            (random_system(RNG(0)).simulate, "n_trajectories"),
            (two_state_hmm().simulate, "n_sequences"),
        )
        for case in settings_of(
            lambda make=make, first=first, **given: make(**used({first: 2, "length": 3, "rng": RNG(0)}, given)),
            **{first: ("count", 1), "length": ("count", 4), "rng": ("rng", RNG(0))},
        )
    ),
]
RECORDINGS = [
    *settings_of(
        lambda **given: Trajectories.of(several(), **given), names=("list", ["a", "b"]), ids=("list", list("abcdefgh"))
    ),
    *settings_of(
        lambda **given: Trajectories.from_frame(pd.DataFrame({"a": [1.0, 2], "b": [1.0, 2]}), **given),
        channels=("list", ["a"]),
        inputs=("list", ["a"]),
        hints=("list", ["a"]),
    ),
    *settings_of(
        lambda **given: data().split(**used({"fraction": 0.5, "rng": RNG(0)}, given)),
        fraction=("share", 0.5),
        rng=("rng", RNG(0)),
    ),
    *settings_of(lambda **given: data().blocks(**used({"length": 5}, given)), length=("count", 4), gap=("from 0", 0)),
]
ANSWERS = [
    *settings_of(lambda **given: model().score_samples(several(), **given), relative=("switch", True)),
    *settings_of(lambda **given: model().reduced(**given), tolerance=("share", 0.1)),
    *settings_of(lambda **given: model().state_space(**given), tolerance=("share", 0.1)),
]
CASES = [*LEARNERS, *VALUES, *ESTIMATOR, *FUNCTIONS, *RECORDINGS, *ANSWERS]


@pytest.mark.parametrize("case", CASES, ids=[f"{i} {case.name}" for i, case in enumerate(CASES)])
def test_values_without_meaning_are_refused_by_name(case: Case) -> None:
    case.call(case.good)
    for value in BAD[case.kind]:
        with pytest.raises(PsimlearnError, match=case.name.rpartition(".")[2]) as caught:
            case.call(value)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("setting", [{"lags": 1000}, {"lags": 20}, {"validation": 0.99}, {"n_rounds": 10**9}])
def test_settings_that_these_recordings_cannot_serve(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(setting))):
        PSIM(**setting).fit(several())


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("steps", lambda: model().forecast(several(), 10**9)),
        ("horizon", lambda: model().predict(several(), 10**9)),
        ("horizon", lambda: model().predict_interval(several(), 10**9)),
        ("n_streams", lambda: model().start(10**9)),
        ("steps", lambda: model().start().forecast(10**9)),
        ("length", lambda: noisy_pendulum(1, 10**9, RNG(0))),
    ],
)
def test_answers_larger_than_memory_are_refused_before_they_are_made(name: str, ask: Callable[[], Any]) -> None:
    with pytest.raises(SettingsError, match=r"at most \d+ numbers"):
        ask()


@pytest.mark.parametrize("path", [None, 3, np.nan, [], b"model.psim"])
def test_a_path_is_a_text_or_a_path(path: Any) -> None:
    for ask in (PSIM.load, psimlearn.load, model().save, lambda path: psimlearn.save(model().filter_, path)):
        with pytest.raises(PsimlearnError, match="path: required"):
            ask(path)


@pytest.mark.parametrize("verbose", ["x", np.nan, -1, 1.5])
def test_verbose_is_a_switch_a_number_or_a_watch(verbose: Any) -> None:
    with pytest.raises(SettingsError, match="verbose"):
        fit(verbose=verbose)


@pytest.mark.parametrize("write", [lambda path: model().report(path), lambda path: model().export(path, "json")])
def test_pages_and_exports_need_a_path(write: Callable[[Any], None]) -> None:
    for wrong in (5, None, ["x"]):
        with pytest.raises(SettingsError, match="path: required a text or a Path, received"):
            write(wrong)
