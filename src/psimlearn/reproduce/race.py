"""Training with several settings at once: the setting that leads after some rounds continues alone."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DivergedError
from psimlearn.train.score import Round, best

__all__ = ["Entrant", "Race", "finished", "raced"]

Entrant = tuple[Iterator[Round], Any]
"""The rounds of a setting, and the setting."""


class Race(NamedTuple):
    """The outcome of a race."""

    winner: Round
    """The best round of the winning setting."""
    entrant: Any
    """The winning setting."""
    diverged: int
    """How many settings had diverged when the race was decided."""
    tried: int
    """How many settings raced."""


class _Begun(NamedTuple):
    """An entrant after the first rounds."""

    done: list[Round]
    rest: Iterator[Round]
    setting: Any

    @property
    def error(self) -> float:
        """The least error so far."""
        return min((round.error for round in self.done), default=np.inf)


def raced(
    entrants: list[Entrant], n_racing: int, more: Callable[[Any, list[Any]], list[Entrant]] | None = None
) -> Race:
    """Run `n_racing` rounds of every entrant, and all rounds of the one with the least error so far.

    Args:
        entrants: the settings that race.
        n_racing: how many rounds decide the race.
        more: given the leading setting and all that raced, further entrants; the race is decided when there are none.
    """
    begun: list[_Begun] = []
    while entrants:
        begun += [_Begun(_run(islice(rounds, n_racing + 1)), rounds, setting) for rounds, setting in entrants]
        leader = min(begun, key=lambda each: each.error)
        entrants = [] if more is None else more(leader.setting, [each.setting for each in begun])
    diverged = sum(np.isinf(each.error) for each in begun)
    return Race(best(leader.done + _run(leader.rest)), leader.setting, int(diverged), len(begun))


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
