"""Bodies of requests: JSON in, rows of streams out; refused with a reason, never guessed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.serve.limits import Limits
from psimlearn.serve.numbers import loads
from psimlearn.serve.rows import Complain, names_unknown, object_rows
from psimlearn.serve.served import Served
from psimlearn.shapes import Float

__all__ = ["Batch", "batch_of", "batches_of", "checked_id", "horizons_of", "loaded"]

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
"""Ids stand in addresses, logs and pages: letters, digits and a few marks."""
PLAIN = {int, float, type(None)}


class Batch(NamedTuple):
    """Rows of one stream."""

    id: str
    numbers: Float[np.ndarray, "rows columns"]
    """Channels, then inputs; NaN for a cell that was not observed."""
    times: list[Any] | None
    """The times of the rows as they were written; None without times."""
    notes: Mapping[int, str]
    """Complaints about cells, by row."""
    at: int | None = None
    """The number of rows that the sender believes were taken before; None if it does not say."""


def loaded(body: bytes) -> Any:
    """The JSON of a body."""
    try:
        return loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"body: required JSON in UTF-8, received other bytes ({error!s:.200}).") from error


def checked_id(id: Any) -> str:
    """The id of a stream."""
    if not isinstance(id, str) or not ID.fullmatch(id):
        raise DataError(
            "id: required 1 to 128 letters, digits or any of . _ : @ + - after a letter or digit, received "
            f"{id!r:.80}. Rename the stream."
        )
    return id


def horizons_of(text: str | None, served: Served, limits: Limits) -> tuple[int, ...]:
    """The horizons that a request asks for, such as "1,5,20"; by default 1."""
    if text is None:
        return (1,)
    words = text.split(",")
    most = served.filter.features.window if served.n_inputs else limits.horizon
    if not all(re.fullmatch("[0-9]{1,6}", word) and 1 <= int(word) <= most for word in words) or len(words) > 100:
        why = "the window, as inputs to come are not known" if served.n_inputs else "the limit of this server"
        raise DataError(
            f"horizons: required whole numbers from 1 to {most} ({why}), with commas, received {text!r:.80}."
        )
    return tuple(sorted({int(word) for word in words}))


def batch_of(id: str, body: Any, served: Served, limits: Limits) -> Batch:
    """The rows of a request for one stream: a row, a list of rows, or an object with "rows"."""
    times, at = None, None
    if isinstance(body, dict) and isinstance(body.get("rows"), list):
        rows, times, at = body["rows"], body.get("times"), body.get("at")
        _check_names(body, {"rows", "times", "at"})
    elif isinstance(body, list) and body and all(isinstance(row, dict | list) for row in body):
        rows = body
    elif isinstance(body, dict) or (isinstance(body, list) and body):
        rows = [body]
    else:
        raise DataError(f'body: required a row, a list of rows or {{"rows": [..]}}, received {body!r:.80}.')
    _check_count(rows, times, limits)
    if at is not None and (type(at) is not int or not 0 <= at < 2**53):
        raise DataError(f"at: required the number of rows that were taken before, received {at!r:.80}.")
    return _batch(id, rows, times, at, served)


def batches_of(body: Any, served: Served, limits: Limits) -> tuple[list[Batch], list[str]]:
    """The rows of a request for many streams, one batch for each stream; and the ids in the order of the rows."""
    if not isinstance(body, dict) or not isinstance(body.get("rows"), list):
        raise DataError(f'body: required {{"ids": [..], "rows": [..]}} or rows with an id each, received {body!r:.80}.')
    _check_names(body, {"rows", "times", "ids"})
    rows, times, ids = body["rows"], body.get("times"), body.get("ids")
    _check_count(rows, times, limits)
    if ids is None:
        key = served.wanted.id or "id"
        ids = [row.get(key) if isinstance(row, dict) else None for row in rows]
    if not isinstance(ids, list) or len(ids) != len(rows):
        raise DataError(f"ids: required {len(rows)}, one for each row, received {ids!r:.80}.")
    places: dict[str, list[int]] = {}
    for i, id in enumerate(map(checked_id, ids)):
        places.setdefault(id, []).append(i)
    whole = _batch("", rows, times, None, served)
    return [_part(id, whole, some) for id, some in places.items()], ids


def _part(id: str, whole: Batch, rows: Sequence[int]) -> Batch:
    """Some rows of a batch, as rows of one stream."""
    times = None if whole.times is None else [whole.times[i] for i in rows]
    notes = {j: whole.notes[i] for j, i in enumerate(rows) if i in whole.notes} if whole.notes else {}
    return Batch(id, whole.numbers[rows], times, notes)


def _check_names(body: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(body) - known):
        raise DataError(f"body: required only the names {sorted(known)}, received {unknown!s:.200}. Correct the names.")


def _check_count(rows: Sequence[Any], times: Any, limits: Limits) -> None:
    if not 1 <= len(rows) <= limits.rows:
        raise DataError(
            f"rows: required 1 to {limits.rows} rows a request, received {len(rows)}. Send several requests."
        )
    if times is not None and (not isinstance(times, list) or len(times) != len(rows)):
        raise DataError(f"times: required {len(rows)}, one for each row, received {times!r:.80}.")


def _batch(id: str, rows: Sequence[Any], times: list[Any] | None, at: int | None, served: Served) -> Batch:
    wanted = served.wanted
    time = wanted.time or "time"
    if times is None and any(type(row) is dict and time in row for row in rows):
        times = [row.get(time) if isinstance(row, dict) else None for row in rows]
    if times is not None and any(isinstance(when, list | dict) for when in times):
        raise DataError("times: required a number, a text or null for each row, received a list or an object.")
    names = wanted.names
    cells = [row if type(row) is list and len(row) == len(names) else _cells(row, served) for row in rows]
    numbers = None if wanted.alphabet or wanted.categories or wanted.absent.numbers else _plain(cells)
    known = frozenset([*names, time, wanted.id or "id"])
    odd = [i for i, row in enumerate(rows) if type(row) is dict and not row.keys() <= known]
    notes = {i: note for i in odd if (note := names_unknown(rows[i], names, known))}
    if numbers is None:
        numbers = np.array([_read(row, i, served, notes) for i, row in enumerate(cells)])
    return Batch(id, numbers, times, notes, at)


def _cells(row: Any, served: Served) -> list[Any]:
    """The cells of a row in the order of the columns."""
    names = served.wanted.names
    if isinstance(row, dict):
        if not any(name in row for name in served.wanted.channels):
            raise DataError(
                f"rows: required at least one of the channels {list(served.wanted.channels)!s:.200}, received "
                f"{list(row)!s:.200}. Give null for a channel that was not observed."
            )
        return [row.get(name) for name in names]
    if not isinstance(row, list) or len(row) != len(names):
        raise DataError(
            f"rows: required lists of {len(names)} cells ({', '.join(names)!s:.200}) or objects, received {row!r:.80}."
        )
    return row


def _plain(cells: Sequence[Sequence[Any]]) -> Float[np.ndarray, "rows columns"] | None:
    """The numbers of rows that hold nothing but finite numbers and null; None if any cell needs a closer look."""
    for row in cells:
        if not PLAIN.issuperset(map(type, row)):
            return None
    try:
        numbers = np.array(cells, dtype=np.float64)  # None becomes NaN
    except OverflowError:
        return None
    return None if np.isinf(numbers).any() else numbers


def _read(cells: Sequence[Any], i: int, served: Served, notes: dict[int, str]) -> list[float]:
    """The numbers of a row, as the pipe reads them: a cell that is no number is reported and not observed."""
    said: list[str] = []
    complain: Complain = said.append
    wanted = served.wanted._replace(id=None, time=None)
    row = object_rows(wanted)(dict(zip(wanted.names, cells, strict=True)), complain)
    if said or row.note:
        notes[i] = " ".join(filter(None, [notes.get(i), *said, row.note]))[:1000]
    return row.numbers
