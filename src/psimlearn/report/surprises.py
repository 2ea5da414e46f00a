"""Sections on the rows that surprised a filter, and on patterns that are left in its errors."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from psimlearn.evaluate.residuals import autocorrelation, correlation, one_step_errors
from psimlearn.evaluate.residuals import surprises as most_surprising
from psimlearn.report import html, timeline
from psimlearn.report.facts import LONGEST, Facts
from psimlearn.report.plots import BAND, MARK, OURS, SEEN, plot_surprise
from psimlearn.report.svg import drawn
from psimlearn.shapes import Float

__all__ = ["residuals", "surprises"]

N_LAGS = 20
"""How many rows apart errors are correlated at most."""
N_SURPRISES = 8
"""Rows in the table."""
MOST_CHANNELS = 60
"""The most channels whose correlations can be drawn."""


def surprises(facts: Facts, number: int) -> str:
    """A table of the least likely rows, and a figure of the recording that holds the least likely one."""
    data, filter = facts.data, facts.filter
    found = most_surprising(filter, data, N_SURPRISES, apart=filter.features.window)
    if not found:
        return ""
    most = data[[found[0].recording]]
    row = found[0].row
    start = max(0, min(row - LONGEST // 2, len(most.values) - LONGEST))
    end = min(start + LONGEST, len(most.values))

    def draw(ax: Any) -> None:
        plot_surprise(filter, most, rows=slice(start, end), ax=ax)

    table = html.table(
        ("recording", timeline.unit(data), "log-likelihood", "furthest off"),
        [
            (
                s.recording if data.ids is None else data.ids[s.recording],
                timeline.called(data, s.row, s.recording),
                html.number(s.nats),
                f"{facts.channel(s.channel)} by {s.deviations:+.1f} std",
            )
            for s in found
        ],
    )
    shown = f", {timeline.stretch(most, start, end)}" if end - start < len(most.values) else ""
    return html.section(
        "The most surprising moments",
        table,
        html.figure(
            drawn(draw, number=number),
            "Surprise, the negative log-likelihood of each row given those before it, over the recording with the most "
            f"surprising row{shown}. The first row of a recording, before which nothing was seen, is not in the table.",
        ),
    )


def residuals(facts: Facts, numbers: Iterator[int]) -> str:
    """How errors are correlated in time and between channels; empty where no recording has two rows to compare."""
    held_out = facts.held_out or [(facts.filter, facts.data)]
    errors = [part for part in one_step_errors(held_out) if len(part)]
    n_lags = min(N_LAGS, max((len(part) for part in errors), default=0) - 1)
    if n_lags < 1:
        return ""
    rho = autocorrelation(errors, n_lags)
    seen = float(np.mean(np.sum([np.sum(~np.isnan(part), axis=0) for part in errors], axis=0)))
    # of errors without any pattern, 95 % of the correlations lie within 1.96 / sqrt(rows)
    noise, lags = 1.96 / np.sqrt(max(seen, 1.0)), np.arange(1, n_lags + 1)

    def draw(ax: Any) -> None:
        known = ~np.isnan(rho).all(axis=0)
        shown = rho[:, known]
        ax.axhspan(-noise, noise, color=SEEN, alpha=0.25, linewidth=0, label="white noise, 95 %")
        if shown.shape[1] > 1:
            ax.fill_between(
                lags, shown.min(axis=1), shown.max(axis=1), color=BAND, alpha=0.25, linewidth=0, label="all channels"
            )
        ax.plot(lags, shown.mean(axis=1), color=OURS, marker="o", markersize=3.5, label="mean over channels")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(xlabel="rows apart", ylabel="correlation", ylim=_limits(shown, noise))

    parts = [
        html.figure(
            drawn(draw, number=next(numbers)),
            "Correlation of one-step errors with those some rows earlier. Outside the grey band there is something "
            "left to learn: try a longer window, more lags or --learner auto.",
        )
    ]
    if 1 < facts.data.n_channels <= MOST_CHANNELS:
        parts.append(_between_channels(correlation(errors), facts, next(numbers)))
    return html.section("What is left in the errors", *parts)


def _limits(rho: np.ndarray, noise: float) -> tuple[float, float]:
    most = max(float(np.nanmax(np.abs(rho), initial=0.0)), noise, 0.1) * 1.1
    return -most, most


def _between_channels(matrix: Float[np.ndarray, "n n"], facts: Facts, number: int) -> str:
    """A coloured matrix: blue for positive, orange for negative correlation, more opaque where it is stronger."""
    n = len(matrix)
    rgba = np.zeros((n, n, 4))
    rgba[matrix >= 0, :3], rgba[matrix < 0, :3] = _rgb(OURS), _rgb(MARK)
    rgba[..., 3] = np.clip(np.abs(matrix), 0, 1)

    def draw(ax: Any) -> None:
        ax.grid(False)
        ax.pcolormesh(rgba)
        ax.invert_yaxis()
        ax.set_aspect("equal")
        places = np.arange(0, n, max(1, n // 15))
        names = [facts.channel(int(c)) for c in places]
        ax.set_xticks(places + 0.5, names, rotation=90)
        ax.set_yticks(places + 0.5, names)

    apart = matrix[~np.eye(n, dtype=bool)]
    return html.figure(
        drawn(draw, height=float(np.clip(1.6 + 0.2 * n, 2.0, 4.0)), number=number),
        "Correlation of one-step errors between channels: blue together, orange against each other. The largest is "
        f"{apart[np.argmax(np.abs(apart))]:+.2f}.",
    )


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
