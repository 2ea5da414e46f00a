"""The methods of `PSIM` that give its filter in another form: smaller, or for other libraries and languages.

Each takes the estimator first.
"""

from copy import copy
from os import PathLike
from typing import Any

from sklearn.utils.validation import check_is_fitted

from psimlearn.checks import path_of
from psimlearn.estimator.channels import asked
from psimlearn.export import export as written
from psimlearn.filter.statespace import StateSpace

__all__ = ["export", "reduced", "state_space"]


def reduced(model: Any, tolerance: float = 0.01, X: Any = None) -> Any:
    """A model whose filter feeds back as few numbers as possible: it is faster, and predicts nearly the same.

    At each step of the window, predictions differ by at most `tolerance` times their error (root mean squares); 0.04
    adds less than 0.1 % to the error. `partial_fit` cannot go on with the smaller model.

    Args:
        model: a fitted `PSIM` with a linear filter.
        tolerance: the most that predictions may differ, as a share of their error.
        X: recordings to compare predictions on; by default the filter simulates some.
    """
    check_is_fitted(model)
    smaller = copy(model)
    smaller.filter_ = model.filter_.reduced(tolerance, None if X is None else asked(model, X).trajectories)
    smaller.sums_ = smaller.hint_sums_ = None
    return smaller


def state_space(model: Any, tolerance: float = 1e-12) -> StateSpace:
    """The matrices of a linear filter, in the units of the recordings, for python-control, filterpy, MATLAB, ..

    Args:
        model: a fitted `PSIM`.
        tolerance: the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
    """
    check_is_fitted(model)
    return StateSpace.of_filter(model.filter_, tolerance)


def export(
    model: Any,
    path: str | PathLike[str],
    format: str | None = None,
    *,
    precision: str = "double",
    tolerance: float = 1e-12,
) -> None:
    """Write the filter for programs without Python: a C header (.h), an ONNX graph (.onnx) or JSON (.json).

    Args:
        model: a fitted `PSIM`.
        path: the file to write, or to replace. In a C header, all names begin with the name of the file.
        format: "c", "onnx" (needs the extra `onnx`) or "json" (linear filters only); None takes the ending of the
            path.
        precision: of an ONNX graph, "double" or "float". A C header has both.
        tolerance: for JSON, the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
    """
    check_is_fitted(model)
    written(model.filter_, path_of(path), format, precision=precision, tolerance=tolerance)
