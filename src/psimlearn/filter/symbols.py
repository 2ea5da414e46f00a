"""The online face of a filter of symbols: symbols in, symbols and probabilities out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.filter import Filter
from psimlearn.filter.live import Live
from psimlearn.filter.onehot import drawn
from psimlearn.recordings.alphabet import Symbol
from psimlearn.shapes import Float

__all__ = ["SymbolLive"]


class SymbolLive:
    """A filter of symbols at work on one stream, or on `n_streams` streams that never influence each other.

    With one stream, a row is one symbol and answers have no axis of streams; with more, a row is a sequence of symbols.
    """

    def __init__(self, filter: Filter, n_streams: int = 1, alarm: float | None = None) -> None:
        if filter.alphabet is None:
            raise SettingsError("filter: required a filter of symbols, received a filter of numbers; use Live.")
        self.alphabet = filter.alphabet
        self._live = Live(filter, n_streams, alarm)

    @property
    def filter(self) -> Filter:
        """The filter at work."""
        return self._live.filter

    @property
    def n_streams(self) -> int:
        """The number of streams."""
        return self._live.n_streams

    def update(self, symbol: Any, u: Any = None, next_u: Any = None, time: Any = None) -> None:
        """Take one symbol of every stream; None for a symbol that was not observed. A refused symbol changes nothing.

        Args:
            symbol: a symbol of the alphabet; for several streams, one symbol each, or None if nothing arrived at all.
            u: inputs that acted at this row, if the filter was learnt with inputs.
            next_u: inputs that act at the next row, for a filter with feed-through.
            time: the time of the row, as for `Live.update`.
        """
        if self.n_streams == 1:
            self._live.update(self.alphabet.one_hot([symbol], "symbol")[0], u, next_u, time)
            return
        row = [None] * self.n_streams if symbol is None else symbol
        x = self.alphabet.one_hot(row, "symbols")
        if len(x) != self.n_streams:
            raise DataError(f"symbols: required one for each of {self.n_streams} streams, received {len(x)}.")
        self._live.update(x, u, next_u, time)

    def predict(self, horizon: int = 1, future_inputs: Any = None) -> Any:
        """Return the likeliest symbol `horizon` steps ahead; 1 is the symbol that `update` takes next."""
        symbols = self.alphabet.likeliest(self.predict_proba(horizon, future_inputs))
        return symbols if self.n_streams > 1 else symbols.item()

    def predict_proba(self, horizon: int = 1, future_inputs: Any = None) -> Float[np.ndarray, "*streams v"]:
        """Return the probability of each symbol `horizon` steps ahead, in the order of the alphabet."""
        return np.asarray(self._live.predict(horizon, future_inputs=future_inputs))

    def forecast(self, steps: int, future_inputs: Any = None) -> np.ndarray:
        """Return the likeliest symbol at each of the next steps, each step by itself."""
        return self.alphabet.likeliest(self._live.forecast(steps, future_inputs=future_inputs))

    def probability(self, continuation: Sequence[Symbol | None]) -> Any:
        """Return the probability that these symbols come next, any number of them; None stands for any symbol."""
        twin, nats = self._live.copy(), np.zeros(self.n_streams)
        for row in self.alphabet.one_hot(continuation, "continuation"):
            twin.update(np.broadcast_to(row, twin._x_shape))
            nats += twin.log_likelihood
        return float(np.exp(nats[0])) if self.n_streams == 1 else np.exp(nats)

    def sample(self, steps: int, rng: np.random.Generator) -> np.ndarray:
        """Draw one possible continuation of every stream, symbol by symbol."""
        twin, symbols = self.copy(), []
        for _ in range(steps):
            symbols.append(self.alphabet.decoded(drawn(np.atleast_2d(twin.predict_proba()), rng)))
            twin.update(symbols[-1][0] if self.n_streams == 1 else symbols[-1])
        return np.stack(symbols, axis=-1)[0] if self.n_streams == 1 else np.stack(symbols, axis=-1)

    @property
    def belief(self) -> Float[np.ndarray, "*streams d"]:
        """Probabilities of the next symbols, as the features of the filter arrange them."""
        return self._live.belief

    @property
    def log_likelihood(self) -> Any:
        """The log-likelihood of the last symbol given the symbols before it, in nats; 0 if it was not observed."""
        return self._live.log_likelihood

    @property
    def alarm(self) -> Any:
        """Whether the stream is in alarm after the last symbol; for a bank an array, one for each stream."""
        return self._live.alarm

    def reset(self, streams: int | Sequence[int] | np.ndarray | None = None) -> None:
        """Start all streams again, or the streams given by number, numbers or a boolean mask."""
        self._live.reset(streams)

    def copy(self) -> "SymbolLive":
        """Return a copy with the same memory; from here on, updates of one do not change the other."""
        twin = object.__new__(SymbolLive)
        twin.alphabet, twin._live = self.alphabet, self._live.copy()
        return twin

    __copy__ = copy

    def __repr__(self) -> str:
        """One line with the number of streams and symbols."""
        streams = "1 stream" if self.n_streams == 1 else f"{self.n_streams} streams"
        return f"SymbolLive({streams} of {len(self.alphabet)} symbols, window {self.filter.features.window})"
