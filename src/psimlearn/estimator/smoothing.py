"""The methods of `PSIM` that fill gaps from both sides; each takes the estimator first."""

from typing import Any

from psimlearn.checks import switch
from psimlearn.errors import SettingsError
from psimlearn.estimator.channels import asked
from psimlearn.estimator.output import hint_names
from psimlearn.filter.smooth import impute as imputed
from psimlearn.filter.smooth import smooth as smoothed
from psimlearn.filter.smooth import smoothed_hints

__all__ = ["impute", "smooth", "smooth_hints"]


def smooth(model: Any, X: Any, return_std: bool = False, coverage: float | None = None) -> Any:
    """E[x_t | the whole recording], in the form of X: observed entries as they are, gaps filled from both sides.

    Args:
        model: a fitted `PSIM`.
        X: recordings.
        return_std: return (mean, std); zero for observed entries.
        coverage: return (mean, low, high) with intervals that hold this share of the missing observations.
    """
    if switch(return_std, "return_std") and coverage is not None:
        raise SettingsError("pass either return_std or coverage, not both.")
    given = asked(model, X)
    parts = smoothed(model.filter_, given.trajectories).parts(return_std, coverage)
    answers = tuple(given.returned(part, channels=True) for part in parts)
    return answers if len(answers) > 1 else answers[0]


def smooth_hints(model: Any, X: Any) -> Any:
    """E[h_t | the whole recording]: `hints`, with gaps seen from both sides; in the form of X."""
    given = asked(model, X)
    estimates = smoothed_hints(model.filter_, given.trajectories)
    return given.returned(estimates, names=hint_names(model, estimates.shape[1]))


def impute(model: Any, X: Any) -> Any:
    """The recordings with their gaps filled from both sides, in the form of X; observed entries stay untouched."""
    given = asked(model, X)
    return given.returned(imputed(model.filter_, given.trajectories), channels=True)
