"""The methods of `PSIM` that hand its filter to other libraries and languages."""

from os import PathLike

from sklearn.utils.validation import check_is_fitted

from psimlearn.export import export
from psimlearn.filter import Filter
from psimlearn.filter.statespace import StateSpace

__all__ = ["Exporting"]


class Exporting:
    """Methods of `PSIM`: the learnt filter as a state-space model, and as a file for programs without Python."""

    filter_: Filter

    def state_space(self, tolerance: float = 1e-12) -> StateSpace:
        """The matrices of a linear filter, in the units of the recordings, for python-control, filterpy, MATLAB, ..

        Args:
            tolerance: the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
        """
        check_is_fitted(self)
        return StateSpace.of_filter(self.filter_, tolerance)

    def export(
        self,
        path: str | PathLike[str],
        format: str | None = None,
        *,
        precision: str = "double",
        tolerance: float = 1e-12,
    ) -> None:
        """Write the filter for programs without Python: a C header (.h), an ONNX graph (.onnx) or JSON (.json).

        Args:
            path: the file to write, or to replace. In a C header, all names begin with the name of the file.
            format: "c", "onnx" (needs the extra `onnx`) or "json" (linear filters only); None takes the ending of the
                path.
            precision: of an ONNX graph, "double" or "float". A C header has both.
            tolerance: for JSON, the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
        """
        check_is_fitted(self)
        export(self.filter_, path, format, precision=precision, tolerance=tolerance)
