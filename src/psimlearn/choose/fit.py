"""From recordings and settings to a finished filter: split, choose, train on everything, calibrate, report."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.baselines import KGram, LastObservation, TrainingMean
from psimlearn.choose.search import Candidate, Course, Run, Space, Trial, screened, search
from psimlearn.choose.settings import Settings
from psimlearn.choose.summary import NATS, described, error_table, spectral_radius
from psimlearn.choose.symbols import search_symbols
from psimlearn.choose.watch import Watch
from psimlearn.errors import DataError
from psimlearn.evaluate import Forecaster, folds, time_folds
from psimlearn.evaluate.calibrate import with_calibration
from psimlearn.extras import imported
from psimlearn.filter.features import Persistent, Stack
from psimlearn.filter.filter import Filter
from psimlearn.filter.onehot import OneHot
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.learners.ridge import Learner, RandomFourierRidge, Ridge
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.hints import HintSums, hint_sums, with_hints
from psimlearn.train.losses import LogLoss, Squared
from psimlearn.train.recipe import Prior, Recipe
from psimlearn.train.score import Round

__all__ = ["Fitted", "fitted"]

ENOUGH_ROWS = 2000
"""Held-out rows after which no further split of the recordings is scored."""
FEWEST_ROWS = 30
"""Rows of training data below which settings are not chosen but taken as they are."""
WIDEST = 3000
"""Inputs of a regressor beyond which more lags are not tried: the cost of a fit grows with their square."""
RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2)
FOURIER_RIDGES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
N_FOURIER = 1000
"""Random features; no more than rows to learn from, beyond which they cost much and add nothing."""
BELIEF_WEIGHTS = (0.0, 1.0)
LEVEL_WEIGHTS = (1.0, 0.1)
N_EPOCHS, PATIENCE = 400, 20
"""Of back-propagation: the most there are, as in the paper, and how many may pass without a better one."""
CAUTIOUS, CAUTIOUS_FLOOR = 1.0, 1e-2
"""The ridge, and for symbols the share of contexts, where there is too little data to choose one."""
WORSE, WORSE_NATS = 2.0, 1.002
"""A filter refitted on everything may be no worse on what it has now seen than this times its held-out error."""
FEW_WORDS = 1000
"""Continuations over which k-grams are summed for the report."""

Split = tuple[Trajectories, Trajectories]


class Fitted(NamedTuple):
    """All that comes out of fitting."""

    filter: Filter
    candidate: Candidate
    n_rounds: int
    """How many rounds of DAgger made the filter."""
    learner: Learner[Any]
    """Prepared: what goes on learning."""
    sums: Any
    """The learner's summary of everything met in training; None after anything but DAgger."""
    hint_sums: HintSums
    rounds: list[Round]
    trials: list[Trial]
    report: dict[str, Any]
    judged: list[tuple[Filter, Trajectories]]
    """Filters learnt like it from a part of the recordings, with those that they did not see."""


def fitted(data: Trajectories, settings: Settings, seed: int, tell: Watch) -> Fitted:
    """Choose by closed-loop error on held-out recordings, train on all of them, calibrate on what was held out."""
    notes: list[str] = []
    by_gradient = settings.trainer.endswith("backprop")
    if by_gradient:  # before the work rather than after it
        imported("optax", "grad")
    data = _long_enough(data, settings.features.window, notes)
    splits = _splits(data, settings, np.random.default_rng(seed))
    if splits:
        choice = _chosen(data, splits, settings, seed, tell)
    else:
        notes.append(
            f"too few rows ({len(data.values)}) to hold any out: settings were not chosen but taken as they are, and "
            "uncertainty comes from the training rows"
        )
        choice = _unchosen(data, settings, seed)
    if by_gradient:
        tell("back-propagation")
        choice = _descended(choice, settings, seed)
    explicit = isinstance(settings.validation, Trajectories)
    everything = data if settings.refit or explicit or not splits else splits[0][0]
    tell(f"training on {len(everything)} recordings with the settings chosen")
    final, learner, sums = _trained(everything, choice, settings, seed, tell)
    symbolic = isinstance(settings.features, OneHot)
    worse = WORSE_NATS if symbolic else WORSE
    before = choice.winners[0].error  # on the same recordings
    if not final.error <= before + (worse - 1) * abs(before):  # a likelihood may be negative
        notes.append("refitted on all recordings the filter got worse in closed loop; the one chosen is kept")
        final, learner, sums = _trained(choice.splits[0][0], choice, settings, seed, tell)
    filter = final.filter if symbolic else with_calibration(final.filter, choice.judged)
    hints = hint_sums(filter, everything)
    filter = with_hints(filter, hints)
    report = {
        "data": described(data),
        "splits": choice.how,
        "choices": choice.trial.row()
        | {
            "features": type(settings.features).__name__,
            "trainer": settings.trainer,
            "epochs": choice.epochs,
        },
        "criterion": settings.criterion,
        "units": NATS
        if symbolic
        else "standard deviations"
        if choice.candidate.recipe.standardise
        else "units of the recordings",
        "errors": (_nats if symbolic else _errors)(choice, settings.features.window),
        "tried": len(choice.trials),
        "diverged": sum(not np.isfinite(t.error) for t in choice.trials),
        "clipped": final.clipped,
        "dropped": final.dropped,
        "radius": spectral_radius(filter),
        "notes": notes,
    }
    return Fitted(
        filter,
        choice.candidate,
        final.number,
        learner,
        sums,
        hints,
        choice.rounds,
        choice.trials,
        report,
        choice.judged if splits else [],
    )


