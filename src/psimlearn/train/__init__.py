"""Trainers: generators of rounds. `best(dagger(...)).filter` is a learnt filter.

To write another trainer, take `ground` and `begin` to make the first filter, `examples` to roll a filter over the
training rows, and `held_out` and `scored` to make a `Round` of it. To stop DAgger after a round and go on later, use
`first_round` and `next_round`, whose `Aggregation` is a plain value.
"""

from psimlearn.train.backprop import Epoch as Epoch
from psimlearn.train.backprop import backprop as backprop
from psimlearn.train.backprop import epochs as epochs
from psimlearn.train.backprop import random_start as random_start
from psimlearn.train.dagger import Aggregation as Aggregation
from psimlearn.train.dagger import dagger as dagger
from psimlearn.train.dagger import first_round as first_round
from psimlearn.train.dagger import next_round as next_round
from psimlearn.train.examples import Examples as Examples
from psimlearn.train.examples import TrainingRows as TrainingRows
from psimlearn.train.examples import examples as examples
from psimlearn.train.forward import forward as forward
from psimlearn.train.losses import Loss as Loss
from psimlearn.train.recipe import Recipe as Recipe
from psimlearn.train.score import HeldOut as HeldOut
from psimlearn.train.score import Round as Round
from psimlearn.train.score import best as best
from psimlearn.train.score import held_out as held_out
from psimlearn.train.score import scored as scored
from psimlearn.train.start import Beginning as Beginning
from psimlearn.train.start import Ground as Ground
from psimlearn.train.start import begin as begin
from psimlearn.train.start import ground as ground

__all__ = [
    "Aggregation",
    "Beginning",
    "Epoch",
    "Examples",
    "Ground",
    "HeldOut",
    "Loss",
    "Recipe",
    "Round",
    "TrainingRows",
    "backprop",
    "begin",
    "best",
    "dagger",
    "epochs",
    "examples",
    "first_round",
    "forward",
    "ground",
    "held_out",
    "next_round",
    "random_start",
    "scored",
]
