"""Alarms: rows that are less likely than all but a small share of normal rows.

The score of a row is its log-likelihood less its expectation, so that first rows and rows in a gap, of which less is
known, can be compared with other rows. An alarm begins at a row whose score lies below the threshold of the rate asked
for. It ends once `CALM` observed rows in succession lie above the threshold of a ten times larger rate. Rows in which
nothing was observed change nothing.
"""

from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.likelihood import about_row, contributions, displacement, log_likelihood, moving
from psimlearn.filter.onehot import OneHot
from psimlearn.filter.rollout import rolled
from psimlearn.filter.step import State
from psimlearn.filter.thresholds import RATES, Thresholds
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Alarms", "Bell", "Scored", "alarm_scores", "alarms", "channels_in_alarm", "known_thresholds", "ringing"]

MILDER = 10.0
"""The rate of the threshold above which an alarm ends, over the rate of the threshold at which it begins."""
CALM = 5
"""Observed rows in succession above the milder threshold that end an alarm."""


class Scored(NamedTuple):
    """Rows with their scores."""

    score: Float[np.ndarray, " b"]
    """The log-likelihood less its expectation, in nats."""
    seen: Bool[np.ndarray, " b"]
    """Whether anything was observed."""


class Alarms(NamedTuple):
    """The alarms of whole recordings, one entry for each row, in the form of the recordings."""

    alarm: Any
    """Whether the row is part of an alarm."""
    channel: Any
    """The channel that contributed most to the low likelihood of a row in alarm, by name, or by number if it has none.

    None for other rows, and for filters of symbols.
    """
    score: Any
    """The log-likelihood of the row less its expectation, in nats; 0 where nothing was observed.

    If only some channels were observed: the score of a row with all channels that would be as improbable.
    """


class Bell(NamedTuple):
    """The state of the alarms of b streams: it tells whether each of them rings."""

    threshold: float
    mild: float
    """The threshold above which rows are calm."""
    rings: Bool[np.ndarray, " b"]
    calm: Int[np.ndarray, " b"]
    """The number of calm rows in succession."""

    @classmethod
    def of(cls, thresholds: Thresholds, rate: float | None, n_streams: int) -> "Bell":
        """Streams without an alarm, for this rate or, if it is None, for the usual one."""
        rate = thresholds.checked(rate)
        mild = thresholds.at(min(MILDER * rate, RATES[-1]))
        return cls(thresholds.at(rate), mild, np.zeros(n_streams, dtype=bool), np.zeros(n_streams, dtype=np.int64))

    def after(self, row: Scored) -> "Bell":
        """The state after one more row of each stream."""
        calm = np.where(row.seen, np.where(row.score < self.mild, 0, self.calm + 1), self.calm)
        begins = row.seen & (row.score < self.threshold)
        return self._replace(rings=begins | (self.rings & (calm < CALM)), calm=calm)

    def begun_again(self, chosen: Bool[np.ndarray, " b"]) -> "Bell":
        """The state with some streams as at their start."""
        return self._replace(rings=self.rings & ~chosen, calm=np.where(chosen, 0, self.calm))


def known_thresholds(filter: Learnt) -> Thresholds:
    """The thresholds of a filter, or an error that tells how to get them."""
    if filter.thresholds is None:
        raise SettingsError(
            "alarms: required a model with thresholds, received one without, as older versions wrote it. Call "
            "alarm_threshold with normal recordings, or fit again."
        )
    return filter.thresholds


