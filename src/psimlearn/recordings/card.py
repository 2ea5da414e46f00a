"""Recordings in a notebook: how many, how long, which channels, and a look at the first."""

from typing import Any

import numpy as np

from psimlearn.markup import card, chart, table
from psimlearn.recordings.times import spoken

__all__ = ["card_of_recordings"]

MOST_CHANNELS, DRAWN, POINTS = 8, 3, 150
"""Channels in the table, channels in the picture, and points of each line there."""


def card_of_recordings(data: Any) -> str:
    """A `Trajectories` as HTML."""
    shortest, longest = int(data.lengths.min()), int(data.lengths.max())
    length = f"{longest} rows" if shortest == longest else f"{shortest} to {longest} rows"
    what = "channels" if data.alphabet is None else "symbols"
    facts = {"recordings": len(data), "each": length, "rows": len(data.values), what: data.n_channels}
    facts |= {"inputs": data.n_inputs} if data.n_inputs else {}
    facts |= {"hints": data.n_hints} if data.n_hints else {}
    facts |= {} if data.step is None else {"from row to row": spoken(data.step)}
    facts |= {} if data.times is None else {"first row": data.times.shown(0)}
    facts |= {"missing": f"{np.isnan(data.values).mean():.1%}"}
    if data.alphabet is not None:
        return card("Trajectories", facts | {"alphabet": ", ".join(map(str, data.alphabet.symbols))})
    return card("Trajectories", facts, _channels(data), _look(data))


def _channels(data: Any) -> str:
    """A table of the first channels."""
    rows = []
    for c in range(min(data.n_channels, MOST_CHANNELS)):
        seen = data.values[~np.isnan(data.values[:, c]), c]
        moments = [float(seen.mean()), float(seen.std())] if len(seen) else ["-", "-"]
        rows.append([_name(data, c), *moments, f"{1 - len(seen) / len(data.values):.1%}"])
    more = data.n_channels - len(rows)
    return table(["channel", "mean", "std", "missing"], [*rows, *([[f"{more} more", "", "", ""]] if more else [])])


def _look(data: Any) -> str:
    """A picture of the first recording, each channel in its standard units."""
    rows = data.values[: data.offsets[1]]
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, POINTS).astype(int))]
    lines = {}
    for c in range(min(data.n_channels, DRAWN)):
        line = rows[:, c]
        seen = line[~np.isnan(line)]
        scale = float(seen.std()) if len(seen) else 0.0
        if len(seen):
            lines[_name(data, c)] = ((line - seen.mean()) / (scale or 1.0)).tolist()
    return chart(lines, "the first recording, each channel in standard units")


def _name(data: Any, channel: int) -> str:
    return f"channel {channel}" if data.names is None else str(data.names[channel])
