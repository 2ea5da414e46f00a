"""The form of the answers of `PSIM`: frames for frames, unless `set_output` asks for another form."""

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from psimlearn.checks import one_of
from psimlearn.errors import SettingsError
from psimlearn.filter import Filter

__all__ = ["belief_names", "get_feature_names_out", "hint_names", "output_of", "set_output"]

OUTPUTS = ("default", "numpy", "pandas", "polars")


def set_output(model: Any, transform: str | None = None) -> Any:
    """Set the form of all answers about recordings, as scikit-learn does for the answers of `transform`.

    Args:
        model: a `PSIM`.
        transform: "default" (a frame of the same library for a frame, arrays for arrays), "numpy" (arrays, whatever
            came), "pandas" or "polars" (frames, whatever came); None changes nothing.

    Returns:
        The model.
    """
    if transform is not None:
        if one_of(transform, OUTPUTS, "transform") in ("pandas", "polars") and find_spec(transform) is None:
            raise SettingsError(
                f"transform: required an installed library, received {transform!r}. Install it: pip install {transform}"
            )
        model._output = transform
    return model


def output_of(model: Any) -> str:
    """The form that `set_output` has set, or else scikit-learn's `set_config(transform_output=..)`."""
    return getattr(model, "_output", None) or str(get_config()["transform_output"])


def get_feature_names_out(model: Any, input_features: Any = None) -> np.ndarray:
    """The names of the columns of `transform`: belief0, belief1, ..

    Args:
        model: a fitted `PSIM`.
        input_features: ignored, but checked, as scikit-learn does: the names of the channels.
    """
    check_is_fitted(model)
    _check_feature_names_in(model, input_features)
    return np.array(belief_names(model.filter_), dtype=object)


def belief_names(filter: Filter) -> list[str]:
    """A name for each number in a belief."""
    return [f"belief{i}" for i in range(len(filter.initial))]


def hint_names(model: Any, n: int) -> list[str]:
    """The names of the hints in `fit`, if they had names."""
    known = model.report_.get("columns", {}).get("hints") or ()
    return list(known) if len(known) == n else [f"hint{i}" for i in range(n)]
