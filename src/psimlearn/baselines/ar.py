"""Autoregression: ridge regression of the coming observations on the last ones, each horizon directly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, get_args

import numpy as np

from psimlearn.baselines.constant import LastObservation
from psimlearn.checks import counts, number, one_of, whole
from psimlearn.errors import DataError
from psimlearn.evaluate import Forecaster, errors_by_horizon
from psimlearn.filter import Linear, Scaling
from psimlearn.filter.gaps import conditional_fill, error_covariance
from psimlearn.filter.scaling import standardisation
from psimlearn.learners import Ridge
from psimlearn.recordings.schedule import Schedule, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import carried_forward, example_rows, futures, lag_places
from psimlearn.shapes import Float, Int

__all__ = ["Autoregression", "Prior"]

Prior = Literal["mean", "last"]
RIDGES = tuple(10.0**power for power in range(-8, 2))
"""Penalties to choose from, per example."""
N_REFILLS = 2
"""How often missing entries are filled in by an autoregression, to fit one again."""
PILOT = 1e-3
"""The penalty of the autoregression that fills in missing entries."""


@dataclass(frozen=True, eq=False)
class Autoregression:
    """Predicts each of the next `horizon` rows from the last `lags`; rows further ahead by feeding predictions back.

    Observations are standardised; missing ones are filled in from their predictions and the channels seen. Before the
    first row of a trajectory, the average beginning of trajectories is predicted; soon after, the first row stands for
    the rows before it.
    """

    regressor: Linear
    """From standardised lags, newest first, to standardised futures (less the last observation, by prior)."""
    lags: int
    horizon: int
    prior: Prior
    alpha: float
    scaling: Scaling
    initial: Float[np.ndarray, "horizon n"]
    """The average first rows of trajectories, standardised."""
    covariance: Float[np.ndarray, "n n"]
    """Covariance of the standardised one-step errors."""

    @classmethod
    def fit(
        cls, train: Trajectories, lags: int = 5, horizon: int = 5, *, alpha: float = 1e-6, prior: Prior = "mean"
    ) -> "Autoregression":
        """Regress at every row that has `lags - 1` rows before it and `horizon` rows after it in its trajectory.

        Args:
            train: recordings.
            lags: how many observations to predict from.
            horizon: how many rows ahead to predict directly.
            alpha: penalty per example on the weights of standardised observations.
            prior: the prediction that a large penalty leads to: the "mean" of each channel, or its "last" observation.
        """
        return _fitted(train, lags, horizon, [(alpha, prior)])[0]

    @classmethod
    def tuned(
        cls,
        train: Trajectories,
        validation: Trajectories,
        lags: int | Sequence[int] = 5,
        horizon: int = 5,
        *,
        alphas: Sequence[float] = RIDGES,
        priors: Sequence[Prior] = ("mean", "last"),
        criterion: Literal["one-step", "window"] = "one-step",
        skip: int | None = None,
    ) -> "Autoregression":
        """The penalty, the prior and the lags with the least error on validation recordings.

        Args:
            train: recordings to fit.
            validation: recordings to choose by.
            lags: one number of lags, or several to choose from.
            horizon: how many rows ahead to predict directly.
            alphas: penalties to choose from.
            priors: priors to choose from.
            criterion: the error of standardised channels one step ahead, or the mean over the whole "window" of
                horizons, each relative to the error of the last observation.
            skip: rows at the beginning of a recording that do not count. By default the rows before which not all lags
                exist, as far as recordings are long enough: the stand-ins for missing lags predict badly, which is no
                reason for a larger penalty.
        """
        one_of(criterion, ("one-step", "window"), "criterion")
        several = counts(lags, "lags")
        models = [model for p in several for model in _fitted(train, p, horizon, list(product(alphas, priors)))]
        steps = 1 if criterion == "one-step" else horizon
        scale = models[0].scaling.scale
        if skip is None:
            skip = min(max(several), int(validation.lengths.max()) - steps)
        whole(max(skip, 0), "skip", 0)

        def errors(model: Forecaster) -> Float[np.ndarray, " steps"]:
            return errors_by_horizon(model, validation, steps, skip=max(skip, 0), scale=scale)

        last = errors(LastObservation.fit(train))
        usual = np.where(last > 0, last, 1.0)
        return min(models, key=lambda model: np.mean(errors(model) / usual))

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Direct predictions up to the fitted horizon; beyond it, the last direct step from predicted rows."""
        plan = schedule(trajectories.offsets)
        x = self.filled(self.scaling(trajectories.values)[plan.order], plan)
        recent = x[_places_before(plan, self.lags)]
        recent[plan.block(0)] = self.initial[0]
        direct = self._after(recent)
        direct[plan.block(0)] = self.initial
        ahead = [direct[:, :horizon]]
        for _ in range(horizon - self.horizon):
            recent = np.concatenate([direct[:, :1], recent[:, :-1]], axis=1)
            direct = self._after(recent)
            ahead.append(direct[:, -1:])
        return plan.packed(self.scaling.undo(np.concatenate(ahead, axis=1)))

    def filled(self, x: Float[np.ndarray, "rows n"], plan: Schedule) -> Float[np.ndarray, "rows n"]:
        """Standardised, scheduled rows with missing entries filled in, row after row."""
        if not np.isnan(x).any():
            return x
        out, places = x.copy(), _places_before(plan, self.lags)
        expected = np.tile(self.initial[0], (len(x[plan.block(0)]), 1))
        for block in plan.blocks():
            if block.start:
                expected = self._after(out[places[block]])[:, 0]
            out[block] = conditional_fill(x[block], expected, self.covariance)
        return out

    def _after(self, recent: Float[np.ndarray, "rows lags n"]) -> Float[np.ndarray, "rows horizon n"]:
        """The rows expected after the last observations, which come newest first."""
        ahead: np.ndarray = self.regressor(recent.reshape(len(recent), -1)).reshape(len(recent), self.horizon, -1)
        return ahead + recent[:, :1] if self.prior == "last" else ahead


