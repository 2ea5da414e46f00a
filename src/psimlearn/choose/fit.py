"""From recordings and settings to a finished filter: split, choose, descend, train on everything, calibrate, report."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, laid_out, start
from psimlearn.choose.gaps import treatment
from psimlearn.choose.numbers import NUMBERS
from psimlearn.choose.runs import advanced, best_of, runs
from psimlearn.choose.search import search
from psimlearn.choose.settings import Settings
from psimlearn.choose.spaces import cautious_recipe, given_space
from psimlearn.choose.splits import Split, in_blocks, in_words, is_cut, long_enough, splits_of
from psimlearn.choose.strategy import Methods, Strategy
from psimlearn.choose.summary import described
from psimlearn.choose.symbols import SYMBOLS
from psimlearn.choose.watch import Watch
from psimlearn.evaluate.calibrate import blind
from psimlearn.extras import imported
from psimlearn.filter import Filter, OneHot
from psimlearn.learners import Learner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.backprop import backprop, randomised
from psimlearn.train.dagger import first_round, next_round
from psimlearn.train.forward import step_by_step
from psimlearn.train.hints import HintSums, hint_sums, with_hints
from psimlearn.train.refined import refined
from psimlearn.train.score import HeldOut, Round, scored, spectral_radius
from psimlearn.train.start import Beginning

__all__ = ["Fitted", "fitted"]

N_EPOCHS, PATIENCE = 400, 20
"""The most epochs of back-propagation, as in the paper, and how many may pass without a better one."""


class Fitted(NamedTuple):
    """The learnt filter, what it needs to go on learning, and how it was found."""

    filter: Filter
    candidate: Candidate
    n_rounds: int
    """How many rounds of DAgger made the filter."""
    learner: Learner[Any]
    """Prepared, so that it can go on with the sums."""
    sums: Any
    """The learner's summary of all examples met in training; None after any trainer but DAgger."""
    hint_sums: HintSums
    rounds: list[Round]
    trials: list[Trial]
    report: dict[str, Any]
    held_out: list[tuple[Filter, Trajectories]]
    """Filters learnt in the same way from a part of the recordings, each with the recordings that it did not see."""


class _Choice(NamedTuple):
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

    @property
    def held_out(self) -> list[tuple[Filter, Trajectories]]:
        """The winners, each with the recordings that it was not fitted to."""
        return [(round.filter, split.held) for round, split in zip(self.winners, self.splits, strict=True)]


class _Trained(NamedTuple):
    """The last round on all recordings, the learner that made it, and its sums."""

    round: Round
    learner: Learner[Any]
    sums: Any


def fitted(
    data: Trajectories, settings: Settings, seed: int, tell: Watch, groups: Int[np.ndarray, " m"] | None = None
) -> Fitted:
    """Choose by closed-loop error on held-out recordings, train on all of them, calibrate on the held-out ones.

    Args:
        data: the recordings.
        settings: what is given, and what is to be chosen.
        seed: decides everything random.
        tell: receives progress.
        groups: the group of each recording; no group is both trained on and held out.
    """
    strategy = SYMBOLS if isinstance(settings.features, OneHot) else NUMBERS
    if settings.trainer.endswith("backprop"):  # before the work rather than after it
        imported("optax", "grad")
    data, groups, notes = long_enough(data, settings.features.window, groups)
    splits = splits_of(data, settings, np.random.default_rng(seed), groups)
    if splits:
        choice = _chosen(data, splits, strategy, settings, seed, tell)
    else:
        notes.append(
            f"too few rows ({len(data.values)}) to hold any out: settings were not chosen but taken as they are, and "
            "uncertainty comes from the training rows"
        )
        choice = _unchosen(data, strategy, settings, seed)
    if settings.trainer.endswith("backprop"):
        tell("back-propagation")
        choice = _descended(choice, settings, seed)
    whole = in_blocks(data) if is_cut(data, settings) else data
    everything = whole if settings.refit or not _shares(settings, splits) else splits[0].train
    if np.isnan(data.values).any():
        tell("gaps")
        choice = _treated(choice, data, settings, seed, tell)
    final, more_notes = _trained_on(everything, choice, strategy, settings, seed, tell)
    filter = strategy.calibrated(final.round.filter, choice.held_out, [(final.round.filter, everything)])
    hints = hint_sums(filter, everything)
    filter = with_hints(filter, hints)
    report = _report(data, choice, strategy, settings, final.round, filter, notes + more_notes)
    return Fitted(
        filter,
        choice.trial.candidate,
        final.round.number,
        final.learner,
        final.sums,
        hints,
        choice.rounds,
        choice.trials,
        report,
        choice.held_out if splits else [],
    )


def _shares(settings: Settings, splits: list[Split]) -> bool:
    """Whether held-out recordings are a share of the data."""
    return bool(splits) and not isinstance(settings.validation, Trajectories)


# -- choosing --------------------------------------------------------------------------------------------------------


def _chosen(
    data: Trajectories, splits: list[Split], strategy: Strategy, settings: Settings, seed: int, tell: Watch
) -> _Choice:
    courses = [_course(split, settings, seed, len(data)) for split in splits]
    if isinstance(settings.learner, Learner):
        run, trials = search(courses, given_space(settings, data, settings.learner), settings.n_rounds, tell)
    else:
        run, trials = strategy.search(courses, settings, data, tell)
    baselines = strategy.baselines(splits, courses, trials, settings)
    how = in_words(splits, "blocks" if is_cut(data, settings) and _shares(settings, splits) else "recordings")
    return _Choice(run.trial(), trials, list(run.lanes[0].rounds), run.winners(), splits, baselines, how)


