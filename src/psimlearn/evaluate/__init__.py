"""How good a forecaster is: horizons, folds, comparison, calibration, residuals."""

from psimlearn.evaluate.compare import Comparison as Comparison
from psimlearn.evaluate.compare import Difference as Difference
from psimlearn.evaluate.compare import compare as compare
from psimlearn.evaluate.folds import folds as folds
from psimlearn.evaluate.folds import time_folds as time_folds
from psimlearn.evaluate.horizons import Forecaster as Forecaster
from psimlearn.evaluate.horizons import Measure as Measure
from psimlearn.evaluate.horizons import errors_by_horizon as errors_by_horizon
from psimlearn.evaluate.horizons import mean_square as mean_square
from psimlearn.evaluate.horizons import power as power
from psimlearn.evaluate.sharded import errors_over_shards as errors_over_shards

__all__ = [
    "Comparison",
    "Difference",
    "Forecaster",
    "Measure",
    "compare",
    "errors_by_horizon",
    "errors_over_shards",
    "folds",
    "mean_square",
    "power",
    "time_folds",
]
