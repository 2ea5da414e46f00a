"""Recordings with the form in which they came, and answers in the same form: a list for a list, a frame for a frame.

Where recordings are of symbols, answers about channels are symbols too.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.following import following
from psimlearn.recordings.framing import Framing, after, keys_of, like, plain_frame, turned_into
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Form", "Received"]

Form = Literal["table", "frame", "long", "cube", "list", "dict", "packed"]
"""One recording, as a table of rows or a data frame; or several: a long frame, one 3-D array, a list, a dictionary, or
a `Trajectories`."""


class Received(NamedTuple):
    """Recordings, and the form in which they came."""

    trajectories: Trajectories
    form: Form
    frames: tuple[Framing, ...] = ()
    """The data frames, if the recordings came as frames."""
    alphabet: Alphabet | None = None
    """The symbols in which answers about channels are given; None gives numbers."""
    output: str = "default"
    """"numpy", "pandas" or "polars"; "default" gives frames of the same library for frames, and arrays for arrays."""

    def returned(self, rows: np.ndarray, *, channels: bool = False, names: Sequence[Any] = ()) -> Any:
        """An array with one entry per row, in the caller's form.

        Args:
            rows: one entry for each packed row.
            channels: whether entries are channels: then the likeliest symbols come back for probabilities of symbols.
            names: the columns of a frame, where entries are no channels.
        """
        answers = self._decoded(rows) if channels else rows
        if self.frames:
            parts = [like(each, answers, self._labels(each, names)) for each in self.frames] if self.framed else None
            return self._together(parts or [answers[each.rows] for each in self.frames])
        if self.framed and self.form == "packed":
            data = self.trajectories
            keys = keys_of(self.output, data, data.lengths, data.times)
            return plain_frame(self.output, answers, self._labels(None, names), keys)
        single = self.form == "table"
        return self._together([answers] if single else np.split(answers, self.trajectories.offsets[1:-1]), names)

    def one_each(self, rows: Float[np.ndarray, "m steps n"]) -> Any:
        """Channels of rows after the end of each trajectory; a single recording has no axis of trajectories."""
        answers, data = self._decoded(rows), self.trajectories
        if self.frames and self.framed:
            several = self.form in ("list", "dict")
            parts = [[i] for i in range(len(data))] if several else [list(range(len(data)))]
            made = [after(f, data, p, answers[p], f.channels) for f, p in zip(self.frames, parts, strict=True)]
            return self._together(made)
        if not self.framed:
            return np.asarray(answers[0]) if self.form in ("table", "frame") else answers
        if self.form == "packed":
            steps, times = rows.shape[1], None
            if data.times is not None and data.step is not None:
                times = following(data.times, data.offsets, data.step, steps)
            keys = keys_of(self.output, data, np.full(len(data), steps), times)
            return plain_frame(self.output, np.concatenate(list(answers)), self._labels(None, ()), keys)
        return self._together(list(answers))

    @property
    def framed(self) -> bool:
        """Whether answers are data frames."""
        return self.output in ("pandas", "polars") or (self.output == "default" and bool(self.frames))

    def _together(self, parts: Sequence[Any], names: Sequence[Any] = ()) -> Any:
        """An answer for each recording or frame, in the caller's form."""
        if self.framed:
            parts = [self._framed(part, names) for part in parts]
        if self.form in ("table", "frame", "long"):
            return parts[0]
        if self.form == "dict":
            return dict(zip(self.trajectories.ids or (), parts, strict=True))
        return np.stack(parts) if self.form == "cube" and not self.framed else list(parts)

    def _framed(self, part: Any, names: Sequence[Any]) -> Any:
        """An array or a frame as a frame of the library that was asked for."""
        if isinstance(part, np.ndarray):
            return plain_frame(self.output, part, self._labels(None, names))
        return part if self.output == "default" else turned_into(self.output, part)

    def _labels(self, frame: Framing | None, names: Sequence[Any]) -> Sequence[Any]:
        """The names of the columns of an answer: those given, or the channels of a frame, or of all recordings."""
        if len(names) or frame is not None:
            return names if len(names) or frame is None else frame.channels
        if self.alphabet is not None:
            return ["symbol"]
        return self.trajectories.names or [f"channel{i}" for i in range(self.trajectories.n_channels)]

    def _decoded(self, rows: Float[np.ndarray, "*rows n"]) -> np.ndarray:
        return rows if self.alphabet is None else self.alphabet.likeliest(rows)
