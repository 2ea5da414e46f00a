"""Sections on how good a filter is: errors by horizon and by round, predictions, calibration."""

from typing import Any

import numpy as np

from psimlearn.choose.summary import METHODS
from psimlearn.evaluate import residuals
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.report import html, timeline
from psimlearn.report.facts import Facts
from psimlearn.report.plots import MARK, OTHERS, OURS, SEEN, plot_errors, plot_forecast, plot_rounds
from psimlearn.report.svg import drawn
from psimlearn.shapes import Float

__all__ = ["calibration", "errors", "predictions", "rounds", "typical"]

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The coverages at which calibration is measured."""
LINES = ((OURS, "o-"), (MARK, "x:"), (OTHERS[2], "s--"), (OTHERS[3], "v-."))
"""The colours and lines of as many ways to predict."""
MOST_ROWS = 100
"""The most rows in one figure that still shows every single prediction."""


def errors(facts: Facts, number: int) -> str:
    """The errors of the filter by steps ahead, beside the errors of simple methods; empty without errors."""
    if not facts.errors:
        return ""
    names = sorted(facts.errors, key=lambda name: METHODS.index(name) if name in METHODS else -1)
    errors = {name: facts.errors[name] for name in names}
    steps = len(errors[names[0]])
    shown = sorted({round(h) for h in np.linspace(1, steps, min(steps, 6))})
    units = facts.report.get("units", "standard deviations")
    rows = "the rows that were learnt from" if facts.of_training else "recordings that were held out. Lower is better"
    known = " Inputs of the predicted rows are known." if facts.data.n_inputs else ""
    return html.section(
        "Error by steps ahead",
        html.figure(
            drawn(lambda ax: plot_errors(errors, ax=ax), height=3.0, number=number),
            f"Squared error in squared {units}, channels summed, on {rows}.{known}",
        ),
        html.table(
            ("steps ahead", *names),
            [(h, *(html.number(errors[name][h - 1]) for name in names)) for h in shown],
            best=[1 + int(np.argmin([errors[name][h - 1] for name in names])) for h in shown if not facts.of_training],
        ),
    )


def rounds(facts: Facts, number: int) -> str:
    """The error of every round; empty where fewer than two rounds have a finite error."""
    if sum(bool(np.isfinite(round.error)) for round in facts.rounds) < 2:
        return ""
    rows = "on the rows that were learnt from" if facts.of_training else "on held-out recordings"
    return html.section(
        "Rounds of training",
        html.figure(
            drawn(lambda ax: plot_rounds(facts.rounds, ax=ax), number=number),
            "DAgger: each round is fitted to the beliefs that the rounds before it met. Shown is the closed-loop error "
            f"{rows}, by the criterion that settings are chosen by: of several splits, that of the "
            "first; the round that is used is the best of all splits together.",
        ),
    )


def predictions(facts: Facts, number: int) -> str:
    """Predictions of one typical recording, which is neither the best nor the worst case."""
    filter, recording, rows, called = typical(facts)
    n = min(recording.n_channels, 3)

    def draw(axes: Any) -> None:
        plot_forecast(filter, recording, channels=range(n), rows=rows, axes=axes)

    return html.section(
        "Predictions of a held-out recording",
        html.figure(
            drawn(draw, n, 1.3 + 1.25 * n, number),
            f"{called}{_of_channels(recording, n)}, predicted one step ahead with "
            f"intervals that are to hold 90 % of what comes. Of all such recordings it is as surprising as "
            f"most. {facts.held_out_note}",
        ),
    )


def typical(facts: Facts) -> tuple[Filter, Trajectories, slice, str]:
    """The recording with the median log-likelihood per row, its filter, the rows to draw, and words for the caption.

    Of a long recording, the rows in which most happens are drawn. Recordings of one row count only where all have one.
    """
    candidates = [(filter, held, i) for filter, held in facts.held_out for i in range(len(held)) if len(held[i]) > 1]
    if not candidates:
        candidates = [(filter, held, i) for filter, held in facts.held_out for i in range(len(held))]
    scores = {}
    for filter, held in facts.held_out:
        for i, nats in enumerate(held.unpacked(filter.log_likelihood(held))):
            scores[id(held), i] = float(np.mean(nats))
    ordered = sorted(candidates, key=lambda c: scores[id(c[1]), c[2]])
    filter, held, i = ordered[len(ordered) // 2]
    one = held[[i]]
    start = _liveliest(one.values / filter.scaling.scale, MOST_ROWS)
    end = min(start + MOST_ROWS, len(one.values))
    name = f"Recording {held.ids[i]}" if held.ids is not None else "A stretch of the recording"
    whole = end - start == len(one.values)
    part = f"{end} rows" if whole else f"{timeline.stretch(one, start, end)}, where most happens"
    return filter, one, slice(start, end), f"{name}, {part}"


def _liveliest(x: Float[np.ndarray, "rows n"], length: int) -> int:
    """The first of the `length` successive rows in which the values change most, by the sum of squared changes."""
    moved = np.nansum(np.diff(x, axis=0) ** 2, axis=1)
    if len(moved) < length:
        return 0
    return int(np.argmax(np.convolve(moved, np.ones(length - 1), mode="valid")))


def _of_channels(recording: Trajectories, n: int) -> str:
    return f", {n} of {recording.n_channels} channels" if recording.n_channels > n else ""


def calibration(facts: Facts, number: int) -> str:
    """The share of observations within intervals of every level, one and `window` steps ahead."""
    rows = {}
    for ahead in residuals.ways_ahead(facts.filter, (1, facts.filter.features.window)):
        shares = _coverage(facts, ahead)
        if shares is not None:
            rows[ahead] = shares
    if not rows:
        return ""

    def draw(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=SEEN, linestyle="--", linewidth=1, label="ideal")
        for (ahead, shares), (colour, line) in zip(rows.items(), LINES, strict=False):
            ax.plot(LEVELS, shares, line, markersize=5, color=colour, label=str(ahead).replace(" ahead,", ","))
        ax.set(xlabel="interval", ylabel="share that came within", xlim=(0, 1), ylim=(0, 1))

    said = "; ".join(f"{ahead}, 90 % intervals hold {shares[LEVELS.index(0.9)]:.1%}" for ahead, shares in rows.items())
    return html.section(
        "Calibration",
        html.figure(
            drawn(draw, height=3.0 + 0.2 * (len(rows) > 2), number=number),
            f"How much of what came lay within the intervals: {said}. {facts.held_out_note}",
        ),
    )


def _coverage(facts: Facts, ahead: residuals.Ahead) -> Float[np.ndarray, " levels"] | None:
    """The share of all held-out observations within the intervals of each level; None if there are none."""
    found = [
        (residuals.coverage(filter, held, ahead.horizon, LEVELS, inputs_known=ahead.inputs_known), len(held.values))
        for filter, held in facts.held_out
        if filter.calibration_blind is not None or ahead.inputs_known
    ]
    known = [(shares, rows) for shares, rows in found if not np.isnan(shares).any()]
    return np.average([s for s, _ in known], axis=0, weights=[rows for _, rows in known]) if known else None
