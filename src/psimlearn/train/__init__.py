"""Trainers: generators of rounds. `best(dagger(...)).filter` is a learnt filter."""

from psimlearn.train.backprop import backprop as backprop
from psimlearn.train.backprop import random_start as random_start
from psimlearn.train.dagger import dagger as dagger
from psimlearn.train.forward import forward as forward
from psimlearn.train.recipe import Recipe as Recipe
from psimlearn.train.score import Round as Round
from psimlearn.train.score import best as best

__all__ = ["Recipe", "Round", "backprop", "best", "dagger", "forward", "random_start"]
