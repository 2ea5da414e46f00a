"""One split of the recordings as a course for candidates, and the starts that candidates share.

To lay recordings out, regress beliefs on history and sum examples is expensive. Candidates whose starts follow from
one such `base` by arithmetic on its sums form a family: the base is begun once for all of them, and dropped after them.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from psimlearn.choose.candidates import Candidate
from psimlearn.choose.settings import Trainer
from psimlearn.errors import DivergedError
from psimlearn.filter import Features, Stack
from psimlearn.learners import Ridge
from psimlearn.learners.ridge import GramSums
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.derived import revised, with_ridge, with_share
from psimlearn.train.losses import Loss, Squared
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.score import Criterion, HeldOut, held_out
from psimlearn.train.start import Beginning, Ground, begin, ground, relating

__all__ = ["Course", "Start", "attempted", "laid_out", "relating_pasts", "start", "starts", "with_alpha"]


class Course(NamedTuple):
    """One split of the recordings, over which candidates run."""

    ground: Ground
    """The training recordings."""
    validation: Trajectories
    init: Init
    criterion: Criterion
    trainer: Trainer
    seed: int
    n_recordings: int
    """How many recordings all splits together were made from."""
    loss: Loss
    sums: dict[Candidate, GramSums]
    """The sums of bases of ridge regression that were begun, those with the most lags only: they contain all others."""


class Start(NamedTuple):
    """The beginning of a candidate's training on one course, and the held-out rows that score it."""

    begun: Beginning
    held: HeldOut


def laid_out(
    train: Trajectories,
    validation: Trajectories,
    features: Features,
    standard: Recipe,
    *,
    init: Init = "history",
    criterion: Criterion = "window",
    trainer: Trainer = "dagger",
    seed: int = 0,
    n_recordings: int,
    loss: Loss = Squared(),
) -> Course:
    """A course over this split, for candidates whose recipes differ from `standard` in lags, prior, weights or rank."""
    return Course(
        ground(train, features, init, standard), validation, init, criterion, trainer, seed, n_recordings, loss, {}
    )


def relating_pasts(courses: Sequence[Course], pasts: Sequence[int]) -> list[Course]:
    """The courses, with past and future related once for all subspace starts with these values of `Recipe.past`."""
    return [course._replace(ground=relating(course.ground, pasts)) for course in courses]


def start(candidate: Candidate, course: Course) -> Start:
    """Where one candidate begins."""
    base = _base(candidate, course)
    return with_alpha(_of_kind(_begun(course, base), base, candidate.kind), candidate.alpha)


def starts(
    candidates: Sequence[Candidate], courses: Sequence[Course]
) -> Iterator[tuple[Candidate, list[Start | None]]]:
    """Every candidate with its start on each course, None where that diverged; families stand together."""
    families = _grouped(candidates, lambda c: _base(c, courses[0]))
    for base, family in sorted(families, key=lambda group: -group[0].recipe.lags):  # most lags first: see `Course.sums`
        begun = [attempted(_begun, course, base) for course in courses]
        for kind, ridges in _grouped(family, lambda c: c.kind):
            of_kind = [s and _of_kind(s, base, kind) for s in begun]
            for candidate in ridges:
                yield candidate, [s and attempted(with_alpha, s, candidate.alpha) for s in of_kind]


def with_alpha(start: Start, alpha: float | None) -> Start:
    """The same start with another ridge; None for learners without one."""
    return start if alpha is None else start._replace(begun=with_ridge(start.begun, alpha))


def _base(candidate: Candidate, course: Course) -> Candidate:
    """The candidate from whose beginning this one follows by arithmetic on sums."""
    kind, recipe, features = candidate.kind, candidate.recipe, course.ground.features
    if course.init == "zero" or candidate.alpha is None or recipe.states is not None:  # no sums to begin with
        return kind
    if isinstance(kind.learner, SymbolRidge):
        return kind._replace(learner=replace(kind.learner, floor=0.0, strength=1.0))
    if isinstance(kind.learner, Ridge) and isinstance(features, Stack) and recipe.prior != "zero":
        return kind._replace(recipe=replace(recipe, prior="mean", belief_weight=1.0, level_weight=None))
    return kind


def _begun(course: Course, candidate: Candidate) -> Start:
    """The expensive part: lay out the rows, and sum the initial examples."""
    rng = np.random.default_rng(course.seed)
    known = _known(course, candidate)
    begun = begin(course.ground, candidate.learner, course.init, candidate.recipe, rng, known)
    if known is None and begun.training.same is not None and _sums_are_shared(candidate):
        course.sums[_of_any_lags(candidate)] = begun.training.same[1]
    return Start(begun, held_out(begun.filter, course.validation, course.criterion, course.loss))


def _sums_are_shared(base: Candidate) -> bool:
    """Whether the sums of a base contain the sums of the same base with fewer lags."""
    return isinstance(base.learner, Ridge) and base.recipe.level_weight is None


def _of_any_lags(base: Candidate) -> Candidate:
    return base._replace(recipe=replace(base.recipe, lags=1))


def _known(course: Course, base: Candidate) -> GramSums | None:
    """The sums of a base, picked from those with at least as many lags; None if there are none."""
    known = course.sums.get(_of_any_lags(base))
    if known is None or not _sums_are_shared(base):
        return None
    n, n_inputs, q = course.ground.x.shape[1], course.ground.layout.u.shape[1], base.recipe.lags
    d = course.ground.phi.shape[1]
    r = d if base.recipe.rank is None else min(d, base.recipe.rank)
    if len(known.z) < r + q * n + n_inputs:
        return None
    inputs = np.arange(len(known.z) - n_inputs, len(known.z))
    return known.among(np.concatenate([np.arange(r + q * n), inputs]))


def _of_kind(start: Start, base: Candidate, kind: Candidate) -> Start:
    """The start of a kind from that of its base; F_0 is left to `with_alpha`."""
    if kind == base:
        return start
    begun, (recipe, learner) = start.begun, kind
    if isinstance(learner, SymbolRidge):
        return start._replace(begun=with_share(begun, learner.floor, learner.strength))
    return start._replace(begun=revised(begun, recipe.prior, recipe.belief_weight, recipe.level_weight))


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def _grouped(candidates: Iterable[Candidate], key: Callable[[Candidate], Key]) -> Iterable[tuple[Key, list[Candidate]]]:
    groups: dict[Key, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(key(candidate), []).append(candidate)
    return groups.items()


def attempted(step: Callable[..., Value], *given: object) -> Value | None:
    """The result, or None if sums were not finite: a candidate that diverges loses, and the others go on."""
    try:
        return step(*given)
    except DivergedError:
        return None
