"""Methods that a learnt filter is compared with. Every baseline is a `Forecaster`."""

from psimlearn.baselines.ar import Autoregression as Autoregression
from psimlearn.baselines.constant import LastObservation as LastObservation
from psimlearn.baselines.constant import TrainingMean as TrainingMean
from psimlearn.baselines.em import em as em
from psimlearn.baselines.gaussian import LinearGaussian as LinearGaussian
from psimlearn.baselines.innovations import InnovationsModel as InnovationsModel
from psimlearn.baselines.ivr import ivr as ivr
from psimlearn.baselines.kalman import Kalman as Kalman
from psimlearn.baselines.kalman import StationaryKalman as StationaryKalman
from psimlearn.baselines.kgram import KGram as KGram
from psimlearn.baselines.lagged import Lagged as Lagged
from psimlearn.baselines.n4sid import n4sid as n4sid
from psimlearn.baselines.operators import Moments as Moments
from psimlearn.baselines.operators import OperatorModel as OperatorModel
from psimlearn.baselines.operators import spectral as spectral
from psimlearn.baselines.operators import word_moments as word_moments
from psimlearn.baselines.rnn import RecurrentNetwork as RecurrentNetwork

__all__ = [
    "Autoregression",
    "InnovationsModel",
    "KGram",
    "Kalman",
    "Lagged",
    "LastObservation",
    "LinearGaussian",
    "Moments",
    "OperatorModel",
    "RecurrentNetwork",
    "StationaryKalman",
    "TrainingMean",
    "em",
    "ivr",
    "n4sid",
    "spectral",
    "word_moments",
]
