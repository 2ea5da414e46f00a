"""The picture of README.md: a learnt filter follows a pendulum through a sensor failure and a push.

    python docs/figures.py [FOLDER] [--quick]

Learns a filter and writes pendulum.svg into FOLDER (by default docs/figures). --quick learns from a few recordings.
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


def main(folder: Path = FIGURES, n_recordings: int = 200, n_rounds: int = 15) -> None:
    """Learn a filter, draw the picture and write it to a folder."""
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
    with matplotlib.rc_context(_style()):
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
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / "pendulum.svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)


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
