"""`PSIM` as a forecaster of sktime: series and panels, exogenous inputs, intervals, updates.

Each series of a panel is a recording, and one filter is learnt from all of them. To predict, the filter runs over the
rows known so far, and forecasts from there. Predictions in sample are those of the next row from the rows before it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.estimator.psim import PSIM
from psimlearn.extras import imported
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["PSIMForecaster"]

EXTRA = "sktime"
LEAST_COVERAGE = 0.01
"""The narrowest interval that calibration keeps; quantiles nearer to the median lie on a line between."""
MTYPES = ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"]


class PSIMForecaster(imported("sktime.forecasting.base", EXTRA).BaseForecaster):  # type: ignore[misc]
    """Learn a filter from series or panels, and forecast with it in sktime.

    Exogenous X are inputs: known controls that act on the next row. `update` goes on learning by `PSIM.partial_fit`,
    as soon as a series has more new rows than the window; its new rows count for forecasts at once.

    Args:
        window: how many observations ahead a belief describes, as in `PSIM`.
        lags: how many of the last observations a step sees.
        settings: further settings of `PSIM` by name, such as {"learner": "auto"}.
        random_state: seeds the choice of settings.

    Examples:
        >>> from psimlearn.adapters import PSIMForecaster
        >>> from sktime.datasets import load_longley
        >>> y, X = load_longley()
        >>> forecaster = PSIMForecaster(window=2, lags=1)  # doctest: +SKIP
        >>> forecaster.fit(y, X).predict_interval(fh=[1, 2], X=X.tail(2))  # doctest: +SKIP
    """

    _tags = {  # noqa: RUF012  sktime reads a plain dict
        "authors": ["The psimlearn developers"],
        "maintainers": ["The psimlearn developers"],
        "python_dependencies": "psimlearn",
        "y_inner_mtype": MTYPES,
        "X_inner_mtype": MTYPES,
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
        "capability:missing_values": True,
        "capability:update": True,
        "capability:categorical_in_X": False,
        "capability:random_state": True,
        "property:randomness": "derandomized",
        "requires-fh-in-fit": False,
    }

    def __init__(
        self,
        window: int | str = "auto",
        lags: int | str = "auto",
        settings: dict[str, Any] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.window = window
        self.lags = lags
        self.settings = settings
        self.random_state = random_state
        super().__init__()

    def _fit(self, y: Any, X: Any, fh: Any) -> "PSIMForecaster":
        """Learn from all series."""
        self._known, self._levels = _series(y, X), y.index.names
        self._unlearnt: dict[tuple[Any, ...], Series] = {}
        settings = {"random_state": self.random_state} | (self.settings or {})
        self.model_ = PSIM(self.window, lags=self.lags, **settings).fit(_recordings(self._known.values()))
        return self

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> "PSIMForecaster":
        """Take new rows of series; learn from a series once it has more of them than the window."""
        for key, new in _series(y, X).items():
            self._known[key] = _continued(self._known.get(key), new)
            self._unlearnt[key] = _continued(self._unlearnt.get(key), new)
        if update_params:
            window = self.model_.filter_.features.window
            enough = [key for key, new in self._unlearnt.items() if len(new.y) > window]
            if enough and hasattr(self.model_, "partial_fit"):
                self.model_.partial_fit(_recordings([self._unlearnt.pop(key) for key in enough]), any_range=True)
            elif enough:
                self.model_.fit(_recordings(self._known.values()))
        return self

    def _predict(self, fh: Any, X: Any = None) -> Any:
        """Expected values at the horizons."""
        return self._answered(fh, X, [None], self._varnames)

    def _predict_quantiles(self, fh: Any, X: Any, alpha: list[float]) -> Any:
        """Quantiles at the horizons: bounds of intervals around the expected values."""
        columns = imported("pandas", EXTRA).MultiIndex.from_product([self._get_varnames(), alpha])
        return self._answered(fh, X, alpha, columns)

    @property
    def _varnames(self) -> Any:
        return next(iter(self._known.values())).y.columns

    def _answered(self, fh: Any, X: Any, levels: Sequence[float | None], columns: Any) -> Any:
        """A frame of answers, channel by channel and level by level, for every series."""
        pandas, relative = imported("pandas", EXTRA), fh.to_relative(self.cutoff)
        steps, times = np.asarray(relative.to_numpy(), dtype=int), fh.to_absolute_index(self.cutoff)
        every = sorted({time for series in self._known.values() for time in series.y.index})
        place, parts = {time: i for i, time in enumerate(every)}, []
        coming = self._times_ahead(relative, int(steps.max()))
        future = {} if X is None else {key: part.y for key, part in _series(X, None).items()}
        for key, series in self._known.items():
            late = len(every) - 1 - place[series.y.index[-1]]  # rows by which the series ended before others
            inputs = None if series.X is None else _held(future.get(key), series.X, coming, late)
            rows = [_asked(self.model_, series, steps + late, inputs, level) for level in levels]
            index = pandas.MultiIndex.from_tuples([(*key, time) for time in times]) if key else times
            parts.append(pandas.DataFrame(np.stack(rows, axis=-1).reshape(len(steps), -1), index, columns))
        answers = pandas.concat(parts)
        if answers.index.nlevels > 1:
            answers.index.names = self._levels
        return answers

    def _times_ahead(self, relative: Any, last: int) -> Any:
        """The times of the rows 1 to `last` after the cutoff; none for a horizon in sample."""
        if last < 1:
            return []
        horizon = imported("sktime.forecasting.base", EXTRA).ForecastingHorizon
        return horizon(range(1, last + 1), is_relative=True, freq=relative.freq).to_absolute_index(self.cutoff)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Settings with which sktime's checks are quick."""
        quick = {"prior": "mean", "belief_weight": 1.0, "n_rounds": 2}
        random = quick | {"prior": "last", "learner": "rff", "n_rounds": 1}
        return [
            {"window": 2, "lags": 1, "settings": quick, "random_state": 0},
            {"window": 1, "lags": 2, "settings": random, "random_state": 0},
        ]


