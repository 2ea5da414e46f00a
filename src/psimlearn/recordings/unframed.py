"""Recordings without the frames and dictionaries in which they came. narwhals is imported where a frame came only."""

from collections.abc import Sequence
from typing import Any

from psimlearn.recordings.arrays import is_dictionary

__all__ = ["without_frames"]


def without_frames(recordings: Any, ids: Sequence[Any] | None, step: float | None) -> tuple[Any, Sequence[Any] | None]:
    """Recordings without dictionaries and frames, whose columns are matched by name; and the ids."""
    if is_dictionary(recordings):
        ids = list(recordings) if ids is None else ids
        recordings = list(recordings.values())
    if isinstance(recordings, list | tuple) and any(hasattr(type(part), "columns") for part in recordings):
        from psimlearn.recordings.frames import unframed

        recordings = unframed(recordings, ids, step)
    return recordings, ids
