"""Trainers: generators of rounds. `best(dagger(...)).filter` is a learnt filter.

To write another trainer, take `ground` and `begin` to make the first filter, `examples` to roll a filter over the
training rows, and `held_out` and `scored` to make a `Round` of it. To stop DAgger after a round and go on later, use
`first_round` and `next_round`, whose `Aggregation` is a plain value.
"""

from psimlearn.train.backprop import Epoch, backprop, epochs, random_start
from psimlearn.train.dagger import Aggregation, dagger, first_round, next_round
from psimlearn.train.examples import Examples, TrainingRows, examples
from psimlearn.train.forward import forward
from psimlearn.train.ground import Ground, ground
from psimlearn.train.losses import Loss
from psimlearn.train.recipe import Recipe
from psimlearn.train.score import HeldOut, Round, best, held_out, scored
from psimlearn.train.start import Beginning, begin

__all__ = ["Aggregation", "Beginning", "Epoch", "Examples", "Ground", "HeldOut", "Loss", "Recipe", "Round"]
__all__ += ["TrainingRows", "backprop", "begin", "best", "dagger", "epochs", "examples", "first_round", "forward"]
__all__ += ["ground", "held_out", "next_round", "random_start", "scored"]
