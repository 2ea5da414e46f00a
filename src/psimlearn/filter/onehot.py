"""Features of symbols: a belief holds the probabilities of the next `window` symbols.

Observations are one-hot rows. Features of a window are products of its rows; for rows of probabilities, these are the
probabilities of independent symbols. A belief is one or more points on a simplex.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import SettingsError
from psimlearn.shapes import Float, Int

__all__ = ["LARGEST", "OneHot", "OneHotMarginals", "OneHotProduct", "drawn", "onto_simplices", "softmax"]

LARGEST = 1024
"""The most coordinates of a belief about symbols: for every symbol, an update holds the square of their number."""


@dataclass(frozen=True)
class OneHotProduct:
    """The tensor product of indicators: a belief is the joint distribution of the next `window` symbols.

    Words of symbols are numbered like digits, and the first symbol is the most significant digit.

    >>> OneHotProduct(2)(np.array([[[0.0, 1.0], [1.0, 0.0]]]))    # the word (1, 0) is number 2
    array([[0., 0., 1., 0.]])
    """

    window: int

    def __post_init__(self) -> None:
        """Refuse a window that is no count."""
        whole(self.window, "window")

    @property
    def n_simplices(self) -> int:
        """The number of distributions in a belief: 1."""
        return 1

    def width(self, n_symbols: int) -> int:
        """d, the number of coordinates of a belief, for an alphabet of this size."""
        return int(n_symbols**self.window)

    def n_symbols(self, d: int) -> int:
        """V, the size of the alphabet of a belief with d coordinates."""
        return int(round(d ** (1 / self.window)))  # noqa: RUF046, the power of an int may be anything to mypy

    def check(self, n_symbols: int) -> None:
        """Refuse an alphabet that makes beliefs too large."""
        if self.window * np.log(max(n_symbols, 1)) > np.log(LARGEST) + 1e-9:
            most = int(np.log(LARGEST) / np.log(n_symbols) + 1e-9)
            raise SettingsError(
                f"features: required at most {LARGEST} words of symbols, received an alphabet of {n_symbols} and a "
                f"window of {self.window}, which make {n_symbols}^{self.window}. Use a window of at most {most}, "
                "'onehot-marginals', or a smaller alphabet."
            )

    def __call__(self, f: Float[np.ndarray, "b window v"]) -> Float[np.ndarray, "b d"]:
        """The probability of each word."""
        product = f[:, 0]
        for j in range(1, self.window):
            product = (product[:, :, None] * f[:, j, None, :]).reshape(len(f), -1)
        return product

    def observations(self, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b window v"]:
        """The distribution of each of the next symbols by itself."""
        v = self.n_symbols(m.shape[1])
        return np.reshape(m @ _places(v, self.window), (len(m), self.window, v))

    def probability(self, m: Float[np.ndarray, "b d"], word: Int[np.ndarray, " length"]) -> Float[np.ndarray, " b"]:
        """The probability that `word` comes next: at most `window` symbols, by their places in the alphabet."""
        if len(word) > self.window:
            raise SettingsError(f"word: required at most {self.window} symbols, the window, received {len(word)}.")
        v = self.n_symbols(m.shape[1])
        cube = m.reshape(len(m), *[v] * len(word), -1).sum(axis=-1)
        return np.asarray(cube[(slice(None), *word.tolist())])

    def sample(self, m: Float[np.ndarray, "b d"], rng: np.random.Generator) -> Int[np.ndarray, "b window"]:
        """Draw one word from each belief, as places in the alphabet."""
        v = self.n_symbols(m.shape[1])
        return np.stack(np.unravel_index(drawn(m, rng), [v] * self.window), axis=1)


@dataclass(frozen=True)
class OneHotMarginals:
    """Indicators side by side: a belief is the distribution of each of the next `window` symbols by itself.

    With many symbols, the joint distribution has too many coordinates. For a hidden Markov model marginals are as good,
    once `window` is so large that no two beliefs about the state give the same marginals.
    """

    window: int

    def __post_init__(self) -> None:
        """Refuse a window that is no count."""
        whole(self.window, "window")

    @property
    def n_simplices(self) -> int:
        """The number of distributions in a belief: one for each symbol ahead."""
        return self.window

    def width(self, n_symbols: int) -> int:
        """d, the number of coordinates of a belief, for an alphabet of this size."""
        return n_symbols * self.window

    def n_symbols(self, d: int) -> int:
        """V, the size of the alphabet of a belief with d coordinates."""
        return d // self.window

    def check(self, n_symbols: int) -> None:
        """Refuse an alphabet that makes beliefs too large."""
        if self.width(n_symbols) > LARGEST:
            raise SettingsError(
                f"features: required at most {LARGEST} probabilities in a belief, received an alphabet of {n_symbols} "
                f"and a window of {self.window}. Use a smaller window, or put rare symbols together."
            )

    def __call__(self, f: Float[np.ndarray, "b window v"]) -> Float[np.ndarray, "b d"]:
        """The indicators side by side, [e_t; ..; e_{t+k-1}]."""
        return f.reshape(len(f), -1)

    def observations(self, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b window v"]:
        """The belief, unstacked."""
        return m.reshape(len(m), self.window, -1)


OneHot = OneHotProduct | OneHotMarginals
"""Features of symbols."""


def onto_simplices(y: Float[np.ndarray, "b d"], n: int) -> Float[np.ndarray, "b d"]:
    """Set negative entries to zero and scale each of n parts of every row to sum to one; NaN where nothing is left."""
    parts = np.maximum(y, 0.0).reshape(len(y), n, -1)
    one = np.ones((parts.shape[2], 1))  # numpy sums short rows faster as a product
    with np.errstate(invalid="ignore", over="ignore"):
        total: np.ndarray = parts @ one
        usable = total > np.finfo(float).tiny
        # the second division corrects the rounding of the first where the sum is tiny
        parts /= total if usable.all() else np.where(usable, total, np.nan)
        parts /= parts @ one
    return np.asarray(parts.reshape(y.shape))


def softmax(y: Float[np.ndarray, "b d"], n: int) -> Float[np.ndarray, "b d"]:
    """Exponentiate each of n parts of every row, and scale it to sum to one."""
    parts = y.reshape(len(y), n, -1)
    return onto_simplices(np.exp(parts - parts.max(axis=2, keepdims=True)).reshape(y.shape), n)


def drawn(p: Float[np.ndarray, "b d"], rng: np.random.Generator) -> Int[np.ndarray, " b"]:
    """Draw one place for each row of probabilities, never a place of probability zero; rows need not sum to one."""
    share = np.cumsum(p, axis=1)
    return np.asarray(np.argmax(rng.random((len(p), 1)) * share[:, -1:] < share, axis=1))


@cache
def _places(v: int, window: int) -> Float[np.ndarray, "d places"]:
    """The indicators of the symbols of each word, side by side."""
    words = np.indices([v] * window).reshape(window, -1).T
    return np.eye(v)[words].reshape(len(words), -1)
