"""A filter as an innovations model, in which missing entries have a distribution and not only a guess.

A linear filter says x_t = e_t + noise, noise ~ N(0, V), where e_t is the expected observation and V the covariance of
one-step errors. Its memory before row t is

    S_t = [fed_t; e_t; g_t; x_{t-1}; ..; x_{t-lags+1}]

with g_t the part of the hints that is read from the belief, if there are hints. Then z_t = [fed_t; x_t; x_{t-1}; ..;
inputs], and S_{t+1} is a map of z_t. `doubt.py` says what becomes of the covariance of S. For random features the
derivative T of that map is taken at the mean, as in an extended Kalman filter. The box acts on the mean only.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from psimlearn.filter.doubt import Doubt, Given, conditioned, moved
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.folded import Map, foldable, folded_map
from psimlearn.filter.learnt import Learnt, remembered
from psimlearn.filter.opening import Opened, first_gains
from psimlearn.filter.regressors import Linear, RandomFourier
from psimlearn.filter.spreads import Kind, kind_of
from psimlearn.filter.step import Feedback, State, expected, inputs
from psimlearn.shapes import Bool, Float, Int

__all__ = ["LINEAR_IN_BELIEF", "Innovations", "Taken", "has_innovations", "innovations", "is_quadratic", "memory"]
__all__ += ["of_memory", "older_rows", "opening_rows", "opens", "received_instead", "treats_exactly"]

LINEAR_IN_BELIEF = (Stack, StackSquares, SecondMoment)
"""Features whose `observations` is known to be a linear map."""


class Taken(NamedTuple):
    """One row of b streams, taken with its gaps."""

    z: Float[np.ndarray, "b p"]
    """The input of the regressor, with every missing entry at its mean, given all entries seen so far."""
    x: Float[np.ndarray, "b n"]
    """The row, with missing entries at their mean."""
    hints: Float[np.ndarray, "b h"]
    """The part of the hints that is read from the belief, given the row as well; of width 0 without hints."""
    doubt: Doubt | None
    """About the memory after the row."""
    w: Float[np.ndarray, "b joint"]
    given: Given
    """[S; x]: its mean, and its covariance by groups of streams."""
    T: Float[np.ndarray, "*g s joint"]
    """The derivative of the next S by [S; x]."""


@dataclass(frozen=True, eq=False)
class Innovations:
    """The innovations model of a filter."""

    map: Map
    """From z to [fed; e; g] of the next row; without `fed` if feedback has no weight."""
    noise: Float[np.ndarray, "n n"]
    """V."""
    first_noise: Float[np.ndarray, "n n"]
    """The covariance of the errors of first rows, which stands for V there."""
    feedback: Feedback
    lags: int
    n_hints: int
    opened: Opened | None = None
    """How first rows correct the memory; None if they have no gain of their own, and lags repeat the first row."""

    @property
    def n(self) -> int:
        """The number of channels."""
        return len(self.noise)

    @cached_property
    def r(self) -> int:
        """The number of coordinates of S that are fed back."""
        return len(self.feedback.mean) if self.feedback.weight else 0

    @cached_property
    def s(self) -> int:
        """The number of coordinates of S."""
        return self.r + self.n_hints + self.n * self.lags

    @cached_property
    def kind(self) -> Kind:
        """The way in which doubt is kept."""
        return kind_of(self.s)

    @cached_property
    def H(self) -> Float[np.ndarray, "n s"]:
        """Picks the expected observation from S."""
        return np.eye(self.n, self.s, self.r)

    @cached_property
    def noise_level(self) -> float:
        """The mean variance of the noise."""
        return float(np.trace(self.noise)) / self.n

    def take(
        self,
        S: Float[np.ndarray, "b s"],
        doubt: Doubt | None,
        x: Float[np.ndarray, "b n"],
        u: Float[np.ndarray, "b q"],
        age: Int[np.ndarray, " b"],
    ) -> Taken:
        """Take one row of every stream: condition [S; x] on the seen entries, and move the doubt on.

        Args:
            S: the mean of the memory before the row.
            doubt: about that memory.
            x: observations, standardised, NaN where missing.
            u: the input columns of z.
            age: the number of rows that each stream has had.
        """
        seen, start = ~np.isnan(x), self.starts(age)
        if self.opened is not None:
            doubt = self.opened.begun(doubt, age, ~seen.all(axis=1))
        labels = start.astype(np.int64) if isinstance(self.map, Linear) else np.arange(len(x))
        V = np.where(start[:, None, None], self.first_noise, self.noise) if start.any() else self.noise
        given = conditioned(self.kind, doubt, V, seen, self.r, self.s, labels)
        w = given.updated(np.concatenate([S, self.expected(S)], axis=1), x, seen)
        if self.opened is not None and len(fresh := self.opened.fresh(given.group, age)):
            innovation = x[fresh] - self.expected(S[fresh])
            w[fresh, : self.s] = self.opened.corrected(S[fresh], innovation, age[fresh])
        z, members = self.z(w, u, start), given.first
        T = self.transition(z[members], start[members])
        after = moved(self.kind, given, T, self.noise_level)
        g = self.r + self.n
        return Taken(z, w[:, self.s :], w[:, g : g + self.n_hints], after, w, given, T)

    @property
    def first_covariances(self) -> Float[np.ndarray, "ages s s"]:
        """The covariances of S at the ages that have gains of their own; of no ages if none has."""
        if self.opened is None:
            return np.empty((0, self.s, self.s))
        return self.kind.between(self.opened.spread, np.eye(self.s))

    def starts(self, age: Int[np.ndarray, " b"]) -> Bool[np.ndarray, " b"]:
        """Mark streams whose lags repeat this row, which is their first."""
        return age == 0 if self.opened is None else np.zeros(len(age), dtype=bool)

    def z(
        self, w: Float[np.ndarray, "b joint"], u: Float[np.ndarray, "b q"], start: Bool[np.ndarray, " b"]
    ) -> Float[np.ndarray, "b p"]:
        """The input of the regressor; before its first row, a stream repeats its first row."""
        S, x = w[:, : self.s], w[:, self.s :]
        return self.arranged(self.feedback.boxed(S[:, : self.r]) if self.r else S[:, :0], S, x, u, start)

    def arranged(
        self,
        fed: Float[np.ndarray, "b r"],
        S: Float[np.ndarray, "b s"],
        x: Float[np.ndarray, "b n"],
        u: Float[np.ndarray, "b q"],
        start: Bool[np.ndarray, " b"],
    ) -> Float[np.ndarray, "b p"]:
        """z, given the feedback inside its box, the lags in S, and x."""
        older = S[:, self.s - self.n * (self.lags - 1) :]
        if self.lags > 1 and start.any():
            older = np.where(start[:, None], np.tile(x, self.lags - 1), older)
        fed = fed if self.r else np.zeros((len(x), len(self.feedback.mean)))
        return np.concatenate([fed, x, older, u], axis=1)

    def following(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b s"]:
        """The next S."""
        mapped: np.ndarray = self.map(z)
        first = len(self.feedback.mean)
        if self.r:
            mapped[:, : self.r] = self.feedback.boxed(mapped[:, : self.r])
        if self.lags == 1:
            return mapped
        older = z[:, first : first + self.n * (self.lags - 1)]  # x_t is a lag now
        return np.concatenate([mapped, older], axis=1)

    def transition(self, z: Float[np.ndarray, "g p"], start: Bool[np.ndarray, " g"]) -> Float[np.ndarray, "*g s joint"]:
        """T at these z: one matrix for all groups where it is the same."""
        if isinstance(self.map, Linear):
            running, starting = self._transitions
            if not start.any():
                return running
            return starting if start.all() else np.where(start[:, None, None], starting, running)
        slopes = self.map.slope(z)
        return np.where(start[:, None, None], self._arranged(slopes, True), self._arranged(slopes, False))

    @cached_property
    def _transitions(self) -> tuple[Float[np.ndarray, "s joint"], Float[np.ndarray, "s joint"]]:
        """T of a linear filter, after the first row and at it."""
        assert isinstance(self.map, Linear)
        slope = self.map.weights.T[None]
        return self._arranged(slope, False)[0], self._arranged(slope, True)[0]

    def _arranged(self, slope: Float[np.ndarray, "g out p"], start: bool) -> Float[np.ndarray, "g s joint"]:
        """T, given the derivative of [fed; e; g] by z; at the start all lags are the first row."""
        n, s, r, q = self.n, self.s, len(self.feedback.mean), self.lags
        top, lagged = slope.shape[1], n * (q - 1)
        T = np.zeros((len(slope), s, s + n))
        T[:, :top, : self.r], T[:, :top, s:] = slope[:, :, : self.r], slope[:, :, r : r + n]
        older = slope[:, :, r + n : r + n + lagged]
        if start:
            T[:, :top, s:] += older.reshape(len(slope), top, q - 1, n).sum(axis=2)
            T[:, top:, s:] = np.tile(np.eye(n), (q - 1, 1))
        else:
            T[:, :top, top:s] = older
            T[:, top:, top:s] = np.eye(lagged, k=-n)  # x_{t-1} becomes x_{t-2}, ..
            T[:, top : top + n, s:] = np.eye(n)[: s - top]  # and x_t becomes x_{t-1}
        return T

    def matrices(self, taken: Taken, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T, K and J of row t of one stream."""
        if len(taken.given.first):
            T = taken.T if taken.T.ndim == 2 else taken.T[0]
            return T, taken.given.gain[0], self.kind.whole(taken.given.left[0])
        T = self.transition(taken.z, self.starts(np.array([t])))
        joint = self.s + self.n
        return T if T.ndim == 2 else T[0], np.eye(joint, self.n, -self.s), np.zeros((joint, joint))

    def expected(self, S: Float[np.ndarray, "b s"]) -> Float[np.ndarray, "b n"]:
        """The expected observation."""
        return S[:, self.r : self.r + self.n]


