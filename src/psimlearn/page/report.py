"""The report: what the data are, what was learnt, how good it is, and where it was surprised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from psimlearn import __version__
from psimlearn.filter import Filter
from psimlearn.page import html, measures
from psimlearn.page.svg import drawn
from psimlearn.plots import BAND, MARK, OURS, SEEN, plot_errors, plot_forecast, plot_rounds, plot_surprise
from psimlearn.report import METHODS
from psimlearn.train.score import Round
from psimlearn.trajectories import Trajectories

__all__ = ["fit_page", "model_page"]

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
N_LAGS = 20
N_SURPRISES = 8
LONGEST = 300
"""Rows of a recording that are drawn."""
MOST_CHANNELS = 25
"""Channels in a table."""


@dataclass(frozen=True, eq=False)
class Facts:
    """All that a page is made of."""

    title: str
    data: Trajectories
    filter: Filter
    report: Mapping[str, Any]
    errors: Mapping[str, Sequence[float]]
    rounds: Sequence[Round]
    judged: Sequence[tuple[Filter, Trajectories]]
    """Calibrated filters with recordings that they have neither been fitted to nor calibrated on."""
    judged_on: str


def fit_page(model: Any, data: Trajectories, title: str = "A filter learnt from recordings") -> str:
    """Of an estimator that has just been fitted to these recordings."""
    crossed = measures.cross_calibrated(model.held_out_)
    if crossed:
        how = (
            "filters with these settings, learnt without the recordings shown and calibrated on other held-out ones"
        )
    else:
        crossed, how = [(model.filter_, data)], "the training recordings, for there were too few to hold any out"
    report = model.report_
    return _page(Facts(title, data, model.filter_, report, report["errors"], model.rounds_, crossed, how))


def model_page(
    filter: Filter, report: Mapping[str, Any], data: Trajectories, errors: Mapping[str, Sequence[float]]
) -> str:
    """Of a model from a file, on recordings that it has not seen."""
    judged = [(filter, data)] if filter.calibration is not None else []
    return _page(Facts("A filter on new recordings", data, filter, report, errors, [], judged, "the new recordings"))


def _page(facts: Facts) -> str:
    numbers = count(1)
    parts = [_what_was_learnt(facts), _recordings(facts), _errors(facts, next(numbers)), _rounds(facts, next(numbers))]
    if facts.judged:
        parts += [_held_out(facts, next(numbers)), _calibration(facts, next(numbers))]
    parts += [_surprises(facts, next(numbers)), _residuals(facts, numbers)]
    return html.document(facts.title, f"psimlearn {__version__}", parts)


def _recordings(facts: Facts) -> str:
    data = facts.data
    missing = np.isnan(data.values)
    own = data.unpacked(data.values)
    rows = [
        (
            _channel(facts, c),
            html.number(np.nanmean(data.values[:, c])) if not missing[:, c].all() else "-",
            html.number(np.nanstd(data.values[:, c])) if not missing[:, c].all() else "-",
            f"{missing[:, c].mean():.1%}",
            max(measures.longest_gap(part[:, c]) for part in own),
        )
        for c in range(min(data.n_channels, MOST_CHANNELS))
    ]
    more = data.n_channels - len(rows)
    return html.section(
        "The recordings",
        html.facts(
            {
                "recordings": len(data),
                "rows in all": len(data.values),
                "shortest": int(data.lengths.min()),
                "median length": f"{np.median(data.lengths):.0f}",
                "longest": int(data.lengths.max()),
                "channels": data.n_channels,
                **({"inputs": data.n_inputs} if data.n_inputs else {}),
                "entries missing": f"{missing.mean():.1%}",
            }
        ),
        html.table(("channel", "mean", "std", "missing", "longest gap"), rows),
        html.paragraph(f"{more} more channels are not shown.", "faint") if more > 0 else "",
    )


def _what_was_learnt(facts: Facts) -> str:
    report = facts.report
    if not report:
        return html.section("What was learnt", html.paragraph("The file holds a filter without a report."))
    choices = report["choices"]
    chosen = {
        "learner": choices["learner"],
        "window": facts.filter.features.window,
        "lags": choices["lags"],
        "ridge": "-" if choices["alpha"] is None else f"{choices['alpha']:.0e}",
        "prior": choices["prior"],
        "belief weight": f"{choices['belief_weight']:g}",
        "rank": choices["rank"] or "full",
        "best round": choices["best_round"],
        "settings tried": report["tried"],
        "spectral radius": "-" if report["radius"] is None else f"{report['radius']:.3f}",
    }
    ours, last = (facts.errors.get(name) for name in ("PSIM", "last observation"))
    lead = ""
    if ours and last and np.isfinite(ours[0]) and last[0] > 0:
        lead = html.paragraph(
            f"One step ahead its squared error is {ours[0] / last[0]:.1%} of that of repeating the last observation.",
            "lead",
        )
    trained = report["data"]
    about = (
        f"Learnt from {trained['recordings']} recordings with {trained['rows']} rows; chosen by closed-loop error on "
        f"held-out recordings ({report['splits']})."
    )
    notes = "".join(html.paragraph(f"Note: {note}.") for note in report["notes"])
    return html.section("What was learnt", lead, html.paragraph(about), html.facts(chosen), notes)


def _errors(facts: Facts, number: int) -> str:
    if not facts.errors:
        return ""
    names = sorted(facts.errors, key=lambda name: METHODS.index(name) if name in METHODS else -1)
    errors = {name: facts.errors[name] for name in names}
    steps = len(errors[names[0]])
    shown = sorted({round(h) for h in np.linspace(1, steps, min(steps, 6))})
    units = facts.report.get("units", "standard deviations")
    return html.section(
        "Error by steps ahead",
        html.figure(
            drawn(lambda ax: plot_errors(errors, ax=ax), height=3.0, number=number),
            f"Squared error in squared {units}, channels summed, on recordings that were held out. Lower is better.",
        ),
        html.table(
            ("steps ahead", *map(str, shown)),
            [(name, *(html.number(errors[name][h - 1]) for h in shown)) for name in names],
            ours="PSIM",
        ),
    )


def _rounds(facts: Facts, number: int) -> str:
    if sum(bool(np.isfinite(round.error)) for round in facts.rounds) < 2:
        return ""
    return html.section(
        "Rounds of training",
        html.figure(
            drawn(lambda ax: plot_rounds(facts.rounds, ax=ax), number=number),
            "DAgger: each round is fitted to the beliefs that the rounds before it met. The error is that in closed loop "
            "on held-out recordings, by the criterion that settings are chosen by.",
        ),
    )


def _held_out(facts: Facts, number: int) -> str:
    """A recording as surprising as most, so that it shows neither the best nor the worst."""
    filter, recording, called = _typical(facts)
    window, n = filter.features.window, min(recording.n_channels, 3)

    def draw(axes: Any) -> None:
        plot_forecast(filter, recording, channels=range(n), axes=axes)

    return html.section(
        "Predictions of a held-out recording",
        html.figure(
            drawn(draw, n, 1.3 + 1.25 * n, number),
            f"{called}, {len(recording.values)} rows{_of_channels(recording, n)}, one step ahead with intervals that are "
            f"to hold 90 % of what comes; beliefs look {window} steps ahead. A typical recording, of {facts.judged_on}.",
        ),
    )


def _typical(facts: Facts) -> tuple[Filter, Trajectories, str]:
    """The recording with the median log-likelihood per row; a long one is cut."""
    candidates = [(filter, held, i) for filter, held in facts.judged for i in range(len(held)) if len(held[i]) > 1]
    if not candidates:
        candidates = [(filter, held, i) for filter, held in facts.judged for i in range(len(held))]
    scores = {}
    for filter, held in facts.judged:
        for i, nats in enumerate(held.unpacked(filter.log_likelihood(held))):
            scores[id(held), i] = float(np.mean(nats))
    ordered = sorted(candidates, key=lambda c: scores[id(c[1]), c[2]])
    filter, held, i = ordered[len(ordered) // 2]
    one = held[[i]]
    name = f"Recording {held.ids[i]}" if held.ids is not None else "A stretch of the recording"
    return filter, one.stretches([np.arange(min(LONGEST, len(one.values)))]), name


def _of_channels(recording: Trajectories, n: int) -> str:
    return f", {n} of {recording.n_channels} channels" if recording.n_channels > n else ""


def _calibration(facts: Facts, number: int) -> str:
    horizons = (1, facts.filter.features.window)
    rows = {}
    for horizon in dict.fromkeys(horizons):
        own = [measures.coverage(filter, held, horizon, LEVELS) for filter, held in facts.judged]
        weights = [len(held.values) for _, held in facts.judged]
        known = [(share, w) for share, w in zip(own, weights, strict=True) if not np.isnan(share).any()]
        if known:
            rows[horizon] = np.average([s for s, _ in known], axis=0, weights=[w for _, w in known])
    if not rows:
        return ""

    def draw(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=SEEN, linestyle="--", linewidth=1, label="ideal")
        for (horizon, shares), colour in zip(rows.items(), (OURS, MARK), strict=False):
            ax.plot(LEVELS, shares, marker="o", markersize=4, color=colour, label=_ahead(horizon))
        ax.set(xlabel="interval", ylabel="share that came within", xlim=(0, 1), ylim=(0, 1))

    said = "; ".join(f"{_ahead(h)}, 90 % intervals hold {shares[LEVELS.index(0.9)]:.1%}" for h, shares in rows.items())
    return html.section(
        "Calibration",
        html.figure(
            drawn(draw, height=3.4, number=number),
            f"How much of what came lay within the intervals, of {facts.judged_on}: {said}.",
        ),
    )


def _ahead(horizon: int) -> str:
    return f"{horizon} step{'s' * (horizon > 1)} ahead"


def _surprises(facts: Facts, number: int) -> str:
    data, filter = facts.data, facts.filter
    found = measures.surprises(filter, data, N_SURPRISES, apart=filter.features.window)
    if not found:
        return ""
    most = data[[found[0].recording]]
    row = found[0].row
    start = max(0, min(row - LONGEST // 2, len(most.values) - LONGEST))
    cut = most.stretches([np.arange(start, min(start + LONGEST, len(most.values)))])

    def draw(ax: Any) -> None:
        plot_surprise(filter, cut, ax=ax)

    table = html.table(
        ("recording", "row", "log-likelihood", "channel furthest off", "by"),
        [
            (
                s.recording if data.ids is None else data.ids[s.recording],
                s.row,
                html.number(s.nats),
                _channel(facts, s.channel),
                f"{s.deviations:+.1f} std",
            )
            for s in found
        ],
    )
    shown = f", rows {start} to {start + len(cut.values) - 1}" if len(cut.values) < len(most.values) else ""
    return html.section(
        "The most surprising moments",
        table,
        html.figure(
            drawn(draw, number=number),
            f"Surprise, the negative log-likelihood of each row given those before it, over the recording with the most "
            f"surprising row{shown}. The first row of a recording, before which nothing was seen, is not in the table.",
        ),
    )


def _residuals(facts: Facts, numbers: Any) -> str:
    judged = facts.judged or [(facts.filter, facts.data)]
    errors = [own for own in measures.one_step_errors(judged) if len(own)]
    n_lags = min(N_LAGS, max((len(own) for own in errors), default=0) - 1)
    if n_lags < 1:
        return ""
    rho = measures.autocorrelation(errors, n_lags)
    seen = float(np.mean(np.sum([np.sum(~np.isnan(own), axis=0) for own in errors], axis=0)))
    noise, lags = 1.96 / np.sqrt(max(seen, 1.0)), np.arange(1, n_lags + 1)

    def draw(ax: Any) -> None:
        known = ~np.isnan(rho).all(axis=0)
        own = rho[:, known]
        ax.axhspan(-noise, noise, color=SEEN, alpha=0.25, linewidth=0, label="white noise, 95 %")
        if own.shape[1] > 1:
            ax.fill_between(lags, own.min(axis=1), own.max(axis=1), color=BAND, alpha=0.25, linewidth=0, label="all channels")
        ax.plot(lags, own.mean(axis=1), color=OURS, marker="o", markersize=3.5, label="mean over channels")
        ax.set(xlabel="rows apart", ylabel="correlation", ylim=_limits(own, noise))

    parts = [
        html.figure(
            drawn(draw, number=next(numbers)),
            "Correlation of one-step errors with those some rows earlier. Outside the grey band there is something left "
            "to learn: try a longer window, more lags or --learner auto.",
        )
    ]
    if 1 < facts.data.n_channels <= 60:
        parts.append(_between_channels(measures.correlation(errors), facts, next(numbers)))
    return html.section("What is left in the errors", *parts)


def _limits(rho: np.ndarray, noise: float) -> tuple[float, float]:
    most = max(float(np.nanmax(np.abs(rho), initial=0.0)), noise, 0.1) * 1.1
    return -most, most


def _between_channels(matrix: np.ndarray, facts: Facts, number: int) -> str:
    """Blue for errors that go together, orange for errors that go against each other; strength is opacity."""
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
        names = [_channel(facts, int(c)) for c in places]
        ax.set_xticks(places + 0.5, names, rotation=90)
        ax.set_yticks(places + 0.5, names)

    apart = matrix[~np.eye(n, dtype=bool)]
    return html.figure(
        drawn(draw, height=4.2, number=number),
        "Correlation of one-step errors between channels: blue together, orange against each other. The largest is "
        f"{apart[np.argmax(np.abs(apart))]:+.2f}.",
    )


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _channel(facts: Facts, c: int) -> str:
    names = facts.filter.names or facts.data.names
    return f"channel {c}" if names is None else names[c]
