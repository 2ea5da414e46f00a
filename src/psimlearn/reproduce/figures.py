"""Figures for print, as SVG, from results alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.extras import imported
from psimlearn.reproduce.read import Results

__all__ = ["by_horizon", "by_number"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
"""Colours that colour-blind readers can tell apart, and that differ in lightness in print."""
MARKS = "osD^v<>P"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "psimlearn",
    "figure.facecolor": "white",
}


def by_horizon(results: Results, methods: Sequence[str], path: Path) -> None:
    """Draw bars by steps ahead: error / error of the training mean; whiskers are the deviation over folds.

    A method that failed on a fold of a set has no bar there.
    """
    sets = [name for name in results.sets if set(methods) & set(results.methods(name))]
    with _figure(path, len(sets), 3, 3.1, 2.3) as (figure, axes):
        for name, axis in zip(sets, axes, strict=False):
            shown = [method for method in methods if _succeeded(results, name, method)]
            scale = results.values(name, "mean", "errors").mean(axis=0)
            width = 0.8 / len(shown)
            for i, method in enumerate(shown):
                errors = results.values(name, method, "errors") / scale
                steps = np.arange(1, errors.shape[1] + 1)
                axis.bar(
                    steps + (i - (len(shown) - 1) / 2) * width,
                    errors.mean(axis=0),
                    width,
                    yerr=errors.std(axis=0, ddof=1) if len(errors) > 1 else None,
                    color=COLOURS[methods.index(method)],
                    error_kw={"linewidth": 0.7},
                    label=method,
                )
            axis.set_title(results.experiment.sets[name].get("title", name))
            axis.set_xticks(steps)
            axis.set_xlabel("steps ahead")
            axis.set_yscale("log")
        axes[0].set_ylabel("error / error of the mean")
        _legend(figure, axes, len(methods))


def _succeeded(results: Results, name: str, method: str) -> bool:
    """Whether a method was run on a set, and no fold failed: a bar of infinite height says nothing."""
    return method in results.methods(name) and bool(np.isfinite(results.values(name, method, "errors")).all())


def by_number(results: Results, groups: dict[str, list[str]], path: Path) -> None:
    """Draw log(e / e_F) against the number of trajectories; lines are medians of the draws, bands their range."""
    with _figure(path, len(groups), 2, 3.8, 3.2) as (figure, axes):
        for (title, sets), axis in zip(groups.items(), axes, strict=False):
            sizes = np.array([results.experiment.sets[name]["n_trajectories"] for name in sets])
            for i, method in enumerate(results.methods(sets[0])):
                draws = [np.log1p(results.values(name, method, "excess")) for name in sets]
                axis.plot(
                    sizes, [np.median(each) for each in draws], MARKS[i] + "-", color=COLOURS[i], ms=4, label=method
                )
                axis.fill_between(
                    sizes, [each.min() for each in draws], [each.max() for each in draws], color=COLOURS[i], alpha=0.15
                )
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(title)
            axis.set_xlabel("trajectories to learn from")
        axes[0].set_ylabel("log(e / e_F)")
        _legend(figure, axes, len(results.methods(next(iter(groups.values()))[0])))


@contextmanager
def _figure(path: Path, n: int, columns: int, width: float, height: float) -> Iterator[tuple[Any, list[Any]]]:
    """Give n axes in rows and columns, then write them to a file; the same results give the same bytes."""
    matplotlib = imported("matplotlib", "plot")
    figures = imported("matplotlib.figure", "plot")
    columns = min(columns, n)
    rows = -(-n // columns)
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=(width * columns, height * rows + 0.5), layout="constrained")
        axes = [figure.add_subplot(rows, columns, i + 1) for i in range(n)]
        yield figure, axes
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _legend(figure: Any, axes: list[Any], n: int) -> None:
    """Draw one legend for all axes, below them."""
    handles: dict[str, Any] = {}
    for axis in axes:
        handles |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(n, 5))
