"""Back-propagation after the rounds of DAgger, or in their stead: on each split, then on all recordings."""

from typing import Any

import numpy as np

from psimlearn.choose.report import Choice
from psimlearn.choose.runs import best_of
from psimlearn.choose.settings import Settings
from psimlearn.choose.splits import Split
from psimlearn.filter import Filter
from psimlearn.train.backprop import backprop, randomised
from psimlearn.train.score import Round

__all__ = ["descended", "epochs_of"]

N_EPOCHS, PATIENCE = 400, 20
"""The most epochs of back-propagation, as in the paper, and how many may pass without a better one."""


def descended(choice: Choice, settings: Settings, seed: int) -> Choice:
    """The filters of a choice, trained on by gradient: as many epochs as are best on average over the splits."""
    epochs = [
        epochs_of(split, round.filter, settings, seed, N_EPOCHS, PATIENCE)
        for split, round in zip(choice.splits, choice.winners, strict=True)
    ]
    at, error, _ = best_of(epochs)
    return choice._replace(
        trial=choice.trial._replace(error=error),
        rounds=[*choice.rounds, *epochs[0]],
        winners=[rounds[at] for rounds in epochs],
        epochs=at,
    )


def epochs_of(split: Split, learnt: Filter, settings: Settings, seed: int, n_epochs: int, patience: int) -> list[Round]:
    """Epochs of back-propagation: on from the filter that DAgger has learnt, or from random weights in its stead."""
    common: dict[str, Any] = {"n_epochs": n_epochs, "patience": patience, "criterion": settings.criterion}
    if settings.trainer == "dagger+backprop":
        return list(backprop(*split, learnt, optimiser="lbfgs", **common))
    start = randomised(learnt, np.random.default_rng(seed))
    return list(backprop(*split, start, optimiser="rmsprop", seed=seed, **common))