class _Choice(NamedTuple):
    """The settings chosen, and filters that were learnt with them from a part of the recordings."""

    trial: Trial
    trials: list[Trial]
    rounds: list[Round]
    """Of the winning run on the first split."""
    winners: list[Round]
    """One for each split."""
    splits: list[Split]
    baseline: list[Filter]
    """The best autoregression, one for each split; empty if there is none."""
    how: str
    epochs: int | None = None
    """Of back-propagation, after the rounds of DAgger."""

    @property
    def candidate(self) -> Candidate:
        return self.trial.candidate

    @property
    def error(self) -> float:
        return self.trial.error

    @property
    def judged(self) -> list[tuple[Filter, Trajectories]]:
        """Filters, with the recordings that they were not fitted to."""
        return [(round.filter, held) for round, (_, held) in zip(self.winners, self.splits, strict=True)]


# -- choosing --------------------------------------------------------------------------------------------------------


def _chosen(data: Trajectories, splits: list[Split], settings: Settings, seed: int, tell: Watch) -> _Choice:
    courses = [_course(train, held, settings, seed, len(data)) for train, held in splits]
    run, trials = _searched(courses, settings, _recipes(settings, data), _ranks(settings, data.n_channels), tell)
    baseline = _autoregressions(courses, trials, settings)
    return _Choice(run.trial(), trials, run.rounds[0], run.winners(), splits, baseline, _how(splits))


def _searched(
    courses: Sequence[Course], settings: Settings, recipes: tuple[Recipe, ...], ranks: tuple[int, ...], tell: Watch
) -> tuple[Run, list[Trial]]:
    if isinstance(settings.learner, Learner):
        return search(courses, Space((settings.learner,), recipes, refine=False, ranks=ranks), settings.n_rounds, tell)
    if isinstance(settings.features, OneHot):
        return search_symbols(courses, settings.features, settings.standard, settings.lags, settings.n_rounds, tell)
    linear = Space((Ridge(),), recipes, RIDGES, between=_between(settings), ranks=ranks)
    if settings.learner == "ridge":
        return search(courses, linear, settings.n_rounds, tell)
    if settings.learner == "auto":
        first, trials = search(courses, linear, settings.n_rounds, tell)
        guide = first.candidate.recipe
    else:
        trials = screened(linear.candidates(), courses, tell)
        guide = min(trials, key=lambda t: t.judged).candidate.recipe
    tell("random features")
    fourier = _fourier_space(settings, guide, _n_fourier(courses[0].train))._replace(ranks=ranks)
    second, more = search(courses, fourier, settings.n_rounds, tell)
    if settings.learner == "auto" and first.trial().judged <= second.trial().judged:
        return first, trials + more
    return second, trials + more


def _recipes(settings: Settings, data: Trajectories) -> tuple[Recipe, ...]:
    """Every combination of what is to be chosen, those with the same lags together."""
    if settings.literal:
        return (settings.standard,)
    n, window, features = data.n_channels, settings.features.window, settings.features
    d = features(np.zeros((1, window, n))).shape[1]
    lags = (settings.lags,) if settings.lags is not None else _lags(window, d, n)
    weights = BELIEF_WEIGHTS if settings.belief_weight is None else (settings.belief_weight,)
    rank = None if settings.rank == "auto" else settings.rank
    return tuple(
        replace(settings.standard, lags=q, prior=prior, level_weight=level, belief_weight=weight, rank=rank)
        for q in lags
        for prior, level in _priors(settings, q)
        for weight in weights
    )


def _priors(settings: Settings, lags: int) -> list[tuple[Prior, float | None]]:
    """Priors, each with its level weights."""
    priors: tuple[Prior, ...] = ("mean", "last") if isinstance(settings.features, Persistent) else ("mean",)
    if settings.prior is not None:
        priors = (settings.prior,)
    relative = isinstance(settings.features, Stack) and not isinstance(settings.learner, SklearnLearner)
    levels: tuple[float | None, ...] = (LEVEL_WEIGHTS if lags > 1 else LEVEL_WEIGHTS[:1]) if relative else (None,)
    if settings.level_weight != "auto":
        levels = (settings.level_weight,)
    return [(prior, level) for prior in priors for level in (levels if prior == "last" else (None,))]


