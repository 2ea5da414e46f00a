"""The numbers behind a report: how often intervals cover, how errors correlate, which rows surprise."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.evaluate.calibrate import Unseen, with_calibration
from psimlearn.evaluate.folds import cut
from psimlearn.filter import Filter
from psimlearn.filter.predict import foretold
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import foretelling, row_times
from psimlearn.shapes import Float

__all__ = [
    "Ahead",
    "Surprise",
    "autocorrelation",
    "correlation",
    "coverage",
    "covered",
    "cross_calibrated",
    "longest_gap",
    "one_step_errors",
    "surprises",
    "ways_ahead",
]


class Ahead(NamedTuple):
    """A way to predict: how many rows ahead, and whether the inputs of these rows are known."""

    horizon: int
    inputs_known: bool = True
    has_inputs: bool = False

    def __str__(self) -> str:
        steps = f"{self.horizon} step{'s' * (self.horizon > 1)} ahead"
        return f"{steps}, inputs {'known' if self.inputs_known else 'unknown'}" if self.has_inputs else steps


def ways_ahead(filter: Filter, horizons: Sequence[int]) -> list[Ahead]:
    """The ways to predict that have intervals: each horizon, and with inputs also as if these were not known."""
    inputs, blind = filter.input_scaling is not None, filter.calibration_blind is not None
    ways = []
    for horizon in dict.fromkeys(horizons):
        ways.append(Ahead(horizon, has_inputs=inputs))
        if blind and horizon <= filter.features.window and (horizon > 1 or filter.feedthrough):
            ways.append(Ahead(horizon, False, inputs))
    return ways


def coverage(
    filter: Filter, data: Trajectories, horizon: int, levels: Sequence[float], *, inputs_known: bool = True
) -> Float[np.ndarray, " levels"]:
    """The share of observed entries within intervals of each level; NaN where no row can be used: see `covered`."""
    inside, known = covered(filter, data, Ahead(horizon, inputs_known), levels)
    return inside / known if known else np.full(len(levels), np.nan)


def covered(
    filter: Filter, data: Trajectories, ahead: Ahead, levels: Sequence[float]
) -> tuple[Float[np.ndarray, " levels"], int]:
    """How many observed entries lie within intervals of each level, and how many there are.

    The first rows of a recording, which are predicted from nothing, are left out, and so are constant channels. The
    inputs of predicted rows are known, or within the window they may be unknown.
    """
    horizon, inputs_known, _ = ahead
    prediction = foretold(filter, data, horizon, inputs_known=inputs_known).at(foretelling(data.offsets, horizon))
    known = (row_times(data.offsets) >= horizon)[:, None] & ~np.isnan(data.values) & ~np.isnan(prediction.std)
    if filter.calibration is not None:
        known &= ~filter.calibration.still
    inside = []
    for level in levels:
        low, high = prediction.interval(level)
        inside.append(np.sum(known & (low <= data.values) & (data.values <= high)))
    return np.array(inside, dtype=float), int(known.sum())


def cross_calibrated(unseen: Sequence[Unseen]) -> list[Unseen]:
    """Filters calibrated on one half of the recordings held out from them, each paired with the other half.

    On the half where it was calibrated, any filter would look right. Recordings too short to be cut are left out.
    """
    crossed = []
    for filter, held in unseen:
        for here, there in _halves(held):
            crossed.append((with_calibration(filter, [(filter, here)]), there))
    return crossed


def _halves(held: Trajectories) -> list[tuple[Trajectories, Trajectories]]:
    """Two halves in both orders: every other recording, or one recording cut in the middle; none of under 4 rows."""
    rows = len(held.values)
    if len(held) == 1 and rows < 4:
        return []
    first, second = (held[::2], held[1::2]) if len(held) > 1 else cut(held, (rows + 1) // 2)
    return [(first, second), (second, first)]


def one_step_errors(unseen: Sequence[Unseen]) -> list[Float[np.ndarray, "_ n"]]:
    """One-step errors in standard deviations of the channels, recording by recording, without the first row."""
    parts: list[np.ndarray] = []
    for filter, held in unseen:
        errors = (held.values - filter.forecast(held, 1)[:, 0]) / filter.scaling.scale
        parts += [each[1:] for each in held.unpacked(errors)]
    return parts


def autocorrelation(errors: Sequence[Float[np.ndarray, "_ n"]], n_lags: int) -> Float[np.ndarray, "lags n"]:
    """Correlation of errors 1 to `n_lags` rows apart within a recording, pooled; NaN where no two were observed."""
    mean = np.nanmean(np.concatenate(errors), axis=0)
    power = np.nanmean((np.concatenate(errors) - mean) ** 2, axis=0)
    rows = []
    for lag in range(1, n_lags + 1):
        products = np.concatenate([(e[lag:] - mean) * (e[:-lag] - mean) for e in errors if len(e) > lag])
        seen = ~np.isnan(products)
        count = seen.sum(axis=0)
        total = np.where(seen, products, 0.0).sum(axis=0)
        rows.append(
            np.where((count > 0) & (power > 0), total / np.maximum(count, 1) / np.where(power > 0, power, 1), np.nan)
        )
    return np.array(rows)


def correlation(errors: Sequence[Float[np.ndarray, "_ n"]]) -> Float[np.ndarray, "n n"]:
    """Correlation between channels, from rows where all were observed; zero where a channel does not vary."""
    rows = np.concatenate(errors)
    whole = rows[~np.isnan(rows).any(axis=1)]
    if len(whole) < 2:
        return np.eye(rows.shape[1])
    centred = whole - whole.mean(axis=0)
    std = centred.std(axis=0)
    unit = centred / np.where(std > 0, std, 1.0)
    return np.asarray(unit.T @ unit / len(whole))


class Surprise(NamedTuple):
    """A row of low log-likelihood."""

    recording: int
    row: int
    nats: float
    """The log-likelihood of the row."""
    channel: int
    """The channel whose error was largest."""
    deviations: float
    """That error, in standard deviations."""


def surprises(filter: Filter, data: Trajectories, n: int, apart: int) -> list[Surprise]:
    """The rows with the least log-likelihood, no two of them closer than `apart` in one recording."""
    nats = filter.log_likelihood(data)
    errors = (data.values - filter.forecast(data, 1)[:, 0]) / filter.scaling.scale
    off = np.nan_to_num(errors / np.sqrt(np.diag(filter.covariance)))
    found: list[Surprise] = []
    for place in np.argsort(nats, kind="stable"):
        recording = int(np.searchsorted(data.offsets, place, side="right")) - 1
        row = int(place - data.offsets[recording])
        if row == 0 or any(s.recording == recording and abs(s.row - row) < apart for s in found):
            continue
        channel = int(np.argmax(np.abs(off[place])))
        found.append(Surprise(recording, row, float(nats[place]), channel, float(off[place, channel])))
        if len(found) == n:
            break
    return found


def longest_gap(values: Float[np.ndarray, "T"]) -> int:
    """The largest number of consecutive rows that were not observed."""
    edges = np.diff(np.concatenate([[0], np.isnan(values).astype(int), [0]]))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return int((ends - starts).max(initial=0))
