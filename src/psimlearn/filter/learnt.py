"""The numbers of a learnt filter, as one frozen value; other modules of this room compute with it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from psimlearn.checks import room_for, whole
from psimlearn.errors import DataError
from psimlearn.filter.features import Features, Variances
from psimlearn.filter.gaps import conditional_fill
from psimlearn.filter.ingaps import InGaps
from psimlearn.filter.layout import Layout, check_channels, controls, lay_out
from psimlearn.filter.localscale import LocalScale, unrest_after
from psimlearn.filter.opening import Opening
from psimlearn.filter.regressors import Linear, Regressor
from psimlearn.filter.scaling import Scaling
from psimlearn.filter.step import Feedback, Fill, Recursion, State
from psimlearn.filter.still import Still, still_of
from psimlearn.filter.thresholds import Thresholds
from psimlearn.filter.uncertainty import Calibration, Correlation, InputsToCome, Starting
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.steps import check_step
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Gaps", "Learnt", "check_alike", "laid_out", "remembered", "start"]

Gaps = Literal["exact", "filled"]
"""How a filter treats missing entries: by their distribution, or by a guess that is taken as observed."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """Everything that was learnt. `Filter` is this value with functions as methods."""

    features: Features
    regressors: tuple[Regressor, ...]
    """One for all times, or one for each time step; the last is held beyond its end."""
    initial: Float[np.ndarray, " d"]
    """m_1, the belief before anything was seen."""
    scaling: Scaling
    feedback: Feedback
    centre: Float[np.ndarray, " d"] | None
    """Added to the regressor's output: this belief, or the last observation repeated if None."""
    covariance: Float[np.ndarray, "n n"]
    """The covariance of one-step errors, standardised: it fills a missing channel from the channels that were seen."""
    lags: int = 1
    input_scaling: Scaling | None = None
    feedthrough: bool = False
    """Whether u_{t+1} acts on x_{t+1} at once, so that the next belief needs it."""
    calibration: Calibration | None = None
    """The size of prediction errors by horizon, on recordings not fitted to; inputs to come are known."""
    calibration_blind: Calibration | None = None
    """The same within the window, for filters with inputs, if no input to come is known."""
    calibration_next: Calibration | None = None
    """The same within the window, for filters with feed-through, if only the next inputs are known."""
    starting: Starting | None = None
    """How errors of the first rows of a stream differ from later ones, on the recordings of training."""
    opening: Opening | None = None
    """The distribution of the memory before the first row, if first rows are better predicted by it; linear filters."""
    in_gaps: InGaps | None = None
    """How errors inside gaps compare with the doubt about them, on recordings not fitted to."""
    local: LocalScale | None = None
    """The size of errors in each situation, if intervals are better by it on recordings not fitted to."""
    thresholds: Thresholds | None = None
    """The scores below which an alarm begins, by rate, from recordings not fitted to."""
    hinting: Linear | None = None
    """From [m_t; x_t; ..; x_{t-lags+1}; u_t (; u_{t+1})] to the hints at t: a read-out, no part of the belief."""
    names: tuple[str, ...] | None = None
    """The names of the channels."""
    alphabet: Alphabet | None = None
    """The symbols, where channels are indicators of symbols."""
    time_step: float | None = None
    """Seconds from one row to the next in training, None if not known; recordings with another step are refused."""
    span: Float[np.ndarray, "2 n"] | None = None
    """The least and the largest value of each channel in training, standardised: filled-in values stay within it."""
    gaps: Gaps = "exact"
    """How missing entries are treated, if the filter is linear or of random features; other filters fill them in."""

    @cached_property
    def recursion(self) -> Recursion:
        """The part that takes one belief to the next."""
        return Recursion(self.features, self.regressors, self.feedback, self.centre)

    @cached_property
    def correlation(self) -> Correlation:
        """The correlation of one-step errors between channels."""
        return Correlation.of(self.covariance)

    @cached_property
    def still(self) -> Still | None:
        """The channels that were constant in training; None if there are none."""
        return still_of(self.calibration, self.span, self.scaling)

    @cached_property
    def variances(self) -> Variances | None:
        """The features, if their beliefs claim variances; to ask a protocol is slow."""
        return self.features if isinstance(self.features, Variances) else None

    @cached_property
    def to_hints(self) -> Float[np.ndarray, "d h"]:
        """The weights by which hints are read from beliefs; of width 0 without hints."""
        d = len(self.initial)
        return np.zeros((d, 0)) if self.hinting is None else self.hinting.weights[:d]

    @property
    def doubt_factor(self) -> float:
        """The factor of the variance that doubt adds; 1 for filters of older versions."""
        return 1.0 if self.in_gaps is None else float(self.in_gaps.factor[0])

    def unrest_after(
        self, unrest: Float[np.ndarray, "b n"], x: Float[np.ndarray, "b n"], expected: Float[np.ndarray, "b n"]
    ) -> Float[np.ndarray, "b n"]:
        """The unrest of streams once a standardised row is seen, NaN where missing."""
        assert self.local is not None  # a state without local scale has no unrest
        with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverged
            return unrest_after(unrest, x - expected, self.local.usual, float(self.local.fading[0]))

    def measured(self, inputs: InputsToCome) -> Calibration | None:
        """The calibration of predictions that know these inputs; None if there is none."""
        known = {"known": self.calibration, "next known": self.calibration_next, "unknown": self.calibration_blind}
        return known[inputs]

    @property
    def fill(self) -> Fill:
        """Fills missing entries from the entries seen."""
        return partial(conditional_fill, covariance=self.covariance, span=self.span)

    def controls(
        self, u: Float[np.ndarray, "b p"] | None, next_u: Float[np.ndarray, "b p"] | None, b: int
    ) -> Float[np.ndarray, "b q"]:
        """The input columns of z for one row of each of b streams; `next_u` is held at u if not given."""
        if self.input_scaling is None:
            return np.empty((b, 0))
        if u is None:
            raise DataError("inputs: required the inputs of every row as in training, received none.")
        return controls(self.input_scaling, u, u if next_u is None else next_u, self.feedthrough)


