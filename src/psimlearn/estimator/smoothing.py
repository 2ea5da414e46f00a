"""The methods of `PSIM` that fill gaps from both sides."""

from typing import Any

from psimlearn.checks import switch
from psimlearn.errors import SettingsError
from psimlearn.estimator.channels import asked
from psimlearn.filter import Filter
from psimlearn.filter.smooth import impute, smooth, smoothed_hints

__all__ = ["Smoothing"]


class Smoothing:
    """Methods of `PSIM`: fill the gaps of recordings, once they are complete."""

    filter_: Filter

    def smooth(self, X: Any, return_std: bool = False, coverage: float | None = None) -> Any:
        """E[x_t | the whole recording], in the form of X: observed entries as they are, gaps filled from both sides.

        Args:
            X: recordings.
            return_std: return (mean, std); zero for observed entries.
            coverage: return (mean, low, high) with intervals that hold this share of the missing observations.
        """
        if switch(return_std, "return_std") and coverage is not None:
            raise SettingsError("pass either return_std or coverage, not both.")
        given = asked(self, X)
        parts = smooth(self.filter_, given.trajectories).parts(return_std, coverage)
        answers = tuple(given.returned(part, channels=True) for part in parts)
        return answers if len(answers) > 1 else answers[0]

    def smooth_hints(self, X: Any) -> Any:
        """E[h_t | the whole recording]: `hints`, with gaps seen from both sides; in the form of X."""
        given = asked(self, X)
        return given.returned(smoothed_hints(self.filter_, given.trajectories))

    def impute(self, X: Any) -> Any:
        """The recordings with their gaps filled from both sides, in the form of X; observed entries stay untouched."""
        given = asked(self, X)
        return given.returned(impute(self.filter_, given.trajectories), channels=True)
