"""`PSIM` in river: a forecaster and a detector of anomalies that learn from one row after the other.

The first rows are kept until there are enough to choose settings by; then a filter is learnt, and from then on by
`PSIM.partial_fit`, a block of rows at a time. Between blocks the filter only takes rows, so a row costs little.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from psimlearn.estimator.psim import PSIM
from psimlearn.extras import imported
from psimlearn.filter.live import Live
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["PSIMAnomaly", "PSIMOnlineForecaster"]

WARM = 50
"""The last rows that a filter takes again when it has learnt."""
TARGET = "y"
"""The name of the only channel of a forecaster."""
Row = Mapping[Any, float]


class Learning:
    """A filter that learns from rows, one after the other, with names for channels and inputs."""

    def __init__(self, grace: int, block: int, window: int | str, settings: Mapping[str, Any] | None) -> None:
        self.grace, self.block = grace, block
        self.psim = PSIM(window, **({"random_state": 0} | dict(settings or {})))
        self.rows: list[tuple[Row, Row]] = []
        """The rows not yet learnt from, after the rows to begin with again."""
        self.n_old = 0
        """How many of these were learnt from."""
        self.channels: list[Any] = []
        self.inputs: list[Any] = []
        self.live: Live | None = None

    def take(self, row: Row, inputs: Row) -> None:
        """Take a row, and learn if there are enough new ones."""
        self.rows.append((dict(row), dict(inputs)))
        if self.live is None and len(self.rows) >= self.grace:
            self._name()
            self.psim.fit(self._recordings(self.rows))
            self._begin_again()
        elif self.live is not None:
            self.live.update(*self._values(row, inputs))
            if len(self.rows) - self.n_old >= self.block:
                self.psim.partial_fit(self._recordings(self.rows[self.n_old :]), any_range=True)
                self._begin_again()

    def ahead(self, steps: int, given: Iterable[Row] | None) -> Float[np.ndarray, "steps n"] | None:
        """The rows that come, inputs held at their last values where none are given; None before the first learning."""
        if self.live is None:
            return None
        if not self.inputs:
            return np.asarray(self.live.forecast(steps))
        held, future = dict(self.rows[-1][1]), []
        for one in [*(given or ()), *[{}] * steps][:steps]:
            held |= one
            future.append(_numbers(held, self.inputs, 0.0))
        return np.asarray(self.live.forecast(steps, future_inputs=np.array(future)))

    def surprise(self, row: Row) -> float:
        """The negative log-likelihood of a row that comes, in nats; 0 before the first learning."""
        if self.live is None:
            return 0.0
        twin = self.live.copy()
        twin.update(*self._values(row, {}))
        return float(min(-twin.log_likelihood, sys.float_info.max))

    def _name(self) -> None:
        """Channels and inputs are those that were ever observed before the first learning."""
        self.channels = sorted({name for row, _ in self.rows for name, value in row.items() if value == value}, key=str)
        self.inputs = sorted({name for _, row in self.rows for name in row}, key=str)

    def _begin_again(self) -> None:
        """Start the new filter with the last rows."""
        self.rows = self.rows[-WARM:]
        self.n_old, self.live = len(self.rows), Live(self.psim.filter_)
        for row, inputs in self.rows:
            self.live.update(*self._values(row, inputs))

    def _values(self, row: Row, inputs: Row) -> list[np.ndarray]:
        """Numbers of a row: NaN where it has none, and zero for inputs that were never given."""
        known = [_numbers(inputs, self.inputs, 0.0)] if self.inputs else []
        return [_numbers(row, self.channels, np.nan), *known]

    def _recordings(self, rows: list[tuple[Row, Row]]) -> Trajectories:
        """Rows as one recording."""
        values = [self._values(*row) for row in rows]
        inputs = [np.array([row[1] for row in values])] if self.inputs else None
        return Trajectories.of([np.array([row[0] for row in values])], inputs)


def _numbers(row: Row, names: list[Any], otherwise: float) -> Float[np.ndarray, " n"]:
    return np.array([row.get(name, otherwise) for name in names], dtype=float)


class PSIMOnlineForecaster(imported("river.time_series.base", "river").Forecaster):  # type: ignore[misc]
    """Forecast a stream, one channel or several, and go on learning from it.

    The target is a number, or a dict of numbers for several channels; forecasts have the same form. Features x are
    inputs: known controls that act on the next row.

    Args:
        grace: how many rows come before the first filter is learnt; until then a forecast repeats the last row.
        block: how many rows come between two updates of the filter.
        window: how many observations ahead a belief describes, as in `PSIM`.
        settings: further settings of `PSIM` by name.
    """

    def __init__(
        self, grace: int = 200, block: int = 100, window: int | str = "auto", settings: dict[str, Any] | None = None
    ) -> None:
        self.grace, self.block, self.window, self.settings = grace, block, window, settings
        self._learning = Learning(grace, block, window, settings)
        self._several = False

    def learn_one(self, y: Any, x: Row | None = None) -> None:
        """Take a target, and the features that act from its row on."""
        self._several = isinstance(y, Mapping)
        self._learning.take(y if self._several else {TARGET: y}, x or {})

    def forecast(self, horizon: int, xs: Sequence[Row] | None = None) -> list[Any]:
        """The targets of the next rows; features to come are held at their last values where xs has none."""
        learning = self._learning
        rows = learning.ahead(horizon, xs)
        if rows is not None:
            found = [dict(zip(learning.channels, row.tolist(), strict=True)) for row in rows]
        else:
            found = [dict(learning.rows[-1][0]) if learning.rows else {TARGET: 0.0}] * horizon
        return found if self._several else [row[TARGET] for row in found]


class PSIMAnomaly(imported("river.base", "river").AnomalyDetector):  # type: ignore[misc]
    """Score rows of a stream by their surprise, given the rows before them, and go on learning from it.

    A score is the negative log-likelihood of a row, in nats: high for rows unlike those that the stream led to expect.
    It is 0 until the first filter is learnt. Features that are absent count as not observed; features that first appear
    after the first learning are left out.

    Args:
        grace: how many rows come before the first filter is learnt.
        block: how many rows come between two updates of the filter.
        window: how many observations ahead a belief describes, as in `PSIM`.
        settings: further settings of `PSIM` by name.
    """

    def __init__(
        self, grace: int = 200, block: int = 100, window: int | str = "auto", settings: dict[str, Any] | None = None
    ) -> None:
        self.grace, self.block, self.window, self.settings = grace, block, window, settings
        self._learning = Learning(grace, block, window, settings)

    def learn_one(self, x: Row) -> None:
        """Take a row."""
        self._learning.take(x, {})

    def score_one(self, x: Row) -> float:
        """The surprise of a row that comes; nothing is learnt from it."""
        return self._learning.surprise(x)