def alarms(filter: Learnt, trajectories: Trajectories, rate: float | None = None) -> Alarms:
    """The alarms of whole recordings, one entry for each row.

    Args:
        filter: a filter with thresholds.
        trajectories: recordings.
        rate: the share of normal rows whose score lies below the threshold; None for the rate that the filter keeps.
    """
    bell = Bell.of(known_thresholds(filter), rate, 1)
    rollout = rolled(filter, trajectories, about_row)
    plan, x, doubt = rollout.layout.plan, rollout.layout.x, rollout.read_before
    scored = alarm_scores(filter, rollout.before, x, doubt)
    packed = Scored(plan.packed(scored.score), plan.packed(scored.seen))
    alarm = ringing(bell, packed, trajectories.offsets)
    channel = np.full(len(alarm), None)
    channel[plan.order] = channels_in_alarm(filter, alarm[plan.order], rollout.before, x, doubt)
    return Alarms(alarm, channel, packed.score)


def alarm_scores(
    filter: Learnt, before: State, x: Float[np.ndarray, "b n"], doubt: Float[np.ndarray, "b n n"] | None = None
) -> Scored:
    """The scores of one standardised row of each stream; the arguments are as in `log_likelihood`.

    The more channels are observed, the more scores vary. So the squared distance of a row with k of n channels becomes
    the distance of a row with n channels that is as improbable, by the cube root of Wilson and Hilferty: the cube root
    of the mean of k squares of Gaussian errors is nearly Gaussian, with mean 1 - 2/(9k) and variance 2/(9k).
    """
    lost, observed = displacement(filter, x), (~np.isnan(x)).any(axis=1)
    x = moving(filter, x)
    k, n = (~np.isnan(x)).sum(axis=1), x.shape[1]
    score = log_likelihood(filter, before, x, doubt, relative=True) + 0.0  # no -0
    if isinstance(filter.features, OneHot):
        return Scored(score, k == n)
    if filter.calibration is not None:
        n -= int(filter.calibration.still.sum())
    some = np.flatnonzero((k > 0) & (k < n))
    few, all = 2 / (9 * k[some]), 2 / (9 * max(n, 1))
    root = (1 - 2 * score[some] / k[some]) ** (1 / 3)
    score[some] = 0.5 * n * (1 - (1 - all + (root - 1 + few) * np.sqrt(all / few)) ** 3)
    return Scored(score - lost, observed)


def ringing(bell: Bell, rows: Scored, offsets: Int[np.ndarray, " edges"]) -> Bool[np.ndarray, " rows"]:
    """Whether each row of whole recordings is part of an alarm; the same as `Bell.after`, row after row.

    A row is part of an alarm if the last low score in its recording came after the last moment of calm.
    """
    place = np.arange(len(rows.score))
    start = np.repeat(offsets[:-1], np.diff(offsets))
    low, strange = rows.seen & (rows.score < bell.threshold), rows.seen & (rows.score < bell.mild)
    n_seen = np.cumsum(rows.seen)
    before = np.where(start > 0, n_seen[start - 1], 0)
    last_strange = np.maximum.accumulate(np.where(strange, place, -1))
    calm = n_seen - np.where(last_strange >= start, n_seen[last_strange], before)
    last_calm = np.maximum.accumulate(np.where(calm >= CALM, place, -1))
    last_low = np.maximum.accumulate(np.where(low, place, -1))
    return np.asarray((last_low >= start) & (last_low > last_calm))


def channels_in_alarm(
    filter: Learnt,
    rings: Bool[np.ndarray, " b"],
    before: State,
    x: Float[np.ndarray, "b n"],
    doubt: Float[np.ndarray, "b n n"] | None,
) -> np.ndarray:
    """The channel that contributes most to the distance of each row that rings, by name, or by number without names.

    None for other rows, for rows without observation, and for filters of symbols.
    """
    found = np.full(len(x), None)
    some = np.flatnonzero(rings)  # each needs a matrix, and few ring
    if isinstance(filter.features, OneHot) or not len(some):
        return found
    share = contributions(filter, before.at(some), x[some], None if doubt is None else doubt[some])
    known = ~np.isnan(share).all(axis=1)
    names = list(range(x.shape[1])) if filter.names is None else filter.names
    found[some[known]] = [names[c] for c in np.nanargmax(share[known], axis=1)]
    return found
