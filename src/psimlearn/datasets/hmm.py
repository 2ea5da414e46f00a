"""Hidden Markov models that simulate symbols and know the exact predictions of them."""

from dataclasses import dataclass

import numpy as np

from psimlearn.baselines.operators import Moments, OperatorModel
from psimlearn.checks import generator, room_for, whole
from psimlearn.errors import SettingsError
from psimlearn.filter import Feedback, Filter, Linear, OneHot, OneHotProduct, Scaling
from psimlearn.filter.conditioning import Conditional
from psimlearn.filter.onehot import drawn
from psimlearn.shapes import Float, Int

__all__ = ["HiddenMarkov", "long_memory_hmm", "three_state_hmm", "two_state_hmm"]


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """Columns are distributions: transition[j, i] = P(j next | i now), emission[v, i] = P(symbol v | state i)."""

    transition: Float[np.ndarray, "s s"]
    emission: Float[np.ndarray, "v s"]
    start: Float[np.ndarray, " s"]

    def simulate(self, n_sequences: int, length: int, rng: np.random.Generator) -> Int[np.ndarray, "m T"]:
        """Draw symbols 0 .. v-1, one row per sequence."""
        room_for("n_sequences", whole(n_sequences, "n_sequences"), whole(length, "length"))
        generator(rng)
        state = drawn(np.tile(self.start, (n_sequences, 1)), rng)
        symbols = np.empty((n_sequences, length), dtype=np.int64)
        for t in range(length):
            symbols[:, t] = drawn(self.emission.T[state], rng)
            state = drawn(self.transition.T[state], rng)
        return symbols

    def predictive(self, symbols: Int[np.ndarray, "m T"]) -> Float[np.ndarray, "m T v"]:
        """P(x_t | x_0 .. x_{t-1}) by the exact forward filter."""
        belief = np.tile(self.start, (len(symbols), 1))
        out = np.empty((*symbols.shape, len(self.emission)))
        for t, x in enumerate(symbols.T):
            out[:, t] = belief @ self.emission.T
            belief = belief * self.emission[x]
            belief = (belief / belief.sum(axis=1, keepdims=True)) @ self.transition.T
        return out

    @property
    def operators(self) -> Float[np.ndarray, "v s s"]:
        """For each symbol v, P(j next, v now | i now)."""
        operators: np.ndarray = self.transition * self.emission[:, None, :]
        return operators

    def forward(self) -> OperatorModel:
        """The exact filter as a forecaster, which takes ragged and gappy recordings too."""
        return OperatorModel(self.operators, self.start, np.ones(len(self.start)))

    def observability(self, features: OneHot) -> Float[np.ndarray, "d s"]:
        """E[phi(f_t) | state at t]."""
        if isinstance(features, OneHotProduct):
            reach = self.emission.T
            for _ in range(features.window - 1):
                reach = np.einsum("vji,jw->ivw", self.operators, reach).reshape(len(self.start), -1)
            return np.ascontiguousarray(reach.T)
        steps = [np.linalg.matrix_power(self.transition.T, j) @ self.emission.T for j in range(features.window)]
        return np.concatenate(steps, axis=1).T

    def filter(self, features: OneHot) -> Filter:
        """The exact filter in predictive space: m' = O A_x O^+ m, scaled to sum to one, with O the observability."""
        O = self.observability(features)
        if np.linalg.matrix_rank(O) < len(self.start):
            raise SettingsError(
                f"features: required a window that tells the {len(self.start)} states apart, received {features}. Use "
                "a longer window."
            )
        inverse, (d, v) = np.linalg.pinv(O), (len(O), len(self.emission))
        joint = np.stack([O @ operator @ inverse for operator in self.operators])
        update = Linear(joint.transpose(2, 0, 1).reshape(d, v * d), np.zeros(v * d))
        no_context = np.zeros(1, dtype=np.int64), np.full((1, d), features.n_simplices / d)  # even odds
        return Filter(
            features=features,
            regressors=(Conditional(update, *no_context, 0.0, features, "simplex"),),
            initial=O @ self.start,
            scaling=Scaling(np.zeros(v), np.ones(v)),
            feedback=Feedback(np.zeros(d), np.ones(d)),
            centre=np.zeros(d),
            covariance=np.eye(v),
        )

    def moments(self, window: int = 1) -> Moments:
        """The exact probabilities of words of symbols under the stationary distribution of the state."""
        O = self.observability(OneHotProduct(window))
        past = np.linalg.matrix_power(self.transition, 10_000)[:, :1]
        for _ in range(window):  # (state now, word before), one symbol longer each time
            past = np.einsum("vji,iw->jwv", self.operators, past).reshape(len(self.start), -1)
        triple = np.stack([O @ operator @ past for operator in self.operators])
        return Moments(O @ self.start, past.sum(axis=0), O @ past, triple)


def two_state_hmm() -> HiddenMarkov:
    """Two sticky states that prefer opposite symbols."""
    return HiddenMarkov(
        transition=np.array([[0.9, 0.2], [0.1, 0.8]]),
        emission=np.array([[0.8, 0.3], [0.2, 0.7]]),
        start=np.array([2 / 3, 1 / 3]),
    )


def three_state_hmm(rng: np.random.Generator) -> HiddenMarkov:
    """Three states and three symbols with random, rather sticky and rather distinct columns; starts stationary."""
    generator(rng)
    transition = 0.5 * np.eye(3) + 0.5 * rng.dirichlet(np.ones(3), size=3).T
    emission = 0.5 * np.eye(3) + 0.5 * rng.dirichlet(np.ones(3), size=3).T
    return HiddenMarkov(transition, emission, np.linalg.matrix_power(transition, 1000)[:, 0])


def long_memory_hmm() -> HiddenMarkov:
    """Three states that last 200 symbols on average and prefer one of three symbols each, but only just.

    A symbol says little about the state; it takes about the last hundred symbols to tell it. Short contexts fail.
    """
    transition = np.full((3, 3), 0.0025) + 0.9925 * np.eye(3)
    emission = np.full((3, 3), 0.25) + 0.25 * np.eye(3)
    return HiddenMarkov(transition, emission, np.full(3, 1 / 3))
