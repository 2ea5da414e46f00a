"""Beliefs without a filter: phi(f_t) regressed on the last observations and inputs before t.

Missing observations are filled in by the same regression, in turn. A regression needs sums over all recordings only, so
`Step` holds all that a part of the recordings has to know of the others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.filter import Features, Linear, OneHot
from psimlearn.filter.gaps import ErrorSums, conditional_fill, error_sums
from psimlearn.filter.layout import Layout
from psimlearn.filter.onehot import onto_simplices
from psimlearn.learners import GramSums, Ridge, generalised_alpha
from psimlearn.recordings.shifted import Apart
from psimlearn.recordings.windows import carried_forward, futures, histories, late_before, settled, whole_futures
from psimlearn.shapes import Float
from psimlearn.train.examples import filled_features
from psimlearn.train.stacked import history_stats

__all__ = ["FILL_PASSES", "HistorySums", "Rows", "Step", "beliefs", "filled", "history_beliefs", "one_step_sums"]
__all__ += ["past_of", "regressed", "replayed", "sums_of"]

FILL_PASSES = 3
"""How often missing entries and history-regressed beliefs are refined in turn before training."""


class Rows(NamedTuple):
    """Scheduled rows on the way to beliefs."""

    x: Float[np.ndarray, "rows n"]
    """Observations, with missing ones filled in."""
    phi: Float[np.ndarray, "rows d"]
    """phi(f_t)."""


class HistorySums(NamedTuple):
    """Sums for one regression on history; those of several parts of the data are added."""

    stats: GramSums
    later: Float[np.ndarray, " d"]
    """The sum of phi over the rows of the regression."""
    first: Float[np.ndarray, " d"]
    """The sum of phi(f_1)."""
    n_first: int

    def plus(self, other: "HistorySums") -> "HistorySums":
        """The sums over both parts."""
        stats = Ridge().merge(self.stats, other.stats)
        return HistorySums(stats, self.later + other.later, self.first + other.first, self.n_first + other.n_first)


class Step(NamedTuple):
    """One regression on history."""

    regressor: Linear
    first: Float[np.ndarray, " d"]
    """The belief before the first row: the mean of phi(f_1)."""
    usual: Float[np.ndarray, " d"]
    """The mean of phi over the rows of the regression."""
    covariance: Float[np.ndarray, "n n"] | None = None
    """The covariance of one-step errors; None as long as it is not known."""


def history_beliefs(
    layout: Layout, features: Features, known: Apart | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The filled observations, the beliefs m^0_t and the features phi(f_t) at every row, and the errors' covariance.

    Sums are made from the products of rows that are `known`, if they are.
    """
    rows, m, covariance = unfilled(layout, features), np.empty(0), np.empty(0)
    for _ in range(FILL_PASSES if layout.gappy else 1):
        h = _histories(rows.x, layout, features)
        sums = sums_of(rows, layout, features, h) if known is None else _shared_sums(known, rows, layout, features)
        step = regressed(sums)
        m = beliefs(step, rows, layout, features, h)
        covariance = one_step_sums(m, layout, features).covariance()
        if layout.gappy:
            rows = filled(step._replace(covariance=covariance), m, layout, features)
    return rows.x, m, rows.phi, covariance


def replayed(
    layout: Layout, features: Features, steps: Sequence[Step], gappy: bool
) -> tuple[Rows, Float[np.ndarray, "rows d"] | None]:
    """The rows after some regressions, and the beliefs of the last; None without any.

    Args:
        layout: a part of the recordings.
        features: what a belief is.
        steps: the regressions, which all parts share.
        gappy: whether anything is missing in any part.
    """
    rows, m = unfilled(layout, features), None
    for i, step in enumerate(steps):
        if gappy or i == len(steps) - 1:
            m = beliefs(step, rows, layout, features, _histories(rows.x, layout, features))
        if m is not None and layout.gappy and step.covariance is not None:
            rows = filled(step, m, layout, features)
    return rows, m


def unfilled(layout: Layout, features: Features) -> Rows:
    """The rows before the first regression: missing entries repeat the last one seen."""
    x = carried_forward(layout.x, layout.plan) if layout.gappy else layout.x
    if isinstance(features, OneHot):  # before the first symbol there is none to carry forward
        x = np.where(x.any(axis=1, keepdims=True), x, np.nanmean(layout.x, axis=0))
    return Rows(x, features(futures(x, layout.plan, features.window)))


def sums_of(
    rows: Rows, layout: Layout, features: Features, h: Float[np.ndarray, "rows past"] | None = None
) -> HistorySums:
    """The sums of the next regression."""
    later, phi = whole_futures(layout.plan, features.window, first=False), rows.phi
    h = _histories(rows.x, layout, features) if h is None else h
    first = phi[layout.plan.block(0)]
    return HistorySums(Ridge().summarise(h[later], phi[later]), phi[later].sum(axis=0), first.sum(axis=0), len(first))


def _shared_sums(known: Apart, rows: Rows, layout: Layout, features: Features) -> HistorySums:
    """As `sums_of`, from products of rows that other sums share."""
    stats, first = history_stats(known, past_of(features), features.window), rows.phi[layout.plan.block(0)]
    return HistorySums(stats, stats.y, first.sum(axis=0), len(first))


def regressed(sums: HistorySums) -> Step:
    """The regression of these sums; its covariance is not known yet."""
    regressor = Ridge(generalised_alpha(sums.stats)).solve(sums.stats)
    return Step(regressor, sums.first / sums.n_first, sums.later / sums.stats.n)


def beliefs(
    step: Step, rows: Rows, layout: Layout, features: Features, h: Float[np.ndarray, "rows past"]
) -> Float[np.ndarray, "rows d"]:
    """m^0_t at every row."""
    m: np.ndarray = step.regressor(h)
    m[layout.plan.block(0)] = step.first
    if isinstance(features, OneHot):
        m = onto_simplices(m, features.n_simplices)
        m = np.where(np.isnan(m), step.usual, m)  # a regression gave negative values only
    return m


def one_step_sums(
    m: Float[np.ndarray, "rows d"], layout: Layout, features: Features, enough: int | None = None
) -> ErrorSums:
    """Sums over the one-step errors of beliefs, once their start is forgotten; `enough` as in `settled`."""
    late = late_before(layout.x, layout.plan)
    return error_sums((layout.x - _expected(m, features))[settled(layout.plan, late, enough)[0]])


def filled(step: Step, m: Float[np.ndarray, "rows d"], layout: Layout, features: Features) -> Rows:
    """The rows with missing entries filled in by beliefs."""
    assert step.covariance is not None
    x = conditional_fill(layout.x, _expected(m, features), step.covariance)
    return Rows(x, filled_features(features, layout, x, m))


def _expected(m: Float[np.ndarray, "rows d"], features: Features) -> Float[np.ndarray, "rows n"]:
    return features.observations(m)[:, 0]


def _histories(x: Float[np.ndarray, "rows n"], layout: Layout, features: Features) -> Float[np.ndarray, "rows past"]:
    """The last observations and inputs before every row."""
    return histories(np.concatenate([x, layout.u], axis=1), layout.plan, past_of(features))


def past_of(features: Features) -> int:
    """How many rows of past beliefs are regressed on."""
    return max(10, 2 * features.window)
