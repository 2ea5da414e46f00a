"""State-space models: of a learnt filter, of a Kalman filter or of given matrices; and out again."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter import exports, realisation
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.scaling import Scaling
from psimlearn.filter.system import Start, System, reduced

__all__ = ["StateSpace"]


class StateSpace(System):
    """A linear state-space model in innovations form.

    With m and c the levels `scaling.mean` and `input_scaling.mean`, in the units of the recordings:

        x_t = m + C s_t + D (u_t - c) + e_t,    s_{t+1} = A s_t + B (u_t - c) + K e_t + drift,    cov(e_t) = V
    """

    reduced = reduced
    to_control = exports.to_control
    to_filterpy = exports.to_filterpy
    to_statsmodels = exports.to_statsmodels
    to_filter = realisation.filter_of

    @classmethod
    def of_filter(cls, filter: Learnt, tolerance: float = 1e-12) -> "StateSpace":
        """The model of a linear filter: its predictions are those of the filter, from the first row on.

        The model has no box, so it is exact as long as no feedback touches the box of the filter. Beyond the next row
        the model predicts from its own predictions; a filter reads the rows of its window from its belief. Hints are
        left out.

        Args:
            filter: a linear filter, such as `PSIM.filter_`.
            tolerance: the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.
        """
        return reduced(cls(**realisation.fields_of(filter)), tolerance)

    @classmethod
    def of(
        cls,
        A: Any,
        C: Any,
        K: Any,
        V: Any,
        *,
        B: Any = None,
        D: Any = None,
        mean: Any = None,
        input_mean: Any = None,
        first: Any = None,
        names: Sequence[str] | None = None,
    ) -> "StateSpace":
        """A model from its matrices, such as those of MATLAB's `idss`.

        Args:
            A: (s, s), takes a state to the next.
            C: (n, s), takes a state to the observation.
            K: (s, n), the gain.
            V: (n, n), the covariance of the innovations.
            B: (s, p), of the inputs, if there are any.
            D: (n, p), of inputs that act on the observation of the same row.
            mean: (n), the level of the channels; zero by default.
            input_mean: (p), the level of the inputs; zero by default.
            first: (s), the first state; zero by default.
            names: the names of the channels.
        """
        s, n = len(np.atleast_1d(A)), len(np.atleast_1d(C))
        p = next((np.shape(np.atleast_2d(part))[1] for part in (B, D) if part is not None), 0)
        V = _array(V, (n, n), "V")
        if not _definite(V):
            raise SettingsError("V: required a symmetric positive definite matrix, received another. Check R and V.")
        return cls(
            A=_array(A, (s, s), "A"),
            B=_array(B, (s, p), "B"),
            C=_array(C, (n, s), "C"),
            D=_array(D, (n, p), "D"),
            K=_array(K, (s, n), "K"),
            V=V,
            scaling=Scaling(_array(mean, (n,), "mean"), np.sqrt(np.diag(V))),
            input_scaling=Scaling(_array(input_mean, (p,), "input_mean"), np.ones(p)),
            drift=np.zeros(s),
            start=Start(_array(first, (s,), "first"), np.zeros((0, s, n)), np.zeros((s, p)), np.zeros((s, s))),
            names=None if names is None else tuple(names),
        )

    @classmethod
    def of_kalman(cls, A: Any, C: Any, Q: Any, R: Any, *, S: Any = None, **others: Any) -> "StateSpace":
        """The steady Kalman filter of s_{t+1} = A s_t + w_t, x_t = C s_t + v_t, cov(w, v) = [Q S; S' R].

        The filter has the steady gain from the first row on, so it equals the time-varying Kalman filter that starts
        with the steady covariance of the state, and any other one later, once its gain has settled.

        Args:
            A: takes a state to the next; filterpy's F.
            C: takes a state to the observation; filterpy's H.
            Q: the covariance of the process noise.
            R: the covariance of the measurement noise.
            S: the covariance of both; zero by default.
            others: B, D, mean, input_mean, first, names, as for `of`.
        """
        from scipy.linalg import solve_discrete_are  # not on the way of those who only run a filter

        s, n = len(np.atleast_1d(A)), len(np.atleast_1d(C))
        A, C, Q = _array(A, (s, s), "A"), _array(C, (n, s), "C"), _array(Q, (s, s), "Q")
        R, S = _array(R, (n, n), "R"), _array(S, (s, n), "S")
        try:
            P = solve_discrete_are(A.T, C.T, Q, R, s=S)
        except (np.linalg.LinAlgError, ValueError) as error:
            raise SettingsError(
                f"A, C, Q, R: required a model whose Kalman gain settles, received: {error}. Check that C sees every "
                "state that does not die out, that noise reaches every state that stays, and that R is definite."
            ) from error
        V = C @ P @ C.T + R
        return cls.of(A, C, np.linalg.solve(V, (A @ P @ C.T + S).T).T, (V + V.T) / 2, **others)


def _array(value: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """A finite array of this shape; zeros for None."""
    try:
        array = np.zeros(shape) if value is None else np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{name}: required numbers of shape {shape}, received {type(value).__name__}.") from error
    if array.shape != shape or not np.isfinite(array).all():
        wrong = f"shape {array.shape}" if array.shape != shape else "numbers that are not finite"
        raise SettingsError(f"{name}: required finite numbers of shape {shape}, received {wrong}.")
    return array


def _definite(V: np.ndarray) -> bool:
    """Whether this is a covariance that can be inverted."""
    return bool(np.allclose(V, V.T, rtol=1e-9, atol=0) and np.linalg.eigvalsh(V).min() > 0)