def _unchosen(data: Trajectories, strategy: Strategy, settings: Settings, seed: int) -> _Choice:
    """Settings as they are given, and cautious ones where none are; the rows that train also score."""
    splits = [Split(data, data)]
    learner = settings.learner if isinstance(settings.learner, Learner) else strategy.cautious(settings, data)
    (run,) = runs([Candidate(cautious_recipe(settings), learner)], [_course(splits[0], settings, seed, len(data))])
    run = advanced(run, settings.n_rounds)
    baselines = strategy.baselines(splits, [], [], settings)
    return _Choice(
        run.trial(), [run.trial()], list(run.lanes[0].rounds), run.winners(), splits, baselines, "nothing held out"
    )


def _course(split: Split, settings: Settings, seed: int, n_recordings: int) -> Course:
    return laid_out(
        *split,
        settings.features,
        settings.standard,
        init=settings.init,
        criterion=settings.criterion,
        trainer=settings.trainer,
        seed=seed,
        n_recordings=n_recordings,
        loss=settings.loss,
    )


def _descended(choice: _Choice, settings: Settings, seed: int) -> _Choice:
    """The filters of a choice, trained on by gradient: as many epochs as are best on average over the splits."""
    epochs = [
        _epochs(split, round.filter, settings, seed, N_EPOCHS, PATIENCE)
        for split, round in zip(choice.splits, choice.winners, strict=True)
    ]
    at, error = best_of(epochs)
    return choice._replace(
        trial=choice.trial._replace(error=error),
        rounds=[*choice.rounds, *epochs[0]],
        winners=[rounds[at] for rounds in epochs],
        epochs=at,
    )


def _treated(choice: _Choice, data: Trajectories, settings: Settings, seed: int, tell: Watch) -> _Choice:
    """The choice, with the better treatment of gaps."""
    courses = [_course(split, settings, seed, len(data)) for split in choice.splits]
    starts = [start(choice.trial.candidate, course) for course in courses]
    treated = treatment(choice.winners, starts, tell)
    return choice._replace(
        trial=choice.trial._replace(error=treated.error), winners=treated.winners, exact=treated.n_rounds
    )


def _epochs(split: Split, learnt: Filter, settings: Settings, seed: int, n_epochs: int, patience: int) -> list[Round]:
    """Epochs of back-propagation: on from the filter that DAgger has learnt, or from random weights in its stead."""
    common: dict[str, Any] = {"n_epochs": n_epochs, "patience": patience, "criterion": settings.criterion}
    if settings.trainer == "dagger+backprop":
        return list(backprop(*split, learnt, optimiser="lbfgs", **common))
    start = randomised(learnt, np.random.default_rng(seed))
    return list(backprop(*split, start, optimiser="rmsprop", seed=seed, **common))


# -- training on everything ------------------------------------------------------------------------------------------


def _trained_on(
    everything: Trajectories, choice: _Choice, strategy: Strategy, settings: Settings, seed: int, tell: Watch
) -> tuple[_Trained, list[str]]:
    """The filter of all recordings; if it got worse in closed loop, the one chosen, with a note."""
    tell(f"training on all {len(everything.values)} rows with the settings chosen")
    final = _trained(everything, choice, settings, seed, tell)
    before = choice.winners[0].error  # on the same recordings
    if final.round.error <= before + (strategy.tolerance - 1) * abs(before):  # a likelihood may be negative
        return final, []
    note = "refitted on all recordings the filter got worse in closed loop; the one chosen is kept"
    return _trained(choice.splits[0].train, choice, settings, seed, tell), [note]


def _trained(data: Trajectories, choice: _Choice, settings: Settings, seed: int, tell: Watch) -> _Trained:
    """As many rounds and epochs as were best. Cut short, the last round so far, and no sums to go on with."""
    split, n_rounds = Split(data, choice.splits[0].held), choice.trial.best_round
    course = _course(split, settings, seed, len(data))
    begun, held = start(choice.trial.candidate, course)
    if settings.trainer == "forward":
        return _Trained(scored(0, step_by_step(begun, tail=True), held), begun.learner, None)
    current = first_round(begun, held)
    while current.number < n_rounds and tell.goes_on("training", current.number, n_rounds):
        current = next_round(current, begun, held)
    trained = _Trained(current.round, begun.learner, current.sums if current.number == n_rounds else None)
    if choice.epochs is not None:
        *_, last = _epochs(split, current.filter, settings, seed, choice.epochs, choice.epochs + 1)
        trained = _Trained(last, begun.learner, None)
    return trained if choice.exact is None else _trained_exactly(trained, begun, held, choice.exact)


def _trained_exactly(trained: _Trained, begun: Beginning, held: HeldOut, n_rounds: int) -> _Trained:
    """The filter with exact gaps, trained on for some rounds."""
    *_, last = refined(trained.round.filter, begun, held, n_rounds)
    return _Trained(last.round, begun.learner, last.sums if n_rounds else trained.sums)


# -- the report ------------------------------------------------------------------------------------------------------


def _report(
    data: Trajectories,
    choice: _Choice,
    strategy: Strategy,
    settings: Settings,
    final: Round,
    filter: Filter,
    notes: list[str],
) -> dict[str, Any]:
    """What `summarised` puts into words."""
    chosen = {"features": type(settings.features).__name__, "trainer": settings.trainer, "epochs": choice.epochs}
    methods = {**choice.baselines, "PSIM": [round.filter for round in choice.winners]}
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
        "notes": notes,
    }
    if data.n_inputs:
        blinded = {name: [blind(f) for f in found if isinstance(f, Filter)] for name, found in methods.items()}
        report["inputs_unknown"] = {"errors": strategy.errors(blinded, choice.splits, settings.features.window)}
    return report
