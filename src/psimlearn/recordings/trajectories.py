"""Many multivariate trajectories of unequal length in one frozen container.

Observations are checked when a `Trajectories` is made, and nowhere else. The arrays inside are float64, finite or NaN
(not observed), in time order and read-only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import numpy as np

from psimlearn.checks import generator, number, whole
from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.alphabet import Alphabet, Symbol
from psimlearn.recordings.arrays import (
    beside,
    called,
    check_finite,
    check_labels,
    check_offsets,
    frozen,
    unmasked,
)
from psimlearn.recordings.card import card_of_recordings
from psimlearn.recordings.packing import channels_last, packed, packed_symbols
from psimlearn.recordings.roles import Roles
from psimlearn.recordings.times import Times, step_of
from psimlearn.recordings.trajectory import Trajectory
from psimlearn.recordings.unframed import without_frames
from psimlearn.recordings.windows import blocks_of
from psimlearn.shapes import Float, Int

__all__ = ["Trajectories", "as_trajectories"]

BESIDE = ("inputs", "hints")
"""Arrays that may accompany the observations, with as many rows."""


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
    """The caller's name of each trajectory."""
    hints: Float[np.ndarray, "rows h"] | None = None
    """Quantities measured in training only, such as a true pose, for a filter to estimate later; NaN = not measured."""
    alphabet: Alphabet | None = None
    """The symbols, if each channel indicates one symbol: see `of_symbols`."""
    step: float | None = None
    """Seconds from one row to the next, where known: models require the same step of all recordings."""
    times: Times | None = None
    """The time of each row, where known, for figures and tables."""
    roles: Roles | None = None
    """The meaning of the columns of the frame behind it, for a model to remember."""

    def __post_init__(self) -> None:
        """Take private, read-only copies and check everything once."""
        object.__setattr__(self, "offsets", frozen(np.array(self.offsets, dtype=np.int64)))
        check_offsets(self.offsets, len(self.values), self.ids)
        object.__setattr__(self, "values", frozen(np.array(unmasked(self.values), dtype=np.float64, order="C")))
        check_finite(self.values, "values", self._place, missing_allowed=True)
        for what in BESIDE:
            if (rows := getattr(self, what)) is not None:
                object.__setattr__(self, what, beside(rows, what, len(self.values), self._place))
        if self.times is not None and len(self.times.ticks) != len(self.values):
            raise DataError(
                f"times: required one for each of {len(self.values)} rows, received {len(self.times.ticks)}."
            )
        check_labels(self.names, self.alphabet, self.n_channels)

    @classmethod
    def of(
        cls,
        recordings: Any,
        inputs: Any = None,
        *,
        hints: Any = None,
        names: Sequence[str] | None = None,
        ids: Sequence[Any] | None = None,
        step: Any = None,
    ) -> "Trajectories":
        """Pack recordings.

        Args:
            recordings: a list of (T_i, n) arrays, data frames or `Trajectory`, or a dictionary of them by id; one
                (T, n) array, which is one trajectory; or one (m, T, n) array. No axis is ever guessed. Frames are
                matched by the names of their columns; a pandas index of dates is their time.
            inputs: known controls in the same form, T_i rows each; by default those that `Trajectory` values carry.
            hints: quantities measured in training only, in the same form; NaN where not measured.
            names: channel names.
            ids: a name for each trajectory; by default the keys of a dictionary.
            step: the time from one row to the next, in seconds or as "50ms", if it is known.
        """
        if isinstance(recordings, Trajectories):
            ids = ids or recordings.ids
        seconds = None if step is None else step_of(step)
        recordings, ids = without_frames(recordings, ids, seconds)
        inputs, hints = (without_frames(beside, None, seconds)[0] for beside in (inputs, hints))
        return cls(*packed(recordings, inputs, hints, names, ids, seconds))

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
            alphabet: all possible symbols; by default the symbols that occur.
            other: the symbol that replaces symbols outside the alphabet, also later; without it they are refused.
            ids: a name for each trajectory.

        >>> Trajectories.of_symbols([["sun", "rain", None], ["rain"]]).values
        array([[ 0.,  1.], [ 1.,  0.], [nan, nan], [ 1.,  0.]])
        """
        return cls(*packed_symbols(recordings, inputs, alphabet, other, ids))

    @classmethod
    def from_channels_first(cls, recordings: Any, **options: Any) -> "Trajectories":
        """Pack arrays of shape (n, T) or (m, n, T): as `of` after a transpose, with its options."""
        return cls.of(channels_last(recordings), **options)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        id: str | Any | None = None,
        time: str | Any | None = None,
        channels: Sequence[str] | Any | None = None,
        inputs: Sequence[str] | Any = (),
        hints: Sequence[str] | Any = (),
        step: Any = "auto",
        duplicates: Literal["refuse", "mean"] | Any = "refuse",
        sort: bool | Any = False,
        resample: bool | Any = False,
        time_format: str | Any | None = None,
    ) -> "Trajectories":
        """Pack a long pandas or polars frame, one row per trajectory and time; or a list or dictionary of frames.

        Rows of NaN fill holes in time. Other times that are not regular are refused, or mended where asked.

        Args:
            frame: any eager frame that narwhals understands. Null and NaN mean "not observed". In a list or dictionary,
                each frame is one trajectory, and columns are matched by name.
            id: the column or index level that tells trajectories apart; rows of one trajectory need not be adjacent.
                Without it the frame is one trajectory; two levels of a pandas index are id and time.
            time: the column or index level of times: numbers (seconds), dates, or text in ISO 8601. Without it the
                order of rows counts; a pandas index of dates is the time.
            channels: the observed columns; by default every column of numbers, or of true and false, that is not
                named otherwise.
            inputs: columns of known controls.
            hints: columns of quantities measured in training only; null and NaN mean "not measured".
            step: seconds, or a text such as "50ms" or "20Hz"; "auto" for the usual step of the times; None to take rows
                as they are, whatever their times.
            duplicates: "refuse" rows of one trajectory and time, or take their "mean".
            sort: sort the rows of each trajectory by time; else times that fall are refused.
            resample: bring other rates and uneven times to `step`: means where it is longer than the step of the
                recording, straight lines between neighbouring rows where it is not. Holes stay NaN.
            time_format: how text times are written, as in `datetime.strptime`: "%d/%m/%Y %H:%M".
        """
        from psimlearn.recordings.frames import Timing, packed_frame  # narwhals, which no filter needs to run

        roles = Roles(id, time, channels, inputs, hints, time_format)
        return cls(*packed_frame(frame, roles, Timing(step, duplicates, sort, resample)).packed)

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
            fields = self._taken(slice(*self.offsets[i : i + 2]))
            return Trajectory(**fields, alphabet=self.alphabet, names=self.names, step=self.step)
        if not len(chosen := np.arange(len(self))[index]):
            raise DataError(
                f"selection: required at least one of the {len(self)}, received {index!r}. Check the condition."
            )
        rows = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in chosen])
        ids = None if self.ids is None else tuple(self.ids[i] for i in chosen)
        return replace(self, **self._taken(rows), offsets=np.cumsum([0, *self.lengths[chosen]]), ids=ids)

    def __repr__(self) -> str:
        """The numbers of trajectories, rows and channels in one line."""
        beside = f", {self.n_inputs} inputs" if self.n_inputs else ""
        beside += f", {self.n_hints} hints" if self.n_hints else ""
        return f"Trajectories({len(self)} trajectories, {len(self.values)} rows, {self.n_channels} channels{beside})"

    _repr_html_ = card_of_recordings

    def split(self, fraction: float, rng: np.random.Generator) -> tuple["Trajectories", "Trajectories"]:
        """Two disjoint sets of whole trajectories, the second with about `fraction` of them.

        >>> first, second = Trajectories.of(np.zeros((10, 4, 1))).split(0.2, np.random.default_rng(0))
        >>> len(first), len(second)
        (8, 2)
        """
        rng = generator(rng)
        if len(self) < 2 or not 0 < number(fraction, "fraction") < 1:
            raise SettingsError(
                "a split needs at least 2 trajectories and a fraction strictly between 0 and 1; received "
                f"{len(self)} trajectories and {fraction}. Cut one long recording with blocks() first."
            )
        n_second = min(max(round(fraction * len(self)), 1), len(self) - 1)
        order = rng.permutation(len(self))
        return self[np.sort(order[n_second:])], self[np.sort(order[:n_second])]

    def blocks(self, length: int, gap: int = 0) -> "Trajectories":
        """Cut every trajectory into contiguous blocks of `length` rows, leaving out `gap` rows between.

        With a gap of at least the window, no future of one block reaches into the next. A remainder shorter than
        `length` is left out; a trajectory that is shorter as a whole stays as one block.

        >>> Trajectories.of(np.arange(10.0)[:, None]).blocks(3, gap=1).values[:, 0]
        array([0., 1., 2., 4., 5., 6.])
        """
        return self.stretches(blocks_of(self.offsets, whole(length, "length"), whole(gap, "gap", 0)))

    def stretches(self, rows: Sequence[Int[np.ndarray, " _"]]) -> "Trajectories":
        """New trajectories, one for each array of packed rows, which must be adjacent and of one trajectory."""
        return replace(self, **self._taken(np.concatenate(rows)), offsets=np.cumsum([0, *map(len, rows)]), ids=None)

    def unpacked(self, rows: Float[np.ndarray, "rows *rest"]) -> list[Float[np.ndarray, "T *rest"]]:
        """Cut an array with one entry per row into one array per trajectory."""
        if len(rows) != len(self.values):
            raise DataError(f"unpacked: required one entry for each of {len(self.values)} rows, received {len(rows)}.")
        return np.split(rows, self.offsets[1:-1])

    def _taken(self, rows: slice | Int[np.ndarray, " some"]) -> dict[str, Any]:
        """Values, inputs, hints and times at some rows, by the names of the fields."""
        arrays = {what: getattr(self, what) for what in ("values", *BESIDE)}
        times = self.times and self.times._replace(ticks=self.times.ticks[rows])
        return {what: None if array is None else array[rows] for what, array in arrays.items()} | {"times": times}

    def _place(self, row: int) -> str:
        """A packed row in words: the trajectory and the row within it."""
        i = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"{called(i, self.ids)}, row {row - self.offsets[i]}"


def as_trajectories(recordings: Any) -> Trajectories:
    """A `Trajectories` as it is, and anything else as `Trajectories.of` packs it."""
    return recordings if isinstance(recordings, Trajectories) else Trajectories.of(recordings)
