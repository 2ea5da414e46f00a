"""Tables for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from psimlearn.evaluate import Comparison
from psimlearn.evaluate.residuals import Ahead
from psimlearn.shapes import Float

__all__ = ["comparison_table", "coverage_table", "error_table", "optimum_table"]

OURS = "PSIM"
WIDE = 160
"""Width in characters of tables that are not shown on a terminal."""
ROOMY = 100
"""Width in characters from which a comparison shows three numbers of steps ahead."""
MOST_STEPS = 6
"""The most columns of a table; some steps ahead are left out beyond that."""


def error_table(errors: Mapping[str, Float[np.ndarray, " horizon"]], title: str) -> None:
    """One line per method, one column per step ahead; a star marks the least error of a column."""
    steps = _shown(len(next(iter(errors.values()))))
    table = _table(f"{title}; * the least", "steps ahead", *map(str, steps))
    columns = np.array(list(errors.values()))
    for name, error in errors.items():
        cells = [_number(error[h - 1]) + _star(error[h - 1], columns[:, h - 1]) for h in steps]
        table.add_row(name, *cells, style="bold" if "*" in cells[0] else "")
    _print(table)


def coverage_table(ways: Sequence[Ahead], shares: Float[np.ndarray, "ways levels"], levels: Sequence[float]) -> None:
    """The share of observations within the intervals of each level, by way of predicting."""
    table = _table("share of observations within the intervals", "intervals of", *(f"{level:.0%}" for level in levels))
    for ahead, by_level in zip(ways, shares, strict=True):
        table.add_row(str(ahead), *("-" if np.isnan(s) else f"{s:.1%}" for s in by_level))
    _print(table)


def comparison_table(comparison: Comparison, seconds: Mapping[str, float]) -> None:
    """Mean and standard deviation over folds, on how many folds PSIM does better, and the seconds of one fit.

    Within 80 columns, the first and the last step ahead are shown, and in wider terminals one between them.
    """
    n_folds, horizon = comparison.errors.shape[1:]
    steps = list(dict.fromkeys((1, horizon) if _console().width < ROOMY else (1, (horizon + 1) // 2, horizon)))
    against = OURS in comparison.methods
    _console().print("squared error in standard deviations, channels summed, mean +- std over folds; * the least")
    if against:
        _console().print(f"wins: folds on which {OURS} has the lower error, 1 step ahead")
    titles = [f"{h} step{'s' * (h > 1)}" for h in steps]
    table = _table("", "", *titles, *["wins"] * against, "seconds")
    mean = comparison.errors.mean(axis=1)
    for name, error, means in zip(comparison.methods, comparison.errors, mean, strict=True):
        cells = [
            f"{_number(means[h - 1])} +- {_std(error[:, h - 1])}{_star(means[h - 1], mean[:, h - 1])}" for h in steps
        ]
        if against:
            ours = comparison.errors[comparison.methods.index(OURS), :, 0]
            cells.append("" if name == OURS else f"{int((ours < error[:, 0]).sum())}/{n_folds}")
        table.add_row(name, *cells, f"{seconds[name]:.2g}", style="bold" if "*" in cells[0] else "")
    _print(table)


def optimum_table(errors: Mapping[str, Float[np.ndarray, " horizon"]], optimum: str, title: str) -> None:
    """Errors, and how far above the optimum they are one step ahead."""
    horizon = len(errors[optimum])
    table = _table(title, "", *(f"{h} step{'s' * (h > 1)}" for h in range(1, horizon + 1)), "above optimal")
    for name, error in errors.items():
        above = f"{error[0] / errors[optimum][0] - 1:.1%}"
        table.add_row(name, *(f"{e:.3f}" for e in error), above, style="bold" if name == OURS else "")
    _print(table)


def _std(values: np.ndarray) -> str:
    return f"{values.std(ddof=1):.2g}" if np.isfinite(values).all() else "-"


def _star(value: float, column: np.ndarray) -> str:
    """A star after the least number of a column, a blank after the others."""
    return "*" if np.isfinite(value) and value == np.min(column) else " "


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"


def _shown(horizon: int) -> list[int]:
    """The first and the last step ahead, and some between."""
    return sorted({round(h) for h in np.linspace(1, horizon, min(horizon, MOST_STEPS))})


def _table(title: str, first: str, *columns: str) -> Any:
    table = Table(box=None, pad_edge=False)
    if title:
        _console().print(title)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _print(table: Any) -> None:
    console = _console()
    console.print(table)
    console.print()


def _console() -> Any:
    """A console as wide as the terminal, or wide enough for any table where there is none."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=WIDE)
