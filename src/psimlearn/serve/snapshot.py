"""What is kept of one stream as bytes, and back: checked, because a disk may return anything."""

import json
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from psimlearn.errors import DataError
from psimlearn.filter.doubt import Doubt
from psimlearn.filter.step import State
from psimlearn.recordings.steps import Beat
from psimlearn.recordings.times import Moment
from psimlearn.serve.bank import Kept, new_kept
from psimlearn.serve.rowtimes import RowTimes
from psimlearn.serve.served import Served
from psimlearn.serve.taking import usable

__all__ = ["kept_from", "kept_to_bytes", "times_from", "times_to_json"]

FIELDS = ("belief", "recent", "clock", "unseen", "late", "unrest", "x", "u", "waits", "rings", "calm", "inputs")


def kept_to_bytes(kept: Kept) -> bytes:
    """One stream as bytes, to the last bit."""
    doubt = kept.memory.state.doubt
    arrays = {name: np.ascontiguousarray(array) for name, array in zip(FIELDS, _arrays(kept), strict=True)}
    if doubt is not None and doubt.group[0] >= 0:
        arrays["spread"] = np.ascontiguousarray(doubt.spread[[doubt.group[0]]])
    return safetensors.save(arrays)


def kept_from(data: bytes, served: Served) -> Kept:
    """The stream of these bytes; DataError if they are no stream of this model."""
    try:
        arrays = safetensors.load(data)
    except (SafetensorError, TypeError, ValueError) as error:
        raise DataError(f"state: required the bytes of a stream, received others ({error!s:.80}).") from error
    spread = arrays.pop("spread", None)
    like = dict(zip(FIELDS, _arrays(new_kept(served, 1)), strict=True))
    for name, array in like.items():
        if name == "unrest" and not array.size:  # states of earlier versions have none
            arrays[name] = array
        found = arrays.get(name)
        if found is None or (found.shape, found.dtype) != (array.shape, array.dtype):
            raise DataError(f"state: required {name} of shape {array.shape}, received another.")
        if np.isinf(found).any() or (name != "x" and np.isnan(found).any()):  # of a row that waits, channels may miss
            raise DataError(f"state: required finite numbers in {name}, received others.")
    if spread is not None and (spread.dtype != np.float64 or spread.ndim != 3 or not np.isfinite(spread).all()):
        raise DataError("state: required a finite covariance, received another.")
    belief, recent, clock, unseen, late, unrest, x, u, waits, rings, calm, inputs = (arrays[name] for name in FIELDS)
    doubt = None if spread is None else Doubt(np.zeros(1, dtype=np.int64), spread)
    kept = new_kept(served, 1)
    state = State(belief, recent, clock, unseen, late, doubt, unrest if unrest.size else None)
    if not usable(state):  # as earlier versions let rows make it
        raise DataError("state: required numbers that can be computed with, received too large ones.")
    return Kept(kept.memory._replace(state=state, x=x, u=u, waits=waits), rings, calm, inputs)


def _arrays(kept: Kept) -> list[np.ndarray]:
    state, *waiting = kept.memory
    unrest = np.empty((1, 0)) if state.unrest is None else state.unrest
    return [*(np.asarray(part) for part in state[:5]), unrest, *waiting, *kept[1:]]


def times_to_json(times: RowTimes | None) -> str | None:
    """The times of the last rows of a stream as text; None if its rows have none."""
    if times is None:
        return None
    last = times.last and [*times.last.moment, times.last.late]
    before, *doubted = (moment and list(moment) for moment in (times.before, *times.doubted))
    return json.dumps({"last": last, "before": before, "doubted": doubted, "written": times.written})


def times_from(text: str | None, step: float | None) -> RowTimes | None:
    """The times of the last rows of a stream; DataError if they are none."""
    if text is None:
        return None
    times = RowTimes(step, restarts=False)
    try:
        noted: dict[str, Any] = json.loads(text)
        *last, late = noted["last"] or [None]
        times.last = Beat(Moment(*last), late) if last else None
        times.before, *times.doubted = (moment and Moment(*moment) for moment in (noted["before"], *noted["doubted"]))
        times.written = noted["written"]
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(f"times: required those of the last rows, received others ({error!s:.80}).") from error
    return times
