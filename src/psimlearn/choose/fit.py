"""From recordings and settings to a finished filter: split, choose, descend, train on everything, calibrate, report."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, laid_out, start
from psimlearn.choose.gaps import treatment
from psimlearn.choose.numbers import NUMBERS
from psimlearn.choose.report import Choice, reported, sensors_missed
from psimlearn.choose.runs import advanced, best_of, runs
from psimlearn.choose.search import search
from psimlearn.choose.settings import Settings
from psimlearn.choose.spaces import cautious_recipe, given_space
from psimlearn.choose.splits import Split, in_blocks, in_words, is_cut, long_enough, splits_of
from psimlearn.choose.strategy import Strategy
from psimlearn.choose.summary import counted
from psimlearn.choose.symbols import SYMBOLS
from psimlearn.choose.watch import Watch
from psimlearn.evaluate.hidden import with_gaps_measured
from psimlearn.evaluate.thresholds import with_thresholds
from psimlearn.extras import imported
from psimlearn.filter import Filter, OneHot
from psimlearn.filter.scaling import constant_channels
from psimlearn.learners import Learner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int
from psimlearn.train.backprop import backprop, randomised
from psimlearn.train.dagger import first_round, next_round
from psimlearn.train.forward import step_by_step
from psimlearn.train.hints import HintSums, hint_sums, with_hints
from psimlearn.train.refined import refined
from psimlearn.train.score import HeldOut, Round, forgets, scored
from psimlearn.train.start import Beginning

__all__ = ["Fitted", "fitted", "one_order"]

TOO_FEW = (
    "too few rows ({}) to hold any out: settings were not chosen but taken as they are, and uncertainty comes from the "
    "training rows"
)
N_EPOCHS, PATIENCE = 400, 20
"""The most epochs of back-propagation, as in the paper, and how many may pass without a better one."""


class Fitted(NamedTuple):
    """The learnt filter, what it needs to go on learning, and how it was found."""

    filter: Filter
    candidate: Candidate
    n_rounds: int
    """How many rounds of DAgger are in the sums: `partial_fit` takes as many."""
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
    data, groups, notes = _in_order(data, settings, groups)
    if isinstance(settings.validation, Trajectories):
        settings = replace(settings, validation=settings.validation[one_order(settings.validation)])
    for note in notes:
        tell(note)
    splits = splits_of(data, settings, np.random.default_rng(seed), groups)
    if splits:
        choice = _chosen(data, splits, strategy, settings, seed, tell)
    else:
        notes.append(TOO_FEW.format(len(data.values)))
        choice = _unchosen(data, strategy, settings, seed)
    if settings.trainer.endswith("backprop"):
        tell("back-propagation")
        choice = _descended(choice, settings, seed)
    whole = in_blocks(data) if is_cut(data, settings) else data
    everything = whole if settings.refit or not _shares(settings, splits) else splits[0].train
    if np.isnan(data.values).any():
        choice = _treated(choice, data, settings, seed, tell)
    final, more_notes = _trained_on(everything, choice, strategy, settings, seed, tell)
    filter = strategy.calibrated(final.round.filter, choice.held_out, [(final.round.filter, everything)])
    filter = with_thresholds(with_gaps_measured(filter, choice.held_out), choice.held_out)
    hints = hint_sums(filter, everything)
    filter = with_hints(filter, hints)
    notes += more_notes + sensors_missed(filter, choice.held_out if splits else [])
    report = reported(data, choice, strategy, settings, final.round, filter, notes)
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


def _in_order(
    data: Trajectories, settings: Settings, groups: Int[np.ndarray, " m"] | None
) -> tuple[Trajectories, Int[np.ndarray, " kept"] | None, list[str]]:
    """The recordings that are long enough, in one order, with their groups; and notes on them."""
    order = one_order(data)
    data, groups = data[order], None if groups is None else groups[order]
    data, groups, notes = long_enough(data, settings.features.window, groups)
    return data, groups, notes if isinstance(settings.features, OneHot) else notes + _constants(data)


def one_order(data: Trajectories) -> Int[np.ndarray, " m"]:
    """An order of recordings that their contents decide, so that a fit does not depend on the order given.

    Which way each channel moves at each row comes first: it is the same in other units, and so is the fit.
    """
    if len(data) == 1:
        return np.zeros(1, dtype=np.int64)
    contents = [array for array in (data.values, data.inputs, data.hints) if array is not None]
    moves = [np.diff(array, axis=0, prepend=array[:1]) > 0 for array in contents]
    for of_array in moves:
        of_array[data.offsets[:-1]] = False  # the row before is of another recording
    edges = list(pairwise(data.offsets.tolist()))
    keys = [[_digest(arrays, first, last) for arrays in (moves, contents)] for first, last in edges]
    return np.array(sorted(range(len(data)), key=keys.__getitem__))


def _digest(arrays: Sequence[np.ndarray], first: int, last: int) -> bytes:
    """A number that stands for some rows of arrays."""
    return blake2b(b"".join(array[first:last].tobytes() for array in arrays)).digest()


def _constants(data: Trajectories) -> list[str]:
    """A note on channels that never change."""
    names = [repr(c if data.names is None else data.names[c]) for c in constant_channels(data.values)]
    if not names:
        return []
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    count = counted(len(names), "channel")
    return [f"{count} never changed in these recordings ({some}): without part in likelihoods and calibration"]


def _shares(settings: Settings, splits: list[Split]) -> bool:
    """Whether held-out recordings are a share of the data."""
    return bool(splits) and not isinstance(settings.validation, Trajectories)


# -- choosing --------------------------------------------------------------------------------------------------------


def _chosen(
    data: Trajectories, splits: list[Split], strategy: Strategy, settings: Settings, seed: int, tell: Watch
) -> Choice:
    courses = [_course(split, settings, seed, len(data)) for split in splits]
    if isinstance(settings.learner, Learner):
        run, trials = search(courses, given_space(settings, data, settings.learner), settings.n_rounds, tell)
    else:
        run, trials = strategy.search(courses, settings, data, tell)
    baselines = strategy.baselines(splits, courses, trials, settings)
    how = in_words(splits, "blocks" if is_cut(data, settings) and _shares(settings, splits) else "recordings")
    return Choice(run.trial(), trials, list(run.lanes[0].rounds), run.winners(), splits, baselines, how)


def _unchosen(data: Trajectories, strategy: Strategy, settings: Settings, seed: int) -> Choice:
    """Settings as they are given, and cautious ones where none are; the rows that train also score."""
    splits = [Split(data, data)]
    learner = settings.learner if isinstance(settings.learner, Learner) else strategy.cautious(settings, data)
    (run,) = runs([Candidate(cautious_recipe(settings), learner)], [_course(splits[0], settings, seed, len(data))])
    run = advanced(run, settings.n_rounds)
    baselines = strategy.baselines(splits, [], [], settings)
    return Choice(
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


def _descended(choice: Choice, settings: Settings, seed: int) -> Choice:
    """The filters of a choice, trained on by gradient: as many epochs as are best on average over the splits."""
    epochs = [
        _epochs(split, round.filter, settings, seed, N_EPOCHS, PATIENCE)
        for split, round in zip(choice.splits, choice.winners, strict=True)
    ]
    at, error, _ = best_of(epochs)
    return choice._replace(
        trial=choice.trial._replace(error=error),
        rounds=[*choice.rounds, *epochs[0]],
        winners=[rounds[at] for rounds in epochs],
        epochs=at,
    )


def _treated(choice: Choice, data: Trajectories, settings: Settings, seed: int, tell: Watch) -> Choice:
    """The choice, with the better treatment of gaps."""
    tell("gaps")
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
    everything: Trajectories, choice: Choice, strategy: Strategy, settings: Settings, seed: int, tell: Watch
) -> tuple[_Trained, list[str]]:
    """The filter of all recordings; if it got worse in closed loop, the one chosen, with a note."""
    tell(f"training on all {len(everything.values)} rows with the settings chosen")
    final = _trained(everything, choice, settings, seed, tell)
    chosen = choice.winners[0]
    before = chosen.error  # on the same recordings
    as_good = final.round.error <= before + (strategy.tolerance - 1) * abs(before)  # a likelihood may be negative
    if as_good and (forgets(final.round.filter) or not forgets(chosen.filter)):
        return final, []
    note = "refitted on all recordings the filter got worse in closed loop, or does not forget; the one chosen is kept"
    return _trained(choice.splits[0].train, choice, settings, seed, tell), [note]


def _trained(data: Trajectories, choice: Choice, settings: Settings, seed: int, tell: Watch) -> _Trained:
    """As many rounds and epochs as were best. Cut short, the last round so far, and no sums to go on with."""
    split, n_rounds = Split(data, choice.splits[0].held), choice.trial.best_round
    course = _course(split, settings, seed, len(data))
    begun, held = start(choice.trial.candidate, course)
    if settings.trainer == "forward":
        return _Trained(scored(0, step_by_step(begun, tail=True), held), begun.learner, None)
    current = first_round(begun, held)
    while current.number < n_rounds and tell.goes_on("training", current.number, n_rounds):
        current = next_round(current, begun, held)
    sums = current.sums if current.number == n_rounds else None
    if n_rounds == 0 and choice.trial.candidate.recipe.states is not None:  # the system itself: `partial_fit` goes on
        sums = next_round(current, begun, held).sums
    trained = _Trained(current.round, begun.learner, sums)
    if choice.epochs is not None:
        *_, last = _epochs(split, current.filter, settings, seed, choice.epochs, choice.epochs + 1)
        trained = _Trained(last, begun.learner, None)
    return trained if choice.exact is None else _trained_exactly(trained, begun, held, choice.exact)


def _trained_exactly(trained: _Trained, begun: Beginning, held: HeldOut, n_rounds: int) -> _Trained:
    """The filter with exact gaps, trained on for some rounds."""
    *_, last = refined(trained.round.filter, begun, held, n_rounds)
    if not n_rounds:  # the sums are of the rounds before, and `partial_fit` asks how many
        return trained._replace(round=last.round._replace(number=trained.round.number))
    # earlier rounds have faded: each row counts about twice, as after the beginning and one round
    return _Trained(last.round._replace(number=1), begun.learner, last.sums)
