"""The regressors that a file can hold, one codec for each kind. A new regressor is one more entry of `REGRESSORS`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from psimlearn.errors import ModelFileError
from psimlearn.files.checks import Arrays, require, require_distributions
from psimlearn.files.codec import Codec, Group, Known, Shapes, all_finite
from psimlearn.filter import Linear, MeanAndVariance, RandomFourier
from psimlearn.filter.conditioning import Conditional, Link, Projected
from psimlearn.filter.contexts import MOST_CONTEXTS
from psimlearn.filter.forest import MOST_DEPTH, Forest, Trees

__all__ = ["REGRESSORS", "linear", "linear_arrays", "linear_shapes", "regressor_name"]

MOST_NODES = 2**24
"""The most leaves of all trees: float32 counts so far without a gap."""
MOST_NUMBERED = 2**63 - 1
"""The largest whole number that a context can have."""


@dataclass(frozen=True)
class RegressorKind:
    """One kind of regressor."""

    holds: Callable[[Any], bool]
    """Whether a regressor is of this kind. Its type must match exactly: a file cannot hold the code of a subclass."""
    codec: Codec[Any, Known]
    of_symbols: bool = False
    """Whether it makes sense only with features of symbols."""


def regressor_name(regressor: Any) -> str:
    """The name of a regressor's kind in a file."""
    for name, kind in REGRESSORS.items():
        if kind.holds(regressor):
            return name
    raise ModelFileError(
        f"regressor: required one of {', '.join(REGRESSORS)}, received {type(regressor).__name__}. A foreign estimator "
        "could only be kept by pickle, which runs any code that it holds: learn with Ridge, RandomFourierRidge or "
        "RidgeAndTrees, or keep the recordings and the script that learns the filter."
    )


# -- a linear map, of which all regressors make use --------------------------------------------------------------------


def linear_arrays(linear: Linear) -> Arrays:
    """The arrays of a linear map."""
    return {"weights": linear.weights, "intercept": linear.intercept}


def linear_shapes(p: int, q: int) -> Shapes:
    """The shapes of a linear map with p inputs and q outputs."""
    return {"weights": (p, q), "intercept": (q,)}


def linear(group: Group) -> Linear:
    """The linear map of a part that has one."""
    return Linear(group.arrays["weights"], group.arrays["intercept"])


# -- regressors of numbers ---------------------------------------------------------------------------------------------


def _linear() -> RegressorKind:
    codec: Codec[Linear, Known] = Codec(
        arrays=linear_arrays,
        shapes=lambda _, known: linear_shapes(known.p, known.d),
        build=lambda group, _: linear(group),
    )
    return RegressorKind(lambda regressor: type(regressor) is Linear, codec)


def _mean_and_variance() -> RegressorKind:
    codec: Codec[MeanAndVariance, Known] = Codec(
        arrays=lambda regressor: linear_arrays(regressor.linear),
        shapes=lambda _, known: linear_shapes(known.p, known.d),
        build=lambda group, _: MeanAndVariance(linear(group)),
    )
    return RegressorKind(lambda regressor: type(regressor) is MeanAndVariance, codec)


def _random_fourier(raw_inputs: bool) -> RegressorKind:
    def shapes(group: Group, known: Known) -> Shapes:
        half = group.size("directions", 1)
        width = 2 * half + (known.p if raw_inputs else 0)
        return {"directions": (known.p, half)} | linear_shapes(width, known.d)

    codec: Codec[RandomFourier, Known] = Codec(
        arrays=lambda regressor: {"directions": regressor.directions} | linear_arrays(regressor.linear),
        shapes=shapes,
        build=lambda group, _: RandomFourier(group.arrays["directions"], raw_inputs, linear(group)),
    )
    return RegressorKind(
        lambda regressor: type(regressor) is RandomFourier and bool(regressor.raw_inputs) is raw_inputs, codec
    )


# -- trees -------------------------------------------------------------------------------------------------------------

NODES = ("feature", "left", "right", "roots")
"""The arrays of whole numbers."""
TREES = (*NODES, "threshold", "values")


def _forest(*, waves: bool) -> RegressorKind:
    """Trees beside a linear map, with or without random features of what the trees see."""

    def arrays(forest: Forest) -> Arrays:
        trees = {name: getattr(forest.trees, name).astype(np.float32) for name in TREES}
        parts = trees | {"directions": forest.directions} | linear_arrays(forest.linear)
        if forest.waves is None:
            return parts
        return parts | {"frequencies": forest.waves.directions, "amplitudes": forest.waves.linear.weights}

    def shapes(group: Group, known: Known) -> Shapes:
        leaves, trees, s = group.size("values"), group.size("roots"), group.size("values", 1)
        splits = leaves - trees  # each split makes two nodes of one
        some = 0 <= splits < MOST_NODES
        require(some, f"{group.name}: required from {trees} leaves, one a tree, to 2^24, received {leaves}")
        nodes: Shapes = dict.fromkeys(("feature", "threshold", "left", "right"), (splits,))
        nodes |= {"roots": (trees,), "values": (leaves, s), "directions": (s, known.d)}
        if waves:
            half = group.size("frequencies", 1)
            nodes |= {"frequencies": (known.n_beside, half), "amplitudes": (2 * half, known.d)}
        return nodes | linear_shapes(known.p, known.d)

    def agrees(group: Group, known: Known) -> None:
        feature = group.arrays["feature"]
        group.require("feature", (feature >= 0) & (feature < known.n_beside), f"inputs from 0 to {known.n_beside - 1}")

    def build(group: Group, known: Known) -> Forest:
        mapped = _waves(group, known) if waves else None
        return Forest(linear(group), _trees(group), group.arrays["directions"], known.r, mapped)

    codec: Codec[Forest, Known] = Codec(
        arrays=arrays, shapes=shapes, check=_check_forest, agrees=agrees, build=build, single=TREES
    )
    return RegressorKind(lambda regressor: type(regressor) is Forest and (regressor.waves is not None) is waves, codec)


