"""The parts of a filter beside its features and regressors, one codec for each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.files.checks import require, require_covariance, require_distributions
from psimlearn.files.codec import Codec, Group, Known, Shapes, all_finite
from psimlearn.files.regressors import linear, linear_arrays, linear_shapes
from psimlearn.filter import Feedback, Linear, Scaling
from psimlearn.filter.ingaps import MOST_FACTOR, InGaps
from psimlearn.filter.localscale import MOST_LOG, SIGNS, LocalScale
from psimlearn.filter.opening import Opening
from psimlearn.filter.thresholds import MOST_RATE, RATES, Thresholds
from psimlearn.filter.uncertainty import LEVELS, Calibration, Starting
from psimlearn.shapes import Float

__all__ = ["CONSTANTS", "OPTIONAL", "PARTS", "Constants"]


class Constants(NamedTuple):
    """The arrays that are fields of the filter themselves."""

    initial: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "n n"]
    centre: Float[np.ndarray, " d"] | None = None
    span: Float[np.ndarray, "2 n"] | None = None


def _constants_shapes(group: Group, known: Known) -> Shapes:
    optional: Shapes = {"centre": (known.d,), "span": (2, known.n)}
    there: Shapes = {name: shape for name, shape in optional.items() if name in group.arrays}
    return {"initial": (known.d,), "covariance": (known.n, known.n)} | there


def _check_constants(group: Group) -> None:
    all_finite(group)
    if "span" in group.arrays:
        low, high = group.arrays["span"]
        require(bool((low <= high).all()), "array span: required least values of at most the largest, received others")
    require_covariance("covariance", group.arrays["covariance"])


def _begins_as_distribution(group: Group, known: Known) -> None:
    """A belief about symbols is a distribution, and nothing is added to it."""
    if known.n_simplices is None:
        return
    require_distributions("initial", group.arrays["initial"], known.n_simplices)
    require("centre" in group.arrays, "array centre: required zeros for a filter of symbols, received none")
    group.require("centre", group.arrays["centre"] == 0, "zeros for a filter of symbols")


CONSTANTS: Codec[Constants, Known] = Codec(
    arrays=Constants._asdict,
    shapes=_constants_shapes,
    check=_check_constants,
    agrees=_begins_as_distribution,
    build=lambda group, _: Constants(**group.arrays),
)


def _scaling(width: Callable[[Known], int]) -> Codec[Scaling, Known]:
    """The scaling of channels or of inputs, of which there are as many as `width` says."""
    return Codec(
        arrays=Scaling._asdict,
        shapes=lambda _, known: {"mean": (width(known),), "scale": (width(known),)},
        check=_check_scale,
        agrees=_probabilities_stay,
        build=lambda group, _: Scaling(**group.arrays),
    )


def _probabilities_stay(group: Group, known: Known) -> None:
    """Probabilities of symbols are not scaled."""
    if known.n_simplices is not None and group.name == "scaling":
        group.require("mean", group.arrays["mean"] == 0, "zeros for a filter of symbols")
        group.require("scale", group.arrays["scale"] == 1, "ones for a filter of symbols")


def _check_scale(group: Group) -> None:
    all_finite(group)
    group.require("scale", group.arrays["scale"] > 0, "numbers above 0")


def _feedback_arrays(feedback: Feedback) -> Mapping[str, np.ndarray | None]:
    fields = feedback._asdict()
    del fields["weight"]  # a number, and so a setting
    return fields


def _feedback_shapes(group: Group, known: Known) -> Shapes:
    shapes: Shapes = {"mean": (known.r,), "scale": (known.r,)}
    if "directions" in group.arrays:
        shapes["directions"] = (known.d, known.r)
    if "low" in group.arrays or "high" in group.arrays:  # half a box is none
        shapes |= {"low": (known.r,), "high": (known.r,)}
    return shapes


def _check_feedback(group: Group) -> None:
    _check_scale(group)
    if "low" in group.arrays:
        group.require("low", group.arrays["low"] <= group.arrays["high"], "at most feedback.high")


def _feedback(group: Group, known: Known) -> Feedback:
    values: dict[str, Any] = {"weight": known.feedback_weight} | group.arrays
    return Feedback(**values)


FEEDBACK: Codec[Feedback, Known] = Codec(
    arrays=_feedback_arrays,
    shapes=_feedback_shapes,
    check=_check_feedback,
    build=_feedback,
)


def _calibration_shapes(group: Group, known: Known) -> Shapes:
    horizons = group.size("base")
    shape = (horizons, known.n)
    return {"base": shape, "gain": shape, "quantiles": (len(LEVELS), *shape)}


def _check_calibration(group: Group) -> None:
    """NaN stands at horizons that no recording was long enough for."""
    for name, array in group.arrays.items():
        with np.errstate(invalid="ignore"):
            usable = np.isnan(array) | ((array >= 0) & (array < np.inf))
        group.require(name, usable, "finite numbers of at least 0, or NaN")
    quantiles = group.arrays["quantiles"]
    with np.errstate(invalid="ignore"):
        falls = np.diff(quantiles, axis=0, prepend=0.0) < 0
    group.require("quantiles", ~falls, "quantiles that rise with their level")


def _with_inputs(group: Group, known: Known) -> Shapes:
    require(known.n_inputs > 0, f"{group.name}: required a filter with inputs, received one without")
    return _calibration_shapes(group, known)


def _with_feedthrough(group: Group, known: Known) -> Shapes:
    at_once = known.n_controls > known.n_inputs
    require(at_once, f"{group.name}: required a filter with feed-through, received one without")
    return _calibration_shapes(group, known)


CALIBRATION: Codec[Calibration, Known] = Codec(
    arrays=Calibration._asdict,
    shapes=_calibration_shapes,
    check=_check_calibration,
    build=lambda group, _: Calibration(**group.arrays),
)


def _starting_shapes(group: Group, known: Known) -> Shapes:
    ages, horizons = group.size("ratio"), group.size("ratio", 1)
    shapes = {"ratio": (ages, horizons, known.n), "quantiles": (len(LEVELS), ages, known.n)}
    return shapes | {"covariance": (known.n, known.n)}


def _check_starting(group: Group) -> None:
    all_finite(group)
    group.require("ratio", group.arrays["ratio"] > 0, "numbers above 0")
    group.require("quantiles", group.arrays["quantiles"] >= 0, "numbers of at least 0")
    require_covariance("starting.covariance", group.arrays["covariance"])


STARTING: Codec[Starting, Known] = Codec(
    arrays=Starting._asdict,
    shapes=_starting_shapes,
    check=_check_starting,
    build=lambda group, _: Starting(**group.arrays),
)


def _opening_shapes(group: Group, known: Known) -> Shapes:
    earlier = known.lags - 1
    return {"older": (earlier, known.n), "root": (known.d + earlier * known.n, group.size("root", 1))}


OPENING: Codec[Opening, Known] = Codec(
    arrays=Opening._asdict,
    shapes=_opening_shapes,
    build=lambda group, _: Opening(**group.arrays),
)


def _check_in_gaps(group: Group) -> None:
    all_finite(group)
    factor = group.arrays["factor"]
    usable = (factor >= 1 / MOST_FACTOR) & (factor <= MOST_FACTOR)
    group.require("factor", usable, f"a number from {1 / MOST_FACTOR:g} to {MOST_FACTOR:g}")
    rises = np.diff(group.arrays["quantiles"], prepend=0.0) >= 0
    group.require("quantiles", rises, "quantiles of at least 0 that rise with their level")


IN_GAPS: Codec[InGaps, Known] = Codec(
    arrays=InGaps._asdict,
    shapes=lambda _, __: {"factor": (1,), "quantiles": (len(LEVELS),)},
    check=_check_in_gaps,
    build=lambda group, _: InGaps(**group.arrays),
)


def _local_shapes(group: Group, known: Known) -> Shapes:
    knots, horizons = group.size("scores"), group.size("power")
    shapes: Shapes = {"fading": (1,), "usual": (known.n,), "weights": (SIGNS,), "scores": (knots,), "logs": (knots,)}
    of_errors = (horizons, known.n)
    return shapes | {"power": of_errors, "level": of_errors, "quantiles": (len(LEVELS), *of_errors)}


def _check_local(group: Group) -> None:
    all_finite(group)
    arrays = group.arrays
    group.require("fading", (arrays["fading"] > 0) & (arrays["fading"] <= 1), "a share above 0")
    group.require("usual", arrays["usual"] >= 0, "numbers of at least 0")
    require(bool((arrays["usual"] > 0).any()), "array local.usual: required a channel that moves, received none")
    group.require("scores", np.diff(arrays["scores"], prepend=-np.inf) > 0, "scores that rise")
    group.require("logs", np.diff(arrays["logs"], prepend=-np.inf) >= 0, "sizes that never fall")
    group.require("logs", np.abs(arrays["logs"]) <= MOST_LOG, f"numbers from -{MOST_LOG:g} to {MOST_LOG:g}")
    group.require("power", (arrays["power"] >= 0) & (arrays["power"] <= 1), "numbers from 0 to 1")
    group.require("level", arrays["level"] > 0, "numbers above 0")
    rises = np.diff(arrays["quantiles"], axis=0, prepend=0.0) >= 0
    group.require("quantiles", rises, "quantiles of at least 0 that rise with their level")


LOCAL: Codec[LocalScale, Known] = Codec(
    arrays=LocalScale._asdict,
    shapes=_local_shapes,
    check=_check_local,
    build=lambda group, _: LocalScale(**group.arrays),
)


def _check_thresholds(group: Group) -> None:
    all_finite(group)
    group.require("scores", np.diff(group.arrays["scores"], prepend=-np.inf) >= 0, "scores that rise with their rate")
    group.require("rows", group.arrays["rows"] >= 1, "a number of at least 1")
    group.require("rate", (group.arrays["rate"] > 0) & (group.arrays["rate"] <= MOST_RATE), "a rate of alarms")


THRESHOLDS: Codec[Thresholds, Known] = Codec(
    arrays=Thresholds._asdict,
    shapes=lambda _, __: {"scores": (len(RATES),), "rows": (1,), "rate": (1,)},
    check=_check_thresholds,
    build=lambda group, _: Thresholds(**group.arrays),
)

HINTING: Codec[Linear, Known] = Codec(
    arrays=linear_arrays,
    shapes=lambda group, known: linear_shapes(known.d + known.n_beside, group.size("intercept")),
    build=lambda group, _: linear(group),
)

PARTS: dict[str, Codec[Any, Known]] = {
    "scaling": _scaling(lambda known: known.n),
    "feedback": FEEDBACK,
    "input_scaling": _scaling(lambda known: known.n_inputs),
    "calibration": CALIBRATION,
    "calibration_blind": replace(CALIBRATION, shapes=_with_inputs),
    "calibration_next": replace(CALIBRATION, shapes=_with_feedthrough),
    "starting": STARTING,
    "opening": OPENING,
    "in_gaps": IN_GAPS,
    "local": LOCAL,
    "thresholds": THRESHOLDS,
    "hinting": HINTING,
}
"""The codec of each part, by its name in a file, which is also the field of the filter."""
OPTIONAL = (
    "input_scaling",
    "calibration",
    "calibration_blind",
    "calibration_next",
    "starting",
    "opening",
    "in_gaps",
    "local",
    "thresholds",
    "hinting",
)
"""Parts that a filter may lack. Such a part is there if any array of it is, so half a part is refused."""
