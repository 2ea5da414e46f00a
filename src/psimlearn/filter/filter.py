"""The filter: a frozen value that takes a belief and an observation to the next belief."""

from psimlearn.filter import alarms, cards, learnt, likelihood, predict, reduction, stepping, whole
from psimlearn.filter.learnt import Learnt

__all__ = ["Filter"]


class Filter(Learnt):
    """A learnt filter. Trainers make it; it can be stepped, rolled over recordings and asked for forecasts.

    Its methods are functions of the other modules of this room, each of which takes the filter first.
    """

    def __repr__(self) -> str:
        """One line with the features, channels, inputs and regressor; the arrays are attributes."""
        inputs = 0 if self.input_scaling is None else len(self.input_scaling.mean)
        n, kind = len(self.scaling.mean), type(self.regressors[-1]).__name__
        beside = f", {inputs} input{'s' * (inputs > 1)}" if inputs else ""
        steps = f", {len(self.regressors)} time steps" if len(self.regressors) > 1 else ""
        what = ("channel" if self.alphabet is None else "symbol") + "s" * (n > 1)
        return f"Filter({self.features!r}, {n} {what}{beside}, lags {self.lags}, {kind}{steps})"

    _repr_html_ = cards.card_of_filter
    start = learnt.start
    step = stepping.step
    run = whole.run
    reduced = reduction.reduced
    ahead = predict.ahead
    forecast = predict.forecast
    log_likelihood = likelihood.log_likelihoods
    alarms = alarms.alarms
    hints = likelihood.hints
    predict = predict.predict  # last: from here on the name is the method
