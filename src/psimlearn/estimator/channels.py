"""Recordings as an estimator receives them: `fit` remembers their channels, and all other methods require the same."""

import re
import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from psimlearn.errors import DataError, PsimlearnWarning
from psimlearn.estimator.columns import columns_known
from psimlearn.estimator.output import output_of
from psimlearn.filter.outside import far_channels, said_of
from psimlearn.recordings.arrays import unmasked
from psimlearn.recordings.forms import are_frames, inputs_to_come, is_table, received, received_symbols
from psimlearn.recordings.frames import is_frame
from psimlearn.recordings.received import Received
from psimlearn.recordings.steps import check_step
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = ["asked", "checked", "future_inputs", "grouped", "learnt_from", "remember"]

WIDE = 5
"""With more than this many channels for each row of the longest recording, `fit` warns."""


def learnt_from(estimator: Any, recordings: Any, symbols: bool) -> Trajectories:
    """Recordings for `fit`, whose channels the estimator remembers."""
    if not symbols:
        data = checked(estimator, recordings, reset=True, least_rows=2).trajectories
        _warn_of_wide_arrays(data)
    else:
        data = received_symbols(recordings).trajectories
        remember(estimator, data.n_channels, None)
    estimator.step_ = data.step
    return data


def _warn_of_wide_arrays(data: Trajectories) -> None:
    """Tell of recordings with far more channels than rows: time may be the other axis."""
    n, longest = data.n_channels, int(data.lengths.max())
    if n > WIDE * longest:
        warnings.warn(
            f"the recordings have {n} channels and at most {longest} rows. Rows are times, columns are channels; for "
            "arrays of shape (channels, time) use Trajectories.from_channels_first.",
            stacklevel=4,
        )


def asked(estimator: Any, recordings: Any, *, any_range: bool = False) -> Received:
    """Recordings for a fitted estimator with a `filter_`, checked for the channels or symbols and the step of `fit`.

    Recordings far outside the range of training are told, unless `any_range` says that somebody else looks at it.
    """
    check_is_fitted(estimator)
    alphabet = estimator.filter_.alphabet
    given = checked(estimator, recordings) if alphabet is None else received_symbols(recordings, alphabet)
    data = given.trajectories
    check_step(getattr(estimator, "step_", None), data.step, len(data.values))
    far = {} if any_range or alphabet is not None else far_channels(estimator.filter_, data)
    if far:
        warnings.warn(f"{said_of(far)}.", PsimlearnWarning, stacklevel=3)
    return given._replace(output=output_of(estimator))


def checked(estimator: Any, recordings: Any, *, reset: bool = False, least_rows: int = 1) -> Received:
    """Recordings of numbers, checked for the channels of `fit`.

    Args:
        estimator: keeps `n_features_in_` and, where channels have names, `feature_names_in_`.
        recordings: in any form.
        reset: whether this is `fit`, so that the channels are remembered.
        least_rows: the fewest rows that a table must have.
    """
    recordings = unmasked(recordings)
    if is_table(recordings) and not is_frame(recordings):
        return Received(Trajectories.of(_table(estimator, recordings, reset, least_rows)), "table")
    known, step = (None if reset else getattr(estimator, name, None) for name in ("feature_names_in_", "step_"))
    roles = None if reset else columns_known(getattr(estimator, "report_", {}))
    given = received(recordings, None if known is None else known.tolist(), step, roles, sort=not reset)
    n, names = given.trajectories.n_channels, given.trajectories.names
    if reset:
        remember(estimator, n, names)
    if n != estimator.n_features_in_:
        raise DataError(f"required {estimator.n_features_in_} channels as in fit, received {n}.")
    return given


def _table(estimator: Any, rows: Any, reset: bool, least_rows: int) -> Any:
    """An array of one recording: scikit-learn knows best what can be wrong with it."""
    try:
        return validate_data(estimator, rows, reset=reset, ensure_all_finite="allow-nan", ensure_min_samples=least_rows)
    except ValueError as error:
        said = re.sub(r"\narray=.*\n", " ", str(error), flags=re.DOTALL)  # scikit-learn prints the data there
        symbols = " Symbols are learnt with features='onehot'." if "strings" in said else ""
        raise DataError(f"{said}{symbols}") from None


def remember(estimator: Any, n: int, names: tuple[str, ...] | None) -> None:
    """Set the channels that `checked` requires from now on."""
    estimator.n_features_in_ = n
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
        del estimator.feature_names_in_


def grouped(groups: Any, m: int) -> Int[np.ndarray, " m"] | None:
    """The number of the group of each of m recordings; None without groups."""
    if groups is None:
        return None
    try:
        labels = np.asarray(groups)
    except ValueError:
        raise DataError(f"groups: required one label for each of the {m} recordings, received lists.") from None
    if labels.ndim != 1 or len(labels) != m:
        received = f"shape {labels.shape}" if labels.ndim != 1 else f"{len(labels)} labels"
        raise DataError(f"groups: required one label for each of the {m} recordings, received {received}.")
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError as error:
        raise DataError("groups: required labels of one type, received several, or None. Name every group.") from error


def future_inputs(estimator: Any, inputs: Any, data: Trajectories, steps: int) -> Float[np.ndarray, "m steps p"] | None:
    """Known inputs of the next `steps` rows of recordings, checked; None if none were given.

    Args:
        estimator: a fitted estimator, whose filter knows the number of inputs.
        inputs: an array, or frames with the columns of the inputs in `fit`.
        data: the recordings.
        steps: how many rows.
    """
    if inputs is None:
        return None
    m, scaling = len(data), estimator.filter_.input_scaling
    p = 0 if scaling is None else len(scaling.mean)
    array = _numbers(_without_frames(estimator, inputs, data, steps))
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[::2] != (m, p) or array.shape[1] < steps or not np.isfinite(array).all():
        raise DataError(
            f"future_inputs: required finite numbers of shape ({m}, {steps}, {p}), received shape {array.shape}"
            f"{'' if np.isfinite(array).all() else ' with numbers that are missing or infinite'}."
        )
    return array[:, :steps]


def _without_frames(estimator: Any, inputs: Any, data: Trajectories, steps: int) -> Any:
    """The inputs as arrays of `steps` rows, if they came as frames and the model knows their columns."""
    roles = columns_known(estimator.report_)
    if roles is None or not roles.inputs or not are_frames(inputs):
        return inputs
    try:
        return inputs_to_come(inputs, roles, data, steps, data.step or getattr(estimator, "step_", None))
    except DataError as error:
        raise DataError(f"future_inputs: {error}") from error


def _numbers(inputs: Any) -> np.ndarray:
    try:
        return np.asarray(unmasked(inputs), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"future_inputs: required an array of numbers, received {type(inputs).__name__}: {error}"
        ) from error
