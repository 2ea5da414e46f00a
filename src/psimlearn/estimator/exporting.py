"""The method of `PSIM` that hands its filter to other libraries."""

from sklearn.utils.validation import check_is_fitted

from psimlearn.filter import Filter
from psimlearn.filter.statespace import StateSpace

__all__ = ["Exporting"]


class Exporting:
    """A method of `PSIM`: the learnt filter as a state-space model."""

    filter_: Filter

    def state_space(self, tolerance: float = 1e-12) -> StateSpace:
        """The matrices of a linear filter, in the units of the recordings, for python-control, filterpy, MATLAB, ..

        Args:
            tolerance: the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
        """
        check_is_fitted(self)
        return StateSpace.of_filter(self.filter_, tolerance)
