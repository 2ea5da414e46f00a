"""The channels of `fit`: remembered by an estimator, and asked for ever after."""

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import validate_data

from psimlearn.errors import DataError
from psimlearn.recordings.forms import Received, is_table, received
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["checked", "remember"]


def checked(estimator: Any, recordings: Any, *, reset: bool = False, least_rows: int = 1) -> Received:
    """The same for a scikit-learn estimator, which remembers the channels of `fit` and asks for them ever after.

    Args:
        estimator: on which `n_features_in_` and, where channels have names, `feature_names_in_` are kept.
        recordings: in any form.
        reset: whether this is `fit`.
        least_rows: that a table must have.
    """
    if is_table(recordings):  # scikit-learn knows best what can be wrong with a table
        try:
            table = validate_data(
                estimator, recordings, reset=reset, ensure_all_finite="allow-nan", ensure_min_samples=least_rows
            )
        except ValueError as error:
            if "strings" in str(error):
                raise DataError(f"{error} Symbols are learnt with features='onehot'.") from error
            raise
        form: Literal["frame", "table"] = "frame" if hasattr(recordings, "columns") else "table"
        known = getattr(estimator, "feature_names_in_", None) if form == "frame" else None
        return Received(Trajectories.of(table, names=None if known is None else known.tolist()), form, recordings)
    given = received(recordings)
    n, names = given.trajectories.n_channels, given.trajectories.names
    if reset:
        remember(estimator, n, names)
    if n != estimator.n_features_in_:
        raise DataError(f"required {estimator.n_features_in_} channels as in fit, received {n}.")
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and names != tuple(known):
        raise DataError(
            f"required the channels {list(known)} as in fit, received {list(names)}. Put them in that order."
        )
    return given


def remember(estimator: Any, n: int, names: tuple[str, ...] | None) -> None:
    """Channels for `checked` to ask for."""
    estimator.n_features_in_ = n
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
        del estimator.feature_names_in_
