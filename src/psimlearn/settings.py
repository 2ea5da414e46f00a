"""What the parameters of an estimator mean: words to be chosen from, objects to be taken, and neither by accident."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from psimlearn.blackbox import SklearnLearner
from psimlearn.errors import DataError, ModelFileError, SettingsError
from psimlearn.features import Features, SecondMoment, Stack, StackSquares
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.select import Trainer
from psimlearn.train.recipe import Init, Prior, Recipe
from psimlearn.train.score import Criterion
from psimlearn.trajectories import Trajectories, as_trajectories

__all__ = ["Settings", "at_least_one", "interpreted", "lively", "plain"]

FEATURES: dict[str, type[Stack | StackSquares | SecondMoment]] = {
    "stack": Stack,
    "squares": StackSquares,
    "moments": SecondMoment,
}
LEARNERS = ("ridge", "rff", "auto")
OBJECTS: dict[str, type] = {
    kind.__name__: kind for kind in (Stack, StackSquares, SecondMoment, Ridge, RandomFourierRidge, Recipe)
}
"""Settings that are objects and that a file can describe."""


@dataclass(frozen=True)
class Settings:
    """What `PSIM`'s parameters mean; None is "to be chosen"."""

    features: Features
    learner: Learner[Any] | Literal["ridge", "rff", "auto"]
    trainer: Trainer
    n_rounds: int
    init: Init
    lags: int | None
    prior: Prior | None
    belief_weight: float | None
    level_weight: float | Literal["auto"] | None
    rank: int | Literal["auto"] | None
    standard: Recipe
    """All the rest of the recipe."""
    literal: bool
    """Whether `standard` is the whole recipe."""
    criterion: Criterion
    validation: float | Trajectories
    refit: bool


def interpreted(parameters: Mapping[str, Any], data: Trajectories) -> Settings:
    """Check parameters and give them their meaning."""
    given = dict(parameters)
    recipe = given["recipe"]
    if not (recipe is None or isinstance(recipe, Recipe)):
        raise SettingsError(f"recipe: required a Recipe or None, received {recipe!r}.")
    return Settings(
        features=_features(given["features"], given["window"]),
        learner=_learner(given["learner"]),
        trainer=_one_of(given["trainer"], get_args(Trainer), "trainer"),
        n_rounds=at_least_one(given["n_rounds"], "n_rounds"),
        init=_one_of(given["init"], get_args(Init), "init"),
        lags=None if _auto(given["lags"]) else at_least_one(given["lags"], "lags"),
        prior=None if _auto(given["prior"]) else _one_of(given["prior"], get_args(Prior), "prior"),
        belief_weight=None if _auto(given["belief_weight"]) else _number(given["belief_weight"], "belief_weight"),
        level_weight=_level_weight(given["level_weight"]),
        rank=given["rank"] if given["rank"] is None or _auto(given["rank"]) else at_least_one(given["rank"], "rank"),
        standard=recipe or Recipe(box=1.0 if given["box"] else None, feedthrough=bool(given["feedthrough"])),
        literal=recipe is not None,
        criterion=_one_of(given["criterion"], get_args(Criterion), "criterion"),
        validation=_validation(given["validation"], data),
        refit=bool(given["refit"]),
    )


def at_least_one(value: Any, name: str) -> int:
    """A count."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SettingsError(f"{name}: required a whole number of at least 1, received {value!r}.")
    return int(value)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        raise SettingsError(f"{name}: required 'auto' or a number of at least 0, received {value!r}.")
    return float(value)


def _level_weight(value: Any) -> Any:
    return value if value is None or _auto(value) else _number(value, "level_weight")


def _auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _one_of(value: Any, words: tuple[str, ...], name: str) -> Any:
    if not (isinstance(value, str) and value in words):
        raise SettingsError(f"{name}: required one of {words}, received {value!r}.")
    return value


def _features(value: Any, window: Any) -> Features:
    if isinstance(value, str):
        return FEATURES[_one_of(value, tuple(FEATURES), "features")](at_least_one(window, "window"))
    if isinstance(value, Features):
        return value
    raise SettingsError(f"features: required one of {tuple(FEATURES)} or Features, received {value!r}.")


def _learner(value: Any) -> Any:
    if isinstance(value, str):
        return _one_of(value, LEARNERS, "learner")
    if isinstance(value, Learner):
        return value
    if hasattr(value, "fit") and hasattr(value, "predict") and hasattr(value, "get_params"):
        return SklearnLearner(value)
    raise SettingsError(
        f"learner: required one of {LEARNERS}, a Ridge, a RandomFourierRidge or a scikit-learn regressor, received "
        f"{value!r}."
    )


def _validation(value: Any, data: Trajectories) -> float | Trajectories:
    if isinstance(value, float | int | np.number):
        if not 0 < value < 1:
            raise SettingsError(f"validation: required a share between 0 and 1, or recordings, received {value}.")
        return float(value)
    held = as_trajectories(value)
    if (held.n_channels, held.n_inputs) != (data.n_channels, data.n_inputs):
        raise DataError(
            f"validation: required {data.n_channels} channels and {data.n_inputs} inputs as in X, received "
            f"{held.n_channels} and {held.n_inputs}."
        )
    return held


def plain(name: str, value: Any) -> Any:
    """A parameter as JSON can hold it; held-out recordings are data, and no file of ours holds data."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.number):
        return value.item()
    if type(value).__name__ in OBJECTS:
        return {"type": type(value).__name__} | {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
    if name == "validation":
        return 0.2
    if name == "random_state":
        return None
    raise ModelFileError(
        f"{name}: required a word, a number or one of {sorted(OBJECTS)}, received {type(value).__name__}, which a "
        "model file cannot describe. Save model.filter_ with psimlearn.save."
    )


def lively(value: Any) -> Any:
    """A parameter from what `plain` made of it."""
    if not isinstance(value, dict):
        return value
    own = dict(value)
    return OBJECTS[own.pop("type")](**own)
