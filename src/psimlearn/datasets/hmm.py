"""Hidden Markov models with known truth: symbols out, exact predictions beside them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

__all__ = ["HiddenMarkov", "three_state_hmm", "two_state_hmm"]


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """Columns are distributions: transition[j, i] = P(j next | i now), emission[v, i] = P(symbol v | state i)."""

    transition: Float[np.ndarray, "s s"]
    emission: Float[np.ndarray, "v s"]
    start: Float[np.ndarray, " s"]

    def simulate(self, n_sequences: int, length: int, rng: np.random.Generator) -> Int[np.ndarray, "m T"]:
        """Symbols 0 .. v-1, one row per sequence."""
        state = _draw(np.tile(self.start, (n_sequences, 1)), rng)
        symbols = np.empty((n_sequences, length), dtype=np.int64)
        for t in range(length):
            symbols[:, t] = _draw(self.emission.T[state], rng)
            state = _draw(self.transition.T[state], rng)
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


def two_state_hmm() -> HiddenMarkov:
    """Two sticky states that prefer opposite symbols."""
    return HiddenMarkov(
        transition=np.array([[0.9, 0.2], [0.1, 0.8]]),
        emission=np.array([[0.8, 0.3], [0.2, 0.7]]),
        start=np.array([2 / 3, 1 / 3]),
    )


def three_state_hmm(rng: np.random.Generator) -> HiddenMarkov:
    """Three states and three symbols with random, rather sticky and rather distinct columns; starts stationary."""
    transition = 0.5 * np.eye(3) + 0.5 * rng.dirichlet(np.ones(3), size=3).T
    emission = 0.5 * np.eye(3) + 0.5 * rng.dirichlet(np.ones(3), size=3).T
    return HiddenMarkov(transition, emission, np.linalg.matrix_power(transition, 1000)[:, 0])


def _draw(p: Float[np.ndarray, "m v"], rng: np.random.Generator) -> Int[np.ndarray, " m"]:
    """One category for each row of probabilities."""
    drawn: np.ndarray = np.argmax(rng.random((len(p), 1)) < np.cumsum(p, axis=1), axis=1)
    return drawn
