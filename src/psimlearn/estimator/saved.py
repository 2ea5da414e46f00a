"""An estimator in a file: its parameters and the results of `fit` are notes and arrays beside its filter."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np

from psimlearn.choose.resume import Training, from_json, is_json, made_by, to_json, training_arrays, with_arrays
from psimlearn.choose.summary import summarised
from psimlearn.errors import ModelFileError
from psimlearn.estimator.columns import check_columns
from psimlearn.files import model
from psimlearn.files.checks import require, shown
from psimlearn.train.recipe import Recipe

__all__ = ["Contents", "load", "save", "with_infinities", "without_infinities"]

MOST_ROUNDS = 10_000
"""The most rounds of a model in a file: `partial_fit` goes through all of them again."""
LEFT_OUT = {"validation": 0.2, "random_state": None, "verbose": None}
"""Parameters that may be objects which no file holds, such as recordings; the file says this instead."""

Model = TypeVar("Model")


class Contents(NamedTuple):
    """All that `fit` learnt and that a file keeps."""

    training: Training
    """The filter, and all that `partial_fit` needs."""
    trials: list[dict[str, Any]]
    report: dict[str, Any]
    n_rounds: int


def save(path: str | PathLike[str], parameters: Mapping[str, Any], contents: Contents, with_sums: bool) -> None:
    """Write an estimator.

    Args:
        path: the file to replace.
        parameters: the estimator's parameters.
        contents: all that `fit` learnt.
        with_sums: whether to keep the sums for `partial_fit`.
    """
    training = contents.training
    notes = {
        "settings": {name: _parameter(name, value) for name, value in parameters.items()},
        "trials": without_infinities(contents.trials),
        "report": without_infinities(contents.report),
        "n_rounds": contents.n_rounds,
        "recipe": to_json("recipe", training.recipe),
        "learner": to_json("learner", training.learner),
    }
    model.save(training.filter, path, notes=notes, arrays=training_arrays(training) if with_sums else None)


def load(path: str | PathLike[str], make: Callable[..., Model]) -> tuple[Model, Contents]:
    """Read an estimator that `save` wrote.

    Args:
        path: the file.
        make: the class of the estimator, called with its parameters.

    Returns:
        The estimator, not fitted, and all that its `fit` had learnt.
    """
    saved = model.read(path)
    try:
        settings = {name: from_json(value) for name, value in saved.notes["settings"].items()}
        return make(**settings), _contents(saved)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: required a file written by PSIM.save, received one whose settings or sums cannot be "
            f"used ({error}). psimlearn.load(path) may read its filter."
        ) from error


def _contents(saved: model.Saved) -> Contents:
    """The notes and arrays of a file, understood; an error of any kind if they make no sense."""
    notes = saved.notes
    training = Training(saved.filter, from_json(notes["recipe"]), from_json(notes["learner"]), None, [])
    trials, report, n_rounds = with_infinities(notes["trials"]), with_infinities(notes["report"]), notes["n_rounds"]
    recipe, learner, counted = training.recipe, training.learner, type(n_rounds) is int and 0 <= n_rounds <= MOST_ROUNDS
    require(counted, f"n_rounds: required a whole number from 0 to {MOST_ROUNDS}, received {shown(n_rounds)}")
    require(isinstance(trials, list), f"trials: required a list, received {shown(trials)}")
    require(isinstance(recipe, Recipe), f"recipe: required a Recipe, received {shown(recipe)}")
    made = made_by(learner, training.regressor)
    require(made, f"learner: required one that makes {type(training.regressor).__name__}, received {shown(learner)}")
    check_columns(report)
    summarised(report)  # an error unless the report holds everything that a summary prints
    return Contents(with_arrays(training, saved.arrays) if saved.arrays else training, trials, report, n_rounds)


def _parameter(name: str, value: Any) -> Any:
    """A parameter as JSON."""
    return LEFT_OUT[name] if name in LEFT_OUT and not is_json(value) else to_json(name, value)


def without_infinities(value: Any) -> Any:
    """Trials and reports as JSON can hold them: infinite errors, of filters that diverged, become None."""
    if isinstance(value, Mapping):
        return {name: without_infinities(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def with_infinities(value: Any) -> Any:
    """Trials and reports from the JSON that `without_infinities` made: None becomes infinite if it is an error."""
    if isinstance(value, dict):
        return {
            name: _infinite(part) if name in ("error", "errors") else with_infinities(part)
            for name, part in value.items()
        }
    return [with_infinities(part) for part in value] if isinstance(value, list) else value


def _infinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _infinite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_infinite(part) for part in value]
    return np.inf if value is None else value
