"""The report of a fit: plain values that a file can hold, and the text of `summary()`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from psimlearn.errors import DataError
from psimlearn.evaluate import Forecaster, Measure, errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["NATS", "NOTHING_HELD_OUT", "counted", "described", "error_table", "kind_of_errors", "summarised", "verdict"]

LEARNERS = {
    "Ridge": "linear regression",
    "RandomFourierRidge": "random Fourier features",
    "RidgeAndTrees": "linear regressions, each with trees on its errors",
    "GaussianLearner": "regression of mean and log-variance",
    "SymbolRidge": "joint regression and conditioning",
    "SymbolLogistic": "logistic regression",
}
METHODS = ("training mean", "last observation", "autoregression", "frequencies", "bigrams", "trigrams", "PSIM")
"""Methods in the order of the table, the simplest first; a file does not keep an order."""


NATS = "nats per symbol"
"""The unit of errors in predicting symbols."""
NOTHING_HELD_OUT = "nothing held out"
"""The splits in words, where there were too few rows for any."""


def described(data: Trajectories) -> dict[str, Any]:
    """Counts and lengths of recordings, and the share that is missing."""
    return {
        "recordings": len(data),
        "rows": len(data.values),
        "channels": data.n_channels,
        "inputs": data.n_inputs,
        "hints": data.n_hints,
        "shortest": int(data.lengths.min()),
        "longest": int(data.lengths.max()),
        "missing": float(np.isnan(data.values).mean()),
    }


def error_table(
    methods: Mapping[str, Sequence[Forecaster]],
    held_out: Sequence[tuple[Trajectories, Float[np.ndarray, " n"]]],
    horizon: int,
    measure: Measure | None = None,
) -> dict[str, list[float]]:
    """Errors of each method by horizon, averaged over splits; the first row of a recording does not count.

    Args:
        methods: forecasters by name, one for each split.
        held_out: the held-out recordings of each split, and the scales of their channels.
        horizon: the most steps ahead.
        measure: the error of predictions; None for the mean square.
    """
    table = {}
    for name, forecasters in methods.items():
        try:
            errors = [
                errors_by_horizon(forecaster, held, horizon, skip=1, scale=scale, measure=measure)
                for forecaster, (held, scale) in zip(forecasters, held_out, strict=bool(forecasters))
            ]
        except DataError:  # nothing was observed at some horizon
            continue
        if errors:
            table[name] = [float(e) for e in np.mean(errors, axis=0)]
    return table


BEGINS = {
    "any moment": "gains of their own, learnt from all rows: recordings begin at any moment",
    "first rows": "gains of their own, learnt from first rows",
}
"""How recordings begin, in words; filters of most other learners, and of earlier versions, do not know it."""
LEVEL = 5e-4
"""Errors that differ by less than this share would be printed as the same."""


def counted(n: int, noun: str) -> str:
    """A number with its noun: 1 recording, 2 recordings."""
    return f"{n} {noun}{'s' * (n != 1)}"


def kind_of_errors(report: Mapping[str, Any]) -> str:
    """What the errors of a report are: held-out errors; or training errors, which compare no methods."""
    return "training error" if report.get("splits") == NOTHING_HELD_OUT else "held-out error"


def verdict(errors: Mapping[str, Sequence[float]], ours: str = "PSIM") -> str:
    """One sentence on the filter beside the best simple method one step ahead; empty without both."""
    others = {name: error[0] for name, error in errors.items() if name != ours and len(error) and error[0] > 0}
    if ours not in errors or not others or not np.isfinite([errors[ours][0], min(others.values())]).all():
        return ""
    best = min(others, key=others.__getitem__)
    share = errors[ours][0] / others[best]
    if abs(share - 1) < LEVEL:
        return f"one step ahead {ours} and {best}, the best simple method, are level"
    if share > 1:
        return f"one step ahead {best} does better: the error of {ours} is {share - 1:.1%} above its error"
    return f"one step ahead the error of {ours} is {share:.1%} of that of {best}, the best simple method"


def summarised(report: Mapping[str, Any]) -> str:
    """The report as text."""
    data, choices = report["data"], report["choices"]
    kind, held = kind_of_errors(report), report["splits"] != NOTHING_HELD_OUT
    unit = NATS if report["units"] == NATS else f"squared {report['units']}, channels summed"
    radius = "" if report["radius"] is None else f", spectral radius {report['radius']:.3f}"
    epochs = "" if choices.get("epochs") is None else f", {choices['epochs']} epochs"
    outside = f", {report['outside']:.1%} of later examples outside it" if "outside" in report else ""
    lines = [
        f"data       {_described(report)}",
        *_later(report),
        f"chosen     {_chosen(report)}; {choices['trainer']}, round {choices['best_round']}{epochs}",
        f"held out   {report['splits']}; {counted(report['tried'], 'setting')} tried, {report['diverged']} diverged",
        (
            f"in loop    {report['clipped']:.1%} of beliefs on the edge of the box{outside}, "
            f"{counted(report['dropped'], 'row')} dropped{radius}"
        ),
        *([f"first rows {BEGINS[choices['begins']]}"] if choices.get("begins") else []),
        *_examples(choices),
        "",
        f"{kind} by steps ahead, in {unit}{', inputs to come known' if data['inputs'] else ''}:",
    ]
    steps = len(next(iter(report["errors"].values()), []))
    lines.append((" " * 18 + "".join(f"{h:>9} " for h in range(1, steps + 1))).rstrip())
    lines += _rows(report["errors"], held)
    if "inputs_unknown" in report:
        lines += ["the same, inputs to come unknown:", *_rows(report["inputs_unknown"]["errors"], held)]
    said = verdict(report["errors"]) if held else ""
    lines += [f"* the least; {said}"] if said else []
    notes = [*report["notes"], *report.get("later", {}).get("notes", {}).values()]
    lines += ["", *(f"note: {note}" for note in notes)] if notes else []
    return "\n".join(lines)


def _described(report: Mapping[str, Any]) -> str:
    """The recordings in words."""
    data = report["data"]
    symbols = report["units"] == NATS
    width = counted(data["channels"], "symbol" if symbols else "channel")
    extras = "".join(f", {counted(data[f'{what}s'], what)}" for what in ("input", "hint") if data[f"{what}s"])
    gaps = f", {data['missing']:.1%} missing" if data["missing"] else ""
    same = data["shortest"] == data["longest"]
    length = counted(data["longest"], "row") if same else f"{data['shortest']} to {data['longest']} rows"
    total = f", {data['rows']} in all" if data["recordings"] > 1 else ""
    return f"{counted(data['recordings'], 'recording')} of {length}{total}, {width}{extras}{gaps}"


def _later(report: Mapping[str, Any]) -> list[str]:
    """A line on recordings that were learnt from later, and what became of the error on the earlier ones."""
    if "later" not in report:
        return []
    later = report["later"]
    harm = (
        "" if later["harm"] is None else f"; the last changed the error on earlier examples by {later['harm'] - 1:+.1%}"
    )
    error = f", {later['errors'][0]:.4g} on its recordings before they were learnt" if later["errors"] else ""
    count = f"{counted(later['recordings'], 'recording')} of these, {counted(later['rows'], 'row')}"
    updates = counted(later["updates"], "update")
    return [f"later      {count}, in {updates}{harm}{error}; settings and errors below are of the first fit"]


def _chosen(report: Mapping[str, Any]) -> str:
    """The learner and the recipe in words."""
    choices = report["choices"]
    ridge = "" if choices["alpha"] is None else f", ridge {choices['alpha']:.0e}"
    bandwidth = "" if choices["bandwidth_factor"] is None else f", bandwidth factor {choices['bandwidth_factor']:g}"
    known = LEARNERS.get(choices["learner"], choices["learner"])
    if choices["learner"] == "RidgeAndTrees" and choices.get("n_features"):  # files of earlier versions do not say
        known = known.replace(",", ", two of them on random features too,", 1)
    learner = known + ridge + bandwidth
    if report["units"] == NATS:
        return f"{learner}; contexts of {choices['lags']}, {choices['floor'] or 0:.2g} of every belief"
    level = "" if choices["level_weight"] is None else f", level weight {choices['level_weight']:g}"
    cross = choices.get("cross_weight", 1.0)  # files of earlier versions do not say
    cross = "" if cross == 1 else f", cross weight {cross:g}"
    return (
        f"{learner}; lags {choices['lags']}, prior {choices['prior']!r}, belief weight {choices['belief_weight']:g}"
        f"{level}{cross}, {_fed_back(choices)}"
    )


def _fed_back(choices: Mapping[str, Any]) -> str:
    """How many directions of the belief are fed back, in words; files of earlier versions know no states."""
    if choices.get("states") is None:
        return f"rank {choices['rank'] or 'full'}"
    return f"begun with a linear system of {counted(choices['states'], 'state')}, from {choices['past']} rows of past"


def _examples(choices: Mapping[str, Any]) -> list[str]:
    """A line on first rows that were not learnt from; files of earlier versions know of none."""
    skip = choices.get("skip")
    return [f"examples   without the first {counted(skip, 'row')} of each recording, which misled"] if skip else []


def _rows(errors: Mapping[str, Sequence[float]], held: bool = True) -> list[str]:
    """A line for each method, the simplest first; a star after the least error of each column if these were held out.

    Training errors compare nothing: the method that can learn most by heart has the least.
    """
    names = sorted(errors, key=lambda name: METHODS.index(name) if name in METHODS else -1)
    least = [min(column) for column in zip(*(errors[name] for name in names), strict=True)]

    def cell(error: float, best: float) -> str:
        return f"{error:9.4g}{'*' if held and error == best else ' '}"

    return [f"{name:18}" + "".join(map(cell, errors[name], least)).rstrip() for name in names]
