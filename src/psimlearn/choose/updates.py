"""The report after more recordings: what they did to the filter, and whether a refit is due."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from psimlearn.choose.summary import NATS, NOTHING_HELD_OUT, described, error_table
from psimlearn.errors import PsimlearnWarning
from psimlearn.filter import Filter, Linear
from psimlearn.learners import GramSums
from psimlearn.learners.blackbox import Stacked
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.losses import LogLoss

__all__ = ["error_on_sums", "updated", "warn_if_untested", "warned"]

HARM = 1.1
"""The error on the earlier examples may rise by this factor before users are warned."""
UNLIKE = 2.0
"""The error on new recordings, before they are learnt from, may exceed the held-out error by this factor."""
OUTSIDE = 0.05
"""The share of new examples that may lie outside the box."""


def error_on_sums(filter: Filter, sums: Any) -> float | None:
    """The mean squared error of a filter's last regressor on the examples of these sums; None if they cannot tell.

    A file keeps sums and no recordings: so harm to earlier recordings shows without them.
    """
    regressor = filter.regressors[-1]
    if isinstance(sums, Stacked):
        return float(np.mean(np.sum((sums.y - regressor(sums.z)) ** 2, axis=1)))
    linear = regressor if isinstance(regressor, Linear) else getattr(regressor, "linear", None)
    if not (isinstance(sums, GramSums) and isinstance(linear, Linear) and linear.weights.shape == sums.zy.shape):
        return None
    rounding = 1e-9 * sums.yy  # of a difference of sums as large as yy
    return max(sums.less(linear.weights, linear.intercept).yy, rounding) / max(sums.n, 1.0)


def updated(
    report: Mapping[str, Any], before: Filter, sums: Any, after: Filter, outside: float, data: Trajectories
) -> dict[str, Any]:
    """The report of a model that has learnt from more recordings.

    Args:
        report: the report so far.
        before: the filter before it learnt from these recordings.
        sums: the sums of all earlier examples.
        after: the filter that has learnt from them.
        outside: the share of new examples outside the box.
        data: the new recordings.
    """
    earlier = report.get("later", {"updates": 0, "recordings": 0, "rows": 0, "chosen_on": report["data"]["rows"]})
    old, new = error_on_sums(before, sums), error_on_sums(after, sums)
    later = {
        "updates": earlier["updates"] + 1,
        "recordings": earlier["recordings"] + len(data),
        "rows": earlier["rows"] + len(data.values),
        "chosen_on": earlier["chosen_on"],
        "errors": _errors_of(before, data, report),
        "harm": None if old is None or new is None or not old > 0 else new / old,
        "due": earlier["rows"] + len(data.values) >= earlier["chosen_on"],
    }
    later["notes"] = _notes(later, report, outside)
    return {**report, "data": _together(report["data"], described(data)), "outside": outside, "later": later}


def warned(report: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Warn of the notes of the last update; that settings are due is said once."""
    due_before = before.get("later", {}).get("due", False)
    for kind, note in report["later"]["notes"].items():
        if kind != "due" or not due_before:
            warnings.warn(f"partial_fit: {note}.", PsimlearnWarning, stacklevel=4)


def warn_if_untested(report: Mapping[str, Any]) -> None:
    """Warn of a fit that held nothing out, whose errors say nothing about new rows."""
    if report["splits"] == NOTHING_HELD_OUT:
        note = next(note for note in report["notes"] if note.startswith("too few rows"))
        warnings.warn(
            f"fit: {note}. Its errors are training errors, which say nothing about new rows. Use more rows, or pass "
            "validation=recordings.",
            PsimlearnWarning,
            stacklevel=3,
        )


def _errors_of(filter: Filter, data: Trajectories, report: Mapping[str, Any]) -> list[float]:
    """Errors of the filter on recordings that it has not seen, by steps ahead; none where they are too short."""
    horizon = min(len(report["errors"].get("PSIM", [0])), int(data.lengths.max()) - 1)
    if horizon < 1:
        return []
    measure = LogLoss().nats if report["units"] == NATS else None
    return error_table({"PSIM": [filter]}, [(data, filter.scaling.scale)], horizon, measure).get("PSIM", [])


def _notes(later: Mapping[str, Any], report: Mapping[str, Any], outside: float) -> dict[str, str]:
    """By kind, what users must know."""
    notes, advice = {}, "fit() on all recordings is due"
    if later["harm"] is not None and later["harm"] > HARM:
        notes["harm"] = f"the error on the earlier examples rose by {later['harm'] - 1:.0%}; {advice}"
    choices = report["choices"]
    if later["updates"] == 1 and choices.get("states") is not None and choices["best_round"] == 0:
        notes["system"] = (
            "the filter of a linear system, which was the best, gives way to a regression, which can learn more and "
            "may be worse; fit() on all recordings avoids that"
        )
    held = report["errors"].get("PSIM", [np.inf])[0]
    if later["errors"] and later["errors"][0] > UNLIKE * held:
        rows = "the rows" if report["splits"] == NOTHING_HELD_OUT else "held-out recordings"
        notes["unlike"] = (
            f"before it learnt from the new recordings, the filter had an error of {later['errors'][0]:.3g} on them, "
            f"and {held:.3g} on {rows} of the first fit: the new ones are of another kind; {advice}"
        )
    if outside > OUTSIDE:
        notes["outside"] = (
            f"{outside:.1%} of the new examples lie outside the range of the earlier ones, at whose edge the filter "
            f"keeps its beliefs; {advice}"
        )
    if later["due"]:
        notes["due"] = (
            f"settings and uncertainty come from the first {later['chosen_on']} rows, and {later['rows']} rows came "
            f"later; {advice}"
        )
    return notes


def _together(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The description of earlier and new recordings together."""
    rows = old["rows"] + new["rows"]
    missing = (old["missing"] * old["rows"] + new["missing"] * new["rows"]) / rows
    return {
        **old,
        "recordings": old["recordings"] + new["recordings"],
        "rows": rows,
        "shortest": min(old["shortest"], new["shortest"]),
        "longest": max(old["longest"], new["longest"]),
        "missing": missing,
    }
