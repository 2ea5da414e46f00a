"""The report of a fit: plain values that a file can hold, and the text of `summary()`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from psimlearn.errors import DataError
from psimlearn.evaluate import Forecaster, Measure, errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["NATS", "described", "error_table", "summarised"]

LEARNERS = {
    "Ridge": "linear regression",
    "RandomFourierRidge": "random Fourier features",
    "GaussianLearner": "regression of mean and log-variance",
    "SymbolRidge": "joint regression and conditioning",
    "SymbolLogistic": "logistic regression",
}
METHODS = ("training mean", "last observation", "autoregression", "frequencies", "bigrams", "trigrams", "PSIM")
"""Methods in the order of the table, the simplest first; a file does not keep an order."""


NATS = "nats per symbol"
"""The unit of errors in predicting symbols."""


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


def summarised(report: Mapping[str, Any]) -> str:
    """The report as text."""
    data, choices, symbolic = report["data"], report["choices"], report["units"] == NATS
    what = "symbols" if symbolic else "channels"
    unit = NATS if symbolic else f"squared {report['units']}, channels summed"
    extras = "".join(f", {data[what]} {what}" for what in ("inputs", "hints") if data[what])
    gaps = f", {data['missing']:.1%} missing" if data["missing"] else ""
    ridge = "" if choices["alpha"] is None else f", ridge {choices['alpha']:.0e}"
    bandwidth = "" if choices["bandwidth_factor"] is None else f", bandwidth factor {choices['bandwidth_factor']:g}"
    learner = LEARNERS.get(choices["learner"], choices["learner"]) + ridge + bandwidth
    level = "" if choices["level_weight"] is None else f", level weight {choices['level_weight']:g}"
    recipe = (
        f"contexts of {choices['lags']}, {choices['floor'] or 0:.2g} of every belief"
        if symbolic
        else f"lags {choices['lags']}, prior {choices['prior']!r}, belief weight {choices['belief_weight']:g}{level}, "
        f"rank {choices['rank'] or 'full'}"
    )
    radius = "" if report["radius"] is None else f", spectral radius {report['radius']:.3f}"
    epochs = "" if choices.get("epochs") is None else f", {choices['epochs']} epochs"
    outside = f", {report['outside']:.1%} of later examples outside it" if "outside" in report else ""
    lines = [
        (
            f"data       {data['recordings']} recordings of {data['shortest']} to {data['longest']} rows, "
            f"{data['rows']} in all, {data['channels']} {what}{extras}{gaps}"
        ),
        (f"chosen     {learner}; {recipe}; {choices['trainer']}, round {choices['best_round']}{epochs}"),
        f"held out   {report['splits']}; {report['tried']} settings tried, {report['diverged']} diverged",
        (
            f"in loop    {report['clipped']:.1%} of beliefs on the edge of the box{outside}, {report['dropped']} rows "
            f"dropped{radius}"
        ),
        "",
        f"held-out error by steps ahead, in {unit}{', inputs to come known' if data['inputs'] else ''}:",
    ]
    steps = len(next(iter(report["errors"].values()), []))
    lines.append(" " * 18 + "".join(f"{h:>10}" for h in range(1, steps + 1)))
    lines += _rows(report["errors"])
    if "inputs_unknown" in report:
        lines += ["the same, inputs to come unknown:", *_rows(report["inputs_unknown"]["errors"])]
    lines += ["", *(f"note: {note}" for note in report["notes"])] if report["notes"] else []
    return "\n".join(lines)


def _rows(errors: Mapping[str, Sequence[float]]) -> list[str]:
    """A line for each method, the simplest first."""
    names = sorted(errors, key=lambda name: METHODS.index(name) if name in METHODS else -1)
    return [f"{name:18}" + "".join(f"{e:10.4g}" for e in errors[name]) for name in names]
