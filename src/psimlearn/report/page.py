"""The page: the recordings, the filter, its errors and intervals, and the rows that surprised it."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from psimlearn import __version__
from psimlearn.choose.summary import counted, verdict
from psimlearn.evaluate import residuals
from psimlearn.filter import Filter
from psimlearn.recordings.times import spoken
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.report import details, html, quality, surprises
from psimlearn.report.facts import Facts

__all__ = ["fit_page", "model_page"]

MOST_CHANNELS = 25
"""The most channels that the table of recordings lists."""


def fit_page(
    model: Any,
    data: Trajectories,
    title: str = "A filter learnt from recordings",
    made: Mapping[str, Any] | None = None,
) -> str:
    """The page of an estimator that has just been fitted to these recordings.

    Args:
        model: a fitted `PSIM`. One from a file keeps no held-out recordings, see `model_page`.
        data: the recordings it was fitted to.
        title: the heading of the page.
        made: further facts on how the page was made, such as the file and the command.

    Returns:
        The HTML document.
    """
    crossed = residuals.cross_calibrated(model.held_out_)
    if crossed:
        how = "The filter has these settings, but was learnt without these recordings and calibrated on others."
    else:
        crossed, how = [(model.filter_, data)], "There were too few recordings to hold any out: it has seen these."
    report = model.report_
    return _page(Facts(title, data, model.filter_, report, report["errors"], model.rounds_, crossed, how, made or {}))


def model_page(
    filter: Filter,
    report: Mapping[str, Any],
    data: Trajectories,
    errors: Mapping[str, Sequence[float]],
    made: Mapping[str, Any] | None = None,
) -> str:
    """The page of a model from a file, on recordings that it has not seen.

    Args:
        filter: the filter in the file.
        report: the report in the file; empty where the file holds a filter alone.
        data: the new recordings.
        errors: by method, the error at each number of steps ahead on these recordings.
        made: further facts on how the page was made, such as the file and the command.

    Returns:
        The HTML document.
    """
    held_out = [(filter, data)] if filter.calibration is not None else []
    how = "The filter has not seen them."
    return _page(Facts("A filter on new recordings", data, filter, report, errors, [], held_out, how, made or {}))


def _page(facts: Facts) -> str:
    numbers = count(1)
    parts = [_what_was_learnt(facts), _recordings(facts)]
    parts += [quality.errors(facts, next(numbers)), quality.rounds(facts, next(numbers))]
    if facts.held_out:
        parts += [quality.predictions(facts, next(numbers)), details.forecast(facts, next(numbers))]
        parts += [quality.calibration(facts, next(numbers)), details.where(facts)]
    parts += [surprises.surprises(facts, next(numbers)), surprises.residuals(facts, numbers)]
    parts += [details.words(), details.origin(facts.made)]
    return html.document(facts.title, f"psimlearn {__version__}", parts)


def _recordings(facts: Facts) -> str:
    data = facts.data
    missing = np.isnan(data.values)
    parts = data.unpacked(data.values)
    rows = [
        (
            facts.channel(c),
            html.number(np.nanmean(data.values[:, c])) if not missing[:, c].all() else "-",
            html.number(np.nanstd(data.values[:, c])) if not missing[:, c].all() else "-",
            f"{missing[:, c].mean():.1%}",
            max(residuals.longest_gap(part[:, c]) for part in parts),
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
                **({} if data.step is None else {"from row to row": spoken(data.step)}),
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
        "cross weight": f"{choices.get('cross_weight', 1.0):g}",
        "rank": choices["rank"] or "full",
        "best round": choices["best_round"],
        "settings tried": report["tried"],
        "spectral radius": "-" if report["radius"] is None else f"{report['radius']:.3f}",
    }
    said = "" if facts.of_training else verdict(facts.errors)
    lead = html.paragraph(f"O{said[1:]}.", "lead") if said else ""
    trained = report["data"]
    how = (
        "settings were not chosen, and errors are training errors (nothing held out)"
        if facts.of_training
        else f"chosen by closed-loop error on held-out recordings ({report['splits']})"
    )
    about = f"Learnt from {counted(trained['recordings'], 'recording')} with {trained['rows']} rows; {how}."
    noted = [*report["notes"], *report.get("later", {}).get("notes", {}).values()]
    notes = "".join(html.paragraph(f"Note: {note}.") for note in noted)
    return html.section("What was learnt", lead, html.paragraph(about), html.facts(chosen), notes)
