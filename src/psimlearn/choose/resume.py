"""Resume training from a file: the learner as JSON, its sums and frozen arrays as arrays beside a filter.

An estimator writes them for `partial_fit`; a checkpoint of a fit needs the same. The codecs of a filter are in `files`.
These are not, as `files` knows no learners; and they are not in `train`, as algorithms write no files.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from psimlearn.errors import ModelFileError
from psimlearn.files.checks import Arrays, require
from psimlearn.files.codec import Codec, Group, Shapes, all_finite, decoded, encoded, grouped
from psimlearn.files.features import FEATURES
from psimlearn.filter import Filter, Forest, Linear, MeanAndVariance, RandomFourier, Stack
from psimlearn.filter.conditioning import Conditional, Projected
from psimlearn.filter.contexts import Contexts
from psimlearn.learners import ByOutput, Coordinates, GramSums, RandomFourierRidge, Ridge
from psimlearn.learners.gaussian import GaussianLearner
from psimlearn.learners.symbolic import SymbolLogistic, SymbolRidge
from psimlearn.learners.trees import RidgeAndTrees
from psimlearn.train.coordinates import channels_of
from psimlearn.train.hints import HintSums
from psimlearn.train.recipe import Recipe

__all__ = ["Training", "from_json", "is_json", "made_by", "sums_arrays", "sums_from", "to_json"]
__all__ += ["training_arrays", "with_arrays"]


class Training(NamedTuple):
    """All that training needs to go on."""

    filter: Filter
    recipe: Recipe
    learner: Any
    sums: Any
    """The learner's summary of all examples so far; a file can hold `GramSums`, `ByOutput`, or None."""
    hint_sums: HintSums

    @property
    def regressor(self) -> Any:
        """The last regressor, which goes on learning."""
        return self.filter.regressors[-1]


# -- learners ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnerKind:
    """One kind of learner that a file can hold."""

    makes: Callable[[Any], bool]
    """Whether the learner makes regressors like this one."""
    frozen: Codec[Any, Training] | None = None
    """The arrays that `prepare` froze; None for a learner without Gram sums, which cannot go on from a file."""


_RIDGE: Codec[Ridge, Training] = Codec(
    arrays=lambda _: {}, shapes=lambda _, __: {}, build=lambda _, training: training.learner
)
_RANDOM_FOURIER: Codec[RandomFourierRidge, Training] = Codec(
    arrays=lambda learner: {"directions": learner.directions},
    shapes=lambda _, training: {"directions": training.regressor.directions.shape},
    build=lambda group, training: replace(training.learner, directions=group.arrays["directions"]),
)


def _symbol_ridge() -> Codec[SymbolRidge, Training]:
    def shapes(_: Group, training: Training) -> Shapes:
        counted = isinstance(training.regressor, Conditional)
        return {"contexts": training.regressor.shares.shape} if counted else {}

    def build(group: Group, training: Training) -> SymbolRidge:
        learner: SymbolRidge = training.learner
        if "contexts" not in group.arrays:
            return learner
        numbers, counts, filter = training.regressor.contexts, group.arrays["contexts"], training.filter
        about = (filter.lags, len(filter.scaling.mean), learner.features.n_simplices, learner.strength)
        return replace(learner, contexts=Contexts(numbers, counts, *about))

    return Codec(
        arrays=lambda learner: {"contexts": None if learner.contexts is None else learner.contexts.counts},
        shapes=shapes,
        build=build,
    )


LEARNERS: dict[type, LearnerKind] = {
    Ridge: LearnerKind(lambda regressor: isinstance(regressor, Linear), _RIDGE),
    RandomFourierRidge: LearnerKind(lambda regressor: isinstance(regressor, RandomFourier), _RANDOM_FOURIER),
    RidgeAndTrees: LearnerKind(lambda regressor: isinstance(regressor, Forest)),
    GaussianLearner: LearnerKind(lambda regressor: isinstance(regressor, MeanAndVariance)),
    SymbolRidge: LearnerKind(
        lambda regressor: isinstance(regressor, Projected) or getattr(regressor, "link", None) == "simplex",
        _symbol_ridge(),
    ),
    SymbolLogistic: LearnerKind(lambda regressor: getattr(regressor, "link", None) == "softmax"),
}
"""Every kind of learner that a file can hold."""


def made_by(learner: Any, regressor: Any) -> bool:
    """Whether a learner is one that a file can hold, and makes regressors like this one."""
    return type(learner) in LEARNERS and LEARNERS[type(learner)].makes(regressor)


