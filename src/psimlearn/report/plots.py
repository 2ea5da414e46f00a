"""Pictures of a filter, by matplotlib (extra `plot`): forecasts, errors, rounds of training, surprise.

Every function draws into the axes that it is given, or into new axes, and returns these axes. `plot_forecast` returns
an array of axes, one for each channel. Rows stand at their times where a recording has times.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import SettingsError
from psimlearn.extras import imported
from psimlearn.filter import Filter
from psimlearn.filter.predict import foretold
from psimlearn.legible import legible
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.trajectory import Trajectory
from psimlearn.recordings.windows import foretelling
from psimlearn.report.timeline import dress, places
from psimlearn.train.score import Round

__all__ = ["check_installed", "plot_errors", "plot_forecast", "plot_rounds", "plot_surprise"]

OURS, SEEN, BAND, MARK = "#2f7de1", "#8a8f98", "#2f7de1", "#d9480f"
"""Colours that can be told apart on a white and on a black page."""
OTHERS = ("#8a8f98", "#c2810c", "#2b8a3e", "#9c36b5", "#d9480f", "#0c8599")
MOST_CHANNELS = 4
"""The number of channels drawn where none are named."""


def check_installed() -> None:
    """Raise MissingExtraError where matplotlib is not installed."""
    imported("matplotlib", "plot")


def plot_forecast(
    model: Any,
    recording: Any,
    *,
    horizon: int = 1,
    coverage: float = 0.9,
    channels: Sequence[int] | None = None,
    rows: slice = slice(None),
    axes: Any = None,
) -> Any:
    """Draw observations and the predictions made `horizon` rows before them, with intervals, channel by channel.

    Args:
        model: a fitted `PSIM` or a calibrated `Filter`.
        recording: one recording: an array (T, n), a `Trajectory`, or a `Trajectories` of one.
        horizon: how many rows before an observation it was predicted.
        coverage: the share of observations that the intervals should hold.
        channels: the numbers of the channels to draw; the first four if None.
        rows: the rows to draw. Their predictions still use all rows before them.
        axes: one for each channel; new ones if None.

    Returns:
        The axes, one for each channel.
    """
    filter, data = _filter(model), _one(recording)
    whole(horizon, "horizon")
    chosen = range(min(data.n_channels, MOST_CHANNELS)) if channels is None else channels
    axes = np.ravel(_axes(axes, len(chosen)))
    prediction = foretold(filter, data, horizon).at(foretelling(data.offsets, horizon)).at(rows)
    mean, (low, high) = prediction.mean, prediction.interval(coverage)
    time, seen = places(data)[rows], data.values[rows]
    for ax, c in zip(axes, chosen, strict=True):
        ax.fill_between(
            time, low[:, c], high[:, c], color=BAND, alpha=0.25, linewidth=0, label=f"{coverage:.0%} interval"
        )
        ax.plot(time, mean[:, c], color=OURS, linewidth=1.4, label=f"predicted {_steps(horizon)} ahead")
        ax.plot(time, seen[:, c], color=SEEN, linewidth=0.9, marker=".", markersize=2.5, label="observed")
        ax.set_ylabel(_name(filter, data, c), parse_math=False)  # a name with $ is no formula
        ax.margins(x=0.01)
    dress(axes[-1], data)
    return axes


def plot_errors(errors: Mapping[str, Sequence[float]], *, ours: str = "PSIM", units: str = "", ax: Any = None) -> Any:
    """Draw errors by steps ahead, one line for each method.

    Args:
        errors: by method, the error at each number of steps ahead, as in `report_["errors"]` of a fitted `PSIM`.
        ours: the method drawn in bold.
        units: the units of the error, for the label of the axis.
        ax: the axes; new ones if None.
    """
    ax = _axes(ax, 1)
    colours = iter([*OTHERS * (1 + len(errors) // len(OTHERS))])
    for name, by_steps in errors.items():
        bold = name == ours
        style: dict[str, Any] = {"color": OURS, "linewidth": 2.4, "zorder": 3} if bold else {"color": next(colours)}
        ax.plot(
            np.arange(1, len(by_steps) + 1), by_steps, marker="o", markersize=5 if bold else 3.5, label=name, **style
        )
    finite = [e for by_steps in errors.values() for e in by_steps if np.isfinite(e) and e > 0]
    if finite and max(finite) > 20 * min(finite):  # on a linear axis the small errors would all look like zero
        ax.set_yscale("log")
        ticker = imported("matplotlib.ticker", "plot")
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        ax.set_ylim(bottom=0)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("steps ahead")
    ax.set_ylabel("squared error" + (f" ({units})" if units else ""))
    return ax


def plot_rounds(rounds: Sequence[Round], *, ax: Any = None) -> Any:
    """Draw the closed-loop error of every round of training on held-out recordings, without rounds that diverged.

    Args:
        rounds: `rounds_` of a fitted `PSIM`, or the rounds that `dagger` yields.
        ax: the axes; new ones if None.
    """
    finite = [round for round in rounds if np.isfinite(round.error)]
    if not finite:
        raise SettingsError(
            f"rounds: required at least one with a finite error, received none among {len(rounds)}. "
            "A model from a file keeps no rounds: draw the rounds of a model that was just fitted."
        )
    ax = _axes(ax, 1)
    best = min(finite, key=lambda r: r.error)
    ax.plot([r.number for r in finite], [r.error for r in finite], color=OURS, marker="o", markersize=4)
    ax.plot([best.number], [best.error], "o", color=MARK, markersize=8, label=f"best: round {best.number}", zorder=3)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("round")
    ax.set_ylabel("closed-loop error")
    return ax


def plot_surprise(model: Any, recording: Any, *, n_marked: int = 5, rows: slice = slice(None), ax: Any = None) -> Any:
    """Draw how unlikely each row of a recording was given the rows before it, and mark the least likely rows.

    Args:
        model: a fitted `PSIM` or a `Filter`.
        recording: one recording, as for `plot_forecast`.
        n_marked: how many rows to mark.
        rows: the rows to draw. Their surprise still depends on all rows before them.
        ax: the axes; new ones if None.
    """
    filter, data = _filter(model), _one(recording)
    ax = _axes(ax, 1)
    surprise = -filter.log_likelihood(data)[rows]
    time = places(data)[rows]
    ax.plot(time, surprise, color=OURS, linewidth=1)
    most = np.argsort(-surprise, kind="stable")[: whole(n_marked, "n_marked", 0)]
    ax.plot(time[most], surprise[most], "o", color=MARK, markersize=5, label="most surprising")
    dress(ax, data)
    ax.set_ylabel("surprise (nats)")
    ax.margins(x=0.01)
    return ax


def _filter(model: Any) -> Filter:
    filter = getattr(model, "filter_", model)
    if not isinstance(filter, Filter):
        raise SettingsError(f"model: required a fitted PSIM or a Filter, received {model!r:.100}.")
    return filter


def _one(recording: Any) -> Trajectories:
    """One recording in any form, as a `Trajectories` of one."""
    data = recording if isinstance(recording, Trajectories) else Trajectories.of(_listed(recording))
    if len(data) != 1:
        raise SettingsError(f"recording: required one recording, received {len(data)}. Pass one of them.")
    return data


def _listed(recording: Any) -> Any:
    return [recording] if isinstance(recording, Trajectory) else recording


def _name(filter: Filter, data: Trajectories, channel: int) -> str:
    names = data.names or filter.names
    return f"channel {channel}" if names is None else legible(names[channel])


def _steps(horizon: int) -> str:
    return f"{horizon} row{'s' * (horizon > 1)}"


def _axes(axes: Any, n: int) -> Any:
    """The given axes, or new ones below each other."""
    if axes is not None:
        return axes
    _, new = imported("matplotlib.pyplot", "plot").subplots(
        n, 1, sharex=True, figsize=(7, 2.6 + 1.6 * (n - 1)), layout="constrained"
    )
    return new
