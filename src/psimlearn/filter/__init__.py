"""The filter: what is learnt and how it runs. Features, regressors, the step, whole recordings, live streams."""

from psimlearn.filter.doubt import Doubt
from psimlearn.filter.features import Features, SecondMoment, Stack, StackSquares
from psimlearn.filter.filter import Filter
from psimlearn.filter.forest import Forest
from psimlearn.filter.onehot import OneHot, OneHotMarginals, OneHotProduct
from psimlearn.filter.prediction import Prediction
from psimlearn.filter.regressors import Linear, MeanAndVariance, Opaque, RandomFourier, Regressor
from psimlearn.filter.scaling import Scaling
from psimlearn.filter.step import Feedback, State

__all__ = [
    "Doubt",
    "Features",
    "Feedback",
    "Filter",
    "Forest",
    "Linear",
    "MeanAndVariance",
    "OneHot",
    "OneHotMarginals",
    "OneHotProduct",
]
__all__ += ["Opaque", "Prediction", "RandomFourier", "Regressor", "Scaling", "SecondMoment", "Stack", "StackSquares"]
__all__ += ["State"]
