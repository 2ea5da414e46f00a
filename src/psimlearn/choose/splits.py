"""Which recordings train and which are held out."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from psimlearn.choose.settings import Settings
from psimlearn.errors import DataError
from psimlearn.evaluate import folds, time_folds
from psimlearn.evaluate.calibrate import thinned
from psimlearn.evaluate.folds import group_folds
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int

__all__ = ["TOO_FEW", "Split", "in_blocks", "in_words", "is_cut", "long_enough", "splits_of"]

ENOUGH_ROWS = 2000
"""Held-out rows after which no further split of the recordings is scored."""
FEWEST_ROWS = 30
"""Rows of training data below which settings are not chosen but taken as they are."""
TOO_FEW = (
    "too few rows ({}) to hold any out: settings were not chosen but taken as they are, and uncertainty comes from the "
    "training rows"
)
"""The note on such recordings."""
LONG, BLOCK = 2000, 500
"""One recording of more rows is cut into blocks of about so many rows.

Rows of one recording follow each other one at a time, and blocks run side by side: it takes a fraction of the time. And
the first belief, which is the mean over the beginnings of recordings, becomes a mean rather than one window.
"""


SOUGHT, JUDGED = 40_000, 20_000
"""Rows of one long recording in which settings are sought, and held-out ones that judge: blocks spread over all of it.

The filter learns from all rows.
"""


class Split(NamedTuple):
    """Recordings to train on, and recordings to score by."""

    train: Trajectories
    held: Trajectories


Groups = Int[np.ndarray, " _"] | None
"""The number of the group of each recording; None without groups."""


def long_enough(data: Trajectories, window: int, groups: Groups = None) -> tuple[Trajectories, Groups, list[str]]:
    """The recordings that are longer than the window, since others teach nothing; and a note if some are not."""
    usable = data.lengths > window
    if usable.all():
        return data, groups, []
    if not usable.any():
        raise DataError(
            f"required a recording with more rows than the window, at least {window + 1}, received at most "
            f"{data.lengths.max()}. Use a smaller window or longer recordings."
        )
    note = f"{(~usable).sum()} of {len(data)} recordings are no longer than the window and were left out"
    return data[usable], None if groups is None else groups[usable], [note]


def is_cut(data: Trajectories, settings: Settings) -> bool:
    """Whether the recordings are one long recording that is to be learnt from in blocks."""
    return settings.blocks and len(data) == 1 and len(data.values) > LONG


def in_blocks(data: Trajectories) -> Trajectories:
    """Adjacent blocks of about `BLOCK` rows, without gaps and remainders."""
    stretches = [np.arange(*edges) for edges in pairwise(data.offsets)]
    return data.stretches([rows for part in stretches for rows in np.array_split(part, max(1, len(part) // BLOCK))])


def splits_of(data: Trajectories, settings: Settings, rng: np.random.Generator, groups: Groups = None) -> list[Split]:
    """As many splits as it takes to hold out enough rows; none if there are too few.

    Few recordings are cross-validated; of many, one share is held out once. A single one is cut in time, and then into
    blocks if it is long. Recordings of one group stay together.
    """
    if isinstance(settings.validation, Trajectories):
        return [Split(_some(data, SOUGHT, settings) if is_cut(data, settings) else data, settings.validation)]
    window = settings.features.window
    n_folds = max(2, round(1 / settings.validation))
    if groups is not None:
        pairs = group_folds(data, groups, n_folds, rng)
    elif len(data) == 1:
        n_folds = min(n_folds, len(data.values) // (window + 2))
        if len(data.values) < FEWEST_ROWS or n_folds < 2:
            return []
        pairs = time_folds(data, n_folds, gap=window, rng=rng)
    else:
        pairs = folds(data, min(n_folds, len(data)), rng)
    enough: list[Split] = []
    for train, held in pairs:
        usable = train.lengths > window
        if train.lengths[usable].sum() >= FEWEST_ROWS // 2:
            enough.append(Split(train[usable], held))
        if sum(len(split.held.values) for split in enough) >= ENOUGH_ROWS:
            break
    if not is_cut(data, settings):
        return enough
    return [Split(_some(train, SOUGHT, settings), _some(held, JUDGED, settings)) for train, held in enough]


def _some(data: Trajectories, most: int, settings: Settings) -> Trajectories:
    """Blocks of one long recording, of at most so many rows; all of them if the filter learns from these alone."""
    return thinned(in_blocks(data), most) if settings.refit else in_blocks(data)


def in_words(splits: list[Split], parts: str = "recordings") -> str:
    """How many splits there are, and how many recordings or blocks are held out, for the report."""
    held = sum(len(split.held) for split in splits)
    return f"{len(splits)} split{'s' * (len(splits) > 1)}, {held} {parts} held out"
