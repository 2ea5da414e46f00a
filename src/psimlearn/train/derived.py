"""A beginning under other settings, derived by arithmetic on its sums: nothing is rolled out or summed again."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from psimlearn.filter import Stack
from psimlearn.learners import GramSums, RandomFourierRidge, Ridge
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.shapes import Float
from psimlearn.train.coordinates import relative, weighted
from psimlearn.train.recipe import Prior
from psimlearn.train.start import Beginning

__all__ = ["OnSums", "revised", "with_ridge", "with_share"]

OnSums = Ridge | RandomFourierRidge | SymbolRidge
"""Learners whose sums serve every ridge."""


def with_ridge(begun: Beginning, alpha: float) -> Beginning:
    """The beginning with another ridge and the F_0 that it gives, for learners on Gram sums."""
    assert isinstance(begun.learner, OnSums)
    learner = replace(begun.learner, alpha=alpha)
    if begun.training.same is None:  # a zero start has F_0 = 0, whatever the ridge
        return begun._replace(learner=learner)
    filter = replace(begun.filter, regressors=(learner.solve(begun.training.same[1]),))
    return begun._replace(filter=filter, learner=learner)


def with_share(begun: Beginning, floor: float, strength: float) -> Beginning:
    """The beginning with another share and strength of contexts. F_0 is left to `with_ridge`."""
    learner = begun.learner
    assert isinstance(learner, SymbolRidge)
    contexts = None if learner.contexts is None else replace(learner.contexts, strength=strength)
    return begun._replace(learner=replace(learner, floor=floor, strength=strength, contexts=contexts))


def revised(begun: Beginning, prior: Prior, belief_weight: float, level_weight: float | None) -> Beginning:
    """The beginning with another prior and belief weight, for linear regression on stacked observations.

    A belief weight scales columns of z. The prior "last" is a linear map of columns of z. So both change the sums in
    closed form. F_0 is left to `with_ridge`.

    Args:
        begun: with prior "mean" and belief weight 1.
        prior: "mean" or "last".
        belief_weight: 0 or more.
        level_weight: as in `Recipe`.
    """
    filter, learner, _, training = begun
    features = filter.features
    assert isinstance(features, Stack)
    assert isinstance(learner, Ridge)
    assert filter.centre is not None
    assert training.same is not None
    r, sums = training.same
    if prior == "last":
        n = len(filter.scaling.mean)
        stays = np.zeros((len(sums.z), features.window * n))  # the map from z to its x_t, `window` times
        stays[r : r + n] = features.persist(np.eye(n))
        sums = sums.less(stays, -filter.centre)
        y = training.y + filter.centre - features.persist(training.x[training.rows])
        training = training._replace(y=y)
        filter = replace(filter, centre=None)
    sums = sums.scaled(np.where(np.arange(len(sums.z)) < r, belief_weight, 1.0))
    filter = replace(filter, feedback=filter.feedback.weighted(belief_weight))
    training = training._replace(low=training.low * belief_weight, high=training.high * belief_weight, same=(r, sums))
    if level_weight is not None:
        change, same = relative(filter, len(sums.z)), scipy.sparse.eye_array(len(sums.z), format="csr")
        coordinates = weighted(filter, change, _deviation(sums, change), _deviation(sums, same), level_weight)
        learner = replace(learner, coordinates=coordinates)
    return Beginning(filter, learner, None if begun.sums is None else sums, training)


def _deviation(sums: GramSums, change: Any) -> Float[np.ndarray, " p"]:
    """The standard deviations of z @ change."""
    mean = change.T @ sums.z / sums.n
    square = (change.T @ (change.T @ sums.zz).T).diagonal() / sums.n
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))
