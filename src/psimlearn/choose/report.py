"""The choice that a search has made, and the report of a fit: plain values that `summarised` puts into words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.choose.advice import advice, nonlinear_gains
from psimlearn.choose.candidates import Trial
from psimlearn.choose.edges import at_the_end, point_of
from psimlearn.choose.settings import Settings
from psimlearn.choose.splits import Split
from psimlearn.choose.strategy import Methods, Strategy
from psimlearn.choose.summary import described
from psimlearn.evaluate.calibrate import Unseen, blind
from psimlearn.evaluate.sensors import untrusted
from psimlearn.filter import Filter
from psimlearn.filter.innovations import treats_exactly
from psimlearn.learners import RandomFourierRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.openings import Begins
from psimlearn.train.score import Round, spectral_radius

__all__ = ["Choice", "on_the_edge", "reported", "sensors_missed"]


class Choice(NamedTuple):
    """The settings chosen, and filters that were learnt with them from a part of the recordings."""

    trial: Trial
    trials: list[Trial]
    rounds: list[Round]
    """The winning run on the first split."""
    winners: list[Round]
    """One for each split."""
    splits: list[Split]
    baselines: Methods
    how: str
    """The splits in words."""
    epochs: int | None = None
    """How many epochs of back-propagation follow the rounds of DAgger."""
    exact: int | None = None
    """How many rounds with exact gaps follow these; None if gaps stay filled, or nothing is missing."""
    begins: Begins | None = None
    """How recordings begin; None if first rows have no gains of their own."""
    complete_only: bool = False
    """Whether only recordings are learnt from in which every channel was observed."""

    @property
    def held_out(self) -> list[tuple[Filter, Trajectories]]:
        """The winners, each with the recordings that it was not fitted to."""
        return [(round.filter, split.held) for round, split in zip(self.winners, self.splits, strict=True)]


def reported(
    data: Trajectories,
    choice: Choice,
    strategy: Strategy,
    settings: Settings,
    final: Round,
    filter: Filter,
    notes: list[str],
) -> dict[str, Any]:
    """What `summarised` puts into words."""
    chosen = {"features": type(settings.features).__name__, "trainer": settings.trainer, "epochs": choice.epochs}
    chosen |= {"begins": choice.begins, "rounds_with_gaps": choice.exact}
    methods = {**choice.baselines, "PSIM": [round.filter for round in choice.winners]}
    gains = nonlinear_gains(choice.winners[0].filter, choice.splits[0]) if settings.learner == "ridge" else None
    report = {
        "data": described(data),
        "splits": choice.how,
        "choices": choice.trial.row() | chosen,
        "criterion": settings.criterion,
        "units": strategy.units(choice.trial.candidate.recipe),
        "errors": strategy.errors(methods, choice.splits, settings.features.window),
        "tried": len(choice.trials),
        "diverged": sum(not np.isfinite(t.error) for t in choice.trials),
        "clipped": final.clipped,
        "dropped": final.dropped,
        "radius": spectral_radius(filter),
        "nonlinear": gains,
        "notes": notes + advice(gains) + (on_the_edge(choice.trial) if isinstance(settings.learner, str) else []),
    }
    if data.n_inputs:
        blinded = {name: [blind(f) for f in found if isinstance(f, Filter)] for name, found in methods.items()}
        report["inputs_unknown"] = {"errors": strategy.errors(blinded, choice.splits, settings.features.window)}
    return report


def on_the_edge(chosen: Trial) -> list[str]:
    """A note on random features whose ridge or bandwidth was chosen at the end of the grid."""
    learner = chosen.candidate.learner
    ends = at_the_end(point_of(learner)) if isinstance(learner, RandomFourierRidge) else []
    if not ends:
        return []
    note = (
        f"the {' and the '.join(ends)} of the random features lie{'s' * (len(ends) == 1)} at the end of the grid: a "
        "value beyond it may be better. Pass learner=RandomFourierRidge(..) to try one"
    )
    return [note]


def sensors_missed(filter: Filter, held_out: Sequence[Unseen]) -> list[str]:
    """A note on sensors without which a filter that fills gaps in cannot be trusted; none for exact gaps."""
    if filter.alphabet is not None or treats_exactly(filter) or not held_out:
        return []
    found = untrusted(held_out)
    names = [f"channel {c if filter.names is None else filter.names[c]!r}" for c in found]
    if not names:
        return []
    worst = max(found.values(), key=lambda factor: np.nan_to_num(factor, nan=np.inf))
    grown = f"{worst:.3g}-fold" if np.isfinite(worst) else "without bound"
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    note = (
        f"do not trust this filter while {some} {'is' if len(names) == 1 else 'are'} missing: the errors of the other "
        f"channels grew {grown} when a sensor was left out of held-out recordings. A linear filter knows its doubt"
    )
    return [note]
