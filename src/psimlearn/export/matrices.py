"""A linear filter as the matrices of its state-space model, in JSON, for any language."""

import json
from typing import Any

from psimlearn.filter.learnt import Learnt
from psimlearn.filter.statespace import StateSpace

__all__ = ["matrices"]

VERSION = 2
"""The version of this form. A change after which old readers would compute something else gives it a new number."""
EQUATIONS = [
    "first state: s = start.mean + start.inputs (u_1 - input_mean)",
    "at every row: x_expected = mean + C s + D (u - input_mean), and e = x - x_expected, with covariance V",
    "at the first rows, as many as start.gains has: then s = s + start.gains[row] e",
    "next state: s = A s + B (u - input_mean) + K e + drift",
]


def matrices(filter: Learnt, tolerance: float = 1e-12) -> str:
    """The state-space model of a linear filter as JSON; matrices are lists of rows.

    Args:
        filter: a linear filter.
        tolerance: the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
    """
    model = StateSpace.of_filter(filter, tolerance)
    parts: dict[str, Any] = {
        "format": "psimlearn state space",
        "version": VERSION,
        "equations": EQUATIONS,
        "channels": None if model.names is None else list(model.names),
        "order": model.order,
        **{letter: getattr(model, letter).tolist() for letter in "ABCDKV"},
        "mean": model.scaling.mean.tolist(),
        "input_mean": model.input_scaling.mean.tolist(),
        "drift": model.drift.tolist(),
        "start": {name: part.tolist() for name, part in model.start._asdict().items()},
        "reduction_error": model.reduction_error,
    }
    return json.dumps(parts, indent=1, allow_nan=False) + "\n"
