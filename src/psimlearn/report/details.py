"""Sections on where a filter errs, on one forecast, on the meaning of words, and on how the page was made."""

import platform
import sys
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from psimlearn import __version__
from psimlearn.baselines import LastObservation
from psimlearn.evaluate.horizons import mean_square
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.report import html, timeline
from psimlearn.report.facts import Facts
from psimlearn.report.plots import BAND, OURS, SEEN
from psimlearn.report.quality import typical
from psimlearn.report.svg import drawn
from psimlearn.shapes import Float

__all__ = ["forecast", "origin", "where", "words"]

MOST_CHANNELS, N_WORST = 25, 5
"""The most channels, and the number of recordings, that the tables list."""
STEPS, PAST = 20, 40
"""The most rows of a forecast, and the rows before it that its figure shows."""
TERMS = {
    "error": "the squared difference of prediction and observation, averaged over rows and summed over channels",
    "held out": "recordings that the filter was not fitted to: errors on them are the errors to expect on new ones",
    "steps ahead": "how many rows lie between the last row seen and the row predicted; 1 is the next row",
    "belief": "the state of the filter: the expected next observations",
    "window": "how many observations ahead a belief describes",
    "lags": "how many of the last observations a step sees beside the belief",
    "ridge": "the penalty of the regression: large where there is little to learn",
    "prior": "the prediction that a large ridge leads to: the mean, or the last observation",
    "belief weight": "how freely the belief is used; 0 is autoregression",
    "rank": "the number of directions of the belief that are fed back",
    "round": "one pass of training: the filter runs over the recordings, and is fitted to the beliefs that it met",
    "spectral radius": "by how much a belief echoes in the next one; below 1 the filter forgets",
    "log-likelihood": "how likely a row was given the rows before it, in nats: low for rows unlike the training data",
}


def where(facts: Facts) -> str:
    """The channels and the recordings with the largest one-step errors; empty where no recording has two rows."""
    held_out = [(f, held) for f, held in facts.held_out or [(facts.filter, facts.data)] if held.lengths.max() > 1]
    if not held_out:
        return ""
    ours, last = (_squares(held_out, method) for method in (None, LastObservation))
    channels = np.argsort(-ours.by_channel, kind="stable")[:MOST_CHANNELS]
    worst = sorted(ours.by_recording, key=lambda found: -found[1])[:N_WORST]
    return html.section(
        "Where it errs",
        html.paragraph("Squared errors one step ahead on held-out recordings, in variances of the channel."),
        html.table(
            ("channel", "error", "error of the last observation"),
            [(facts.channel(int(c)), *(html.number(m.by_channel[c]) for m in (ours, last))) for c in channels],
        ),
        html.paragraph("The recordings with the largest errors, channels summed:"),
        html.table(("recording", "error"), [(name, html.number(error)) for name, error in worst]),
    )


class _Squares:
    """Mean squared one-step errors by channel, and by recording with its name."""

    def __init__(self, by_channel: Float[np.ndarray, " n"], by_recording: list[tuple[str, float]]) -> None:
        self.by_channel, self.by_recording = by_channel, by_recording


def _squares(held_out: Any, method: Any) -> _Squares:
    """The errors of the filters, or of a simple method with their means."""
    rows, named = [], []
    for filter, held in held_out:
        forecaster = filter if method is None else method(filter.scaling.mean)
        errors = (held.values - forecaster.forecast(held, 1)[:, 0]) / filter.scaling.scale
        for i, part in enumerate(held.unpacked(errors)):
            rows.append(part[1:])
            if not np.isnan(part[1:]).all():
                named.append((str(i if held.ids is None else held.ids[i]), float(mean_square(part[1:]))))
    together = np.concatenate(rows)
    seen = ~np.isnan(together)
    total = np.sum(np.where(seen, together, 0.0) ** 2, axis=0)
    return _Squares(total / np.maximum(seen.sum(axis=0), 1), named)


def forecast(facts: Facts, number: int) -> str:
    """A forecast from the middle of a typical recording, beside the rows that came; empty where it is too short."""
    filter, recording, rows, called = typical(facts)
    at = (rows.start + rows.stop) // 2
    steps = min(STEPS, len(recording.values) - at)
    if at < 1 or steps < 2:
        return ""
    prediction = _ahead(filter, recording, at, steps)
    mean, (low, high) = prediction.mean[0], (bound[0] for bound in prediction.interval(0.9))
    n = min(recording.n_channels, 3)
    shown, ahead = np.arange(max(0, at - PAST), at + steps), np.arange(at, at + steps)
    time = timeline.places(recording)
    begins = time[at - 1] + (time[at] - time[at - 1]) / 2

    def draw(axes: Any) -> None:
        for c, ax in enumerate(np.ravel(axes)):
            ax.fill_between(
                time[ahead], low[:, c], high[:, c], color=BAND, alpha=0.25, linewidth=0, label="90% interval"
            )
            ax.plot(time[ahead], mean[:, c], color=OURS, linewidth=1.4, label="forecast")
            ax.plot(time[shown], recording.values[shown, c], color=SEEN, linewidth=0.9, marker=".", label="observed")
            ax.axvline(begins, color=SEEN, linestyle="--", linewidth=1)
            ax.set_ylabel(facts.channel(c))
        timeline.dress(np.ravel(axes)[-1], recording)

    name = called.partition(",")[0]
    known = " Inputs to come are known." if recording.n_inputs else ""
    first = f"{timeline.unit(recording)} {timeline.called(recording, at)}"
    caption = f"{name}: all rows from {first} on are predicted from the rows before it.{known} {facts.held_out_note}"
    return html.section("A forecast", html.figure(drawn(draw, n, 1.3 + 1.25 * n, number), caption))


def _ahead(filter: Filter, recording: Trajectories, at: int, steps: int) -> Any:
    """The prediction of the rows from `at` on."""
    inputs = None if recording.inputs is None else recording.inputs[None, at : at + steps]
    past = recording.stretches([np.arange(at)])
    state = filter.run(past, None if inputs is None else inputs[:, 0])[1]
    return filter.predict(state, steps, inputs)


def words() -> str:
    """The words of the page, explained."""
    return html.section("Words", html.terms(TERMS))


def origin(made: Mapping[str, Any]) -> str:
    """How the page was made: the file, the command and the seed where they are given, the day and the versions."""
    versions = f"psimlearn {__version__}, numpy {np.__version__}, Python {platform.python_version()}, {sys.platform}"
    facts = {**made, "day": date.today().isoformat(), "versions": versions}
    return html.section("How this page was made", html.terms({name: str(value) for name, value in facts.items()}))
