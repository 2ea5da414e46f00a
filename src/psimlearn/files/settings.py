"""The settings of a filter: everything in a model file that is no array, one entry for each."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from psimlearn.files.checks import counts, require, shown
from psimlearn.files.codec import Group, Known
from psimlearn.files.features import FEATURES, features_name
from psimlearn.files.regressors import REGRESSORS, regressor_name
from psimlearn.filter import Filter
from psimlearn.recordings.alphabet import Alphabet

__all__ = ["alphabet", "checked", "known", "written"]


@dataclass(frozen=True)
class Setting:
    """One setting."""

    of: Callable[[Filter], Any]
    """The setting of a filter, as JSON."""
    holds: Callable[[Any, bool], bool]
    """Whether a value, by itself, is one that `of` could have returned; True is passed for features of symbols."""


def written(filter: Filter) -> dict[str, Any]:
    """The settings of a filter, as JSON; without those that have their usual value."""
    settings = {name: setting.of(filter) for name, setting in SETTINGS.items()}
    return {name: value for name, value in settings.items() if name not in USUAL or value != USUAL[name]}


def checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as a filter has them, with the usual ones included; refuses others."""
    settings = USUAL | settings
    received = set(settings)
    require(received == set(SETTINGS), f"settings: required {sorted(SETTINGS)}, received {sorted(received)!s:.300}")
    features = settings["features"]
    symbolic = any(kind.of_symbols and features == name for name, kind in FEATURES.items())
    for name, setting in SETTINGS.items():
        holds = setting.holds(settings[name], symbolic)
        require(holds, f"{name}: required a setting of a filter, received {shown(settings[name])}")
    return settings


def known(settings: dict[str, Any], groups: dict[str, Group]) -> Known:
    """The features and sizes of a filter. Sizes that checked settings do not determine are read from one array each."""
    scaling, inputs, feedback = (groups.get(name, Group(name, {})) for name in ("scaling", "input_scaling", "feedback"))
    kind = FEATURES[settings["features"]]
    n = scaling.size("mean")
    d = kind.width(settings["window"], n)
    n_inputs = inputs.size("mean") if inputs.arrays else 0
    return Known(
        features=kind.make(settings["window"]),
        feedback_weight=settings["feedback_weight"],
        lags=settings["lags"],
        n=n,
        n_inputs=n_inputs,
        n_controls=(1 + settings["feedthrough"]) * n_inputs,
        d=d,
        r=feedback.size("directions", 1) if "directions" in feedback.arrays else d,
    )


def alphabet(value: Any) -> Alphabet | None:
    """The alphabet that a checked setting describes."""
    return None if value is None else Alphabet(tuple(value[0]), value[1])


def _spelt(filter: Filter) -> Any:
    known = filter.alphabet
    return None if known is None else [list(known.symbols), known.other]


def _spells(value: Any) -> bool:
    """Whether this is an alphabet as `_spelt` returns it."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], list)):
        return False
    symbols, other = value
    return (
        len(symbols) > 0
        and all(type(symbol) in (int, str) for symbol in symbols)
        and len({(type(symbol), symbol) for symbol in symbols}) == len(symbols)
        and (other is None or (type(other) in (int, str) and other in symbols))
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_regressors(value: Any, symbolic: bool) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(name, str) and name in REGRESSORS for name in value)
        and all(symbolic or not REGRESSORS[name].of_symbols for name in value)
    )


USUAL: dict[str, Any] = {"alphabet": None, "gaps": "exact", "time_step": None}
"""Settings that a file leaves out: only filters of symbols have an alphabet, few filters fill gaps in, and the step of
recordings without times is not known."""
SETTINGS: dict[str, Setting] = {
    "gaps": Setting(lambda model: model.gaps, lambda value, _: value in ("exact", "filled")),
    "alphabet": Setting(_spelt, lambda value, symbolic: value is None or (symbolic and _spells(value))),
    "features": Setting(
        lambda model: features_name(model.features), lambda value, _: isinstance(value, str) and value in FEATURES
    ),
    "window": Setting(lambda model: int(model.features.window), lambda value, _: counts(value)),
    "lags": Setting(lambda model: int(model.lags), lambda value, _: counts(value)),
    "feedthrough": Setting(lambda model: bool(model.feedthrough), lambda value, _: isinstance(value, bool)),
    "feedback_weight": Setting(
        lambda model: float(model.feedback.weight), lambda value, _: type(value) is float and value >= 0
    ),
    "names": Setting(
        lambda model: None if model.names is None else list(model.names),
        lambda value, _: value is None or _is_names(value),
    ),
    "time_step": Setting(
        lambda model: None if model.time_step is None else float(model.time_step),
        lambda value, _: value is None or (type(value) is float and 0 < value < inf),
    ),
    "regressors": Setting(lambda model: [regressor_name(regressor) for regressor in model.regressors], _is_regressors),
}
