"""What a learnt filter is measured against. Every baseline is a `Forecaster`."""

from psimlearn.baselines.constant import LastObservation as LastObservation
from psimlearn.baselines.constant import TrainingMean as TrainingMean
from psimlearn.baselines.kalman import Kalman as Kalman
from psimlearn.baselines.kalman import StationaryKalman as StationaryKalman
from psimlearn.baselines.lagged import Lagged as Lagged

__all__ = ["Kalman", "Lagged", "LastObservation", "StationaryKalman", "TrainingMean"]
