"""Filters of random numbers, with any settings, and small recordings with gaps for them."""

from dataclasses import replace
from typing import Any

import numpy as np

from modelfiles import trees
from oracles import ragged
from psimlearn.filter import (
    Features,
    Feedback,
    Filter,
    Forest,
    Linear,
    MeanAndVariance,
    Opaque,
    RandomFourier,
    Scaling,
)
from psimlearn.filter.opening import Opening
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng
WINDOW, N = 2, 2


class Wild(Opaque):
    """A regressor that can only be called."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(np.tanh(z @ self.weights))


def regressor(kind: str, p: int, d: int, r: int, rng: np.random.Generator) -> Any:
    """A random regressor that is a contraction, so that beliefs do not diverge."""

    def linear(rows: int) -> Linear:
        return Linear(rng.uniform(-0.4, 0.4, (rows, d)) / np.sqrt(rows), rng.uniform(-0.3, 0.3, d))

    if kind == "black box":
        return Wild(rng.standard_normal((p, d)) / p)
    if kind.startswith("trees"):
        forest = Forest(linear(p), trees(rng, p - r), rng.uniform(-0.1, 0.1, (3, d)), r)
        amplitudes = Linear(rng.uniform(-0.1, 0.1, (10, d)), np.zeros(d))
        waves = RandomFourier(rng.standard_normal((p - r, 5)), False, amplitudes)
        return replace(forest, waves=waves) if kind == "trees and waves" else forest
    if kind.startswith("waves"):
        raw = kind == "waves and raw"
        return RandomFourier(rng.standard_normal((p, 5)), raw, linear(10 + p * raw))
    return MeanAndVariance(linear(p)) if kind == "variances" else linear(p)


def made(
    kind: str, features: Features, inputs: str, lags: int, prior: str, rank: bool, box: bool, seed: int, n: int = N
) -> Filter:
    """A random filter of a few channels with these settings."""
    rng = RNG(seed)
    d = int(features(np.zeros((1, WINDOW, n))).shape[1])
    r, p_inputs = 3 if rank else d, {"none": 0, "inputs": 1, "feedthrough": 2}[inputs]
    p = r + lags * n + p_inputs
    kinds = ["linear", "linear", "waves"] if kind == "two in turn" else [kind]
    bound = rng.uniform(0.05, 0.3, r)
    box = box or kind == "variances"  # without a box the exponential could overflow
    root = rng.standard_normal((n, n))
    other = RNG([seed, 1])  # so that filters with and without an opening are alike
    opening = Opening(other.standard_normal((lags - 1, n)), other.standard_normal((d + (lags - 1) * n, 3)))
    return Filter(
        features=features,
        regressors=tuple(regressor(kind, p, d, r, rng) for kind in kinds),
        initial=rng.uniform(0.1, 0.4, d),
        scaling=Scaling(rng.standard_normal(n) * 3, rng.uniform(0.5, 4.0, n)),
        feedback=Feedback(
            rng.standard_normal(r) * 0.1,
            rng.uniform(0.5, 2.0, r),
            0.7,
            rng.standard_normal((d, r)) / 2 if rank else None,
            *((-bound, bound) if box else (None, None)),
        ),
        centre=None if prior == "last" else rng.uniform(-0.3, 0.3, d),
        covariance=root @ root.T + 0.2 * np.eye(n),
        lags=lags,
        input_scaling=None if inputs == "none" else Scaling(np.array([0.3]), np.array([2.0])),
        feedthrough=inputs == "feedthrough",
        opening=opening if kind == "opened" else None,
    )


def drawn(missing: bool, inputs: str, seed: int) -> Trajectories:
    data = ragged([5, 1, 7], N, RNG(seed), 0.25 if missing else 0.0)
    values = data.values.copy()
    if missing:
        values[[0, 9, 10]] = np.nan  # the first row, and two rows in succession, are empty
    u = None if inputs == "none" else RNG(seed + 1).standard_normal((len(values), 1))
    return replace(data, values=values, inputs=u)


def one_by_one(filter: Filter, data: Trajectories) -> np.ndarray:
    """The belief before every row, by the textbook step."""
    met = []
    for part in data:
        state = filter.start(1)
        for t, x in enumerate(part.values):
            met.append(state.belief[0])
            u = () if part.inputs is None else (part.inputs[[t]], part.inputs[[min(t + 1, len(part) - 1)]])
            state = filter.step(state, x[None], *u)
    return np.array(met)
