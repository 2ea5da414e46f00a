"""From shards and settings to a finished filter: choose on a sample of recordings, then train on all of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from psimlearn.choose.courses import attempted, unscored
from psimlearn.choose.everything import Trained, as_good, trained, trained_with_gaps
from psimlearn.choose.fit import Fitted, Selected, completed, finished, selected
from psimlearn.choose.journal import Journal
from psimlearn.choose.numbers import NUMBERS
from psimlearn.choose.openings import beginnings, opened_alike
from psimlearn.choose.report import Choice
from psimlearn.choose.sensors import left_out
from psimlearn.choose.settings import Settings
from psimlearn.choose.watch import Watch
from psimlearn.errors import DataError, SettingsError
from psimlearn.evaluate.hidden import with_gaps_measured
from psimlearn.evaluate.thresholds import with_thresholds
from psimlearn.filter import OneHot
from psimlearn.recordings.catalogue import Catalogue, drawn
from psimlearn.recordings.completeness import complete
from psimlearn.recordings.passes import Engine
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.derived import OnSums
from psimlearn.train.hints import with_hints
from psimlearn.train.score import forgetful, held_out
from psimlearn.train.sharded import Places, ShardedBeginning, begin_sharded, hints_of_shards, settings_known

__all__ = ["SAMPLE_ROWS", "fitted_on_shards"]

SAMPLE_ROWS = 100_000
"""The rows on which settings are chosen, unless another number is given."""
SPOILT = 2.0
"""A filter of all shards is dropped if its error on held-out rows is so many times that of the filter chosen."""
WORSE = "trained on all shards the filter got worse in closed loop, or does not forget; the one of the sample is kept"


def fitted_on_shards(
    catalogue: Catalogue,
    settings: Settings,
    seed: int,
    tell: Watch,
    engine: Engine,
    sample_rows: int = SAMPLE_ROWS,
    journal: Journal = Journal(),
) -> Fitted:
    """Choose settings on a sample of recordings, and train on all of them with these settings.

    The sample is drawn by recording over all shards. If it is a part of the recordings, the share of it that was held
    out stays out of the training on all shards: it scores and calibrates the filter of all shards. If it is all of
    them, everything is as in memory.

    Args:
        catalogue: the recordings.
        settings: what is given, and what is to be chosen.
        seed: decides everything random.
        tell: receives progress.
        engine: where passes over shards are computed.
        sample_rows: about how many rows the sample has.
        journal: knows rounds that were done before an interruption, and keeps others.
    """
    _check(settings, catalogue)
    sample = drawn(catalogue, sample_rows, seed)
    whole = len(sample.values) == catalogue.rows
    tell(f"choosing on {len(sample)} of {len(catalogue.lengths)} recordings, {len(sample.values)} rows")
    found = selected(sample, settings, seed, tell, None, journal)
    choice = found.choice
    kept_out, unseen_by_last = _kept_out(found, settings, whole)
    if choice.complete_only:
        kept_out = sorted({*kept_out, *np.flatnonzero(~catalogue.complete).tolist()})
    begun = attempted(_begun, catalogue, choice, settings, seed, tell, engine, kept_out)
    final = begun and attempted(_trained, begun, choice, settings, tell, journal)
    if begun is None or final is None or not as_good(final.round, choice.winners[0], SPOILT):
        # only now the sample trains a filter
        fallen_back = completed(found, settings, seed, tell, journal)
        return fallen_back._replace(report=fallen_back.report | {"notes": [*fallen_back.report["notes"], WORSE]})
    taught = _taught(found.everything, kept_out)
    filter = opened_alike(final.round.filter, choice, taught)
    unseen = [(filter, choice.splits[0].held)] if unseen_by_last else choice.held_out
    starts = beginnings(choice, taught, settings.features.window)
    filter = NUMBERS.calibrated(filter, unseen, [(filter, starts)])
    filter = with_thresholds(with_gaps_measured(filter, unseen), unseen)
    hints = hints_of_shards(begun.training, filter)
    fitted = finished(found, settings, final, with_hints(filter, hints), hints)
    report = fitted.report | _of_shards(catalogue, sample, fitted.report["notes"])
    return fitted._replace(report=report, held_out=unseen if found.held_out else [])


def _kept_out(found: Selected, settings: Settings, whole: bool) -> tuple[Sequence[int], bool]:
    """The recordings, by place, that are held out of training on all shards; whether its filter has not seen `held`.

    If the sample was small, and so cross-validated, it is better to learn from all of it: then the filters of the
    splits calibrate, as in memory. So they do if only one recording of the sample was long enough, and was cut in time.
    """
    splits = found.choice.splits
    if isinstance(settings.validation, Trajectories):
        return (), True
    if not found.held_out or (settings.refit and (whole or len(splits) > 1)):
        return (), False
    held = splits[0].held.ids
    return ((), False) if held is None else (held, len(splits) == 1)


def _taught(everything: Trajectories, kept_out: Sequence[int]) -> Trajectories:
    """The recordings of the sample that teach: those held out, or without a channel, tell nothing of beginnings."""
    return everything if everything.ids is None else everything[~np.isin(everything.ids, kept_out)]


def _check(settings: Settings, catalogue: Catalogue) -> None:
    """Refuse, before any work is done, settings that need all recordings in memory."""
    if len(catalogue.lengths) < 2:
        raise DataError(
            "shards: required at least 2 recordings, received 1. Fit it in memory: model.fit(shards.load(0))."
        )
    learner = settings.learner
    on_sums = learner in ("ridge", "rff") if isinstance(learner, str) else isinstance(learner, OnSums)
    if settings.trainer != "dagger" or isinstance(settings.features, OneHot) or not on_sums:
        shown = repr(learner) if isinstance(learner, str) else type(learner).__name__
        raise SettingsError(
            "shards: required trainer='dagger', features of numbers and linear regression or random Fourier features, "
            f"received {settings.trainer!r}, {type(settings.features).__name__} and {shown}. Use these, or fit a part "
            "of the recordings in memory."
        )


def _begun(
    catalogue: Catalogue,
    choice: Choice,
    settings: Settings,
    seed: int,
    tell: Watch,
    engine: Engine,
    held: Sequence[int],
) -> ShardedBeginning:
    """Where the candidate that was chosen begins, on all shards."""
    recipe, learner = choice.trial.candidate
    learnt, known = settings_known(catalogue, settings.features, settings.init, recipe, held)
    tell(f"training on {learnt.rows} rows in {len(learnt.shards)} shards with the settings chosen")

    def done(n: int, total: int) -> None:
        tell.goes_on("shards", n, total)

    begun = begin_sharded(Places(learnt, engine, done), known, learner, np.random.default_rng(seed))
    return begun._replace(filter=forgetful(begun.filter))  # as `with_ridge` in memory


def _trained(begun: ShardedBeginning, choice: Choice, settings: Settings, tell: Watch, journal: Journal) -> Trained:
    """As many rounds as were best, on all shards."""
    validation = choice.splits[0].held
    skip = unscored(validation, begun.filter) if settings.opening else 0
    held = held_out(begun.filter, validation, settings.criterion, settings.loss, skip)
    final = trained(begun, held, choice, tell, journal, "shards")
    return final if choice.exact is None else trained_with_gaps(final, begun, held, choice.exact, journal, "shards")


def _of_shards(catalogue: Catalogue, sample: Trajectories, notes: Sequence[str]) -> dict[str, Any]:
    """The parts of the report in which all shards differ from the sample."""
    rows = len(sample.values)
    note = f"settings, errors and calibration come from a sample of {rows} of {catalogue.rows} rows"
    of_sample, of_all = (left_out(int(np.sum(~each))) for each in (complete(sample), catalogue.complete))
    return {
        "data": catalogue.described(),
        "notes": [of_all if each == of_sample else each for each in notes] + [note] * (rows < catalogue.rows),
        "shards": {"shards": len(catalogue.shards), "sample_rows": rows, "fingerprint": catalogue.fingerprint},
    }
