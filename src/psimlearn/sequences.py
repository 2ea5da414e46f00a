"""Symbols in, symbols out: the faces of a filter of symbols, for whole recordings and online."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from psimlearn.alphabet import Alphabet, Symbol, sequences_of
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter import Filter
from psimlearn.live import Live
from psimlearn.trajectories import Trajectories, Trajectory

__all__ = ["ReceivedSymbols", "SymbolLive", "received_symbols"]


class ReceivedSymbols(NamedTuple):
    """Recordings of symbols, and whether there was one that came by itself."""

    trajectories: Trajectories
    single: bool

    def returned(self, rows: Float[np.ndarray, "rows *rest"], *, channels: bool = False) -> Any:
        """Something for every row, one array for each recording; probabilities of channels as the likeliest symbol."""
        own = self._alphabet.likeliest(rows) if channels else rows
        return own if self.single else np.split(own, self.trajectories.offsets[1:-1])

    def one_each(self, rows: Float[np.ndarray, "m *rest v"]) -> np.ndarray:
        """The likeliest symbols for every recording; without the axis of recordings for one that came by itself."""
        own = self._alphabet.likeliest(rows)
        return np.asarray(own[0]) if self.single else own

    @property
    def _alphabet(self) -> Alphabet:
        assert self.trajectories.alphabet is not None  # received_symbols sees to it
        return self.trajectories.alphabet


def received_symbols(recordings: Any, alphabet: Alphabet | None = None) -> ReceivedSymbols:
    """Take recordings of symbols in any form that `Trajectories.of_symbols` takes, or made by it.

    Args:
        recordings: of symbols.
        alphabet: of the filter that is to meet them; None takes theirs.
    """
    if isinstance(recordings, Trajectory | Trajectories) or _is_list_of_trajectories(recordings):
        single = isinstance(recordings, Trajectory)
        data = (
            recordings
            if isinstance(recordings, Trajectories)
            else Trajectories.of([recordings] if single else recordings)
        )
        if data.alphabet is None or (alphabet is not None and data.alphabet.symbols != alphabet.symbols):
            wanted = "an alphabet" if alphabet is None else f"the alphabet {list(alphabet.symbols)!r:.200}"
            own = None if data.alphabet is None else list(data.alphabet.symbols)
            raise DataError(
                f"required trajectories of symbols with {wanted}, received {own!r:.200}. Use Trajectories.of_symbols"
                f"{'' if alphabet is None else '(.., alphabet=model.filter_.alphabet)'}, or give plain sequences."
            )
        return ReceivedSymbols(data, single)
    _, single = sequences_of(recordings)
    return ReceivedSymbols(Trajectories.of_symbols(recordings, alphabet=alphabet), single)


def _is_list_of_trajectories(recordings: Any) -> bool:
    return isinstance(recordings, list | tuple) and any(isinstance(part, Trajectory) for part in recordings)


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
        twin, drawn = self.copy(), []
        for _ in range(steps):
            share = np.cumsum(np.atleast_2d(twin.predict_proba()), axis=1)
            codes = np.argmax(rng.random((self.n_streams, 1)) * share[:, -1:] < share, axis=1)
            drawn.append(self.alphabet.decoded(codes))
            twin.update(drawn[-1][0] if self.n_streams == 1 else drawn[-1])
        return np.stack(drawn, axis=-1)[0] if self.n_streams == 1 else np.stack(drawn, axis=-1)

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
