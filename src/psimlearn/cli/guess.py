"""Columns found by their names, and all that is said about it: guesses, columns left out, advice on times."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from psimlearn.cli.columns import Columns
from psimlearn.cli.options import say
from psimlearn.errors import DataError
from psimlearn.recordings.arranged import Arranged
from psimlearn.recordings.cells import FIRST
from psimlearn.recordings.found import Files
from psimlearn.recordings.meanings import may_be_id
from psimlearn.recordings.names import IDS, PERHAPS_IDS, TIMES, looks_like
from psimlearn.recordings.selection import Table
from psimlearn.recordings.tables import Doubts, written
from psimlearn.recordings.times import Times, times_of
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["advice_on_times", "guessed", "known", "parts_of_time", "tell_channels", "tell_holes", "tell_suspects"]
__all__ += ["tell_wide", "written"]

DATES, CLOCKS = ("date", "day", "datum"), ("time", "clock", "time_of_day", "hour", "uhrzeit", "zeit")
"""Names, in small letters, that tell a time in two columns."""


def known(columns: Columns, usual: Columns, present: Sequence[str]) -> Columns:
    """With the usual id and time, if the table has them and no others were asked for."""
    if not columns.id and usual.id and usual.id not in present:
        say(f"no column {usual.id!r}: every file is taken as one recording.")
    id = usual.id if usual.id in present else None
    time = usual.time if usual.time and set(parts_of_time(usual.time, present)) <= set(present) else None
    return columns._replace(id=columns.id or id, time=columns.time or time)


def guessed(
    columns: Columns, present: Sequence[str], cells_of: Callable[[Sequence[str]], Mapping[str, Any]]
) -> Columns:
    """With id and time found by name; refuses a table in which several columns have such names.

    Args:
        columns: those that the user named.
        present: the columns of the table.
        cells_of: reads the cells of columns, as they are written.
    """
    taken = {*(columns.channels or ()), *columns.inputs, *columns.hints, *columns.exclude, columns.id, columns.group}
    taken |= {columns.symbols, *parts_of_time(columns.time or "", present)}
    free = [name for name in present if name not in taken]
    ids = [] if columns.id else looks_like(IDS, free)
    if not (columns.id or ids):
        ids = [name for name in looks_like(PERHAPS_IDS, free) if may_be_id(list(cells_of([name])[name]))]
    if id := _only(ids, "id"):
        say(f"guessed: column {id!r} tells recordings apart (--id {id}; --no-guess if not).")
        columns = columns._replace(id=id)
    if columns.time:
        return columns
    days, clocks = looks_like(DATES, free), looks_like(CLOCKS, free)
    if len(days) == len(clocks) == 1:
        say(f"guessed: columns {days[0]!r} and {clocks[0]!r} are the time (--time '{days[0]},{clocks[0]}').")
        return columns._replace(time=f"{days[0]},{clocks[0]}")
    if time := _only(looks_like(TIMES, free), "time"):
        say(f"guessed: column {time!r} is the time (--time {time}; --no-guess if not).")
    return columns._replace(time=time)


def _only(found: Sequence[str], what: str) -> str | None:
    if len(found) > 1:
        raise DataError(
            f"columns {found} could all be the --{what}: required one, received {len(found)}. Name it with --{what}, "
            "leave the others out with --exclude, or use --no-guess."
        )
    return found[0] if found else None


def parts_of_time(time: str, present: Sequence[str]) -> list[str]:
    """The columns of a time: one, or a date and a time of day with a comma between them."""
    if not time:
        return []
    return [time] if time in present or "," not in time else [part.strip() for part in time.split(",", 1)]


def _tell_apart(times: Times, columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Columns that may tell recordings apart: times rise among rows of the same cell, and few cells differ."""
    return [name for name, cells in columns.items() if _rises_within(times.ticks, cells)]


def _rises_within(ticks: np.ndarray, cells: Sequence[Any]) -> bool:
    codes: dict[Any, int] = {}
    groups = np.array([codes.setdefault(cell, len(codes)) for cell in cells])
    if not 1 < len(codes) <= len(cells) / 2:
        return False
    order = np.argsort(groups, kind="stable")
    return bool(np.all((np.diff(ticks[order]) > 0) | (np.diff(groups[order]) != 0)))


def tell_channels(channels: Sequence[str], left_out: Sequence[str]) -> None:
    """Say which columns are channels because nobody named them, and which are not."""
    words = [name for name in left_out if name != FIRST]
    rest = f"; left out as text: {_few(words)}" if words else ""
    rest += "; left out: the first column, which has no name and counts rows" if FIRST in left_out else ""
    say(f"channels: {_few(channels)} (all columns of numbers that are nothing else{rest}).")


def tell_suspects(doubts: Doubts) -> None:
    """Say which columns may be an id or a time, though they are channels or left out now."""
    for name, suspect in doubts.found.items():
        meaning = "may tell recordings apart" if suspect.what == "id" else "may be the time"
        now = "a channel" if name in doubts.channels else "left out"
        why = f": {suspect.why}" if suspect.why else ""
        say(
            f"note: column {name!r} {meaning}{why}. It is {now} now: use --{suspect.what} {name} if so, else "
            f"--exclude {name}, or name the --channels."
        )


def tell_holes(result: Arranged, resampled: bool) -> None:
    """Say how many rows are in no file."""
    n = int((result.source < 0).sum())
    if resampled and result.data.times is not None:
        say(f"resampled: {len(result.source)} rows.")
    elif n:
        say(f"note: {n} rows are missing between the times given; they count as not observed.")


def tell_wide(data: Trajectories, advice: str) -> None:
    """Say that there are more channels than rows: time may be the other axis."""
    longest = int(data.lengths.max())
    if longest < data.n_channels and data.alphabet is None:
        say(f"note: rows are times: at most {longest} rows of {data.n_channels} channels. {advice}")


def advice_on_times(error: str, found: Files, table: Table, columns: Columns, time_guessed: bool) -> str:
    """An error, and what to do about times that are refused: name the id if that mends them, or leave out a guess."""
    if columns.time is None or "time" not in error:
        return error
    advice = error + (f" If {columns.time!r} is no time, use --exclude {columns.time!r}." if time_guessed else "")
    if columns.id is not None:
        return advice
    try:
        times = times_of(table.kept[columns.time], columns.time_format)
        others = [name for name in (*table.names, *table.left_out) if name != FIRST]
        cells = written(found, others)
    except DataError:
        return advice
    if ids := _tell_apart(times, cells):
        refused = re.sub(r" Pass (sort|duplicates).*", "", error)  # these would mix the recordings
        alike = f"Times rise among rows with the same {_few(ids)!r}"
        return f"{refused} {alike}: use --id {ids[0]} if it tells recordings apart."
    return advice


def _few(names: Sequence[str]) -> str:
    """Some names, for a message."""
    return ", ".join(names[:20]) + (f", .. ({len(names)} in all)" if len(names) > 20 else "")
