"""The numbers that a program in another language needs to run a filter, from its innovations model.

Between two rows a stream keeps z_t, the input of the last step, and [fed_{t+1}; e_{t+1}], its result. A step needs

    [fed_{t+1}; e_{t+1}] = box(map(z_t))        z_t = [fed_t; x_t; x_{t-1}; ..; u_t (; u_{t+1})], standardised

and `read(z_t)` gives the observations expected after e_{t+1}. Missing entries are treated as `filter/doubt.py` says.
The covariance of [fed; e; older rows] becomes that of [fed; x; older rows] when V is added to its block of e, so both
have one layout, and no matrix is larger.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter.doubt import NOTHING
from psimlearn.filter.folded import Map, folded_map
from psimlearn.filter.innovations import (
    Innovations,
    has_innovations,
    innovations,
    memory,
    received_instead,
    treats_exactly,
)
from psimlearn.filter.learnt import Learnt, start
from psimlearn.filter.regressors import Linear, RandomFourier
from psimlearn.filter.scaling import Scaling
from psimlearn.filter.spreads import Roots
from psimlearn.shapes import Bool, Float

__all__ = ["Affine", "Likelihood", "Machine", "machine_of"]


class Affine(NamedTuple):
    """A map of z by rows: the bias, a row for each coordinate of z, then a row for each cosine and each sine."""

    bias: Float[np.ndarray, " q"]
    raw: Float[np.ndarray, "p q"]
    """The rows for z; none if a map of random features does not use z itself."""
    cosines: Float[np.ndarray, "half q"]
    sines: Float[np.ndarray, "half q"]
    """The rows for random features; none for a linear map."""


class Likelihood(NamedTuple):
    """The Gaussian of the next row, standardised."""

    variance: Float[np.ndarray, "ages horizon n"]
    """By age of the stream, the last for all older streams, and by rows since anything was observed."""
    correlation: Float[np.ndarray, "n n"]
    first: Float[np.ndarray, "n n"] | None
    """The covariance of the errors of first rows; None if first rows are like others but for their variance."""
    widened: Float[np.ndarray, " n"]
    """The factor of the deviations that doubt adds."""
    still: Bool[np.ndarray, " n"]
    """The channels without errors in training, of which nothing is known but that they were constant."""
    place: Float[np.ndarray, " n"]
    """Where a channel that was constant in training stays, standardised."""
    strictness: Float[np.ndarray, " n"]
    """One over the floor of such a channel; 0 for channels that moved."""


class Machine(NamedTuple):
    """A filter as numbers. Observations and inputs are in the units of the recordings, all else is standardised."""

    scaling: Scaling
    input_scaling: Scaling
    """Empty without inputs."""
    feedthrough: bool
    lags: int
    window: int
    fed: int
    """The number of coordinates that are fed back."""
    directions: Float[np.ndarray, "p half"]
    """Of random features; of width 0 for a linear filter."""
    map: Affine
    """From z to [fed; e] of the next row, before the box."""
    read: Affine
    """From z to the rows expected after e, within the window."""
    first: Float[np.ndarray, " q"]
    """[fed; e] before the first row."""
    first_rows: Float[np.ndarray, " rest"]
    """The rows expected after e before the first row."""
    box: Float[np.ndarray, "2 fed"] | None
    exact: bool
    """Whether missing entries have a distribution; else they are filled in by a guess."""
    noise: Float[np.ndarray, "n n"]
    first_noise: Float[np.ndarray, "n n"]
    negligible: float
    """A covariance whose variances are all below this is zero."""
    older: Float[np.ndarray, " rest"]
    """The rows before the first, newest first, if first rows have gains of their own; else they repeat the first."""
    gains: Float[np.ndarray, "ages seen n"]
    """How the memory moves with the errors of first rows, while nothing is missing; of no ages for most filters."""
    roots: Float[np.ndarray, "ages seen columns"]
    """Square roots of the covariances of the memory at these ages: of wide memories they have few columns."""
    span: Float[np.ndarray, "2 n"] | None
    """The bounds of values that are filled in."""
    likelihood: Likelihood | None
    """None if beliefs claim variances, which only Python computes."""
    names: tuple[str, ...] | None

    @property
    def n(self) -> int:
        """The number of channels."""
        return len(self.scaling.mean)

    @property
    def ages(self) -> int:
        """The number of first rows that have gains of their own."""
        return len(self.gains)

    @property
    def seen(self) -> int:
        """The number of coordinates of z before its inputs; the memory of a stream has as many."""
        return self.fed + self.n * self.lags

    @property
    def controls(self) -> int:
        """The number of input columns of z."""
        return len(self.input_scaling.mean) * (1 + self.feedthrough)


def machine_of(filter: Learnt) -> Machine:
    """The numbers of a linear or random-feature filter; other filters are refused."""
    _check(filter)
    filter = replace(filter, hinting=None)
    model = innovations(filter)
    dropped = len(filter.feedback.mean) - model.r  # feedback without weight is zero, and has no columns here
    read = folded_map(filter, lambda m: filter.features.observations(m)[:, 1:].reshape(len(m), -1))
    directions = read.directions if isinstance(read, RandomFourier) else np.empty((_width(read), 0))
    low, high = filter.feedback.low, filter.feedback.high
    nothing = Scaling(np.empty(0), np.empty(0))
    initial = memory(filter, model, start(filter))[0]
    return Machine(
        scaling=filter.scaling,
        input_scaling=nothing if filter.input_scaling is None else filter.input_scaling,
        feedthrough=filter.feedthrough,
        lags=filter.lags,
        window=filter.features.window,
        fed=model.r,
        directions=directions[dropped:],
        map=_affine(model.map, dropped),
        read=_affine(read, dropped),
        first=initial[: model.r + model.n],
        first_rows=filter.features.observations(filter.initial[None])[0, 1:].ravel(),
        box=None if low is None or high is None or not model.r else np.array([low, high]),
        exact=treats_exactly(filter),
        noise=model.noise,
        first_noise=model.first_noise,
        negligible=NOTHING * model.noise_level,
        older=initial[model.r + model.n :],
        gains=np.empty((0, model.s, model.n)) if model.opened is None else model.opened.gain,
        roots=_roots(model),
        span=None if treats_exactly(filter) else filter.span,
        likelihood=_likelihood(filter, model),
        names=filter.names,
    )


def _check(filter: Learnt) -> None:
    """Refuse filters whose step is no linear or random-feature map."""
    if filter.alphabet is not None or not has_innovations(filter):
        raise SettingsError(
            "export: required a linear or random-feature filter of numbers, trained for all times by one regressor, "
            f"received {received_instead(filter)}"
        )
    r = len(filter.feedback.mean)
    if not filter.feedback.weight and filter.feedback.boxed(np.zeros((1, r))).any():
        raise SettingsError("export: required a box around zero for feedback without weight, received another.")


def _width(map: Map) -> int:
    return len(map.weights) if isinstance(map, Linear) else len(map.directions)


def _affine(map: Map, dropped: int) -> Affine:
    """A map by rows, without the first coordinates of z."""
    if isinstance(map, Linear):
        nothing = np.empty((0, len(map.intercept)))
        return Affine(map.intercept, map.weights[dropped:], nothing, nothing)
    half = map.directions.shape[1]
    cosines, sines, raw = np.split(map.linear.weights, [half, 2 * half])
    return Affine(map.linear.intercept, raw[dropped:], cosines, sines)


def _roots(model: Innovations) -> Float[np.ndarray, "ages s columns"]:
    """Square roots of the covariances of first rows."""
    if model.opened is None:
        return np.empty((0, model.s, 0))
    if isinstance(model.kind, Roots):
        return model.opened.spread
    values, vectors = np.linalg.eigh(model.opened.spread)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(roots[:, :, (values > 0).any(axis=0)])


def _likelihood(filter: Learnt, model: Innovations) -> Likelihood | None:
    """The Gaussian of the next row, as `filter/likelihood.py` has it."""
    calibration, starting, exact = filter.calibration, filter.starting, treats_exactly(filter)
    noise = np.diag(filter.covariance)
    horizon = np.arange(1, 2 if exact or calibration is None else calibration.furthest + 1)
    ages = 1 + max(0 if starting is None else len(starting.ratio), 0 if model.opened is None else model.opened.ages)
    variance = np.tile(noise, (ages, len(horizon), 1))
    if calibration is not None:
        if filter.variances is not None and calibration.gain[horizon - 1].any():
            return None
        known = calibration.variance(horizon, None)
        variance[:] = np.where(np.isnan(known), noise, known)
        if starting is not None:
            variance *= starting.factor(*np.meshgrid(np.arange(ages), horizon, indexing="ij"))
    return Likelihood(
        variance=variance,
        correlation=filter.correlation.matrix,
        first=starting.covariance if exact and starting is not None else None,
        widened=np.full(model.n, np.sqrt(filter.doubt_factor)),
        still=np.zeros(model.n, dtype=bool) if calibration is None else calibration.still,
        place=np.zeros(model.n) if filter.still is None else filter.still.place,
        strictness=np.zeros(model.n) if filter.still is None else 1 / filter.still.floor,
    )
