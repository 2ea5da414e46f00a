"""The methods of `PSIM` that draw and report; each takes the estimator first.

The functions are those of `psimlearn.report`. That room knows this one and not the other way round, so it is looked up
by its name when a method is called, as a program of a user would do.
"""

from importlib import import_module
from os import PathLike
from typing import Any

from sklearn.utils.validation import check_is_fitted

from psimlearn.checks import path_of
from psimlearn.errors import DataError
from psimlearn.estimator.channels import asked
from psimlearn.evaluate import errors_by_horizon
from psimlearn.files.atomic import atomic
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["plot_errors", "plot_forecast", "plot_rounds", "plot_surprise", "report"]


def plot_forecast(model: Any, recording: Any, **options: Any) -> Any:
    """Draw one recording and its predictions with intervals (extra `plot`).

    Args:
        model: a fitted `PSIM`.
        recording: one recording in any form.
        options: those of `psimlearn.plot_forecast`: horizon, coverage, channels, rows, axes.

    Returns:
        The axes, one for each channel.
    """
    return _plots().plot_forecast(model, asked(model, recording).trajectories, **options)


def plot_surprise(model: Any, recording: Any, **options: Any) -> Any:
    """Draw how unlikely each row of one recording was, and mark the least likely rows (extra `plot`).

    Args:
        model: a fitted `PSIM`.
        recording: one recording in any form.
        options: those of `psimlearn.plot_surprise`: n_marked, rows, ax.

    Returns:
        The axes.
    """
    return _plots().plot_surprise(model, asked(model, recording).trajectories, **options)


def plot_errors(model: Any, *, ax: Any = None) -> Any:
    """Draw held-out errors by steps ahead, beside those of simple methods (extra `plot`); returns the axes."""
    check_is_fitted(model)
    return _plots().plot_errors(model.report_["errors"], units=model.report_["units"], ax=ax)


def plot_rounds(model: Any, *, ax: Any = None) -> Any:
    """Draw the held-out error of every round of training (extra `plot`); returns the axes."""
    check_is_fitted(model)
    return _plots().plot_rounds(model.rounds_, ax=ax)


def report(model: Any, path: str | PathLike[str], X: Any = None) -> None:
    """Write an HTML page that needs no other file: the recordings, the filter, its errors and surprises (extra `plot`).

    Args:
        model: a fitted `PSIM`.
        path: the file to write, or to replace.
        X: recordings: those that `fit` was given; for a model from a file, new ones. None for the recordings that `fit`
            has held out.
    """
    check_is_fitted(model)
    place = path_of(path)
    data = _held_out(model) if X is None else asked(model, X).trajectories
    if model.held_out_ or model.rounds_:
        made = {"recordings": "the recordings that fit held out"} if X is None else {}
        page = import_module("psimlearn.report").fit_page(model, data, made=made)
    else:
        errors = errors_by_horizon(model.filter_, data, model.filter_.features.window, skip=1)
        page = import_module("psimlearn.report").model_page(
            model.filter_, model.report_, data, {"PSIM": errors.tolist()}
        )
    with atomic(place) as file:
        file.write(page.encode("utf-8"))


def _plots() -> Any:
    return import_module("psimlearn.report.plots")


def _held_out(model: Any) -> Trajectories:
    parts = [part for _, held in model.held_out_ for part in held]
    if not parts:
        raise DataError(
            "X: required recordings, received none, and the model keeps none: files hold no recordings, and too few "
            "recordings leave none to hold out. Call report(path, X)."
        )
    return Trajectories.of(parts)
