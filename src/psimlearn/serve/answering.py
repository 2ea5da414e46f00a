"""The answers of the server: plain values that become JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from psimlearn.filter.predict import doubt_of
from psimlearn.filter.step import State
from psimlearn.filter.stepping import step
from psimlearn.filter.tabulate import mean_and_std
from psimlearn.serve.chunks import stored
from psimlearn.serve.columns import names_of_answers
from psimlearn.serve.numbers import jsonable
from psimlearn.serve.served import Served
from psimlearn.serve.store import Chunk
from psimlearn.serve.streams import Done, Stream, Streams
from psimlearn.serve.symbols import symbol_columns

__all__ = ["forecast", "history", "row_answers", "stream_facts"]

COVERAGE = 0.9


def row_answers(done: Sequence[Done], streams: Streams, horizons: Sequence[int]) -> list[list[dict[str, Any]]]:
    """For each request one answer for each of its rows, in their order; rows that were not taken say why."""
    taken = [each.answered for each in done if each.answered is not None]
    out: list[list[dict[str, Any]]] = []
    rows: Iterator[tuple[Any, ...]] = iter(())
    names: list[str] = []
    if taken:
        names, table = _columns(streams.served, np.concatenate([each.answers for each in taken]), horizons)
        columns: list[Any] = jsonable(table)
        if streams.served.rate is not None:
            names = [*names, "alarm", "alarm.channel"]
            rings = np.concatenate([each.rings for each in taken]).astype(int).tolist()
            channels = map(streams.channel, np.concatenate([each.channel for each in taken]).tolist())
            columns = [[*row, *alarm] for row, alarm in zip(columns, zip(rings, channels, strict=True), strict=True)]
        rows = iter(columns)
    for each in done:
        out.append(_answers(each, names, rows))
    return out


def _answers(done: Done, names: Sequence[str], rows: Iterator[Any]) -> list[dict[str, Any]]:
    """The answers to the rows of one request; `rows` holds the numbers of those that were taken."""
    planned = done.planned
    out: list[dict[str, Any]] = [{} for _ in range(len(planned.rows) + len(planned.refused))]
    for i, why in planned.refused.items():
        out[i]["ignored"] = why
    for number, i in enumerate(planned.rows.tolist()):
        out[i]["row"] = done.first + number
        if planned.written is not None and planned.written[number] is not None:
            out[i]["time"] = planned.written[number]
        out[i].update(zip(names, next(rows), strict=True))
    for i, note in planned.notes.items():
        out[i]["note"] = note
    return out


def _columns(served: Served, table: np.ndarray, horizons: Sequence[int]) -> tuple[list[str], np.ndarray]:
    """The columns of answers at some horizons, and their names."""
    n = len(served.channels)
    steps = (table.shape[1] - 1 - 2 * n) // (2 * n)
    names = names_of_answers(served.wanted, steps)
    width = 2 * n
    if served.wanted.alphabet is not None:
        table, width = symbol_columns(table, n), n
    if list(horizons) == list(range(1, steps + 1)):
        return names, table
    kept = [*range(1 + width)]
    for h in horizons:
        kept += range(1 + width * h, 1 + width * (h + 1))
    return [names[c] for c in kept], table[:, kept]


def forecast(streams: Streams, stream: Stream, steps: int) -> dict[str, Any]:
    """The next rows of a stream, with deviations and the bounds that hold 90 % of observations."""
    filter, kept = streams.served.filter, streams.bank.get(np.array([stream.place]))
    state: State = kept.memory.state
    if kept.memory.waits[0]:
        state = step(filter, state, kept.memory.x, kept.memory.u)
    doubt = doubt_of(filter, state, steps)
    mean, std = mean_and_std(filter, state, steps, doubt)
    answer = {"id": stream.id, "rows": stream.n_rows, "mean": jsonable(mean[0]), "std": jsonable(std[0])}
    if not np.isnan(std).all():
        low, high = filter.predict(state, steps, doubt=doubt).interval(COVERAGE)
        answer |= {"coverage": COVERAGE, "low": jsonable(low[0]), "high": jsonable(high[0])}
    return answer


def stream_facts(streams: Streams, stream: Stream, trail: bool = False) -> dict[str, Any]:
    """The state of a stream in a few words."""
    unseen = int(streams.bank.parts[3][stream.place])
    facts = {
        "id": stream.id,
        "rows": stream.n_rows,
        "created": stream.created,
        "seen": stream.seen,
        "state": "new" if not stream.n_rows else "alarm" if stream.alarm else "gap" if unseen else "normal",
        "log_likelihood": jsonable(stream.log_likelihood),
        "alarm": stream.alarm,
        "alarm.channel": stream.channel,
        "unseen": unseen,
    }
    if trail:
        k = min(stream.n_rows, streams.bank.trail.shape[1])
        facts["trail"] = jsonable(streams.bank.trail[stream.place, streams.bank.trail.shape[1] - k :])
    return facts


def history(served: Served, chunks: Sequence[Chunk], last: int) -> dict[str, Any]:
    """The last rows of a stream with the answers that they had."""
    n, found = len(served.channels), [stored(chunk, served) for chunk in chunks]
    if not found:
        return {"first": 0, "x": [], "seen": [], "times": [], "missed": []} | {key: [] for key in SHOWN}
    x, missed, shown, alarm = (np.concatenate(part)[-last:] for part in list(zip(*found, strict=True))[:4])
    end = chunks[-1].first + chunks[-1].n
    parts = (shown[:, 0], shown[:, 1 : 1 + n], shown[:, 1 + n :])
    return {
        "first": end - len(x),
        "seen": np.repeat([chunk.seen for chunk in chunks], [chunk.n for chunk in chunks])[-last:].tolist(),
        "times": [time for each in found for time in each.written][-last:],
        "missed": missed.tolist(),
        "x": jsonable(x[:, :n]),
        **dict(zip(SHOWN, map(jsonable, parts), strict=False)),
        "alarm": alarm.tolist(),
    }


SHOWN = ("log_likelihood", "expected", "std", "alarm")
