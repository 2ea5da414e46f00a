"""The choices around the paper's algorithms, and which of them go together."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from psimlearn.checks import number, one_of, optional, switch, whole
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter import Features, OneHot, Stack, StackSquares
from psimlearn.filter.features import Persistent
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["LEAST_CROSS_WEIGHT", "Init", "Past", "Prior", "Recipe", "check"]

Init = Literal["history", "teacher", "zero"]
Prior = Literal["mean", "last", "zero"]
MOST_LAGS = 10_000
"""The most lags: sums hold the square of their number."""
LEAST_CROSS_WEIGHT = 1e-3
"""The least cross weight: with less, other channels are as good as left out."""


class Past(NamedTuple):
    """The way in which past and future are related to identify a linear system."""

    rows: int
    """How many rows of past, and of future."""
    ridge: float
    """Added to the variances of standardised observations."""


@dataclass(frozen=True)
class Recipe:
    """The choices that are not in the paper. Each can be switched off; `as_published` switches off all.

    Args:
        lags: how many of the last observations a step sees; 1 is the paper, more contain autoregression.
        prior: what the ridge shrinks predictions towards: the "mean", the "last" observation, or "zero".
        belief_weight: scales the belief before the ridge; 1 is the paper, 0 leaves direct autoregression.
        level_weight: with the prior "last", regress on changes, and on the level of the last observation only so much:
            the smaller, the less the offset of a recording matters. None regresses on lags as they are.
        cross_weight: how much the past of other channels counts beside the past of a channel itself, for linear
            regression; 1 is the paper, less helps where there are many channels and few rows.
        rank: feed back only this many directions of the belief; predictions keep full width.
        states: begin with the Kalman filter of a linear system of this many states, identified by canonical
            correlations, and feed back these states; None begins with a regression.
        past: with states, how many rows of past and of future are related to identify the system.
        past_ridge: with states, added to the variances of the standardised observations that are related.
        box: keep the feedback within the range of the features seen in training, widened on either side by this
            many times that range; None for no box.
        standardise: learn in units of each channel's standard deviation.
        feedthrough: inputs act on the observation of the same row, so a step also sees the next input.
        guard: leave out examples whose belief lies further than this many standard deviations of the features
            from their mean; None keeps all that are finite.
        keep_start: keep the examples of the initial beliefs in DAgger's aggregate.
        skip: how many first rows of each recording make no examples. Lags before the first row repeat it, which is
            wrong unless the system rests there.
    """

    lags: int = 1
    prior: Prior = "mean"
    belief_weight: float = 1.0
    level_weight: float | None = None
    cross_weight: float = 1.0
    rank: int | None = None
    states: int | None = None
    past: int = 10
    past_ridge: float = 1e-3
    box: float | None = 1.0
    standardise: bool = True
    feedthrough: bool = False
    guard: float | None = 8.0
    keep_start: bool = True
    skip: int = 0

    def __post_init__(self) -> None:
        """Refuse values that have no meaning by themselves; `check` refuses values that do not go together."""
        whole(self.lags, "lags", most=MOST_LAGS)
        one_of(self.prior, get_args(Prior), "prior")
        number(self.belief_weight, "belief_weight")
        optional(number, self.level_weight, "level_weight")
        number(self.cross_weight, "cross_weight", LEAST_CROSS_WEIGHT, 1.0)
        optional(whole, self.rank, "rank")
        optional(whole, self.states, "states")
        whole(self.past, "past", 2)
        number(self.past_ridge, "past_ridge", above=True)
        whole(self.skip, "skip", 0, MOST_LAGS)
        optional(number, self.box, "box")
        optional(number, self.guard, "guard", above=True)
        for name in ("standardise", "feedthrough", "keep_start"):
            switch(getattr(self, name), name)

    @property
    def relation(self) -> Past:
        """How past and future are related, with states."""
        return Past(self.past, self.past_ridge)

    @classmethod
    def for_symbols(cls, lags: int = 1) -> "Recipe":
        """The recipe for symbols: beliefs are probabilities, which are not scaled, boxed or shrunk."""
        return cls(lags=lags, prior="zero", box=None, standardise=False, guard=None)

    @classmethod
    def as_published(cls) -> "Recipe":
        """The paper's algorithms, literally. Use a learner without intercept, `Ridge(alpha, intercept=False)`."""
        return cls(prior="zero", box=None, standardise=False, guard=None, keep_start=False)


