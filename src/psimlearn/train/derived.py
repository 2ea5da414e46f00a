"""A beginning under other settings, derived by arithmetic on its sums: nothing is rolled out or summed again."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psimlearn.filter import Stack
from psimlearn.learners import GramSums, RandomFourierRidge, Ridge
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.shapes import Float, Int
from psimlearn.train.coordinates import channels_of, deviation, relative, weighted
from psimlearn.train.ground import Ground
from psimlearn.train.recipe import Init, Prior, Recipe
from psimlearn.train.score import forgetful
from psimlearn.train.stacked import less_last
from psimlearn.train.start import Beginning, begin

__all__ = ["InitialSums", "OnSums", "beside", "initial_sums", "revised", "with_fewer_lags", "with_ridge"]
__all__ += ["with_share"]

OnSums = Ridge | RandomFourierRidge | SymbolRidge
"""Learners whose sums serve every ridge."""


class InitialSums(NamedTuple):
    """The sums of the first examples of ridge regression, with many lags: they contain the sums with fewer."""

    recipe: Recipe
    n: int
    """The number of channels."""
    n_fed: int
    """The first columns, which come from the belief; the lags follow, newest first, and the inputs are last."""
    centre: Float[np.ndarray, " d"]
    """The prior that was subtracted from the features."""
    sums: GramSums

    def serve(self, recipe: Recipe) -> bool:
        """Whether these sums contain those of a recipe, or all of them but the belief if that begins with a system."""
        ours = self.recipe
        alike = replace(recipe, lags=ours.lags, states=None, past=ours.past, past_ridge=ours.past_ridge)
        return alike == self.recipe and recipe.lags <= self.recipe.lags

    def rest(self, lags: int) -> Int[np.ndarray, " rest"]:
        """The columns of some lags and of the inputs."""
        first, p = self.n_fed, len(self.sums.z)
        return np.asarray(np.r_[first : first + lags * self.n, first + self.recipe.lags * self.n : p])


def initial_sums(ground: Ground, init: Init, recipe: Recipe) -> InitialSums:
    """Sum the first examples of a recipe with the prior "mean", belief weight 1 and no level weight."""
    begun = begin(ground, Ridge(), init, recipe, np.random.default_rng(0), fit=False)
    assert begun.training.same is not None
    assert begun.filter.centre is not None
    n_fed, sums = begun.training.same
    return InitialSums(recipe, ground.x.shape[1], n_fed, begun.filter.centre, sums)


def with_fewer_lags(initial: InitialSums, recipe: Recipe) -> GramSums:
    """The sums of the first examples with the lags of this recipe."""
    return initial.sums.among(np.r_[: initial.n_fed, initial.rest(recipe.lags)])


def beside(initial: InitialSums, recipe: Recipe) -> GramSums:
    """The sums of the first examples of a recipe that begins with a system, zero where its states enter."""
    assert recipe.states is not None
    sums = initial.sums.among(initial.rest(recipe.lags))
    if recipe.prior == "last":
        sums = less_last(sums, 0, initial.n, initial.centre)
    before = (recipe.states, 0)
    zz, zy = np.pad(sums.zz, (before, before)), np.pad(sums.zy, (before, (0, 0)))
    return sums._replace(z=np.pad(sums.z, before), zz=zz, zy=zy)


def with_ridge(begun: Beginning, alpha: float) -> Beginning:
    """The beginning with another ridge and the F_0 that it gives, for learners on Gram sums; F_0 forgets its start."""
    assert isinstance(begun.learner, OnSums)
    learner = replace(begun.learner, alpha=alpha)
    if begun.training.same is None or begun.given:  # a zero start has F_0 = 0, whatever the ridge
        return begun._replace(learner=learner)
    filter = replace(begun.filter, regressors=(learner.solve(begun.training.same[1]),))
    return begun._replace(filter=forgetful(filter), learner=learner)


def with_share(begun: Beginning, floor: float, strength: float) -> Beginning:
    """The beginning with another share and strength of contexts. F_0 is left to `with_ridge`."""
    learner = begun.learner
    assert isinstance(learner, SymbolRidge)
    contexts = None if learner.contexts is None else replace(learner.contexts, strength=strength)
    return begun._replace(learner=replace(learner, floor=floor, strength=strength, contexts=contexts))


def revised(
    begun: Beginning, prior: Prior, belief_weight: float, level_weight: float | None, cross_weight: float = 1.0
) -> Beginning:
    """The beginning with another prior and other weights, for linear regression on stacked observations.

    A belief weight scales columns of z. The prior "last" is a linear map of columns of z. So both change the sums in
    closed form. F_0 is left to `with_ridge`.

    Args:
        begun: with prior "mean", belief weight 1, no level weight and cross weight 1.
        prior: "mean" or "last".
        belief_weight: 0 or more.
        level_weight: as in `Recipe`.
        cross_weight: as in `Recipe`.
    """
    filter, learner, _, training = begun[:4]
    assert isinstance(filter.features, Stack)
    assert isinstance(learner, Ridge)
    assert filter.centre is not None
    assert training.same is not None
    r, sums = training.same
    if prior == "last":
        sums = less_last(sums, r, len(filter.scaling.mean), filter.centre)
        filter = replace(filter, centre=None)
        training = training._replace(targets=training.targets.beyond_last)
    if belief_weight != 1:
        sums = sums.scaled(np.where(np.arange(len(sums.z)) < r, belief_weight, 1.0))
    filter = replace(filter, feedback=filter.feedback.weighted(belief_weight))
    training = training._replace(low=training.low * belief_weight, high=training.high * belief_weight, same=(r, sums))
    if level_weight is not None:
        change = relative(filter, len(sums.z))
        coordinates = weighted(filter, change, deviation(sums, change), deviation(sums), level_weight)
        learner = replace(learner, coordinates=coordinates)
    if cross_weight != 1:
        learner = replace(learner, channels=channels_of(filter, cross_weight))
    return Beginning(filter, learner, None if begun.sums is None else sums, training)
