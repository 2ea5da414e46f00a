"""Training with several settings at once: the setting that leads after some rounds continues alone."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DivergedError
from psimlearn.train.score import Round, best

__all__ = ["Race", "finished", "raced"]


class Race(NamedTuple):
    """The outcome of a race."""

    winner: Round
    """The best round of the winning setting."""
    entrant: Any
    """The winning setting."""
    diverged: int
    """How many settings had diverged when the race was decided."""


def raced(entrants: list[tuple[Iterator[Round], Any]], n_racing: int) -> Race:
    """Run `n_racing` rounds of every entrant, and all rounds of the one with the least error so far."""
    starts = [(_run(islice(rounds, n_racing + 1)), rounds, entrant) for rounds, entrant in entrants]
    errors = [min((r.error for r in begun), default=np.inf) for begun, _, _ in starts]
    begun, rounds, entrant = starts[int(np.argmin(errors))]
    return Race(best(begun + _run(rounds)), entrant, int(np.isinf(errors).sum()))


def _run(rounds: Iterator[Round]) -> list[Round]:
    """All rounds until one diverges."""
    done: list[Round] = []
    try:
        for round in rounds:
            done.append(round)
    except DivergedError:
        pass
    return done


def finished(rounds: Iterator[Round]) -> Round | None:
    """The last round, or None if training diverged before it."""
    try:
        *_, last = rounds
    except DivergedError:
        return None
    return last