def has_innovations(filter: Learnt) -> bool:
    """Tell whether a filter is linear, or of random features, in a belief of which observations are a linear part."""
    return foldable(filter) and isinstance(filter.features, LINEAR_IN_BELIEF)


def is_quadratic(filter: Learnt) -> bool:
    """Tell whether a filter would have an innovations model but for the prior "last": squares of the row are added."""
    alike = len(filter.regressors) == 1 and isinstance(filter.regressors[0], Linear | RandomFourier)
    return alike and isinstance(filter.features, LINEAR_IN_BELIEF) and not foldable(filter)


def received_instead(filter: Learnt, learners: str = "'ridge' or 'rff'") -> str:
    """Why a filter has no innovations model, or not the one required, and what to do: the end of a message.

    Args:
        filter: any filter.
        learners: those that would do.
    """
    regressor, features = filter.regressors[0], type(filter.features).__name__
    if is_quadratic(filter):
        return f"{features} features with prior='last', where a step is quadratic in the row. Learn with prior='mean'."
    return (
        f"{len(filter.regressors)} of {type(regressor).__name__} with {features} features. Learn with "
        f"learner={learners} and the trainer 'dagger'."
    )


def treats_exactly(filter: Learnt) -> bool:
    """Tell whether a filter keeps a covariance where entries are missing; others fill in guesses."""
    return filter.gaps == "exact" and has_innovations(filter)