def _waves(group: Group, known: Known) -> RandomFourier:
    """The random features; their intercept is a part of the linear map."""
    amplitudes = Linear(group.arrays["amplitudes"], np.zeros(known.d))
    return RandomFourier(group.arrays["frequencies"], raw_inputs=False, linear=amplitudes)


def _check_forest(group: Group) -> None:
    """Every split and every leaf has one place, and every split stands before the splits below it."""
    all_finite(group)
    for name in NODES:
        array = group.arrays[name]
        group.require(name, (array % 1 == 0) & (np.abs(array) <= MOST_NODES), "whole numbers up to 2^24")
    left, right, roots = (group.arrays[name].astype(np.int64) for name in ("left", "right", "roots"))
    for name, children in (("left", left), ("right", right)):
        rises = (children < 0) | (children > np.arange(len(children)))
        group.require(name, rises, "leaves, and splits after the split above them")
    met = np.sort(np.concatenate([left, right, roots]))
    whole = np.array_equal(met, np.arange(-len(group.arrays["values"]), len(left)))
    require(whole, f"{group.name}: required trees with one place for every split and leaf, received others")
    deep = _trees(group).depth
    require(deep <= MOST_DEPTH, f"{group.name}: required trees of at most {MOST_DEPTH} splits from root to leaf")


def _trees(group: Group) -> Trees:
    feature, left, right, roots = (group.arrays[name].astype(np.int64) for name in NODES)
    return Trees(feature, group.arrays["threshold"].astype(np.float64), left, right, roots, group.arrays["values"])


# -- regressors of symbols ---------------------------------------------------------------------------------------------


def _projected() -> RegressorKind:
    codec: Codec[Projected, Known] = Codec(
        arrays=_mixture_arrays,
        shapes=lambda _, known: _mixture_shapes(1, known.d) | linear_shapes(known.p, known.d),
        check=_check_mixture,
        agrees=_shares_are_distributions,
        build=lambda group, known: Projected(linear(group), *_mixture(group), known.features),
    )
    return RegressorKind(lambda regressor: type(regressor) is Projected, codec, of_symbols=True)


def _conditional(link: Link) -> RegressorKind:
    def shapes(group: Group, known: Known) -> Shapes:
        c = group.size("contexts")
        # the linear map sees no lags, and has a block of outputs for each symbol
        blocks = linear_shapes(known.r + known.n_controls, known.n * known.d)
        return {"contexts": (c,)} | _mixture_shapes(c, known.d) | blocks

    def check(group: Group) -> None:
        _check_mixture(group)
        numbers = group.arrays["contexts"]
        rises = np.diff(numbers, prepend=-1.0) > 0
        usable = rises & (numbers % 1 == 0) & (numbers < MOST_CONTEXTS)
        usable[0] &= numbers[0] == 0  # the empty context
        group.require("contexts", usable, "whole numbers that rise from 0")

    def agrees(group: Group, known: Known) -> None:
        _shares_are_distributions(group, known)
        few = known.lags * np.log(known.n + 1) < np.log(MOST_NUMBERED)  # contexts have numbers below this power
        require(few, f"lags: required fewer contexts than 2^63, received {known.n + 1}^{known.lags}")

    def build(group: Group, known: Known) -> Conditional:
        numbers = group.arrays["contexts"].astype(np.int64)
        return Conditional(linear(group), numbers, *_mixture(group), known.features, link)

    codec: Codec[Conditional, Known] = Codec(
        arrays=lambda regressor: {"contexts": regressor.contexts.astype(np.float64)} | _mixture_arrays(regressor),
        shapes=shapes,
        check=check,
        agrees=agrees,
        build=build,
    )
    return RegressorKind(
        lambda regressor: type(regressor) is Conditional and regressor.link == link, codec, of_symbols=True
    )


def _mixture_arrays(regressor: Conditional | Projected) -> Arrays:
    """The linear map, and the distributions of which every belief has a share."""
    mixed = {"floor": np.array([regressor.context_share]), "shares": regressor.shares}
    return mixed | linear_arrays(regressor.linear)


def _mixture_shapes(c: int, d: int) -> Shapes:
    return {"floor": (1,), "shares": (c, d)}


def _check_mixture(group: Group) -> None:
    all_finite(group)
    for name in ("floor", "shares"):
        array = group.arrays[name]
        group.require(name, (array >= 0) & (array <= 1), "shares from 0 to 1")


def _shares_are_distributions(group: Group, known: Known) -> None:
    require_distributions(group.full("shares"), group.arrays["shares"], known.n_simplices or 1)


def _mixture(group: Group) -> tuple[np.ndarray, float]:
    return group.arrays["shares"], float(group.arrays["floor"][0])


REGRESSORS: dict[str, RegressorKind] = {
    "Linear": _linear(),
    "RandomFourier": _random_fourier(raw_inputs=False),
    "RandomFourier with raw inputs": _random_fourier(raw_inputs=True),
    "MeanAndVariance": _mean_and_variance(),
    "Forest": _forest(waves=False),
    "Forest with random features": _forest(waves=True),
    "Projected": _projected(),
    "Conditional": _conditional("simplex"),
    "Conditional by softmax": _conditional("softmax"),
}
"""Every kind of regressor that a file can hold, by name."""
