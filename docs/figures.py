"""The pictures of README.md and of docs/missing-data.md: learnt filters follow pendulums through gaps.

    python docs/figures.py [FOLDER] [--quick]

Learns filters and writes pendulum.svg and gap.svg into FOLDER (by default docs/figures). --quick learns from a few
recordings.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from psimlearn import PSIM, RandomFourierRidge, plot_forecast, plot_surprise
from psimlearn.datasets import noisy_pendulum

FIGURES = Path(__file__).parent / "figures"
GREY = "#768390"
"""The colour of words and lines: readable on white and on black, because web pages show the file on both."""
UNSEEN = slice(38, 48)
"""Rows without any observation."""
PUSHED = 70
"""The row of the push: from here on the recording is that of another pendulum."""
OUT, SHOWN = slice(30, 50), slice(20, 65)
"""Rows without one of the two channels, and the rows around them that are drawn."""
PAST, WHOLE = "#4c8dd6", "#d9822b"
"""The colours of estimates from the past, and from the whole recording."""


def main(folder: Path = FIGURES, n_recordings: int = 200, n_rounds: int = 15) -> None:
    """Learn filters, draw the pictures and write them to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_style()):
        for name, figure in {"pendulum": pushed(n_recordings, n_rounds), "gap": gap(n_recordings)}.items():
            figure.savefig(folder / f"{name}.svg", transparent=True, metadata={"Date": None, "Creator": None})
            plt.close(figure)


def pushed(n_recordings: int, n_rounds: int) -> Any:
    """A pendulum without sensors for some rows, and pushed later."""
    rng = np.random.default_rng(3)
    train, new = noisy_pendulum(n_recordings, 80, rng), noisy_pendulum(12, 100, rng)
    model = PSIM(
        learner=RandomFourierRidge(300, alpha=1e-6),
        lags=5,
        prior="mean",
        belief_weight=1.0,
        n_rounds=n_rounds,
        random_state=0,
    ).fit(train)
    recording = np.concatenate([new[4].values[:PUSHED], new[6].values[PUSHED:]])
    recording[UNSEEN] = np.nan
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(7.2, 3.4), height_ratios=(2, 1), layout="constrained"
    )
    plot_forecast(model, recording, horizon=2, channels=[0], axes=above)
    plot_surprise(model, recording, n_marked=1, ax=below)
    for axis in (above, below):
        axis.axvspan(UNSEEN.start - 0.5, UNSEEN.stop - 0.5, color=GREY, alpha=0.15, linewidth=0)
        axis.axvline(PUSHED, color=GREY, linewidth=0.8, linestyle=":")
    above.set_xlabel("")
    above.set_ylabel("sine of the angle")
    _word(above, (UNSEEN.start + UNSEEN.stop - 1) / 2, "sensor out")
    _word(above, PUSHED, "pushed")
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def gap(n_recordings: int) -> Any:
    """One channel out: expected from the rows before, and from the whole recording."""
    rng = np.random.default_rng(5)
    train, new = noisy_pendulum(n_recordings, 80, rng), noisy_pendulum(6, 80, rng)
    model = PSIM(lags=5, prior="mean", belief_weight=1.0, n_rounds=5, random_state=0).fit(train)
    truth = new[1].values
    gappy = truth.copy()
    gappy[OUT, 0] = np.nan
    past = (model.predict(gappy), *model.predict_interval(gappy, coverage=0.9))
    whole = model.smooth(gappy, coverage=0.9)
    figure, axes = plt.subplots(1, 2, sharex=True, sharey=True, figsize=(7.2, 2.7), layout="constrained")
    rows = np.arange(SHOWN.start, SHOWN.stop)
    seen = (rows < OUT.start) | (rows >= OUT.stop)
    drawn = zip(axes, (past, whole), ("from the rows before", "from the whole recording"), (PAST, WHOLE), strict=True)
    for axis, estimates, words, colour in drawn:
        mean, low, high = (part[SHOWN, 0] for part in estimates)
        axis.axvspan(OUT.start - 0.5, OUT.stop - 0.5, color=GREY, alpha=0.15, linewidth=0)
        axis.fill_between(rows, low, high, color=colour, alpha=0.35, linewidth=0, label="90 % band")
        axis.plot(rows, mean, color=colour, linewidth=1.2, label="expected")
        axis.plot(rows[seen], truth[SHOWN, 0][seen], ".", color=GREY, markersize=4, label="observed")
        axis.plot(rows[~seen], truth[SHOWN, 0][~seen], "x", color=GREY, markersize=4, label="true, not seen")
        axis.set_xlabel("row")
        _word(axis, (OUT.start + OUT.stop - 1) / 2, words)
    axes[0].set_ylabel("sine of the angle")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _word(axis: Any, row: float, text: str) -> None:
    axis.annotate(text, (row, 1.02), xycoords=("data", "axes fraction"), ha="center", fontsize=8)


def _style() -> Any:
    words = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(words, GREY),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 9,
        "svg.fonttype": "path",
        "svg.hashsalt": "psimlearn",
    }


if __name__ == "__main__":
    matplotlib.use("agg")
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=FIGURES)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    main(given.folder, *((20, 1) if given.quick else ()))
