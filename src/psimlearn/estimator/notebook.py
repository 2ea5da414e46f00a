"""A fitted `PSIM` in a notebook: the recordings, the chosen settings, and errors beside those of simple methods."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from psimlearn.choose.summary import METHODS, NOTHING_HELD_OUT, counted, kind_of_errors, verdict
from psimlearn.markup import card, chart, paragraph, table
from psimlearn.recordings.times import spoken

__all__ = ["card_of_model"]

COLUMNS = 6
"""The most horizons in a table."""


def card_of_model(model: Any) -> str:
    """A fitted `PSIM` as HTML."""
    report, filter = model.report_, model.filter_
    order = sorted(report["errors"], key=lambda name: METHODS.index(name) if name in METHODS else -1)
    errors = {name: list(map(float, report["errors"][name])) for name in order if len(report["errors"][name])}
    held = report["splits"] != NOTHING_HELD_OUT
    said = verdict(errors) if held else ""
    notes = [*report["notes"], *report.get("later", {}).get("notes", {}).values()]
    unit = report["units"] if "nats" in str(report["units"]) else f"squared {report['units']}"
    ours_first = dict(sorted(errors.items(), key=lambda pair: pair[0] != "PSIM"))
    return card(
        f"{type(model).__name__}, fitted",
        _data(report, filter) | _chosen(report, filter),
        paragraph(f"O{said[1:]}.") if said else "",
        _table(errors, held),
        chart(ours_first, f"{kind_of_errors(report)} by steps ahead, in {unit}", zero=True),
        *(paragraph(f"Note: {note}.") for note in notes),
    )


def _data(report: Mapping[str, Any], filter: Any) -> dict[str, Any]:
    data = report["data"]
    facts = {"learnt from": counted(data["recordings"], "recording"), "rows": data["rows"]}
    facts |= {"channels" if filter.alphabet is None else "symbols": data["channels"]}
    facts |= {name: data[name] for name in ("inputs", "hints") if data[name]}
    facts |= {"missing": f"{data['missing']:.1%}"} if data["missing"] else {}
    return facts | ({} if filter.time_step is None else {"from row to row": spoken(filter.time_step)})


def _chosen(report: Mapping[str, Any], filter: Any) -> dict[str, Any]:
    choices = report["choices"]
    facts = {"learner": choices["learner"], "window": filter.features.window, "lags": choices["lags"]}
    facts |= {} if choices["alpha"] is None else {"ridge": f"{choices['alpha']:.0e}"}
    if filter.alphabet is None:
        facts |= {"prior": choices["prior"], "belief weight": f"{choices['belief_weight']:g}"}
        facts |= {"rank": choices["rank"] or "full"}
    return facts | {"best round": choices["best_round"], "settings tried": report["tried"]}


def _table(errors: Mapping[str, Sequence[float]], held: bool) -> str:
    """Errors by steps ahead, the least of each column in bold if they are held-out errors."""
    if not errors:
        return ""
    longest = min(map(len, errors.values()))
    steps = np.unique(np.linspace(1, longest, min(longest, COLUMNS)).round().astype(int)).tolist()
    rows = [[name, *(line[step - 1] for step in steps)] for name, line in errors.items()]
    columns = [[line[step - 1] for line in errors.values()] for step in steps]
    best = [None, *(int(np.nanargmin(column)) if np.isfinite(column).any() else None for column in columns)]
    return table(["steps ahead", *map(str, steps)], rows, best if held else ())