Of = TypeVar("Of")


def remembered(function: Callable[[Learnt], Of]) -> Callable[[Learnt], Of]:
    """Compute a function of a filter once for each filter, for as long as the filter lives."""
    known: WeakKeyDictionary[Learnt, Of] = WeakKeyDictionary()

    @wraps(function)
    def looked_up(filter: Learnt) -> Of:
        if filter not in known:
            known[filter] = function(filter)
        return known[filter]

    return looked_up


def start(filter: Learnt, n_streams: int = 1) -> State:
    """The state of streams of which nothing was seen yet."""
    n = len(filter.scaling.mean)
    room_for("n_streams", whole(n_streams, "n_streams"), max(filter.initial.size, filter.lags * n))
    clock = np.zeros(n_streams, dtype=np.int64)
    belief, recent = np.tile(filter.initial, (n_streams, 1)), np.zeros((n_streams, filter.lags, n))
    unrest = None if filter.local is None else np.ones((n_streams, n))
    return State(belief, recent, clock, np.zeros_like(clock), np.zeros_like(clock), None, unrest)


def check_alike(filter: Learnt, trajectories: Trajectories) -> None:
    """Check that recordings have the channels and the step of the training data."""
    check_step(filter.time_step, trajectories.step, len(trajectories.values))
    check_channels(trajectories, filter.scaling, filter.input_scaling)


def laid_out(filter: Learnt, trajectories: Trajectories) -> Layout:
    """Lay recordings out, after a check that they have the channels and the step of the training data."""
    check_alike(filter, trajectories)
    return lay_out(trajectories, filter.scaling, filter.input_scaling, filter.lags, filter.feedthrough)
