"""Recordings as an estimator receives them: `fit` remembers their channels, and all other methods require the same."""

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from psimlearn.errors import DataError, PsimlearnWarning
from psimlearn.filter.outside import far_channels, said_of
from psimlearn.recordings.arrays import unmasked
from psimlearn.recordings.forms import Received, is_table, received, received_symbols
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["asked", "checked", "future_inputs", "learnt_from", "remember"]


def learnt_from(estimator: Any, recordings: Any, symbols: bool) -> Trajectories:
    """Recordings for `fit`, whose channels the estimator remembers."""
    if not symbols:
        return checked(estimator, recordings, reset=True, least_rows=2).trajectories
    data = received_symbols(recordings).trajectories
    remember(estimator, data.n_channels, None)
    return data


def asked(estimator: Any, recordings: Any, *, any_range: bool = False) -> Received:
    """Recordings for a fitted estimator with a `filter_`, checked for the channels or symbols of `fit`.

    Recordings far outside the range of training are told, unless `any_range` says that somebody else looks at it.
    """
    check_is_fitted(estimator)
    alphabet = estimator.filter_.alphabet
    if alphabet is not None:
        return received_symbols(recordings, alphabet)
    given = checked(estimator, recordings)
    far = {} if any_range else far_channels(estimator.filter_, given.trajectories)
    if far:
        warnings.warn(f"{said_of(far)}.", PsimlearnWarning, stacklevel=3)
    return given


def checked(estimator: Any, recordings: Any, *, reset: bool = False, least_rows: int = 1) -> Received:
    """Recordings of numbers, checked for the channels of `fit`.

    Args:
        estimator: keeps `n_features_in_` and, where channels have names, `feature_names_in_`.
        recordings: in any form.
        reset: whether this is `fit`, so that the channels are remembered.
        least_rows: the fewest rows that a table must have.
    """
    recordings = unmasked(recordings)
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
    """Set the channels that `checked` requires from now on."""
    estimator.n_features_in_ = n
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
        del estimator.feature_names_in_


def future_inputs(inputs: Any, m: int, steps: int, p: int) -> Float[np.ndarray, "m steps p"] | None:
    """Known inputs of the next `steps` rows of m recordings with p inputs, checked; None if none were given."""
    if inputs is None:
        return None
    try:
        array = np.asarray(unmasked(inputs), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"future_inputs: required an array of numbers, received {type(inputs).__name__}: {error}"
        ) from error
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[::2] != (m, p) or array.shape[1] < steps or not np.isfinite(array).all():
        raise DataError(
            f"future_inputs: required finite numbers of shape ({m}, {steps}, {p}), received shape {array.shape}"
            f"{'' if np.isfinite(array).all() else ' with numbers that are missing or infinite'}."
        )
    return array[:, :steps]