def _fitted(
    train: Trajectories, lags: int, horizon: int, settings: Sequence[tuple[float, Prior]]
) -> list[Autoregression]:
    """One autoregression for each penalty and prior, from the same examples."""
    whole(lags, "lags")
    whole(horizon, "horizon")
    for alpha, prior in settings:
        number(alpha, "alpha")
        one_of(prior, get_args(Prior), "prior")
    scaling, plan = standardisation(train.values), schedule(train.offsets)
    rows = np.count_nonzero(plan.reaches(1 - lags) & plan.reaches(horizon))
    if rows < 2:
        raise DataError(
            f"too little data: required 2 stretches of {lags + horizon} rows within trajectories, for {lags} lags and "
            f"a horizon of {horizon}; received {rows}, the longest trajectory having {train.lengths.max()} rows. Use "
            "longer recordings, fewer lags or a smaller horizon."
        )
    seen = scaling(train.values)[plan.order]
    blank = Autoregression(
        Linear(np.zeros((0, 0)), np.zeros(0)),
        lags,
        horizon,
        "last",
        PILOT,
        scaling,
        _beginning(futures(seen, plan, horizon)[plan.block(0)]),
        np.eye(train.n_channels),
    )
    x = carried_forward(seen, plan)
    for _ in range(N_REFILLS if np.isnan(seen).any() else 0):
        x = next(_regressed(blank, [PILOT], x, seen, plan)).filled(seen, plan)
    priors = dict.fromkeys(prior for _, prior in settings)
    return [
        model
        for prior in priors
        for model in _regressed(replace(blank, prior=prior), [a for a, p in settings if p == prior], x, seen, plan)
    ]


def _regressed(
    blank: Autoregression,
    alphas: Sequence[float],
    x: Float[np.ndarray, "rows n"],
    seen: Float[np.ndarray, "rows n"],
    plan: Schedule,
) -> Iterator[Autoregression]:
    """Ridge regressions on the last rows of x, one per penalty; errors of the next row count where it was observed."""
    rows, targets = example_rows(plan, blank.horizon)
    past = plan.reaches(1 - blank.lags)[rows]
    z = x[lag_places(plan, blank.lags)][rows][past]
    f, truth = futures(x, plan, blank.horizon)[targets][past], seen[targets][past]
    stays = z[:, :1] if blank.prior == "last" else np.zeros_like(z[:, :1])
    inputs, n = z.reshape(len(z), -1), x.shape[1]
    sums = Ridge().summarise(inputs, (f - stays).reshape(len(f), -1))
    for alpha in alphas:
        B = Ridge(alpha).solve(sums)
        errors = truth - stays[:, 0] - inputs @ B.weights[:, :n] - B.intercept[:n]
        yield replace(blank, regressor=B, alpha=alpha, covariance=error_covariance(errors))


def _places_before(plan: Schedule, lags: int) -> Int[np.ndarray, "rows lags"]:
    """The scheduled rows of x_{t-1}, .., x_{t-lags}; the first row is repeated before the beginning."""
    places: np.ndarray = lag_places(plan, lags)[plan.place(-1)]
    return places


def _beginning(f: Float[np.ndarray, "m horizon n"]) -> Float[np.ndarray, "horizon n"]:
    """Means of the observed entries; zero, the mean of all rows, where nothing was observed."""
    seen = ~np.isnan(f)
    count = np.maximum(seen.sum(axis=0), 1)
    return np.asarray(np.where(seen, f, 0.0).sum(axis=0) / count)
