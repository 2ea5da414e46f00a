"""Rows at equal distances in time: holes become rows that were not observed, the rest is mended where asked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.steps import JITTER, close_to, pooled_step, same_step
from psimlearn.recordings.times import Times, spoken, step_of
from psimlearn.shapes import Float, Int

__all__ = ["Regular", "Timing", "check_inputs", "regular"]

LONGEST = 2**62
"""Ticks between the first and the last row: differences of 64-bit numbers must not wrap around."""
MOST_EMPTY, SOME_EMPTY = 10, 1000
"""At most so many empty rows for each row, and so many more: a wrong date must not fill the memory."""


@dataclass(frozen=True)
class Timing:
    """How times become rows. The words are those of `Trajectories.from_frame`."""

    step: Any = "auto"
    """Seconds or a text such as "50ms"; "auto" for the usual step of the times; None to take rows as they are."""
    duplicates: Literal["refuse", "mean"] | Any = "refuse"
    sort: bool | Any = False
    resample: bool | Any = False

    def __post_init__(self) -> None:
        """Refuse words without a meaning."""
        if self.duplicates not in ("refuse", "mean"):
            raise SettingsError(f"duplicates: required 'refuse' or 'mean', received {self.duplicates!r:.80}.")
        for name in ("sort", "resample"):
            if not isinstance(getattr(self, name), bool | np.bool):
                raise SettingsError(f"{name}: required True or False, received {getattr(self, name)!r:.80}.")
        if self.resample and self.step is None:
            raise SettingsError(
                "resample: required a step or 'auto', received step=None. Name the step to resample to."
            )

    @property
    def seconds(self) -> float | None:
        """The step in seconds, if one was named."""
        return None if self.step is None or (isinstance(self.step, str) and self.step == "auto") else step_of(self.step)


class Regular(NamedTuple):
    """Rows at equal distances in time."""

    values: Float[np.ndarray, "rows columns"]
    """NaN in the rows that fill holes."""
    offsets: Int[np.ndarray, " edges"]
    step: float | None
    """Seconds; None if rows were taken as they are, or if no recording has two rows."""
    source: Int[np.ndarray, " rows"]
    """The row of the caller at each row, -1 where there is none: in holes, and wherever rows were resampled."""
    times: Times
    """The time of each row."""


class _Part(NamedTuple):
    """One recording."""

    values: Float[np.ndarray, "T columns"]
    ticks: np.ndarray
    source: Int[np.ndarray, " T"]
    name: str
    unit: float
    """Seconds in a tick."""
    place: Callable[[int], str]

    def called(self, row: int) -> str:
        """A row in the words of an error message."""
        return f"{self.name}, {self.place(int(self.source[row]))}"

    @property
    def seconds(self) -> Float[np.ndarray, " T"]:
        """Time since the first row."""
        return np.asarray((self.ticks - self.ticks[0]) * self.unit)

    @property
    def apart(self) -> Float[np.ndarray, " pairs"]:
        """Seconds from each row to the next."""
        return np.diff(self.ticks) * self.unit


def regular(
    values: Float[np.ndarray, "rows columns"],
    times: Times,
    offsets: Int[np.ndarray, " edges"],
    timing: Timing = Timing(),
    called: Callable[[int], str] = "trajectory {}".format,
    place: Callable[[int], str] = "row {}".format,
) -> Regular:
    """Rows at equal distances in time: holes become NaN, other irregularities are mended where asked, else refused.

    Args:
        values: packed rows; NaN means not observed.
        times: the time of each row.
        offsets: where each recording begins.
        timing: the step, and how to mend duplicates, unsorted rows and other rates.
        called: a recording in the words of an error message.
        place: a packed row in these words.
    """
    ordered = list(_ordered(values, times, offsets, timing, called, place))
    parts = [_without_duplicates(part, times, timing) for part in ordered]
    if timing.step is None:
        return _together(parts, None, times)
    step = timing.seconds or pooled_step([part.apart for part in parts])
    if step is None:  # single rows only
        return _together(parts, None, times)
    for part in parts:
        _check_room(part, step)
    if timing.resample:
        return _together([_resampled(part, step) for part in parts], step, times)
    for part in parts:
        _check_regular(part, step, times)
    return _together([_filled(part, step) for part in parts], step, times)


def check_inputs(
    inputs: Float[np.ndarray, "rows p"],
    source: Int[np.ndarray, " rows"],
    offsets: Int[np.ndarray, " edges"],
    ids: Sequence[Any],
    place: Callable[[int], str],
) -> None:
    """Refuse holes in time if there are inputs: these are known, so nobody may guess them.

    Args:
        inputs: of packed rows.
        source: the row of the caller at each row, -1 where there is none.
        offsets: where each recording begins.
        ids: the names of the recordings.
        place: a row of the caller in the words of an error message.
    """
    unknown = np.isnan(inputs).any(axis=1) & (source < 0)
    if unknown.any():
        row = int(np.argmax(unknown))
        i = int(np.searchsorted(offsets, row, side="right")) - 1
        before = source[offsets[i] : row]
        where = f"after {place(int(before[-1]))}" if len(before) and before[-1] >= 0 else f"row {row - offsets[i]}"
        raise DataError(
            f"trajectory {ids[i]!r}, {where}: required inputs at every step, received a hole in time. "
            "Add the missing rows with their inputs, and leave the channels empty there; or pass step=None."
        )


# -- one recording -----------------------------------------------------------------------------------------------------


def _ordered(
    values: Float[np.ndarray, "rows columns"],
    times: Times,
    offsets: Int[np.ndarray, " edges"],
    timing: Timing,
    called: Callable[[int], str],
    place: Callable[[int], str],
) -> Iterator[_Part]:
    """Each recording with times that do not fall: sorted where asked, else refused."""
    for i, (start, end) in enumerate(pairwise(offsets)):
        rows = np.arange(start, end)
        ticks = times.ticks[start:end]
        if float(ticks.max()) - float(ticks.min()) > LONGEST:
            raise DataError(
                f"{called(i)}: required times within 146 years (numbers: within 4.6e18), received more. Correct them."
            )
        falls = ticks[1:] < ticks[:-1]
        if falls.any():
            if not timing.sort:
                row = int(np.argmax(falls)) + 1
                raise DataError(
                    f"{called(i)}, {place(int(start) + row)}: required times that rise, received "
                    f"{times.shown(start + row)} after {times.shown(start + row - 1)}. Pass sort=True, or name the id "
                    "if there are several recordings."
                )
            rows = start + np.argsort(ticks, kind="stable")
        yield _Part(values[rows], times.ticks[rows], rows, called(i), times.unit, place)


def _without_duplicates(part: _Part, times: Times, timing: Timing) -> _Part:
    """Times that rise: rows of one time are averaged where asked, else refused."""
    again = np.diff(part.ticks) == 0
    if not again.any():
        return part
    if timing.duplicates == "refuse":
        row = int(np.argmax(again)) + 1
        raise DataError(
            f"{part.called(row)}: required one row for each time, received {times.shown(part.source[row])} twice. "
            "Pass duplicates='mean', drop one, or name the id if there are several recordings."
        )
    first = np.flatnonzero(np.concatenate([[True], ~again]))
    groups = np.cumsum(np.concatenate([[0], ~again]))
    return part._replace(
        values=_means(part.values, groups, len(first)), ticks=part.ticks[first], source=part.source[first]
    )


def _means(
    values: Float[np.ndarray, "T columns"], groups: Int[np.ndarray, " T"], n: int
) -> Float[np.ndarray, "n columns"]:
    """The mean of the observed values of each group of rows, NaN where there is none."""
    seen = ~np.isnan(values)
    sums, counts = np.zeros((2, n, values.shape[1]))
    np.add.at(sums, groups, np.where(seen, values, 0.0))
    np.add.at(counts, groups, seen)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _check_room(part: _Part, step: float) -> None:
    """Refuse, before any row is made, times that would need far more rows than there are."""
    needed, most = part.seconds[-1] / step, (1 + MOST_EMPTY) * len(part.ticks) + SOME_EMPTY
    if needed > most:
        row = int(np.argmax(part.apart))
        raise DataError(
            f"{part.name}: required times close together, received {len(part.ticks)} rows over {needed:.3g} steps of "
            f"{spoken(step)}, with {spoken(part.apart[row])} after {part.place(int(part.source[row]))}. Correct wrong "
            "times, name the step, or give the rows after a long hole another id."
        )


def _check_regular(part: _Part, step: float, times: Times) -> None:
    """Refuse rows that are no whole number of steps apart, and recordings with another step."""
    apart = part.apart
    if not len(apart):
        return
    ones = apart[close_to(apart, step)]
    slower = len(apart) > 2 and (apart > (2 - JITTER) * step).all()
    if slower or (len(ones) and not same_step(float(ones.mean()), step, len(ones))):
        theirs = pooled_step([apart]) or 0.0
        raise DataError(
            f"{part.name}: required a row every {spoken(step)}, received a row every {spoken(theirs)}. "
            "Pass resample=True, or name the step that all recordings are to have."
        )
    odd = ~close_to(apart, step) & (apart < 1.5 * step)
    if odd.any():
        row = int(np.argmax(odd)) + 1
        raise DataError(
            f"{part.called(row)}: required rows {spoken(step)} apart, or a whole number of such steps where rows "
            f"are missing, received {spoken(apart[row - 1])} before {times.shown(part.source[row])}; "
            f"{odd.sum()} of {len(apart)} rows are so. Pass resample=True, or step=None to take rows as equally far "
            "apart."
        )


def _filled(part: _Part, step: float) -> _Part:
    """The recording with NaN rows in its holes."""
    places = np.concatenate([[0], np.cumsum(np.rint(part.apart / step).astype(np.int64))])
    n = int(places[-1]) + 1
    if n == len(places):
        return part
    values, source = np.full((n, part.values.shape[1]), np.nan), np.full(n, -1)
    values[places], source[places] = part.values, part.source
    between = np.interp(np.arange(n), places, part.seconds)
    ticks = _later(part, between)
    ticks[places] = part.ticks  # exactly
    return part._replace(values=values, ticks=ticks, source=source)


def _resampled(part: _Part, step: float) -> _Part:
    """The recording at times one step apart: means where that is coarser, else on lines between neighbouring rows."""
    seconds, usual = part.seconds, pooled_step([part.apart])
    if usual is None:
        return part._replace(source=np.full(1, -1))
    if step >= 1.5 * usual:
        groups = np.floor(seconds / step + 0.5).astype(np.int64)
        values = _means(part.values, groups, int(groups[-1]) + 1)
    else:
        grid = np.arange(int(np.floor(seconds[-1] / step + 1e-6)) + 1) * step
        values = _interpolated(part.values, seconds, grid, 1.5 * max(usual, step), 1e-6 * step)
    ticks = _later(part, np.arange(len(values)) * step)
    return part._replace(values=values, ticks=ticks, source=np.full(len(values), -1))


def _interpolated(
    values: Float[np.ndarray, "T columns"],
    seconds: Float[np.ndarray, " T"],
    grid: Float[np.ndarray, " n"],
    widest: float,
    close: float,
) -> Float[np.ndarray, "n columns"]:
    """Values on the lines between neighbouring rows, NaN in holes: where these are further apart than `widest`."""
    left = np.clip(np.searchsorted(seconds, grid + close, side="right") - 1, 0, len(seconds) - 2)
    apart = np.diff(seconds)[left]
    share = ((grid - seconds[left]) / apart)[:, None]
    between = (1 - share) * values[left] + share * values[left + 1]
    between[apart > widest] = np.nan
    for row, at in ((left, grid - seconds[left]), (left + 1, grid - seconds[left + 1])):
        hit = np.abs(at) <= close  # at a row its values count alone, whatever is missing beside it
        between[hit] = values[row[hit]]
    return np.asarray(between)


def _later(part: _Part, seconds: Float[np.ndarray, " n"]) -> np.ndarray:
    """Ticks so many seconds after the first row."""
    ticks = seconds / part.unit
    whole = part.ticks.dtype.kind == "i" and part.unit < 1
    return np.asarray(part.ticks[0] + (np.rint(ticks).astype(np.int64) if whole else ticks))


def _together(parts: list[_Part], step: float | None, times: Times) -> Regular:
    return Regular(
        np.concatenate([part.values for part in parts]),
        np.cumsum([0, *(len(part.ticks) for part in parts)]),
        step,
        np.concatenate([part.source for part in parts]),
        Times(np.concatenate([part.ticks for part in parts]), times.kind),
    )