def check(train: Trajectories, features: Features, recipe: Recipe, init: Init) -> None:
    """Refuse settings that cannot work, in words, before any work is done."""
    one_of(init, get_args(Init), "init")
    whole(features.window, "window")
    for holds, message in _rules_of_pairs(train, features, recipe):
        if not holds:
            raise SettingsError(message + ".")
    short = train.lengths <= features.window
    if short.any():
        i = int(short.argmax())
        raise DataError(
            f"trajectory {i}: required more rows than the window, at least {features.window + 1}, received "
            f"{train.lengths[i]} ({short.sum()} of {len(train)} trajectories are too short). Leave these out, or "
            "use a smaller window."
        )
    if train.lengths.max() <= features.window + recipe.skip:
        raise DataError(
            f"skip: required a trajectory with more rows than the window and the rows to skip, at least "
            f"{features.window + recipe.skip + 1}, received at most {train.lengths.max()}. Use a smaller skip."
        )


def _rules_of_pairs(train: Trajectories, features: Features, recipe: Recipe) -> list[tuple[bool, str]]:
    """For values that depend on features or data, whether they go together and what to say if not."""
    kind = type(features).__name__
    simplex = replace(Recipe.for_symbols(recipe.lags), feedthrough=recipe.feedthrough, keep_start=recipe.keep_start)
    return [
        (
            recipe.prior != "last" or isinstance(features, Persistent),
            f"prior='last' needs features with persist(x), which {kind} lacks; use prior='mean'",
        ),
        (
            recipe.level_weight is None or (recipe.prior == "last" and isinstance(features, Stack)),
            (
                f"level_weight needs prior='last' and Stack features, received prior={recipe.prior!r} and {kind}; use "
                "level_weight=None"
            ),
        ),
        (
            recipe.cross_weight == 1 or isinstance(features, Stack),
            (
                f"cross_weight below 1 needs Stack features, in which every number is of one channel, received "
                f"{recipe.cross_weight:g} and {kind}; use cross_weight=1"
            ),
        ),
        (
            recipe.rank is None or isinstance(features, Stack | StackSquares),
            f"rank needs Stack or StackSquares features, received {kind}; use rank=None",
        ),
        (
            recipe.states is None or (isinstance(features, Stack) and recipe.rank is None and recipe.belief_weight > 0),
            (
                f"states needs Stack features, rank=None and a belief weight above 0, received {kind}, "
                f"rank={recipe.rank} and belief weight {recipe.belief_weight:g}; use states=None"
            ),
        ),
        (
            recipe.states is None or train.inputs is None,
            "states needs recordings without inputs, received some; use states=None",
        ),
        (
            recipe.states is None or recipe.states <= min(features.window, recipe.past - 1) * train.n_channels,
            (
                f"states: required at most {min(features.window, recipe.past - 1)} times the number of channels, "
                f"received {recipe.states} and {train.n_channels} channels"
            ),
        ),
        (
            not isinstance(features, OneHot) or recipe == simplex,
            (
                f"{kind} features keep beliefs on a simplex and have no prior, box, rank or weight: use "
                f"Recipe.for_symbols(), received {recipe}"
            ),
        ),
        (
            not recipe.feedthrough or train.inputs is not None,
            "feedthrough=True needs trajectories with inputs, received none; use feedthrough=False",
        ),
    ]
