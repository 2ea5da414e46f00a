"""Numbers as text, many rows at a time."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isnan
from typing import Any

import numpy as np

from psimlearn.shapes import Float

__all__ = ["csv_cell", "csv_numbers", "json_lines"]

CELL = "%.12g"
"""Twelve digits: more than a prediction is worth."""
EXACT = 2**53
"""Floats below this represent every whole number exactly."""
LARGEST = float(np.finfo(np.float64).max)


def csv_cell(value: Any) -> str:
    """An id, a time or a name as a cell of a CSV file, quoted if needed."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_numbers(rows: Float[np.ndarray, "rows columns"]) -> list[str]:
    """Each row as numbers separated by commas; NaN becomes an empty cell."""
    texts = _filled(rows, [""] * rows.shape[1], ",")
    return [text.replace("nan", "") for text in texts] if np.isnan(rows).any() else texts


def json_lines(
    keys: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    rows: Float[np.ndarray, "rows _"],
    last: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """Each row as a JSON object that begins with its keys and ends with its last entries; NaN becomes null.

    JSON has no infinity. The largest number replaces it, so that the log-likelihood of a huge row rings an alarm.
    """
    labels = [f"{json.dumps(name)}: " for name in names]
    if not np.isfinite(rows).all():
        values = ([None if isnan(v) else v for v in row] for row in np.clip(rows, -LARGEST, LARGEST).tolist())
        texts = [json.dumps(dict(zip(names, row, strict=True)))[1:] for row in values]
    else:
        texts = [text + "}" for text in _filled(rows, labels, ", ")]
    texts = [(json.dumps(key)[:-1] + ", " if key else "{") + text for key, text in zip(keys, texts, strict=True)]
    return [f"{text[:-1]}, {json.dumps(end)[1:]}" for text, end in zip(texts, last, strict=True)] if last else texts


def _filled(rows: Float[np.ndarray, "rows columns"], labels: Sequence[str], between: str) -> list[str]:
    """Each row as text, from one template; columns with equal cells are written into the template once."""
    if not len(rows):
        return []
    same = (rows == rows[0]).all(axis=0)
    cells = [CELL % value if stays else CELL for value, stays in zip(rows[0].tolist(), same.tolist(), strict=True)]
    quoted = (label.replace("%", "%%") for label in labels)
    template = between.join(label + cell for label, cell in zip(quoted, cells, strict=True))
    return [template % tuple(row) for row in rows[:, ~same].tolist()]
