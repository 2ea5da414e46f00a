"""Fingerprints of the recordings and of each setting of a fit, so that checkpoints of other fits are refused."""

import re
from dataclasses import fields
from hashlib import sha256

import numpy as np

from psimlearn.choose.settings import Settings
from psimlearn.recordings.catalogue import Catalogue
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int

__all__ = ["described", "fingerprints", "of_recordings"]


def fingerprints(
    data: Trajectories | Catalogue, settings: Settings, split: Int[np.ndarray, " m"] | str | None
) -> dict[str, str]:
    """A text for the recordings, for their groups and for each setting: equal for the same fit in every process.

    `split` is the groups, or tells how large a sample of shards is.
    """
    given = {field.name: getattr(settings, field.name) for field in fields(settings)}
    texts = {name: of_recordings(v) if isinstance(v, Trajectories) else described(v) for name, v in given.items()}
    recordings = data.fingerprint if isinstance(data, Catalogue) else of_recordings(data)
    groups, sample = (_digest(split), "") if isinstance(split, np.ndarray) else ("", split or "")
    return texts | {"recordings": recordings, "groups": groups, "sample_rows": sample}


def of_recordings(data: Trajectories) -> str:
    """The fingerprint of recordings: of every number in them, of their names and of their step."""
    arrays = [array for array in (data.values, data.offsets, data.inputs, data.hints) if array is not None]
    return _digest(*arrays, about=f"{data.names} {data.alphabet} {data.step} {data.inputs is None}")


def described(value: object) -> str:
    """A setting in words. The address of an object, another one in the next process, is left out."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _digest(*arrays: np.ndarray, about: str = "") -> str:
    digest = sha256(about.encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
