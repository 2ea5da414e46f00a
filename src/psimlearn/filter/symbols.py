"""The online face of a filter of symbols: symbols in, symbols and probabilities out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.filter import Filter
from psimlearn.filter.live import Live
from psimlearn.filter.onehot import drawn
from psimlearn.recordings.alphabet import Symbol

__all__ = ["SymbolLive"]


class SymbolLive:
    """A filter of symbols at work on one stream, or on `n_streams` that never influence each other.

    With one stream a row is one symbol and answers have no axis of streams; with more it is a sequence of them.
    """

    def __init__(self, filter: Filter, n_streams: int = 1) -> None:
        if filter.alphabet is None:
            raise SettingsError("required a filter with an alphabet, received one of numbers; use Live.")
        self.alphabet = filter.alphabet
        self._live = Live(filter, n_streams)

    @property
    def filter(self) -> Filter:
        """The filter at work."""
        return self._live.filter

    @property
    def n_streams(self) -> int:
        """How many streams there are."""
        return self._live.n_streams

    def update(self, symbol: Any, u: Any = None, next_u: Any = None) -> None:
        """Take one symbol of every stream; None for one that was not observed. One that is refused changes nothing.

        Args:
            symbol: of the alphabet; for several streams a sequence with one each, or None if nothing arrived at all.
            u: inputs that acted at this row, if the filter was learnt with inputs.
            next_u: inputs that act at the next row, for a filter with feed-through.
        """
        if self.n_streams == 1:
            self._live.update(self.alphabet.one_hot([symbol], "symbol")[0], u, next_u)
            return
        row = [None] * self.n_streams if symbol is None else symbol
        x = self.alphabet.one_hot(row, "symbols")
        if len(x) != self.n_streams:
            raise DataError(f"symbols: required one for each of {self.n_streams} streams, received {len(x)}.")
        self._live.update(x, u, next_u)

    def predict(self, horizon: int = 1, future_inputs: Any = None) -> Any:
        """The likeliest symbol so many steps ahead; 1 is the one that `update` takes next."""
        symbols = self.alphabet.likeliest(self.predict_proba(horizon, future_inputs))
        return symbols if self.n_streams > 1 else symbols.item()

    def predict_proba(self, horizon: int = 1, future_inputs: Any = None) -> Float[np.ndarray, "*streams v"]:
        """The probability of each symbol so many steps ahead, in the order of the alphabet."""
        probabilities: np.ndarray = self._live.predict(horizon, future_inputs=future_inputs)
        return probabilities

    def forecast(self, steps: int, future_inputs: Any = None) -> np.ndarray:
        """The likeliest symbol of each of the next steps, each by itself."""
        return self.alphabet.likeliest(self._live.forecast(steps, future_inputs=future_inputs))

    def probability(self, continuation: Sequence[Symbol | None]) -> Any:
        """That just these symbols come next, whatever their number; one that is None may be any."""
        twin, nats = self._live.copy(), np.zeros(self.n_streams)
        for row in self.alphabet.one_hot(continuation, "continuation"):
            twin.update(np.broadcast_to(row, twin._x_shape))
            nats += twin.log_likelihood
        return float(np.exp(nats[0])) if self.n_streams == 1 else np.exp(nats)

    def sample(self, steps: int, rng: np.random.Generator) -> np.ndarray:
        """One possible continuation of every stream, drawn symbol by symbol."""
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
        """Of the last symbol given those before it, in nats; 0 for a stream of which it was not observed."""
        return self._live.log_likelihood

    def reset(self, streams: int | Sequence[int] | np.ndarray | None = None) -> None:
        """Put all streams, or those given by number, numbers or a boolean mask, back to where nothing was seen."""
        self._live.reset(streams)

    def copy(self) -> "SymbolLive":
        """One that has seen the same and goes its own way from here."""
        twin = object.__new__(SymbolLive)
        twin.alphabet, twin._live = self.alphabet, self._live.copy()
        return twin

    __copy__ = copy

    def __repr__(self) -> str:
        """A line that says what goes in."""
        streams = "1 stream" if self.n_streams == 1 else f"{self.n_streams} streams"
        return f"SymbolLive({streams} of {len(self.alphabet)} symbols, window {self.filter.features.window})"