# -- arrays ------------------------------------------------------------------------------------------------------------


def _gram_shapes(p: int, q: int) -> Shapes:
    return {"n": (1,), "z": (p,), "y": (q,), "zz": (p, p), "zy": (p, q), "yy": (1,)}


def _gram_sums(group: Group, _: tuple[int, int]) -> GramSums:
    values: dict[str, Any] = {name: group.arrays[name] for name in GramSums._fields}
    return GramSums(**values | {"n": values["n"].item(), "yy": values["yy"].item()})


SUMS: Codec[GramSums, tuple[int, int]] = Codec(
    arrays=lambda sums: {name: np.atleast_1d(value) for name, value in sums._asdict().items()},
    shapes=lambda _, sizes: _gram_shapes(*sizes),
    build=_gram_sums,
)
"""The sums of examples with p inputs and q outputs, given (p, q)."""


def _by_output(group: Group, sizes: tuple[int, int]) -> ByOutput:
    rows = zip(*(group.arrays[name] for name in GramSums._fields), strict=True)
    return ByOutput(tuple(GramSums(n.item(), z, y, zz, zy, yy.item()) for n, z, y, zz, zy, yy in rows))


BY_OUTPUT: Codec[ByOutput, tuple[int, int]] = Codec(
    arrays=lambda sums: {
        name: np.stack([np.atleast_1d(part._asdict()[name]) for part in sums.parts]) for name in GramSums._fields
    },
    shapes=lambda _, sizes: {name: (sizes[1], *shape) for name, shape in _gram_shapes(sizes[0], 1).items()},
    build=_by_output,
)
"""The sums of the same for each output by itself."""


def _check_hints(group: Group) -> None:
    all_finite(group)
    group.require("which", group.arrays["which"] % 1 == 0, "whole numbers")


HINT_SUMS: Codec[tuple[tuple[int, ...], GramSums], tuple[int, int]] = Codec(
    arrays=lambda pair: {**SUMS.arrays(pair[1]), "which": np.array(pair[0], dtype=np.float64)},
    shapes=lambda group, sizes: SUMS.shapes(group, sizes) | {"which": (sizes[1],)},
    check=_check_hints,
    build=lambda group, sizes: (tuple(group.arrays["which"].astype(int).tolist()), SUMS.build(group, sizes)),
)
"""The sums of a hint, with its number."""

COORDINATES: Codec[Coordinates, int] = Codec(
    arrays=lambda maps: {name: change.toarray() for name, change in maps._asdict().items()},
    shapes=lambda _, p: dict.fromkeys(Coordinates._fields, (p, p)),
    build=lambda group, _: Coordinates(*(csr_array(group.arrays[name]) for name in Coordinates._fields)),
)
"""The coordinates of p inputs in which a learner penalises weights."""


def _codec(by_output: bool) -> Codec[Any, tuple[int, int]]:
    """The codec of sums, of all outputs together or of each."""
    return BY_OUTPUT if by_output else SUMS


def _is_by_output(groups: dict[str, Group]) -> bool:
    """Whether the sums in a file are those of each output by itself: then there is a product z'z for each."""
    return "sums" in groups and "zz" in groups["sums"].arrays and groups["sums"].arrays["zz"].ndim == 3


def sums_arrays(sums: Any) -> Arrays | None:
    """The arrays from which `sums_from` makes sums again; None for sums that no file can hold."""
    if not isinstance(sums, GramSums | ByOutput):
        return None
    return encoded({"sums": (_codec(isinstance(sums, ByOutput)), sums)})


def sums_from(arrays: Arrays) -> GramSums | ByOutput:
    """The sums that these arrays describe; raises ModelFileError if they do not fit."""
    groups = grouped(arrays)
    group, by_output = groups.get("sums", Group("sums", {})), _is_by_output(groups)
    sizes = (group.size("z", 1), group.size("z")) if by_output else (group.size("z"), group.size("y"))
    sums: GramSums | ByOutput = decoded(arrays, {"sums": (_codec(by_output), sizes)})["sums"]
    return sums


