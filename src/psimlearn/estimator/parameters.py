"""From the parameters of an estimator to `Settings`: words are looked up, objects taken, all else refused by name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast, get_args

import numpy as np
from sklearn.base import is_regressor

from psimlearn.checks import number, one_of, shown, switch, whole
from psimlearn.choose.settings import Settings, Trainer
from psimlearn.errors import DataError, SettingsError
from psimlearn.estimator.checks import is_auto, level_weight_of, rank_of, share_of
from psimlearn.filter import Features, OneHot, OneHotMarginals, OneHotProduct, SecondMoment, Stack, StackSquares
from psimlearn.learners import Learner, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.learners.gaussian import GaussianLearner
from psimlearn.learners.symbolic import SymbolClassifier, SymbolLogistic, SymbolRidge
from psimlearn.learners.trees import RidgeAndTrees
from psimlearn.recordings.forms import received, received_symbols
from psimlearn.recordings.steps import check_step
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.losses import GaussianNLL, LogLoss, Squared
from psimlearn.train.recipe import LEAST_CROSS_WEIGHT, Init, Prior, Recipe
from psimlearn.train.score import criterion_of

__all__ = ["interpreted", "is_symbolic", "learns_on", "speaks_symbols"]

FEATURES: dict[str, type[Stack | StackSquares | SecondMoment | OneHot]] = {
    "stack": Stack,
    "squares": StackSquares,
    "moments": SecondMoment,
    "onehot": OneHotProduct,
    "onehot-marginals": OneHotMarginals,
}
LEARNERS = ("ridge", "rff", "trees", "auto", "gaussian")
SYMBOL_LEARNERS = ("ridge", "logistic")
WINDOW = 5
"""The window where none is given."""
HANDY = 64
"""The most probabilities in a belief about symbols, where its window is not given."""
IN_RECIPE: dict[str, Any] = dict.fromkeys(("lags", "prior", "belief_weight", "level_weight", "cross_weight"), "auto")
IN_RECIPE |= {"rank": None, "box": True, "feedthrough": False}
"""The parameters that a recipe holds, too, with their defaults."""
MOST_ROUNDS = 10_000
"""The most rounds of DAgger: some tens are usual, and a slip of the keyboard would run for ever."""
LOGISTIC_ALPHA = 1e-5
"""The penalty of logistic regression where it is not chosen."""


def is_symbolic(features: Any) -> bool:
    """Whether the parameter `features` asks for symbols."""
    return isinstance(features, OneHot) or (isinstance(features, str) and features.startswith("onehot"))


def speaks_symbols(model: Any) -> bool:
    """Whether an estimator has `predict_proba`; if not, says what it needs."""
    if not is_symbolic(model.features):
        raise AttributeError("predict_proba needs symbols: features='onehot'. For numbers use predict_interval.")
    return True


def learns_on(model: Any) -> bool:
    """Whether an estimator has `partial_fit`; if not, says what it needs."""
    if model.trainer != "dagger":
        raise AttributeError(f"partial_fit needs trainer='dagger': {model.trainer!r} keeps no sums. Use fit.")
    return True


def interpreted(parameters: Mapping[str, Any], data: Trajectories) -> Settings:
    """The settings that the parameters of `PSIM` mean for these recordings."""
    given = dict(parameters)
    recipe = given["recipe"]
    if not (recipe is None or isinstance(recipe, Recipe)):
        raise SettingsError(f"recipe: required a Recipe or None, received {shown(recipe)}.")
    if recipe is not None:
        _check_overruled(given, recipe)
    box, feedthrough = switch(given["box"], "box"), switch(given["feedthrough"], "feedthrough")
    features = _features(given["features"], _window(given["window"], given["features"], data.n_channels))
    settings = Settings(
        features=features,
        learner=_symbol_learner(given["learner"], features)
        if isinstance(features, OneHot)
        else _learner(given["learner"]),
        trainer=one_of(given["trainer"], get_args(Trainer), "trainer"),
        n_rounds=whole(given["n_rounds"], "n_rounds", most=MOST_ROUNDS),
        init="history" if is_auto(given["init"]) else one_of(given["init"], ("auto", *get_args(Init)), "init"),
        lags=None if is_auto(given["lags"]) else _lags(given["lags"], data),
        prior=None if is_auto(given["prior"]) else one_of(given["prior"], ("auto", *get_args(Prior)), "prior"),
        belief_weight=None
        if is_auto(given["belief_weight"])
        else number(given["belief_weight"], "belief_weight", otherwise="'auto' or "),
        level_weight=level_weight_of(given["level_weight"]),
        cross_weight=None
        if is_auto(given["cross_weight"])
        else number(given["cross_weight"], "cross_weight", LEAST_CROSS_WEIGHT, 1.0, otherwise="'auto' or "),
        rank=rank_of(given["rank"]),
        standard=recipe or Recipe(box=1.0 if box else None, feedthrough=feedthrough),
        literal=recipe is not None,
        criterion=criterion_of(given["criterion"]),
        validation=_validation(given["validation"], data),
        refit=switch(given["refit"], "refit"),
        loss=Squared(),
        blocks=recipe is None and given["trainer"] != "forward",
        opening=switch(given["opening"], "opening") and recipe is None,
        systems=recipe is None and given["trainer"] != "forward" and is_auto(given["init"]),
    )
    if isinstance(settings.features, OneHot) or data.alphabet is not None:
        return _for_symbols(settings, given, data)
    if isinstance(settings.learner, GaussianLearner):
        settings = _for_likelihood(settings)
    _check_criterion(settings)
    _check_together(settings)
    return settings


def _check_overruled(given: Mapping[str, Any], recipe: Recipe) -> None:
    """Refuse parameters beside a recipe that says something else: it is taken as it is, and they would be lost."""
    said = {name: getattr(recipe, name) for name in IN_RECIPE} | {"box": recipe.box is not None}
    plain = str | bool | int | float | np.generic | None  # of others, such as arrays, == tells nothing
    lost = [
        f"{name}={shown(value)}"
        for name, value in ((name, given[name]) for name in IN_RECIPE)
        if not (isinstance(value, plain) and value in (IN_RECIPE[name], said[name]))
    ]
    if lost:
        raise SettingsError(
            f"recipe: required none of {', '.join(IN_RECIPE)} beside a recipe, which is taken as it is, received "
            f"{', '.join(lost)}. Put {'it' if len(lost) == 1 else 'them'} into the recipe, or leave the recipe out."
        )


def _for_symbols(settings: Settings, given: Mapping[str, Any], data: Trajectories) -> Settings:
    """Settings for symbols: probabilities are not scaled, shrunk or boxed, so parameters that do so are refused."""
    features = settings.features
    if not isinstance(features, OneHot) or data.alphabet is None:
        raise SettingsError(
            f"features: required 'onehot' or 'onehot-marginals' for symbols and none of these for numbers, received "
            f"{given['features']!r} for {'numbers' if data.alphabet is None else 'symbols'}."
        )
    features.check(data.n_channels)
    _check_criterion(settings)
    if settings.trainer.endswith("backprop"):
        raise SettingsError(f"trainer: required 'dagger' or 'forward' for symbols, received {settings.trainer!r}.")
    free = {"prior": "auto", "belief_weight": "auto", "level_weight": "auto", "cross_weight": "auto", "rank": None}
    for name, value in free.items():
        if given["recipe"] is None and given[name] != value:
            raise SettingsError(f"{name}: required {value!r} for symbols, received {given[name]!r}.")
    recipe = settings.standard if settings.literal else Recipe.for_symbols(settings.lags or 1)
    return replace(
        settings,
        standard=replace(recipe, feedthrough=settings.standard.feedthrough),
        lags=recipe.lags if settings.literal else settings.lags,
        literal=True,
        loss=LogLoss(),
    )


def _symbol_learner(value: Any, features: OneHot) -> Any:
    """The learner of symbols for these features; the word "ridge" where its penalty is to be chosen."""
    if isinstance(value, SymbolRidge | SymbolLogistic | SymbolClassifier):
        if value.features != features:
            raise SettingsError(f"learner: required one for {features}, received one for {value.features}.")
        return value
    if isinstance(value, Ridge):
        return SymbolRidge(features, value.alpha)
    if isinstance(value, str) and value in SYMBOL_LEARNERS:
        return SymbolLogistic(features, LOGISTIC_ALPHA) if value == "logistic" else value
    if hasattr(value, "predict_proba") and not isinstance(value, type):
        return SymbolClassifier(features, value)
    raise SettingsError(
        f"learner: required one of {SYMBOL_LEARNERS}, a SymbolRidge, a SymbolLogistic or a classifier with "
        f"predict_proba for symbols, received {value!r}."
    )


def _for_likelihood(settings: Settings) -> Settings:
    """Settings for a mean and a log-variance, which are shrunk towards zero and scored by likelihood."""
    if not isinstance(settings.features, StackSquares) or settings.prior not in (None, "zero"):
        raise SettingsError(
            "learner: 'gaussian' required features='squares' and prior='auto' or 'zero', received "
            f"{settings.features!r} and {settings.prior!r}."
        )
    standard = replace(settings.standard, prior="zero") if not settings.literal else settings.standard
    level = None if settings.level_weight == "auto" else settings.level_weight
    return replace(settings, prior="zero", standard=standard, level_weight=level, loss=GaussianNLL())


def _check_criterion(settings: Settings) -> None:
    """Refuse horizons beyond the window for beliefs that are not scored by squared errors."""
    steps = settings.criterion
    squared = isinstance(settings.loss, Squared) and not isinstance(settings.features, OneHot)
    if isinstance(steps, int) and steps > settings.features.window and not squared:
        raise SettingsError(
            f"criterion: required 'window', 'one-step' or at most the window, {settings.features.window}, for symbols "
            f"and learner='gaussian', received {steps}."
        )


def _check_together(settings: Settings) -> None:
    """Refuse parameters that others would overrule; `train.recipe.check` refuses the rest."""
    if settings.trainer != "dagger" and (settings.learner == "trees" or isinstance(settings.learner, RidgeAndTrees)):
        raise SettingsError(
            f"trainer={settings.trainer!r}: required a learner with gradients, or one that learns from the few rows of "
            f"each time step, received learner={settings.learner!r}; use trainer='dagger'."
        )
    if settings.trainer.endswith("backprop") and (
        isinstance(settings.learner, SklearnLearner) or type(settings.features) not in FEATURES.values()
    ):
        raise SettingsError(
            f"trainer={settings.trainer!r}: required linear or random Fourier regression and features of "
            f"{tuple(FEATURES)}, of which gradients are known, received learner={settings.learner!r} and "
            f"features={settings.features!r}; use trainer='dagger'."
        )
    if settings.literal:
        return
    level = settings.level_weight
    if isinstance(level, float) and (settings.prior not in (None, "last") or not settings.levels):
        raise SettingsError(
            "level_weight: a number required prior='last' or 'auto' and a learner with coordinates, such as linear or "
            "random Fourier regression, received "
            f"level_weight={level} with prior={settings.prior!r} and learner={settings.learner!r}; use "
            "level_weight='auto' or None."
        )
    if settings.cross_weight not in (None, 1) and settings.learner in ("rff", "trees"):
        raise SettingsError(
            f"cross_weight: a number below 1 required linear regression, received {settings.cross_weight:g} with "
            f"learner={settings.learner!r}; use cross_weight='auto' or 1."
        )
    if settings.rank == "auto" and not isinstance(settings.features, Stack | StackSquares):
        raise SettingsError(
            f"rank: 'auto' required Stack or StackSquares features, received {settings.features!r}; use rank=None."
        )


def _window(value: Any, features: Any, n: int) -> int:
    """The window given; else `WINDOW`, or for symbols the largest up to it with at most `HANDY` probabilities."""
    if not is_auto(value):
        return whole(value, "window", otherwise="'auto' or ")
    if not (isinstance(features, str) and is_symbolic(features) and features in FEATURES):
        return WINDOW
    kind = cast(Any, FEATURES[features])  # of symbols, which tell their width without an array of it
    handy = [k for k in range(1, WINDOW + 1) if kind(k).width(n) <= HANDY]
    return max(handy, default=1)


def _lags(value: Any, data: Trajectories) -> int:
    """The lags given, which must be fewer than the rows of some recording."""
    lags, longest = whole(value, "lags", otherwise="'auto' or "), int(data.lengths.max())
    if lags >= max(longest, 2):
        raise SettingsError(
            f"lags: required fewer than the {longest} rows of the longest recording, received {lags}. Use fewer lags."
        )
    return lags


def _features(value: Any, window: int) -> Features:
    if isinstance(value, str):
        return FEATURES[one_of(value, tuple(FEATURES), "features")](window)
    if isinstance(value, Features) and not isinstance(value, type):
        return value
    raise SettingsError(f"features: required one of {tuple(FEATURES)} or Features, received {value!r}.")


def _learner(value: Any) -> Any:
    if isinstance(value, str):
        return GaussianLearner() if value == "gaussian" else one_of(value, LEARNERS, "learner")
    if not isinstance(value, type):
        if isinstance(value, Learner):
            return value
        if hasattr(value, "__sklearn_tags__") and is_regressor(value):
            return SklearnLearner(value)
    raise SettingsError(
        f"learner: required one of {LEARNERS}, a Ridge, a RandomFourierRidge, a RidgeAndTrees or a scikit-learn "
        f"regressor, received {value!r}."
    )


def _validation(value: Any, data: Trajectories) -> float | Trajectories:
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return share_of(value)
    try:
        numbers = data.alphabet is None
        given = (
            received(value, data.names, data.step, data.roles) if numbers else received_symbols(value, data.alphabet)
        )
        held = given.trajectories
        check_step(data.step, held.step, len(held.values))
    except DataError as error:
        raise DataError(f"validation: {error}") from error
    if (held.n_channels, held.n_inputs) != (data.n_channels, data.n_inputs):
        raise DataError(
            f"validation: required {data.n_channels} channels and {data.n_inputs} inputs as in X, received "
            f"{held.n_channels} and {held.n_inputs}."
        )
    return held
