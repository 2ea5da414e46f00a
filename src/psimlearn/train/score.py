"""Rounds of training, and the closed-loop error that ranks them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import DataError, DivergedError
from psimlearn.evaluate import mean_square
from psimlearn.factors import eigvals
from psimlearn.filter import Feedback, Filter, Forest, Linear
from psimlearn.filter.gaps import error_covariance
from psimlearn.filter.likelihood import about_row
from psimlearn.filter.rollout import Rollout, Table, roll, table
from psimlearn.filter.step import expected
from psimlearn.recordings.schedule import RowIndex
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import SETTLED, carried_forward, futures, late_before, settled, whole_futures
from psimlearn.shapes import Float
from psimlearn.train.losses import Loss, Squared
from psimlearn.train.openings import can_open, of_openings, opened_by
from psimlearn.train.systems import LARGEST_POLE

__all__ = ["Criterion", "HeldOut", "Round", "best", "forgets", "held_out", "scored"]
__all__ += ["criterion_of", "forgetful", "spectral_radius", "telling_openings"]

Criterion = Literal["one-step", "window"] | int
"""Which closed-loop error ranks filters: of the next row, of the window and the next row, or of so many rows ahead."""
WORDS = ("one-step", "window")
NARROW, POWERS = 100, 50
"""The width up to which eigenvalues are computed, and the powers of a wider map from which its radius is estimated."""
SQUARINGS = 5
"""How often a map is squared to see whether its powers vanish, before its spectral radius is computed."""
NEARLY = 1.05
"""The spectral radius up to which a linear filter that does not forget its start is made to forget it."""
FADED = 0.01
"""The share of its start that a filter may remember at the first rows that are scored."""
BLOWN_UP = 1e6
"""A filter has diverged if a prediction is this many times larger than every observation."""


class Round(NamedTuple):
    """One filter of a training run, and its scores."""

    number: int
    filter: Filter
    error: float
    """Closed-loop error on the validation trajectories by the criterion, standardised; inf if diverged."""
    clipped: float
    """The share of beliefs on the edge of the box, on the validation trajectories."""
    dropped: int
    """Training rows that the rollout before this round left out as diverged."""


class HeldOut(NamedTuple):
    """Validation trajectories laid out, with the observations that a filter has to predict."""

    table: Table
    rows: RowIndex
    """The rows before which predictions are scored."""
    truth: Float[np.ndarray, "some horizon n"]
    weights: Float[np.ndarray, " horizon"]
    """How much the error at each horizon counts."""
    loss: Loss = Squared()
    beyond: Trajectories | None = None
    """The trajectories, where horizons lie beyond the window, so that predictions have to be fed back."""


def held_out(
    filter: Filter,
    validation: Trajectories,
    criterion: Criterion,
    loss: Loss = Squared(),
    skip: int = 0,
) -> HeldOut:
    """Lay validation trajectories out for filters like this one.

    "one-step" is the error of block 1. A number h counts the errors of the next h rows, each weighted by the loss: the
    squared one counts them relative to those of the last observation, so that far horizons, where errors are large, do
    not drown the near ones; beyond the window predictions are fed back. Rows before which nothing was seen, where all
    filters say the same, are left out. "window" counts all rows of the window so, and the next row once more as much
    as all of them: noise in the rows hides most of the differences between filters at the next row, and it is the
    next row that tells best how well a filter follows. The first `skip` rows of every trajectory are not scored.
    """
    criterion_of(criterion)
    laid_out = table(filter, validation)
    plan, x = laid_out.layout.plan, laid_out.layout.x
    if laid_out.layout.gappy and np.isnan(x).all():
        raise DataError("validation: required at least one observed value, received none. Use other trajectories.")
    window = filter.features.window
    steps = criterion if isinstance(criterion, int) else window
    if isinstance(criterion, int) and not plan.reaches(steps).any():
        raise DataError(
            f"criterion: required held-out recordings of more than {steps} rows, to score predictions so far ahead, "
            f"received at most {validation.lengths.max()}. Use a smaller number, or longer recordings."
        )
    later = plan.reaches(-skip)
    if criterion == "one-step" or not (later & plan.reaches(steps)).any():
        rows = np.flatnonzero(later) if skip and later.any() else slice(None)
        return HeldOut(laid_out, rows, x[rows][:, None], np.ones(1), loss)
    rows = (
        np.flatnonzero(later & plan.reaches(-1) & plan.reaches(steps - 1))
        if skip
        else whole_futures(plan, steps, first=False)
    )
    truth = futures(x, plan, steps)[rows]
    stays = carried_forward(x, plan)[plan.place(-1)][rows]
    beyond = validation if steps > window else None
    weights = loss.weights(truth, stays)
    if criterion == "window":
        weights = (weights + steps * weights[0] * (np.arange(steps) == 0)) / 2
    return HeldOut(laid_out, rows, truth, weights, loss, beyond)


def telling_openings(filter: Filter, train: Trajectories) -> Table | None:
    """Training rows that tell how to begin, laid out; None where entries are missing: to roll over these takes long."""
    if not can_open(filter) or np.isnan(train.values).any():
        return None
    return table(filter, of_openings(train))


def criterion_of(value: Any) -> Criterion:
    """A criterion, checked."""
    if isinstance(value, str) and value in WORDS:
        return cast(Criterion, value)
    return whole(value, "criterion", otherwise=f"one of {WORDS} or ")


def scored(number: int, filter: Filter, validation: HeldOut, dropped: int = 0, opens: Table | None = None) -> Round:
    """Roll a filter over the validation trajectories, and give it the covariance of its one-step errors there.

    A filter that forgets slowly is still busy with its start at later rows. If it will learn how recordings begin once
    it is chosen, pass the training rows that tell as `opens`: the error is that with an opening, where it is less; the
    filter of the round has none.
    """
    plain = _scored(number, filter, validation, dropped)
    if opens is None or not np.isfinite(plain.error) or not _lingers(plain.filter):
        return plain
    opened = opened_by(plain.filter, roll(plain.filter, opens))
    if opened is None:
        return plain
    return plain._replace(error=min(plain.error, _scored(number, opened, validation, dropped).error))


def _lingers(filter: Filter) -> bool:
    """Whether a linear filter still remembers its start at the first rows that are scored."""
    radius = spectral_radius(filter)
    return can_open(filter) and radius is not None and FADED < radius**SETTLED <= 1


def _scored(number: int, filter: Filter, validation: HeldOut, dropped: int) -> Round:
    """As `scored`, with the filter as it is."""
    rollout = roll(filter, validation.table, about_row)
    x, held = rollout.layout.x, rollout.held
    clipped = float(filter.feedback.clipped(rollout.z[:, : len(filter.feedback.mean)]).mean())
    with np.errstate(over="ignore", invalid="ignore"):
        residuals = x - expected(filter.recursion, held)
        ahead = _ahead(filter, rollout, validation) - validation.truth
    limit = BLOWN_UP * np.nanmax(np.abs(x), initial=1e-300)
    if not (_within(residuals, x, limit) and _within(ahead, validation.truth, limit)):
        return Round(number, filter, np.inf, clipped, dropped)
    plan, doubt = rollout.layout.plan, rollout.read_before
    later = settled(plan, late_before(x, plan))[0]
    kept = later if (~np.isnan(residuals[later])).any() else slice(None)
    doubt = None if doubt is None else doubt[kept]
    measured = replace(filter, covariance=error_covariance(residuals[kept], doubt, filter.covariance))
    if validation.beyond is None and type(validation.loss) is not Squared:
        errors = validation.loss.errors(filter.features, held[validation.rows], validation.truth)
    else:
        errors = mean_square(ahead)
    return Round(number, measured, float(validation.weights @ errors), clipped, dropped)


def _ahead(filter: Filter, rollout: Rollout, validation: HeldOut) -> Float[np.ndarray, "some horizon n"]:
    """Predictions at every horizon that is scored, standardised."""
    steps = len(validation.weights)
    if validation.beyond is None:
        return filter.features.observations(rollout.held)[validation.rows, :steps]
    predictions = filter.forecast(validation.beyond, steps)[rollout.layout.plan.order]
    return filter.scaling(predictions[validation.rows])


def _within(errors: Float[np.ndarray, "*b n"], truth: Float[np.ndarray, "*b n"], limit: float) -> bool:
    """Whether all errors, where `truth` was observed, are finite and not absurd."""
    if errors.size and errors.max() <= limit and errors.min() >= -limit:  # nothing is missing, as usual
        return True
    return bool(np.all((np.abs(errors) <= limit) | np.isnan(truth)))


def spectral_radius(filter: Filter) -> float | None:
    """The spectral radius of the map from one feedback to the next; None where it is not linear."""
    linear = _linear(filter)
    if linear is None:
        return None
    if not filter.feedback.weight:
        return 0.0
    feedback, radius = _RADII.get(linear, (None, 0.0))
    if feedback is not filter.feedback:
        radius = _radius(_step(filter, linear))
        _RADII[linear] = filter.feedback, radius
    return radius


def _linear(filter: Filter) -> Linear | None:
    """The regression of the feedback; None where it is not linear."""
    regressor = filter.regressors[-1]
    linear = regressor.linear if isinstance(regressor, Forest) else regressor  # trees do not see the feedback
    return linear if isinstance(linear, Linear) else None


def _step(filter: Filter, linear: Linear) -> Float[np.ndarray, "r r"]:
    """The map from one feedback to the next."""
    return np.asarray(filter.feedback.linear(linear.weights[: len(filter.feedback.mean)]))


_RADII: WeakKeyDictionary[Linear, tuple[Feedback, float]] = WeakKeyDictionary()
"""The radius of each regressor that was asked for, with the feedback that it was computed for."""


def _radius(step: Float[np.ndarray, "r r"]) -> float:
    if len(step) <= NARROW:
        return float(np.abs(eigvals(step)).max())
    v, grown = np.random.default_rng(0).standard_normal((4, len(step))), 0.0
    for i in range(2 * POWERS):  # eigenvalues of a wide map take too long; the mean growth over many powers is close
        v = v @ step
        norm = float(np.linalg.norm(v)) + 1e-300
        grown, v = grown + (i >= POWERS) * np.log(norm), v / norm
    return float(np.exp(grown / POWERS))


def forgets(filter: Filter) -> bool:
    """Whether a linear filter forgets its start. One that does not may not have diverged yet, but will."""
    linear = _linear(filter)
    if linear is None or not filter.feedback.weight or _vanishes(_step(filter, linear)):
        return True
    radius = spectral_radius(filter)
    return radius is None or radius <= 1.0


def _vanishes(step: Float[np.ndarray, "r r"]) -> bool:
    """Whether a power of the map has a norm below 1, so that its spectral radius is below 1; False if none tried has.

    Most filters forget: a few products say so in a fraction of the time that eigenvalues take.
    """
    if len(step) > NARROW:  # eigenvalues are not computed, and products take as long
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(SQUARINGS):
            step = step @ step
            if np.linalg.norm(step) < 1:
                return True
    return False


def forgetful(filter: Filter) -> Filter:
    """The filter; if it is linear and nearly forgets its start, one with a little less feedback, which does forget it.

    A regression knows nothing of the loop that it closes: its spectral radius may come out just above 1, though its
    errors are the least of all. Far above 1 less feedback makes another filter. Without a box nothing is to be mended.
    """
    regressor = filter.regressors[-1]
    mendable = len(filter.regressors) == 1 and filter.feedback.low is not None
    if not mendable or not isinstance(regressor, Linear) or forgets(filter):
        return filter
    radius = spectral_radius(filter)
    if radius is None or not radius <= NEARLY:
        return filter
    less = np.ones((len(regressor.weights), 1))
    less[: len(filter.feedback.mean)] = LARGEST_POLE / radius
    return replace(filter, regressors=(replace(regressor, weights=regressor.weights * less),))


def best(rounds: Iterable[Round]) -> Round:
    """The round with the lowest closed-loop error."""
    winner = min(rounds, key=lambda r: r.error)
    if not np.isfinite(winner.error):
        raise DivergedError(
            "required one round with a finite closed-loop error, received none: every filter diverged. "
            "Use the box, init='history' or a larger ridge."
        )
    return winner
