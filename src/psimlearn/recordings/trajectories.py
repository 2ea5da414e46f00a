"""Recordings: many multivariate trajectories of unequal length in one frozen container.

This is the only place that looks at observations with suspicion. Whatever is inside a `Trajectories`
is float64, finite or NaN (missing), in time order and read-only.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, overload

import numpy as np
from jaxtyping import Float, Int

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.alphabet import Alphabet, Symbol, sequences_of
from psimlearn.recordings.arrays import (
    called,
    check_finite,
    check_offsets,
    check_same_lengths,
    is_list_of_objects,
    stacked,
    turned,
)

__all__ = ["Trajectories", "Trajectory", "as_trajectories"]

BESIDE = ("inputs", "hints")
"""What may stand beside the observations, one row each."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One recording: what `Trajectories` yields when it is indexed by a number or iterated."""

    values: Float[np.ndarray, "T n"]
    """Observations in time order; NaN where a channel was not seen."""
    inputs: Float[np.ndarray, "T p"] | None = None
    """Known controls, one row for each row of values."""
    hints: Float[np.ndarray, "T h"] | None = None
    """Quantities measured in training only, one row for each row of values; NaN where not measured."""
    alphabet: Alphabet | None = None
    """Of symbols, where the channels are their indicators."""

    def __len__(self) -> int:
        """The number of rows, T."""
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Trajectories(Sequence[Trajectory]):
    """Many trajectories, packed: trajectory i is rows `offsets[i]` to `offsets[i + 1]` of `values`.

    Make one with `Trajectories.of`, `from_frame` or `from_channels_first`. NaN means "not observed".

    >>> recordings = Trajectories.of([np.zeros((3, 2)), np.ones((5, 2))])
    >>> recordings
    Trajectories(2 trajectories, 8 rows, 2 channels)
    >>> recordings.lengths
    array([3, 5])
    >>> len(recordings[1])
    5
    """

    values: Float[np.ndarray, "rows n"]
    offsets: Int[np.ndarray, " edges"]
    inputs: Float[np.ndarray, "rows p"] | None = None
    """Known controls."""
    names: tuple[str, ...] | None = None
    """Channel names, n of them."""
    ids: tuple[Any, ...] | None = None
    """What the caller calls each trajectory."""
    hints: Float[np.ndarray, "rows h"] | None = None
    """Quantities measured in training only, such as a true pose, for a filter to estimate later; NaN = not measured."""
    alphabet: Alphabet | None = None
    """Of symbols, where the channels are their indicators: see `of_symbols`."""

    def __post_init__(self) -> None:
        """Take private, read-only copies and check everything once."""
        object.__setattr__(self, "offsets", _frozen(np.array(self.offsets, dtype=np.int64)))
        check_offsets(self.offsets, len(self.values), self.ids)
        object.__setattr__(self, "values", _frozen(np.array(self.values, dtype=np.float64, order="C")))
        check_finite(self.values, "values", self._place, missing_allowed=True)
        for what in BESIDE:
            rows = getattr(self, what)
            if rows is None:
                continue
            rows = _frozen(np.array(rows, dtype=np.float64, order="C"))
            object.__setattr__(self, what, rows)
            check_finite(rows, what, self._place, missing_allowed=what == "hints")
            if len(rows) != len(self.values):
                raise DataError(
                    f"{what} need one row for each row of values: required {len(self.values)} rows, "
                    f"received {len(rows)}; cut or extend the {what} to match."
                )
        if self.names is not None and len(self.names) != self.n_channels:
            raise DataError(
                f"names must name every channel: required {self.n_channels} names, "
                f"received {len(self.names)}: {list(self.names)}. Give one name per channel."
            )
        if self.alphabet is not None and len(self.alphabet) != self.n_channels:
            raise DataError(
                f"alphabet: required one symbol for each of {self.n_channels} channels, received {len(self.alphabet)}. "
                "Use Trajectories.of_symbols."
            )

    @classmethod
    def of(
        cls,
        recordings: Any,
        inputs: Any = None,
        *,
        hints: Any = None,
        names: Sequence[str] | None = None,
        ids: Sequence[Any] | None = None,
    ) -> "Trajectories":
        """Pack recordings.

        Args:
            recordings: a list of (T_i, n) arrays or of `Trajectory`; one (T, n) array, which is one
                trajectory; or one (m, T, n) array. No axis is ever guessed.
            inputs: known controls in the same form, T_i rows each. `Trajectory` values bring their own.
            hints: quantities measured in training only, in the same form; NaN where not measured.
            names: channel names.
            ids: what you call each trajectory.
        """
        if isinstance(recordings, Trajectories):
            names, ids = names or recordings.names, ids or recordings.ids
        parts = _parts(recordings, "recordings")
        values, offsets = stacked(parts, "recordings", ids)
        given = {"inputs": inputs, "hints": hints}
        beside = {what: _beside(recordings, given[what], what, offsets, ids) for what in BESIDE}
        return cls(
            values,
            offsets,
            names=None if names is None else tuple(names),
            ids=None if ids is None else tuple(ids),
            alphabet=_alphabet(recordings),
            **beside,
        )

    @classmethod
    def of_symbols(
        cls,
        recordings: Any,
        inputs: Any = None,
        *,
        alphabet: Alphabet | Iterable[Any] | None = None,
        other: Symbol | None = None,
        ids: Sequence[Any] | None = None,
    ) -> "Trajectories":
        """Pack recordings of symbols, whole numbers or strings, as one-hot rows; 1 and "1" are two symbols.

        Args:
            recordings: a list of sequences, or one 1-D array, flat list of whole numbers or string of characters, which
                is one recording; None and NaN mean "not observed".
            inputs: known controls, as in `of`.
            alphabet: all symbols there may be; by default those that occur.
            other: the symbol that stands for all that are not in the alphabet, also later; without it they are refused.
            ids: what you call each trajectory.

        >>> Trajectories.of_symbols([["sun", "rain", None], ["rain"]]).values
        array([[ 0.,  1.], [ 1.,  0.], [nan, nan], [ 1.,  0.]])
        """
        sequences, _ = sequences_of(recordings)
        if alphabet is None:
            alphabet = Alphabet.of(sequences, other)
        elif not isinstance(alphabet, Alphabet):
            alphabet = Alphabet.listed(alphabet, other)
        rows = [alphabet.one_hot(own, f"recordings, {called(i, ids)}") for i, own in enumerate(sequences)]
        return replace(cls.of(rows, inputs, ids=ids), alphabet=alphabet)

    @classmethod
    def from_channels_first(cls, recordings: Any, **options: Any) -> "Trajectories":
        """Pack recordings whose arrays are (n, T), or (m, n, T): the same as `of` after a transpose."""
        if isinstance(recordings, Sequence) or is_list_of_objects(recordings):
            recordings = [turned(part, f"recordings, trajectory {i}") for i, part in enumerate(recordings)]
        elif isinstance(recordings, np.ndarray):
            recordings = turned(recordings, "recordings")
        return cls.of(recordings, **options)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        id: str | None = None,
        time: str | None = None,
        channels: Sequence[str] | None = None,
        inputs: Sequence[str] = (),
        hints: Sequence[str] = (),
    ) -> "Trajectories":
        """Pack a long pandas or polars frame, one row per trajectory and time.

        Args:
            frame: any eager frame that narwhals understands. Null and NaN mean "not observed".
            id: the column that tells trajectories apart; rows of one trajectory need not be adjacent.
                Without it the frame is one trajectory.
            time: the column that must rise within each trajectory; without it the order of rows counts.
            channels: the observed columns; by default every numeric column not named otherwise.
            inputs: columns of known controls.
            hints: columns of quantities measured in training only; null and NaN mean "not measured".
        """
        from psimlearn.recordings import frames  # brings narwhals, which a filter at work never needs

        return cls(*frames.packed(frame, id, time, channels, inputs, hints))

    @property
    def n_channels(self) -> int:
        """The number of observed channels, n."""
        return int(self.values.shape[1])

    @property
    def n_inputs(self) -> int:
        """The number of known controls, p; 0 without inputs."""
        return 0 if self.inputs is None else self.inputs.shape[1]

    @property
    def n_hints(self) -> int:
        """The number of quantities measured in training only; 0 without hints."""
        return 0 if self.hints is None else self.hints.shape[1]

    @property
    def lengths(self) -> Int[np.ndarray, " m"]:
        """The number of rows of each trajectory."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        """The number of trajectories."""
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Trajectory: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> "Trajectories": ...
    def __getitem__(self, index: Any) -> "Trajectory | Trajectories":
        """One `Trajectory` by number; several, as `Trajectories`, by slice, index list or boolean mask."""
        if isinstance(index, int | np.integer):
            i = range(len(self))[int(index)]
            return Trajectory(**self._taken(slice(self.offsets[i], self.offsets[i + 1])), alphabet=self.alphabet)
        chosen = np.arange(len(self))[index]
        if not len(chosen):
            raise DataError(
                f"no trajectory selected: required at least one of the {len(self)}, received {index!r}. "
                "Check the condition that made this selection."
            )
        rows = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in chosen])
        return replace(
            self,
            **self._taken(rows),
            offsets=np.cumsum([0, *self.lengths[chosen]]),
            ids=None if self.ids is None else tuple(self.ids[i] for i in chosen),
        )

    def __iter__(self) -> Iterator[Trajectory]:
        """Each trajectory in turn."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """A line that says how much there is."""
        beside = f", {self.n_inputs} inputs" if self.n_inputs else ""
        beside += f", {self.n_hints} hints" if self.n_hints else ""
        return f"Trajectories({len(self)} trajectories, {len(self.values)} rows, {self.n_channels} channels{beside})"

    def split(self, fraction: float, rng: np.random.Generator) -> tuple["Trajectories", "Trajectories"]:
        """Two disjoint sets of whole trajectories, the second with about `fraction` of them.

        >>> first, second = Trajectories.of(np.zeros((10, 4, 1))).split(0.2, np.random.default_rng(0))
        >>> len(first), len(second)
        (8, 2)
        """
        if len(self) < 2 or not 0 < fraction < 1:
            raise SettingsError(
                "a split needs at least 2 trajectories and a fraction strictly between 0 and 1; received "
                f"{len(self)} trajectories and {fraction}. Cut one long recording with blocks() first."
            )
        n_second = min(max(round(fraction * len(self)), 1), len(self) - 1)
        order = rng.permutation(len(self))
        return self[np.sort(order[n_second:])], self[np.sort(order[:n_second])]

    def blocks(self, length: int, gap: int = 0) -> "Trajectories":
        """Cut every trajectory into contiguous blocks of `length` rows, leaving out `gap` rows between.

        With a gap of at least the window, no future of one block reaches into the next. A remainder shorter
        than `length` is left out, unless the whole trajectory is shorter: then it stays as one block.

        >>> Trajectories.of(np.arange(10.0)[:, None]).blocks(3, gap=1).values[:, 0]
        array([0., 1., 2., 4., 5., 6.])
        """
        if length < 1 or gap < 0:
            raise SettingsError(f"blocks need length >= 1 and gap >= 0; received {length} and {gap}.")
        starts = [
            start
            for first, end in pairwise(self.offsets)
            for start in range(first, max(end - length, first) + 1, length + gap)
        ]
        ends = [min(start + length, end) for start, end in zip(starts, self._ends(starts), strict=True)]
        return self.stretches([np.arange(*span) for span in zip(starts, ends, strict=True)])

    def stretches(self, rows: Sequence[Int[np.ndarray, " _"]]) -> "Trajectories":
        """Trajectories made of packed rows: each array of adjacent rows, all of one trajectory, becomes one."""
        return replace(
            self,
            **self._taken(np.concatenate(rows)),
            offsets=np.cumsum([0, *map(len, rows)]),
            ids=None,
        )

    def unpacked(self, rows: Float[np.ndarray, "rows *rest"]) -> list[Float[np.ndarray, "T *rest"]]:
        """Cut an array that has one entry per row into one array per trajectory."""
        if len(rows) != len(self.values):
            raise DataError(f"unpacked: required one entry for each of {len(self.values)} rows, received {len(rows)}.")
        return np.split(rows, self.offsets[1:-1])

    def _taken(self, rows: slice | Int[np.ndarray, " some"]) -> dict[str, Any]:
        """Values, and what stands beside them, at some rows."""
        own = {what: getattr(self, what) for what in ("values", *BESIDE)}
        return {what: None if array is None else array[rows] for what, array in own.items()}

    def _ends(self, rows: Sequence[int]) -> Int[np.ndarray, " rows"]:
        """Where the trajectory of each row ends."""
        return self.offsets[np.searchsorted(self.offsets, rows, side="right")]

    def _place(self, row: int) -> str:
        """A packed row in words: which trajectory, which row of it."""
        i = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"{called(i, self.ids)}, row {row - self.offsets[i]}"


def as_trajectories(recordings: Any) -> Trajectories:
    """Whatever `Trajectories.of` takes, or a `Trajectories`, as a `Trajectories`."""
    return recordings if isinstance(recordings, Trajectories) else Trajectories.of(recordings)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _parts(recordings: Any, what: str) -> list[Any]:
    """One entry per trajectory, from any of the accepted forms."""
    if isinstance(recordings, Trajectories):
        return [part.values for part in recordings]
    if isinstance(recordings, np.ndarray) and not is_list_of_objects(recordings):
        if recordings.ndim not in (2, 3):
            raise DataError(
                f"{what}: required a list of (T, n) arrays, one (T, n) array or one (m, T, n) array; received one "
                f"array of shape {recordings.shape}. For a single channel use x.reshape(-1, 1)."
            )
        return [recordings] if recordings.ndim == 2 else list(recordings)
    if hasattr(recordings, "columns"):
        raise DataError(
            f"{what}: required arrays, received a data frame. Use Trajectories.from_frame(frame, id=, time=, "
            "channels=)."
        )
    if not isinstance(recordings, Sequence | np.ndarray) or isinstance(recordings, str | bytes):
        raise DataError(
            f"{what}: required a list of (T, n) arrays, one (T, n) array or one (m, T, n) array; received "
            f"{type(recordings).__name__}. Make it a list of numpy arrays first."
        )
    return [part.values if isinstance(part, Trajectory) else part for part in recordings]


def _alphabet(recordings: Any) -> Alphabet | None:
    """The alphabet that `Trajectory` values bring along."""
    if isinstance(recordings, np.ndarray) and not is_list_of_objects(recordings):
        return None
    own = [part.alphabet for part in recordings if isinstance(part, Trajectory)]
    if any(alphabet != own[0] for alphabet in own):
        raise DataError("required trajectories with one alphabet, received several. Encode all of them with the same.")
    return own[0] if own else None


def _beside(
    recordings: Any, given: Any, what: str, offsets: Int[np.ndarray, " edges"], ids: Sequence[Any] | None
) -> Float[np.ndarray, "rows p"] | None:
    """The packed inputs or hints: those given, or those that `Trajectory` values bring along."""
    parts = _own(recordings, what) if given is None else _parts(given, what)
    if parts is None:
        return None
    if len(parts) != len(offsets) - 1:
        raise DataError(
            f"{what}: required one array for each of the {len(offsets) - 1} trajectories, received {len(parts)}. "
            "Give one (T, p) array per trajectory."
        )
    packed, own_offsets = stacked(parts, what, ids)
    check_same_lengths(offsets, own_offsets, what, ids)
    return packed


def _own(recordings: Any, what: str) -> list[Any] | None:
    """The inputs or hints that `Trajectory` values bring along: from all of them, or None if none has any."""
    if isinstance(recordings, np.ndarray) and not is_list_of_objects(recordings):
        return None
    own = [getattr(part, what) if isinstance(part, Trajectory) else None for part in recordings]
    without = [i for i, rows in enumerate(own) if rows is None]
    if len(without) == len(own):
        return None
    if without:
        raise DataError(
            f"{what}, trajectory {without[0]}: required {what} with every trajectory or with none, received some "
            f"with and this one without. Add its {what}, or pass only the values."
        )
    return own
