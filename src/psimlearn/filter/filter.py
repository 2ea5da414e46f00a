"""The filter: a frozen value that takes a belief and an observation to the next belief."""

from psimlearn.filter import learnt, likelihood, predict, rollout, stepping
from psimlearn.filter.learnt import Learnt

__all__ = ["Filter"]


class Filter(Learnt):
    """A learnt filter. Trainers make it; it can be stepped, rolled over recordings and asked for forecasts.

    Its methods are functions of the other modules of this room, each of which takes the filter first.
    """

    start = learnt.start
    step = stepping.step
    run = rollout.run
    ahead = predict.ahead
    forecast = predict.forecast
    log_likelihood = likelihood.log_likelihoods
    hints = likelihood.hints
    predict = predict.predict  # last: from here on the name is the method
