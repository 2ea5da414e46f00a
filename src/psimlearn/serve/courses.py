"""Rows of one stream in the order in which they are taken: missed rows are put in, wrong times are refused."""

import copy
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.times import Moment, moment_of
from psimlearn.serve.intake import Batch
from psimlearn.serve.rows import ParsedRow
from psimlearn.serve.rowtimes import RowTimes
from psimlearn.serve.served import Served
from psimlearn.shapes import Float, Int

__all__ = ["BEGINS", "Course", "Planned", "filled"]

BEGINS = -1
"""In place of the number of rows missed: a new recording begins."""


class Planned(NamedTuple):
    """The rows of a batch that will be taken."""

    rows: Int[np.ndarray, " k"]
    """The numbers of these rows in their batch."""
    numbers: Float[np.ndarray, "k columns"]
    arrivals: Int[np.ndarray, " k"] | None
    """How many rows were missed before each row, or `BEGINS`; None if nothing was missed."""
    refused: dict[int, str]
    """Why other rows of the batch are not taken."""
    notes: dict[int, str]
    written: list[Any] | None
    """The times of the rows that will be taken, as they were written."""

    @property
    def n_missed(self) -> int:
        """How many rows were missed before these rows."""
        return 0 if self.arrivals is None else int(np.maximum(self.arrivals, 0).sum())


class Course:
    """The times and the count of one stream while rows are planned; the stream itself does not change."""

    def __init__(self, n_rows: int, times: RowTimes | None) -> None:
        self.n_rows = n_rows
        self.times = times and copy.copy(times)

    def planned(self, batch: Batch, served: Served) -> Planned:
        """Plan the rows of a batch; DataError if the batch as a whole does not fit."""
        if batch.times is None and batch.at is None and not served.n_inputs:
            self.n_rows += len(batch.numbers)
            return Planned(np.arange(len(batch.numbers)), batch.numbers, None, {}, dict(batch.notes), None)
        refused: dict[int, str] = {}
        notes = dict(batch.notes)
        n = len(served.channels)
        if served.n_inputs:
            for i in np.flatnonzero(~np.isfinite(batch.numbers[:, n:]).all(axis=1)).tolist():
                refused[i] = "required finite inputs, received a row without: inputs must be known."
        if batch.at is not None:
            self._skip(batch, batch.at, served, refused)
        arrivals = None
        if batch.times is not None:
            found = [self._arrival(batch, i, served, refused, notes) for i in range(len(batch.numbers))]
            arrivals = np.array([missed for i, missed in enumerate(found) if i not in refused], dtype=np.int64)
            arrivals = arrivals if arrivals.any() else None
        rows = np.array([i for i in range(len(batch.numbers)) if i not in refused], dtype=np.int64)
        self.n_rows += len(rows)
        written = None if batch.times is None else [batch.times[i] for i in rows.tolist()]
        return Planned(rows, batch.numbers[rows] if refused else batch.numbers, arrivals, refused, notes, written)

    def _skip(self, batch: Batch, at: int, served: Served, refused: dict[int, str]) -> None:
        """Refuse rows that were taken before, by the count of the sender: rows that were ignored do not count."""
        if at > self.n_rows:
            raise DataError(
                f"at: required at most {self.n_rows}, the number of rows that were taken, received {at}. Send the rows "
                "between them first."
            )
        row, latest = at, None
        for i in range(len(batch.numbers)):
            if row == self.n_rows:
                break
            try:
                moment = None if batch.times is None else _moment(batch.times[i], served)
            except DataError:  # it is refused for this
                continue
            if i not in refused and (moment is None or self.times is None or self.times.may_have_had(moment, latest)):
                refused[i] = f"row {row} was taken before."
                row, latest = row + 1, moment or latest

    def _arrival(self, batch: Batch, i: int, served: Served, refused: dict[int, str], notes: dict[int, str]) -> int:
        """How many rows were missed before a row, by its time."""
        if i in refused or batch.times is None or batch.times[i] is None:
            return 0
        self.times = self.times or RowTimes(served.wanted.step, restarts=False)
        try:
            row = ParsedRow([], "", batch.times[i], _moment(batch.times[i], served))
            arrival = self.times.arrival(row)
        except DataError as error:
            refused[i] = str(error)
            return 0
        self.times.took(row)
        if arrival.said:
            notes[i] = f"{notes[i]} {arrival.said}" if i in notes else arrival.said
        return BEGINS if arrival.begins else arrival.n_missed


def _moment(time: Any, served: Served) -> Moment | None:
    return None if time is None else moment_of(time, served.wanted.time_format)


def filled(
    numbers: Float[np.ndarray, "k columns"], arrivals: Int[np.ndarray, " k"] | None, n: int, inputs: np.ndarray
) -> tuple[Any, Any, Any]:
    """Observations and inputs with a row for each that was missed, and the places of the rows that came.

    Args:
        numbers: rows that came: n channels, then inputs.
        arrivals: how many rows were missed before each.
        n: the number of channels.
        inputs: of the row before, which are held in missed rows.
    """
    if arrivals is None:
        return numbers[:, :n], numbers[:, n:], np.arange(len(numbers))
    places = np.arange(len(numbers)) + np.cumsum(np.maximum(arrivals, 0))
    x = np.full((places[-1] + 1, n), np.nan)
    x[places] = numbers[:, :n]
    held = np.concatenate([inputs[None], numbers[:, n:]])
    before = np.searchsorted(places, np.arange(len(x)))  # rows that came before each row: the last of them is held
    u = held[before]
    u[places] = numbers[:, n:]
    return x, u, places
