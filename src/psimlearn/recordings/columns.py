"""One column of a data frame: as numbers, or as times."""

from typing import Any

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.arrays import is_number
from psimlearn.recordings.times import Times, times_of
from psimlearn.shapes import Bool, Float

__all__ = ["called", "column_times", "holds_numbers", "holds_words", "missing", "numbers", "words"]


def called(column: "nw.Series[Any]") -> str:
    """A column in the words of an error message; the levels of an index may have no name."""
    return "the index" if column.name is None else f"column {column.name!r}"


def numbers(column: "nw.Series[Any]", where: str) -> Float[np.ndarray, " rows"]:
    """A column as float64, null as NaN."""
    if column.dtype == nw.Object and all(map(is_number, column.to_list())):
        return np.array([np.nan if entry is None else entry for entry in column.to_list()], dtype=np.float64)
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        advice = (
            f"If it is the time, call Trajectories.from_frame(frame, time={column.name!r})."
            if column.dtype.is_temporal()
            else "Text that stands for symbols is learnt with features='onehot'."
        )
        raise DataError(
            f"{where}column {column.name!r}: required numbers, received {column.dtype}. Convert it, or leave it out of "
            f"channels, inputs and hints. {advice}"
        )
    return column.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)


def holds_words(column: "nw.Series[Any]") -> bool:
    """Whether a column holds categories or text, and no numbers; true and false are numbers."""
    if column.dtype == nw.Object:
        return not all(map(is_number, column.to_list()))
    return column.dtype in (nw.String, nw.Categorical, nw.Enum)


def holds_numbers(column: "nw.Series[Any]") -> bool:
    """Whether a column holds numbers, or true and false, at least one of them if the library has no type for it."""
    if column.dtype == nw.Object:
        return not column.is_null().all() and not holds_words(column)
    return column.dtype.is_numeric() or column.dtype == nw.Boolean


def words(column: "nw.Series[Any]") -> list[Any]:
    """The cells of a column of words; None where there is none."""
    return [None if absent else cell for cell, absent in zip(column.to_list(), missing(column), strict=True)]


def missing(column: "nw.Series[Any]") -> Bool[np.ndarray, " rows"]:
    """Where a column holds null or NaN."""
    null = column.is_null()
    return (null | column.is_nan() if column.dtype.is_float() else null).to_numpy().astype(bool)


def column_times(column: "nw.Series[Any]", format: Any, where: str) -> Times:
    """A column as times, of which none may be missing.

    Args:
        column: numbers, dates, durations or texts.
        format: how texts are written; None for numbers and ISO 8601.
        where: words before an error message.
    """
    where = f"{where}{called(column)}, frame row"
    absent = missing(column)
    if absent.any():
        raise DataError(f"{where} {int(np.argmax(absent))}: required a time, received none. Drop the row.")

    def place(row: int) -> str:
        return f"{where} {row}"

    kind = column.dtype
    if kind == nw.Duration:
        return Times(column.dt.total_nanoseconds().to_numpy().astype(np.int64), "duration")
    if kind == nw.Datetime or kind == nw.Date:
        stamps = column.cast(nw.Datetime("us")) if kind == nw.Date else column
        seconds = stamps.dt.timestamp("ms").to_numpy().astype(np.int64) // 1000
        times_of(seconds.astype("M8[s]"), place=place)  # an error for a year that nanoseconds cannot hold
        zoned = getattr(kind, "time_zone", None) is not None
        return Times(stamps.dt.timestamp("ns").to_numpy().astype(np.int64), "instant" if zoned else "local")
    return times_of(column.to_numpy() if kind.is_numeric() else column.to_list(), format, place)