class Series(NamedTuple):
    """The rows of a series, and their inputs."""

    y: Any
    X: Any


def _series(y: Any, X: Any) -> dict[tuple[Any, ...], Series]:
    """The series of a frame or a panel, by their keys; a frame is one series without a key."""
    if y.index.nlevels == 1:
        return {(): Series(y, X)}
    levels = list(range(y.index.nlevels - 1))

    def apart(frame: Any) -> dict[tuple[Any, ...], Any]:
        return {key: part.droplevel(levels) for key, part in frame.groupby(level=levels, sort=False)}

    inputs = {} if X is None else apart(X)
    return {key: Series(part, inputs.get(key)) for key, part in apart(y).items()}


def _continued(old: Series | None, new: Series) -> Series:
    """A series and its new rows; rows that come twice are taken as they came last."""
    if old is None:
        return new
    return Series(*(None if late is None else _joined(early, late) for early, late in zip(old, new, strict=True)))


def _joined(early: Any, late: Any) -> Any:
    return imported("pandas", EXTRA).concat([early[~early.index.isin(late.index)], late]).sort_index()


def _recordings(series: Iterable[Series]) -> Trajectories:
    """Series as recordings, with X as inputs."""
    series = list(series)
    given = None if series[0].X is None else [_whole(part.X.loc[part.y.index]) for part in series]
    return Trajectories.of([part.y.to_numpy(dtype=float) for part in series], given)


def _whole(X: Any) -> Float[np.ndarray, "rows p"]:
    """Inputs without gaps: a missing one stays as it was before."""
    return np.asarray(X.ffill().bfill().fillna(0.0), dtype=float)


def _held(future: Any, past: Any, coming: Any, late: int) -> Float[np.ndarray, "steps p"] | None:
    """The inputs of the rows ahead; where they are not given, those before are held."""
    if not len(coming):
        return None
    known = past.iloc[[-1]] if future is None else _joined(past.iloc[[-1]], future)
    rows = _whole(known.reindex(_joined_index(known.index, coming)).ffill())[-len(coming) :]
    return np.concatenate([np.repeat(_whole(past)[-1:], late, axis=0), rows])


def _joined_index(known: Any, coming: Any) -> Any:
    return known.union(coming)[: known.union(coming).get_loc(coming[-1]) + 1]


def _asked(
    model: PSIM, series: Series, steps: np.ndarray, inputs: np.ndarray | None, level: float | None
) -> Float[np.ndarray, "steps n"]:
    """The expected values, or a quantile, so many rows after the end of a series; 0 is its last row."""
    data, last = _recordings([series]), int(steps.max())
    out = np.full((len(steps), data.n_channels), np.nan)
    if last > 0:
        coverage = None if level is None else max(abs(2 * level - 1), LEAST_COVERAGE)
        ahead = model.forecast(
            data, last, future_inputs=None if inputs is None else inputs[None, :last], coverage=coverage
        )
        out[steps > 0] = _quantile(ahead, level)[0][steps[steps > 0] - 1]
    within = (steps <= 0) & (steps > -len(series.y))
    if within.any():
        before: Any = model.predict(data)
        if level is not None:
            before = (before, *model.predict_interval(data, coverage=max(abs(2 * level - 1), LEAST_COVERAGE)))
        out[within] = _quantile(before, level)[0][steps[within] - 1]
    return out


def _quantile(answer: Any, level: float | None) -> Any:
    """The mean, or the bound of an interval that is a quantile; nearer to the median than any, on a line between."""
    if level is None:
        return answer
    mean, low, high = (np.asarray(part) for part in answer)
    share = min(abs(2 * level - 1) / LEAST_COVERAGE, 1.0)
    return mean + share * ((low if level < 0.5 else high) - mean)