@remembered
def innovations(filter: Learnt) -> Innovations:
    """The innovations model of a filter that has one."""
    feedback, n, n_hints = filter.feedback, len(filter.scaling.mean), filter.to_hints.shape[1]
    shift = np.concatenate([feedback.shift if feedback.weight else np.zeros(0), np.zeros(n + n_hints)])
    noise, opening = filter.covariance, filter.opening
    first_noise = noise if filter.starting is None else filter.starting.covariance
    map = folded_map(filter, lambda m: _read(filter, m), shift)
    model = Innovations(map, noise, first_noise, feedback, filter.lags, n_hints)
    if opening is None or not opens(filter):
        return model
    running, root = model.transition(np.empty((1, 0)), np.zeros(1, dtype=bool)), of_memory(filter, opening.root)
    return replace(
        model, first_noise=noise, opened=first_gains(model.kind, root, noise, running, model.r, filter.lags - 1)
    )


def _read(filter: Learnt, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b q"]:
    """[fed; e; g] of beliefs, without their constants."""
    fed = [filter.feedback.linear(m)] if filter.feedback.weight else []
    return np.concatenate([*fed, filter.features.observations(m)[:, 0], m @ filter.to_hints], axis=1)


def of_memory(filter: Learnt, columns: Float[np.ndarray, "both k"]) -> Float[np.ndarray, "s k"]:
    """Columns of [m; older rows] as columns of S, without constants."""
    d = len(filter.initial)
    return np.concatenate([_read(filter, columns[:d].T).T, columns[d:]])


def opens(filter: Learnt) -> bool:
    """Tell whether first rows have gains of their own: linear filters with an opening, which treat gaps exactly."""
    return filter.opening is not None and treats_exactly(filter) and isinstance(filter.regressors[0], Linear)


def opening_rows(filter: Learnt) -> int:
    """The number of first rows that have gains of their own; 0 for most filters of older versions."""
    found = innovations(filter).opened if opens(filter) else None
    return 0 if found is None else found.ages


def memory(filter: Learnt, model: Innovations, state: State) -> Float[np.ndarray, "b s"]:
    """S, the mean of the memory in a state."""
    belief, row = state.belief, expected(filter.recursion, state.belief)
    fed = [inputs(filter.recursion, belief)] if model.r else []  # the part of z that comes from the belief
    older = older_rows(filter, state, row)
    return np.concatenate([*fed, row, belief @ filter.to_hints, older.reshape(len(row), -1)], axis=1)


def older_rows(filter: Learnt, state: State, row: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b earlier n"]:
    """The rows before the next one, `row`, that a step sees, newest first: one less than there are lags.

    Before its first row, a stream has the rows that its opening expects; without an opening, it repeats its first row.
    """
    earlier = filter.lags - 1
    if not np.size(state.recent):  # the pipe keeps none where nothing depends on them
        return np.zeros((len(row), earlier, row.shape[1]))
    first = filter.opening.older[None] if filter.opening is not None and opens(filter) else row[:, None]
    return np.where((state.clock == 0)[:, None, None], first, state.recent[:, :earlier])
