"""Checks of parameters of `PSIM` that take several kinds of values; `psimlearn.checks` has the checks of one kind."""

from contextlib import AbstractContextManager
from typing import Any

from sklearn.utils import check_random_state

from psimlearn.checks import number, room_for, shown, whole
from psimlearn.choose.checkpoint import opened
from psimlearn.choose.fingerprints import fingerprints
from psimlearn.choose.journal import Journal
from psimlearn.choose.settings import Settings
from psimlearn.choose.watch import Watch
from psimlearn.errors import SettingsError
from psimlearn.estimator.progress import loud
from psimlearn.recordings.catalogue import Catalogue
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["checkpointed", "is_auto", "level_weight_of", "rank_of", "rows_ahead", "seed_of", "share_of", "watch_of"]

MOST_HELD_OUT = 0.5
"""The largest share to hold out: at least two splits are made, and each recording is held out once at most."""


def level_weight_of(value: Any) -> Any:
    """A weight, None or "auto"."""
    return value if value is None or is_auto(value) else number(value, "level_weight", otherwise="None, 'auto' or ")


def rank_of(value: Any) -> Any:
    """A count, None or "auto"."""
    return value if value is None or is_auto(value) else whole(value, "rank", otherwise="None, 'auto' or ")


def share_of(value: Any) -> float:
    """The share of recordings to hold out."""
    return number(value, "validation", 0.001, MOST_HELD_OUT, otherwise="recordings, or as a share of the recordings ")


def rows_ahead(value: Any, name: str, n: int, n_channels: int) -> int:
    """How many rows ahead to predict for each of n recordings or rows, if the answer fits into memory."""
    room_for(name, n, whole(value, name), n_channels)
    return int(value)


def is_auto(value: Any) -> bool:
    """Whether the value is to be chosen."""
    return isinstance(value, str) and value == "auto"


def seed_of(random_state: Any) -> int:
    """One number that decides everything random."""
    try:
        if isinstance(random_state, bool):  # scikit-learn takes True for 1
            raise ValueError
        return int(check_random_state(random_state).randint(2**31))
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"random_state: required None, a whole number from 0 to {2**32 - 1} or a RandomState, received "
            f"{shown(random_state)}."
        ) from error


def checkpointed(
    place: Any, data: Trajectories | Catalogue, settings: Settings, split: Any, random_state: Any, watch: Watch
) -> AbstractContextManager[tuple[Journal, int]]:
    """The journal of a fit and its seed; where `random_state` is None, any seed will do, as that of a checkpoint.

    Args:
        place: the folder of the checkpoint, or None.
        data: the recordings.
        settings: of the fit.
        split: decides, beside the seed, on which recordings settings are chosen: groups, or the size of a sample.
        random_state: of the estimator.
        watch: is told how much was done already.
    """
    asked = {} if place is None else fingerprints(data, settings, split)
    return opened(place, asked, seed_of(random_state), random_state is None, watch)


def watch_of(verbose: Any) -> Watch:
    """The watch that receives progress; scikit-learn's whole numbers of at least 0 do for True and False."""
    if isinstance(verbose, Watch):
        return verbose
    if verbose is None:  # as a file keeps it
        return Watch()
    wanted = (
        verbose if isinstance(verbose, bool) else whole(verbose, "verbose", 0, otherwise="True, False, a Watch or ")
    )
    return loud() if wanted else Watch()
