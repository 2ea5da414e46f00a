"""Observations far outside the range of the training data, as recordings in other units are."""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.learnt import Learnt
from psimlearn.filter.scaling import Scaling
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Bool, Float

__all__ = ["FAR", "Lookout", "Outside", "far_channels", "outside_at", "said_of"]

FAR = 10.0
"""Standard deviations from the mean beyond which a value is far: so far lay 1 % of the training values at most."""
SHARE = 0.1
"""The share of values that must be far before a channel counts as far."""


class Outside(NamedTuple):
    """An observation far outside the range of the training data."""

    stream: int
    channel: int | str
    """The name of the channel, or its number where it has none."""
    factor: float
    """Its distance from the mean of the training data, in their standard deviations."""


def outside_at(filter: Learnt, x: Float[np.ndarray, "b n"], seen: Bool[np.ndarray, "b n"]) -> list[Outside]:
    """The far entries among the seen ones of one standardised row of each stream."""
    if not _has_range(filter.scaling):
        return []
    far = seen & (np.abs(x) > FAR)
    return [Outside(int(i), _called(filter, int(c)), float(abs(x[i, c]))) for i, c in np.argwhere(far)]


def far_channels(filter: Learnt, data: Trajectories) -> dict[str, float]:
    """The channels and inputs in which a tenth of the values is far, each with the distance that a tenth exceeds."""
    beside = [("channel", data.values, filter.scaling), ("input", data.inputs, filter.input_scaling)]
    found = {}
    for what, values, scaling in beside:
        if values is None or scaling is None or filter.alphabet is not None or not _has_range(scaling):
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            distances = np.abs(scaling(values))
        for c, distance in enumerate(distances.T):
            known = distance[~np.isnan(distance)]
            most = float(np.quantile(known, 1 - SHARE)) if len(known) else 0.0
            if most > FAR:
                found[f"{what} {_called(filter, c)!r}" if what == "channel" else f"{what} {c}"] = most
    return found


class Lookout:
    """Watches live rows for channels and inputs far outside the range of the training data; each is found once."""

    def __init__(self, filter: Learnt) -> None:
        channels = [f"channel {_called(filter, c)!r}" for c in range(len(filter.scaling.mean))]
        inputs = [] if filter.input_scaling is None else [f"input {c}" for c in range(len(filter.input_scaling.mean))]
        known = [s for s in (filter.scaling, filter.input_scaling) if s is not None]
        self.names = channels + inputs
        self.scaling = Scaling(*(np.concatenate(parts) for parts in zip(*known, strict=True)))
        ranges = [np.full(len(s.mean), filter.alphabet is None and _has_range(s)) for s in known]
        self.left = np.concatenate(ranges)
        """Marks the channels and inputs that are still watched."""

    def found(self, rows: Float[np.ndarray, "b columns"]) -> list[tuple[int, str]]:
        """For each column that is far for the first time, the row and a sentence."""
        if not self.left.any():
            return []
        with np.errstate(over="ignore"):
            distance = np.abs(self.scaling(rows))
        far = (distance > FAR) & self.left
        self.left = self.left & ~far.any(axis=0)
        firsts = [(int(np.argmax(far[:, c])), c) for c in np.flatnonzero(far.any(axis=0))]
        return [
            (row, f"{self.names[c]} lies {distance[row, c]:.3g} standard deviations from the mean of the training data")
            for row, c in firsts
        ]


def said_of(far: dict[str, float]) -> str:
    """A sentence on far channels."""
    first = ", ".join(f"{name} {factor:.3g}" for name, factor in list(far.items())[:3])
    more = f" and {len(far) - 3} more" if len(far) > 3 else ""
    return (
        "the recordings lie far outside the range of the training data. A tenth of the values lies at least so many of "
        f"its standard deviations from its mean: {first}{more}. Check units and the order of channels"
    )


def _has_range(scaling: Scaling) -> bool:
    """Whether the scaling comes from data: without standardisation it says nothing of their range."""
    return bool(scaling.mean.any() or (scaling.scale != 1).any())


def _called(filter: Learnt, channel: int) -> int | str:
    return channel if filter.names is None else filter.names[channel]
