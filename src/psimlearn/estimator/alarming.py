"""The methods of `PSIM` that give alarms; each takes the estimator first."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from psimlearn.errors import DataError
from psimlearn.estimator.channels import asked
from psimlearn.evaluate.thresholds import with_thresholds
from psimlearn.filter.alarms import Alarms, known_thresholds
from psimlearn.filter.thresholds import USUAL_RATE

__all__ = ["alarm_threshold", "alarms"]


def alarms(model: Any, X: Any, rate: float | None = None) -> Alarms:
    """The alarms of recordings: (alarm, channel, score), each with one entry for each row, in the form of X.

    An alarm begins at a row whose score lies below the threshold of the rate. It ends once 5 observed rows in
    succession lie above the threshold of a ten times larger rate.

    Args:
        model: a fitted `PSIM`.
        X: recordings.
        rate: the share of rows of normal recordings whose score lies below the threshold, as an average; None for
            the rate of the last `alarm_threshold`, which is 0.001 after `fit`.
    """
    given = asked(model, X)
    found = model.filter_.alarms(given.trajectories, rate)
    return Alarms(*(given.returned(part, names=[name]) for name, part in found._asdict().items()))


def alarm_threshold(model: Any, X: Any = None, rate: float = USUAL_RATE) -> float:
    """Set the rate of alarms, and return the score below which an alarm begins.

    The model and its file keep the rate, and the thresholds of all rates.

    Args:
        model: a fitted `PSIM`.
        X: normal recordings that the model was not fitted to, from which thresholds are measured anew; None for the
            thresholds that `fit` has measured on held-out recordings.
        rate: the share of normal rows whose score lies below the threshold, up to 0.1. Down to 20 of the rows
            measured it is a quantile of their scores; down to a tenth of a row, a tail is fitted to them.
    """
    check_is_fitted(model)
    filter = model.filter_
    if X is not None:
        filter = with_thresholds(filter, [(filter, asked(model, X).trajectories)])
        if filter.thresholds is None:
            raise DataError("X: required recordings with observed rows, received none. Give normal recordings.")
    thresholds = known_thresholds(filter)
    rate = thresholds.checked(rate)
    model.filter_ = replace(filter, thresholds=thresholds._replace(rate=np.array([rate])))
    return thresholds.at(rate)
