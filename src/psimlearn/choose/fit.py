"""From recordings and settings to a finished filter: split, choose, descend, train on everything, calibrate, report."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, attempted, laid_out, start, summing
from psimlearn.choose.descents import descended, epochs_of
from psimlearn.choose.everything import Trained, as_good, trained, trained_with_gaps
from psimlearn.choose.finite import check_filter
from psimlearn.choose.gaps import gaps_told, treatment
from psimlearn.choose.journal import Journal
from psimlearn.choose.numbers import NUMBERS
from psimlearn.choose.openings import beginnings, opened, opened_alike
from psimlearn.choose.order import in_order
from psimlearn.choose.report import Choice, reported, sensors_missed
from psimlearn.choose.runs import advanced, runs
from psimlearn.choose.search import search
from psimlearn.choose.sensors import all_or_complete
from psimlearn.choose.settings import Settings
from psimlearn.choose.spaces import cautious_recipe, given_space, recipes
from psimlearn.choose.splits import TOO_FEW, Split, in_blocks, in_words, is_cut, splits_of
from psimlearn.choose.strategy import Strategy
from psimlearn.choose.summary import NOTHING_HELD_OUT
from psimlearn.choose.symbols import SYMBOLS
from psimlearn.choose.watch import Watch
from psimlearn.evaluate.hidden import with_gaps_measured
from psimlearn.evaluate.thresholds import with_thresholds
from psimlearn.extras import imported
from psimlearn.filter import Filter, OneHot
from psimlearn.learners import Learner
from psimlearn.recordings.order import one_order
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int
from psimlearn.train.forward import step_by_step
from psimlearn.train.hints import HintSums, hint_sums, with_hints
from psimlearn.train.score import Round, scored

__all__ = ["Fitted", "Selected", "completed", "finished", "fitted", "selected"]


class Fitted(NamedTuple):
    """The learnt filter, what it needs to go on learning, and how it was found."""

    filter: Filter
    candidate: Candidate
    n_rounds: int
    """How many rounds of DAgger made the filter, those with gaps too."""
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
    choice: Choice
    """The settings chosen, with all that was found out on the way."""


def fitted(
    data: Trajectories,
    settings: Settings,
    seed: int,
    tell: Watch,
    groups: Int[np.ndarray, " m"] | None = None,
    journal: Journal = Journal(),
) -> Fitted:
    """Choose by closed-loop error on held-out recordings, train on all of them, calibrate on the held-out ones.

    Args:
        data: the recordings.
        settings: what is given, and what is to be chosen.
        seed: decides everything random.
        tell: receives progress.
        groups: the group of each recording; no group is both trained on and held out.
        journal: knows rounds that were done before an interruption, and keeps others.
    """
    return completed(selected(data, settings, seed, tell, groups, journal), settings, seed, tell, journal)


class Selected(NamedTuple):
    """The settings chosen on recordings, before anything is learnt from all of them."""

    data: Trajectories
    """In an order that contents decide."""
    everything: Trajectories
    """The recordings to train on."""
    choice: Choice
    strategy: Strategy
    notes: list[str]
    held_out: list[tuple[Filter, Trajectories]]
    """As in `Fitted`."""


def selected(
    data: Trajectories,
    settings: Settings,
    seed: int,
    tell: Watch,
    groups: Int[np.ndarray, " m"] | None = None,
    journal: Journal = Journal(),
) -> Selected:
    """Choose by closed-loop error on held-out recordings; arguments as those of `fitted`."""
    strategy = SYMBOLS if isinstance(settings.features, OneHot) else NUMBERS
    if settings.trainer.endswith("backprop"):  # before the work rather than after it
        imported("optax", "grad")
    data, groups, notes = in_order(data, settings, groups)
    if isinstance(settings.validation, Trajectories):
        settings = replace(settings, validation=settings.validation[one_order(settings.validation)])
    for note in notes:
        tell(note)
    splits = splits_of(data, settings, np.random.default_rng(seed), groups)
    if splits:
        choice = _chosen(data, splits, strategy, settings, seed, tell, journal)
    else:
        notes.append(TOO_FEW.format(len(data.values)))
        choice = _unchosen(data, strategy, settings, seed, journal)
    if settings.trainer.endswith("backprop"):
        tell("back-propagation")
        choice = descended(choice, settings, seed)
    whole = in_blocks(data) if is_cut(data, settings) else data
    everything = whole if settings.refit or not _shares(settings, splits) else splits[0].train
    choice, everything, absent = _with_gaps(choice, everything, data, strategy, settings, seed, tell, journal)
    choice = opened(choice) if splits and settings.opening else choice
    return Selected(data, everything, choice, strategy, notes + absent, choice.held_out if splits else [])


def completed(found: Selected, settings: Settings, seed: int, tell: Watch, journal: Journal) -> Fitted:
    """Train on all recordings with the settings chosen, and calibrate on the held-out ones."""
    choice, strategy, everything = found.choice, found.strategy, found.everything
    final, notes = _trained_on(everything, choice, strategy, settings, seed, tell, journal)
    filter = opened_alike(final.round.filter, choice, everything)
    starts = beginnings(choice, everything, settings.features.window)
    filter = strategy.calibrated(filter, choice.held_out, [(filter, starts)])
    filter = with_thresholds(with_gaps_measured(filter, choice.held_out), choice.held_out)
    hints = hint_sums(filter, everything)
    return finished(found, settings, final, with_hints(filter, hints), hints, notes)


def finished(
    found: Selected, settings: Settings, final: Trained, filter: Filter, hints: HintSums, notes: Sequence[str] = ()
) -> Fitted:
    """The calibrated filter with its report; an error if it holds anything that is no finite number."""
    choice = found.choice
    check_filter(filter, found.held_out)
    filter, treats = gaps_told(filter, found.data)
    said = [*found.notes, *notes, *treats, *sensors_missed(filter, found.held_out)]
    return Fitted(
        filter,
        choice.trial.candidate,
        final.round.number,
        *final[1:],
        hints,
        choice.rounds,
        choice.trials,
        reported(found.data, choice, found.strategy, settings, final.round, filter, said),
        found.held_out,
        choice,
    )


def _shares(settings: Settings, splits: list[Split]) -> bool:
    """Whether held-out recordings are a share of the data."""
    return bool(splits) and not isinstance(settings.validation, Trajectories)


# -- choosing --------------------------------------------------------------------------------------------------------


def _chosen(
    data: Trajectories,
    splits: list[Split],
    strategy: Strategy,
    settings: Settings,
    seed: int,
    tell: Watch,
    journal: Journal,
) -> Choice:
    courses = _courses(splits, settings, seed, len(data), journal)
    courses = summing(courses, settings, recipes(settings, data))
    if isinstance(settings.learner, Learner):
        run, trials = search(courses, given_space(settings, data, settings.learner), settings.n_rounds, tell)
    else:
        run, trials = strategy.search(courses, settings, data, tell)
    journal.end("split")
    baselines = strategy.baselines(splits, courses, trials, settings)
    how = in_words(splits, "blocks" if is_cut(data, settings) and _shares(settings, splits) else "recordings")
    return Choice(run.trial(), trials, list(run.lanes[0].rounds), run.winners(), splits, baselines, how)


def _unchosen(data: Trajectories, strategy: Strategy, settings: Settings, seed: int, journal: Journal) -> Choice:
    """Settings as they are given, and cautious ones where none are; the rows that train also score."""
    splits = [Split(data, data)]
    learner = settings.learner if isinstance(settings.learner, Learner) else strategy.cautious(settings, data)
    courses = _courses(splits, settings, seed, len(data), journal)
    (run,) = runs([Candidate(cautious_recipe(settings), learner)], courses)
    run = advanced(run, settings.n_rounds)
    baselines = strategy.baselines(splits, [], [], settings)
    return Choice(
        run.trial(), [run.trial()], list(run.lanes[0].rounds), run.winners(), splits, baselines, NOTHING_HELD_OUT
    )


def _courses(splits: list[Split], settings: Settings, seed: int, n_recordings: int, journal: Journal) -> list[Course]:
    laid = (_course(split, settings, seed, n_recordings) for split in splits)
    return [course._replace(name=f"split {i}", journal=journal) for i, course in enumerate(laid)]


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
        opens=settings.opening,
    )


def _with_gaps(
    choice: Choice, everything: Trajectories, data: Trajectories, strategy: Strategy, *rest: Any
) -> tuple[Choice, Trajectories, list[str]]:
    """The choice with the better treatment of gaps, the recordings to train on, and a note if some are left out."""
    if not np.isnan(data.values).any():
        return choice, everything, []

    def choose(splits: list[Split]) -> Choice:
        chosen, gappy = _chosen(data, splits, strategy, *rest), (np.isnan(split.train.values).any() for split in splits)
        return _treated(chosen, data, *rest) if any(gappy) else chosen

    return all_or_complete(_treated(choice, data, *rest), everything, choose)


def _treated(
    choice: Choice, data: Trajectories, settings: Settings, seed: int, tell: Watch, journal: Journal
) -> Choice:
    """The choice, with the better treatment of gaps."""
    tell("gaps")
    courses = [_course(split, settings, seed, len(data)) for split in choice.splits]
    starts = [start(choice.trial.candidate, course) for course in courses]
    treated = treatment(choice.winners, starts, tell, journal)
    journal.end("gaps")
    return choice._replace(
        trial=choice.trial._replace(error=treated.error), winners=treated.winners, exact=treated.n_rounds
    )


# -- training on everything ------------------------------------------------------------------------------------------


def _trained_on(
    everything: Trajectories,
    choice: Choice,
    strategy: Strategy,
    settings: Settings,
    seed: int,
    tell: Watch,
    journal: Journal,
) -> tuple[Trained, list[str]]:
    """The filter of all recordings; if it got worse in closed loop, the one chosen, with a note."""
    tell(f"training on all {len(everything.values)} rows with the settings chosen")
    final = attempted(_trained, everything, choice, settings, seed, tell, journal)
    if final is not None and as_good(final.round, choice.winners[0], strategy.tolerance):
        return final, []
    note = "refitted on all recordings the filter got worse in closed loop, or does not forget; the one chosen is kept"
    return _trained(choice.splits[0].train, choice, settings, seed, tell, journal), [note]


def _trained(
    data: Trajectories, choice: Choice, settings: Settings, seed: int, tell: Watch, journal: Journal
) -> Trained:
    """As many rounds and epochs as were best. Cut short, the last round so far, and no sums to go on with."""
    split = Split(data, choice.splits[0].held)
    begun, held = start(choice.trial.candidate, _course(split, settings, seed, len(data)))
    if settings.trainer == "forward":
        return Trained(scored(0, step_by_step(begun, tail=True), held), begun.learner, None)
    final = trained(begun, held, choice, tell, journal, "everything")
    if choice.epochs is not None:
        *_, last = epochs_of(split, final.round.filter, settings, seed, choice.epochs, choice.epochs + 1)
        final = Trained(last, begun.learner, None)
    if choice.exact is None:
        return final
    return trained_with_gaps(final, begun, held, choice.exact, journal, "everything")
