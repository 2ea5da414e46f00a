"""Strategies of hypothesis for recordings that are unusual in every way at once."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["channels", "wild_recordings"]


@st.composite
def channels(draw: Any, rows: int) -> np.ndarray:
    """One channel over all rows: noise, a walk, a ramp, a switch, a constant ..., in any unit and at any offset."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shapes = {
        "noise": rng.standard_normal(rows),
        "walk": np.cumsum(rng.standard_normal(rows)),
        "explosion": 1.3 ** np.arange(rows),
        "ramp": np.arange(rows, dtype=float),
        "switch": (rng.random(rows) < 0.2).astype(float),
        "spike": (np.arange(rows) == rows // 2).astype(float),
        "constant": np.ones(rows),
        "zero": np.zeros(rows),
        "wide": rng.standard_normal(rows) * 10.0 ** rng.integers(-8, 9, rows),
    }
    unit = 10.0 ** draw(st.sampled_from([-150, -100, -20, -3, 0, 0, 0, 3, 20, 100, 150]))
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, -1e3, 1e8, 1e15])) * unit
    values: np.ndarray = np.clip(shapes[draw(st.sampled_from(sorted(shapes)))] * unit + offset, -1e150, 1e150)
    return values


@st.composite
def wild_recordings(draw: Any) -> list[np.ndarray]:
    """A ragged list of finite recordings with gaps, of channels in wildly different units."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    n = draw(st.integers(1, 3))
    values = np.stack([draw(channels(sum(lengths))) for _ in range(n)], axis=1)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    missing = draw(st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.95]))
    values[rng.random(values.shape) < missing] = np.nan
    return np.split(values, np.cumsum(lengths)[:-1])
