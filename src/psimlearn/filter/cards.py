"""Filters and live filters in a notebook."""

from typing import Any

import numpy as np

from psimlearn.markup import card, paragraph, table
from psimlearn.recordings.times import spoken

__all__ = ["card_of_filter", "card_of_live", "line_of_live"]

MOST = 8
"""Channels and streams in a table."""


def card_of_filter(filter: Any) -> str:
    """A `Filter` as HTML."""
    return card("Filter", _facts(filter), paragraph(_beside(filter)))


def line_of_live(live: Any) -> str:
    """One line with the number of streams, channels and inputs."""
    n, p = (0 if scaling is None else len(scaling.mean) for scaling in (live.filter.scaling, live.filter.input_scaling))
    inputs, streams = f", {p} inputs" if p else "", "1 stream" if live.n_streams == 1 else f"{live.n_streams} streams"
    return f"Live({streams} of {n} channels{inputs}, window {live.filter.features.window})"


def card_of_live(live: Any) -> str:
    """A `Live` as HTML: what it has seen, and what it expects next."""
    clock = np.atleast_1d(live.state.clock)
    rows = int(clock.max()) if len(clock) else 0
    facts = {"streams": live.n_streams, "rows taken": rows, "rows since anything was seen": _largest(live.unseen)}
    facts |= {"log-likelihood of the last row": live.log_likelihood} if live.n_streams == 1 and rows else {}
    return card("Live", facts | _facts(live.filter), _expected(live))


def _largest(counts: Any) -> str:
    largest = int(np.max(counts))
    return str(largest) if np.ndim(counts) == 0 else f"{largest} at most"


def _facts(filter: Any) -> dict[str, Any]:
    n = len(filter.scaling.mean)
    facts: dict[str, Any] = {"channels" if filter.alphabet is None else "symbols": n}
    facts |= {} if filter.input_scaling is None else {"inputs": len(filter.input_scaling.mean)}
    facts |= {"features": repr(filter.features), "lags": filter.lags, "regressor": type(filter.regressors[-1]).__name__}
    facts |= {"time steps": len(filter.regressors)} if len(filter.regressors) > 1 else {}
    return facts | ({} if filter.time_step is None else {"from row to row": spoken(filter.time_step)})


def _beside(filter: Any) -> str:
    """The names of the channels, and what the filter can say beside means."""
    names = filter.names or (filter.alphabet.symbols if filter.alphabet is not None else ())
    listed = ", ".join(map(str, names[:MOST])) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")
    can = {"intervals": filter.calibration, "alarms": filter.thresholds, "hints": filter.hinting}
    able = ", ".join(what for what, part in can.items() if part is not None) or "means alone"
    return f"{listed}{'; ' if listed else ''}gives {able}"


def _expected(live: Any) -> str:
    """The next row of the first streams, with standard deviations where the filter is calibrated."""
    filter = live.filter
    known = filter.calibration is not None and filter.input_scaling is None
    mean, std = live.predict(return_std=True) if known else (live.predict(), None)
    names = filter.names or [f"channel {c}" for c in range(len(filter.scaling.mean))]
    means, stds = np.atleast_2d(mean)[:MOST, :MOST], None if std is None else np.atleast_2d(std)[:MOST, :MOST]
    cells = [
        [f"{m:.4g}" if stds is None else f"{m:.4g} ± {stds[i, c]:.2g}" for c, m in enumerate(row)]
        for i, row in enumerate(means)
    ]
    left = [f"stream {i}" if live.n_streams > 1 else "next row" for i in range(len(cells))]
    return table(["", *map(str, names[:MOST])], [[name, *row] for name, row in zip(left, cells, strict=True)])