def _between(settings: Settings) -> tuple[tuple[str, float], ...]:
    """Weights between those of the coarse grid, to be tried where it was best."""
    weights = (("belief_weight", 0.3),) if settings.belief_weight is None else ()
    return weights + ((("level_weight", 0.3),) if settings.level_weight == "auto" else ())


def _ranks(settings: Settings, n: int) -> tuple[int, ...]:
    """Numbers of directions that may do instead of all, fewest first."""
    if settings.literal or settings.rank != "auto":
        return ()
    return tuple(n * i for i in (1, 2, 3) if i < settings.features.window)


def _lags(window: int, d: int, n: int) -> tuple[int, ...]:
    return tuple(q for q in sorted({1, window, 2 * window}) if q == 1 or d + q * n <= WIDEST)


def _n_fourier(train: Trajectories) -> int:
    return min(N_FOURIER, 2 * (len(train.values) // 2))


def _fourier_space(settings: Settings, guide: Recipe, n_features: int) -> Space:
    """Random features with the prior and level weight with which linear regression did best.

    They are screened without a belief: with one, their F_0 is often wild, and only some rounds tell what it is worth.
    """
    lags = sorted({min(3, settings.features.window), settings.features.window})
    lags = lags if settings.lags is None else [settings.lags]
    weights = (0.3, 1.0) if settings.belief_weight is None else (settings.belief_weight,)
    screened_weight = 0.0 if settings.belief_weight is None else settings.belief_weight
    recipes = tuple(replace(guide, lags=q, belief_weight=screened_weight) for q in lags)
    return Space((RandomFourierRidge(n_features),), recipes, FOURIER_RIDGES, racing_weights=weights)


def _autoregressions(courses: Sequence[Course], trials: Sequence[Trial], settings: Settings) -> list[Filter]:
    """The best direct autoregression by ridge, one for each course: from what was tried, or tried now."""
    if isinstance(settings.features, OneHot):
        return []
    tried = [t for t in trials if t.candidate.recipe.belief_weight == 0 and isinstance(t.candidate.learner, Ridge)]
    if settings.trainer == "forward" or not tried:
        plain = Recipe(lags=settings.features.window, belief_weight=0.0)
        stack = Stack(settings.features.window)
        common: dict[str, Any] = {"init": "history", "trainer": "dagger", "loss": Squared()}
        courses = [replace(c, features=stack, standard=plain, **common) for c in courses]
        recipes = (plain, replace(plain, prior="last"))
        tried = screened(Space((Ridge(),), recipes, RIDGES).candidates(), courses)
    best = min(tried, key=lambda t: t.error)
    return [course.start(best.candidate)[0].filter for course in courses] if np.isfinite(best.error) else []


def _unchosen(data: Trajectories, settings: Settings, seed: int) -> _Choice:
    """Settings as they are given, and cautious ones where none are; the rows that train also judge."""
    literal = (
        settings.standard
        if settings.literal
        else replace(
            settings.standard,
            lags=settings.lags or 1,
            prior=settings.prior or "mean",
            level_weight=None if settings.level_weight == "auto" else settings.level_weight,
            belief_weight=settings.belief_weight or 0.0,
            rank=None if settings.rank == "auto" else settings.rank,
        )
    )
    learner = settings.learner
    if isinstance(settings.features, OneHot) and not isinstance(learner, Learner):
        learner = SymbolRidge(settings.features, CAUTIOUS, floor=CAUTIOUS_FLOOR)
    elif not isinstance(learner, Learner):
        learner = RandomFourierRidge(_n_fourier(data), CAUTIOUS) if learner == "rff" else Ridge(CAUTIOUS)
    course = _course(data, data, settings, seed, len(data))
    run = Run.of(Candidate(literal, learner), [course], settings.n_rounds).advance(settings.n_rounds)
    return _Choice(run.trial(), [run.trial()], run.rounds[0], run.winners(), [(data, data)], [], "nothing held out")


def _descended(choice: _Choice, settings: Settings, seed: int) -> _Choice:
    """The filters of a choice, trained on by gradient: as many epochs as are best on average over the splits."""
    courses = [_course(train, held, settings, seed, 1) for train, held in choice.splits]
    descents = [c.descent(w.filter, N_EPOCHS, PATIENCE) for c, w in zip(courses, choice.winners, strict=True)]
    run = Run(choice.candidate, [[] for _ in courses], choice.trial.n_recordings, descents).advance(N_EPOCHS)
    trial = run.trial()
    return choice._replace(
        trial=choice.trial._replace(error=trial.error),
        rounds=[*choice.rounds, *run.rounds[0]],
        winners=run.winners(),
        epochs=trial.best_round,
    )


def _course(train: Trajectories, held: Trajectories, settings: Settings, seed: int, n_recordings: int) -> Course:
    return Course(
        train,
        held,
        settings.features,
        settings.init,
        settings.criterion,
        settings.trainer,
        seed,
        n_recordings,
        settings.standard,
        settings.loss,
    )


# -- training on everything ------------------------------------------------------------------------------------------


def _trained(
    data: Trajectories, choice: _Choice, settings: Settings, seed: int, tell: Watch
) -> tuple[Round, Learner[Any], Any]:
    """The last round, or epoch, of as many as were best, the learner that made it and its summary of all it met.

    Cut short, it is the last round so far, and there is no summary to go on with.
    """
    course = _course(data, choice.splits[0][1], settings, seed, len(data))
    to_come, n_rounds, sums = course.rounds(choice.candidate, choice.trial.best_round), choice.trial.best_round, None
    last = next(to_come)
    while last.number == n_rounds or tell.goes_on("training", last.number, n_rounds):
        try:
            last = next(to_come)
        except StopIteration as end:
            sums = end.value
            break
    learner = course.start(choice.candidate)[0].learner
    if choice.epochs is None:
        return last, learner, sums
    *_, last = course.descent(last.filter, choice.epochs, choice.epochs + 1)
    return last, learner, None


def _errors(choice: _Choice, window: int) -> dict[str, list[float]]:
    """Errors by horizon on what was held out, beside the baselines'."""
    methods: dict[str, list[Forecaster]] = {
        "training mean": [TrainingMean.fit(train) for train, _ in choice.splits],
        "last observation": [LastObservation.fit(train) for train, _ in choice.splits],
        "autoregression": list(choice.baseline),
        "PSIM": [round.filter for round in choice.winners],
    }
    horizon = max(1, min(window, *(int(held.lengths.max()) - 1 for _, held in choice.splits)))
    held = [(held, round.filter.scaling.scale) for (_, held), round in zip(choice.splits, choice.winners, strict=True)]
    return error_table(methods, held, horizon)


def _nats(choice: _Choice, window: int) -> dict[str, list[float]]:
    """The same for symbols: nats by horizon, beside how often symbols come and beside k-grams."""
    methods: dict[str, list[Forecaster]] = {
        "frequencies": [KGram.fit(train, 1) for train, _ in choice.splits],
        "bigrams": [KGram.fit(train, 2) for train, _ in choice.splits],
        "trigrams": [KGram.fit(train, 3) for train, _ in choice.splits],
        "PSIM": [round.filter for round in choice.winners],
    }
    longest = min(int(held.lengths.max()) - 1 for _, held in choice.splits)
    v = choice.splits[0][0].n_channels
    horizon = max(1, min(window, longest, 1 + int(np.log(FEW_WORDS) / np.log(max(v, 2)))))
    held = [(held, np.ones(v)) for _, held in choice.splits]
    return error_table(methods, held, horizon, LogLoss().nats)


# -- splitting -------------------------------------------------------------------------------------------------------


def _long_enough(data: Trajectories, window: int, notes: list[str]) -> Trajectories:
    """Only recordings that are longer than the window teach anything."""
    usable = data.lengths > window
    if usable.all():
        return data
    if not usable.any():
        raise DataError(
            f"required a recording with more rows than the window, at least {window + 1}, received at most "
            f"{data.lengths.max()}. Use a smaller window or longer recordings."
        )
    notes.append(f"{(~usable).sum()} of {len(data)} recordings are no longer than the window and were left out")
    return data[usable]


def _splits(data: Trajectories, settings: Settings, rng: np.random.Generator) -> list[Split]:
    """Training and held-out recordings, as many times over as it takes to hold out enough; none if there is too little.

    Few recordings are cross-validated; of many, one share is held out once. A single one is cut in time.
    """
    if isinstance(settings.validation, Trajectories):
        return [(data, settings.validation)]
    window = settings.features.window
    n_folds = max(2, round(1 / settings.validation))
    if len(data) == 1:
        n_folds = min(n_folds, len(data.values) // (window + 2))
        if len(data.values) < FEWEST_ROWS or n_folds < 2:
            return []
        pairs = time_folds(data, n_folds, gap=window, rng=rng)
    else:
        pairs = folds(data, min(n_folds, len(data)), rng)
    enough: list[Split] = []
    for train, held in pairs:
        usable = train.lengths > window
        if train.lengths[usable].sum() >= FEWEST_ROWS // 2:
            enough.append((train[usable], held))
        if sum(len(held.values) for _, held in enough) >= ENOUGH_ROWS:
            break
    return enough


def _how(splits: list[Split]) -> str:
    held = sum(len(h) for _, h in splits)
    return f"{len(splits)} split{'s' * (len(splits) > 1)}, {held} recordings held out"