def training_arrays(training: Training) -> Arrays:
    """The arrays from which `with_arrays` makes the learner and the sums again."""
    learner, sums = training.learner, training.sums
    frozen = LEARNERS[type(learner)].frozen if type(learner) in LEARNERS else None
    if frozen is None or not isinstance(sums, GramSums | ByOutput):
        raise ModelFileError(
            "with_sums=True needs the sums of a Ridge, RandomFourierRidge or SymbolRidge trained by DAgger, received "
            f"{'none' if sums is None else type(sums).__name__} of a {type(learner).__name__}; save without sums."
        )
    parts: dict[str, tuple[Codec[Any, Any], Any]] = {
        "": (frozen, learner),
        "sums": (_codec(isinstance(sums, ByOutput)), sums),
    }
    parts |= {f"hints.{i}": (HINT_SUMS, pair) for i, pair in enumerate(training.hint_sums)}
    coordinates = getattr(learner, "coordinates", None)
    return encoded(parts if coordinates is None else parts | {"coordinates": (COORDINATES, coordinates)})


def with_arrays(training: Training, arrays: Arrays) -> Training:
    """Training with the learner and the sums that these arrays describe; raises ModelFileError if they do not fit.

    Args:
        training: without sums, and with a learner as `from_json` makes it.
        arrays: as `training_arrays` made them.
    """
    built = decoded(arrays, _parts(training, grouped(arrays)))
    learner = built.pop("")
    if "coordinates" in built:
        learner = replace(learner, coordinates=built.pop("coordinates"))
    weight, features = training.recipe.cross_weight, training.filter.features
    if weight != 1 and isinstance(learner, Ridge):
        kind = type(features).__name__
        require(isinstance(features, Stack), f"recipe: required cross_weight=1 with {kind}, received {weight:g}")
        learner = replace(learner, channels=channels_of(training.filter, weight))
    sums, hint_sums = built.pop("sums"), list(built.values())
    n_hints = 0 if training.filter.hinting is None else len(training.filter.hinting.intercept)
    received = sorted(column for which, _ in hint_sums for column in which)
    require(received == list(range(n_hints)), f"sums: required those of {n_hints} hints, received those of {received}")
    return training._replace(learner=learner, sums=sums, hint_sums=hint_sums)


def _parts(training: Training, groups: dict[str, Group]) -> dict[str, tuple[Codec[Any, Any], Any]]:
    """The codec of each part that this training has in a file, and the sizes that it asks for."""
    regressor, hinting, learner = training.regressor, training.filter.hinting, training.learner
    frozen = LEARNERS[type(learner)].frozen
    if frozen is None:
        raise ModelFileError(f"sums: required none for a {type(learner).__name__}, received {sorted(groups)!s:.200}.")
    weights = getattr(regressor, "linear", regressor).weights
    known = 0 if hinting is None else len(hinting.weights)
    parts: dict[str, tuple[Codec[Any, Any], Any]] = {
        "": (frozen, training),
        "sums": (_codec(_is_by_output(groups)), weights.shape),
    }
    for name in takewhile(groups.__contains__, map("hints.{}".format, count())):
        parts[name] = HINT_SUMS, (known, 1)
    if training.recipe.level_weight is not None and hasattr(learner, "coordinates"):
        parts["coordinates"] = COORDINATES, len(getattr(regressor, "directions", weights))
    return parts


# -- JSON --------------------------------------------------------------------------------------------------------------

OBJECTS: dict[str, type] = {
    kind.__name__: kind for kind in (*(features.make for features in FEATURES.values()), *LEARNERS, Recipe)
}
"""Settings that are objects, and that a file can describe."""


def is_json(value: Any) -> bool:
    """Whether this is a word, a number or None, perhaps of numpy."""
    return value is None or isinstance(value, str | bool | int | float | np.generic)


def to_json(name: str, value: Any) -> Any:
    """A setting as JSON can hold it; `name` is for the error."""
    if is_json(value):
        return value.item() if isinstance(value, np.generic) else value
    if type(value) in OBJECTS.values():
        described = {field: to_json(field, getattr(value, field)) for field in _described(type(value))}
        return {"type": type(value).__name__} | described
    raise ModelFileError(
        f"{name}: required a word, a number or one of {sorted(OBJECTS)}, received {type(value).__name__}, which a file "
        "without code cannot hold. Keep the recordings and the script that learns the model, and learn it again."
    )


def from_json(value: Any) -> Any:
    """A setting from the JSON that `to_json` made of it; ValueError, TypeError or LookupError for any other."""
    if not isinstance(value, dict):
        return value
    kind = OBJECTS[value["type"]]
    given = {name: from_json(part) for name, part in value.items() if name != "type"}
    if not given.keys() <= set(_described(kind)):
        raise ValueError(f"{kind.__name__} required {_described(kind)}, received {sorted(given)}")
    return kind(**given)


def _described(kind: Any) -> list[str]:
    """The fields that describe an object of this kind; the others are set by training, and are arrays in a file."""
    return [field.name for field in fields(kind) if field.compare]
