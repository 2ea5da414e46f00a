"""One split of the recordings as a course for candidates, and the starts that candidates share.

To lay recordings out, regress beliefs on history and sum examples is expensive. Candidates whose starts follow from
one such `base` by arithmetic on its sums form a family: the base is begun once for all of them, and dropped after them.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple, TypeVar

import numpy as np

from psimlearn.choose.candidates import Candidate
from psimlearn.choose.journal import Journal
from psimlearn.choose.settings import Settings, Trainer
from psimlearn.factors import FAILURES
from psimlearn.filter import Features, Filter, Stack
from psimlearn.filter.innovations import LINEAR_IN_BELIEF
from psimlearn.learners import GramSums, Learner, Ridge
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import SETTLED, are_long
from psimlearn.train.derived import InitialSums, beside, initial_sums, revised, with_fewer_lags, with_ridge, with_share
from psimlearn.train.ground import Ground, ground, identifying, relating
from psimlearn.train.losses import Loss, Squared
from psimlearn.train.recipe import Init, Past, Recipe
from psimlearn.train.score import Criterion, HeldOut, held_out, telling_openings
from psimlearn.train.start import Beginning, begin

__all__ = [
    "Course",
    "Start",
    "Starts",
    "attempted",
    "identifying_systems",
    "laid_out",
    "relating_pasts",
    "skipping",
    "start",
    "starts",
    "summing",
    "unscored",
    "with_alpha",
]


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
    opens: bool = True
    """Whether linear filters learn how recordings begin."""
    initial: InitialSums | None = None
    """The sums of ridge regression with the most lags that are tried: they contain the sums with fewer lags."""
    name: str = ""
    """Tells it from the other courses of a fit."""
    journal: Journal = Journal()
    """Knows rounds that were run over it already, and keeps others."""


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
    opens: bool = True,
) -> Course:
    """A course over this split, for candidates whose recipes differ from `standard` in lags, prior, weights or rank."""
    return Course(
        ground(train, features, init, standard), validation, init, criterion, trainer, seed, n_recordings, loss, opens
    )


def summing(courses: Sequence[Course], settings: Settings, recipes: Sequence[Recipe]) -> list[Course]:
    """The courses, with sums of ridge regression made once for all lags of these recipes, if it is to be tried."""
    if isinstance(settings.learner, Learner) and not isinstance(settings.learner, Ridge):
        return list(courses)
    most = max(recipes, key=lambda recipe: recipe.lags)
    return [course._replace(initial=attempted(_initial_sums, course, most)) for course in courses]


def _initial_sums(course: Course, recipe: Recipe) -> InitialSums | None:
    if course.init == "zero" or not _has_base(recipe, course.ground.features):
        return None
    return initial_sums(course.ground, course.init, _base_recipe(recipe))


def skipping(courses: Sequence[Course], skip: int) -> list[Course]:
    """The courses, with sums of ridge regression made once for all recipes that skip so many rows."""
    return [
        course
        if course.initial is None
        else course._replace(initial=attempted(_initial_sums, course, replace(course.initial.recipe, skip=skip)))
        for course in courses
    ]


def relating_pasts(courses: Sequence[Course], pasts: Sequence[Past]) -> list[Course]:
    """The courses, with past and future related once for all subspace starts with these values of `Recipe.relation`."""
    return [course._replace(ground=relating(course.ground, pasts)) for course in courses]


def identifying_systems(courses: Sequence[Course], sizes: Sequence[tuple[Past, int]]) -> list[Course]:
    """The courses, with the systems of these relations and numbers of states identified once for all starts."""
    return [course._replace(ground=identifying(course.ground, sizes)) for course in courses]


def start(candidate: Candidate, course: Course) -> Start:
    """Where one candidate begins."""
    base = _base(candidate, course)
    return with_alpha(_of_kind(_begun(course, base), base, candidate.kind), candidate.alpha)


Starts = Sequence[Callable[[], Start | None]]
"""Where something begins on each course, computed when it is first asked for; None on courses that diverged."""


def starts(candidates: Sequence[Candidate], courses: Sequence[Course]) -> Iterator[tuple[list[Candidate], Starts]]:
    """The candidates that differ in the ridge only, with their starts before the ridge.

    Candidates that share a base stand together.
    """
    courses = _identifying(candidates, courses)
    for base, family in _grouped(candidates, lambda c: _base(c, courses[0])):
        begun = [cache(partial(attempted, _begun, course, base)) for course in courses]
        for kind, ridges in _grouped(family, lambda c: c.kind):
            yield ridges, [cache(partial(_of_kind_if_any, found, base, kind)) for found in begun]


def _identifying(candidates: Sequence[Candidate], courses: Sequence[Course]) -> list[Course]:
    """The courses, with the systems that several candidates begin with."""
    kinds = {candidate.kind for candidate in candidates}
    sizes = Counter((kind.recipe.relation, kind.recipe.states) for kind in kinds if kind.recipe.states is not None)
    shared = [size for size, count in sizes.items() if count > 1]
    return identifying_systems(courses, shared)


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
    if isinstance(kind.learner, Ridge) and _has_base(recipe, features):
        return kind._replace(recipe=_base_recipe(recipe))
    return kind


def _has_base(recipe: Recipe, features: Features) -> bool:
    """Whether ridge regressions with this recipe follow from others by arithmetic on sums."""
    return isinstance(features, Stack) and recipe.prior != "zero"


def _base_recipe(recipe: Recipe) -> Recipe:
    return replace(recipe, prior="mean", belief_weight=1.0, level_weight=None, cross_weight=1.0)


def _begun(course: Course, candidate: Candidate) -> Start:
    """The expensive part: lay out the rows, and sum the initial examples unless sums with more lags contain theirs."""
    rng, known = np.random.default_rng(course.seed), _known(course, candidate)
    fit = candidate.alpha is None  # with a ridge, `with_alpha` fits F_0
    begun = begin(course.ground, candidate.learner, course.init, candidate.recipe, rng, known, fit=fit)
    skip = unscored(course.validation, begun.filter) if course.opens else 0
    # the filter of a system is the steady one: without its opening it is still busy with the start at later rows
    if skip and candidate.recipe.states is not None:
        begun = begun._replace(opens=telling_openings(begun.filter, course.ground.train))
    return Start(begun, held_out(begun.filter, course.validation, course.criterion, course.loss, skip))


def unscored(validation: Trajectories, filter: Filter) -> int:
    """The first rows of held-out recordings that are not scored: some if recordings are long.

    There all filters know little, and these large errors would decide. Filters of numbers get gains of their own for
    first rows once they are chosen (`openings.py`).
    """
    return SETTLED if are_long(validation.lengths) and isinstance(filter.features, LINEAR_IN_BELIEF) else 0


def _known(course: Course, candidate: Candidate) -> GramSums | None:
    """The sums of the initial examples, picked from those with the most lags; None if these do not contain them."""
    initial, (recipe, learner) = course.initial, candidate
    base = _base_recipe(recipe)
    if initial is None or not isinstance(learner, Ridge) or recipe.prior == "zero" or not initial.serve(base):
        return None
    if recipe.states is not None:
        return beside(initial, recipe)
    return with_fewer_lags(initial, recipe) if recipe == base else None


def _of_kind_if_any(found: Callable[[], Start | None], base: Candidate, kind: Candidate) -> Start | None:
    """As `_of_kind`; None where the base has diverged."""
    start = found()
    return None if start is None else _of_kind(start, base, kind)


def _of_kind(start: Start, base: Candidate, kind: Candidate) -> Start:
    """The start of a kind from that of its base; F_0 is left to `with_alpha`."""
    if kind == base:
        return start
    begun, (recipe, learner) = start.begun, kind
    if isinstance(learner, SymbolRidge):
        return start._replace(begun=with_share(begun, learner.floor, learner.strength))
    return start._replace(
        begun=revised(begun, recipe.prior, recipe.belief_weight, recipe.level_weight, recipe.cross_weight)
    )


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def _grouped(candidates: Iterable[Candidate], key: Callable[[Candidate], Key]) -> Iterable[tuple[Key, list[Candidate]]]:
    groups: dict[Key, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(key(candidate), []).append(candidate)
    return groups.items()


def attempted(step: Callable[..., Value], *given: object) -> Value | None:
    """The result, or None if it cannot be computed: a candidate that diverges loses, and the others go on."""
    try:
        return step(*given)
    except FAILURES:
        return None
