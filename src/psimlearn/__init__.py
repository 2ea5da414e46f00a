"""psimlearn learns a filter from recordings.

The names below are loaded when they are first used, so that `import psimlearn` costs next to nothing and a program
that only runs a filter never loads the libraries that train one.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psimlearn.alphabet import Alphabet as Alphabet
    from psimlearn.baselines import KGram as KGram
    from psimlearn.baselines import LastObservation as LastObservation
    from psimlearn.baselines import TrainingMean as TrainingMean
    from psimlearn.blackbox import SklearnLearner as SklearnLearner
    from psimlearn.errors import DataError as DataError
    from psimlearn.errors import DivergedError as DivergedError
    from psimlearn.errors import MissingExtraError as MissingExtraError
    from psimlearn.errors import ModelFileError as ModelFileError
    from psimlearn.errors import PsimlearnError as PsimlearnError
    from psimlearn.errors import SettingsError as SettingsError
    from psimlearn.estimator import PSIM as PSIM
    from psimlearn.evaluate import compare as compare
    from psimlearn.evaluate import errors_by_horizon as errors_by_horizon
    from psimlearn.features import SecondMoment as SecondMoment
    from psimlearn.features import Stack as Stack
    from psimlearn.features import StackSquares as StackSquares
    from psimlearn.filter import Filter as Filter
    from psimlearn.gaussian import GaussianLearner as GaussianLearner
    from psimlearn.io import load as load
    from psimlearn.io import save as save
    from psimlearn.learners import RandomFourierRidge as RandomFourierRidge
    from psimlearn.learners import Ridge as Ridge
    from psimlearn.live import Live as Live
    from psimlearn.losses import GaussianNLL as GaussianNLL
    from psimlearn.losses import LogLoss as LogLoss
    from psimlearn.losses import Squared as Squared
    from psimlearn.onehot import OneHotMarginals as OneHotMarginals
    from psimlearn.onehot import OneHotProduct as OneHotProduct
    from psimlearn.plots import plot_errors as plot_errors
    from psimlearn.plots import plot_forecast as plot_forecast
    from psimlearn.plots import plot_rounds as plot_rounds
    from psimlearn.plots import plot_surprise as plot_surprise
    from psimlearn.scaler import TrajectoryScaler as TrajectoryScaler
    from psimlearn.sequences import SymbolLive as SymbolLive
    from psimlearn.symbolic import SymbolClassifier as SymbolClassifier
    from psimlearn.symbolic import SymbolLogistic as SymbolLogistic
    from psimlearn.symbolic import SymbolRidge as SymbolRidge
    from psimlearn.train.backprop import backprop as backprop
    from psimlearn.train.backprop import random_start as random_start
    from psimlearn.train.dagger import dagger as dagger
    from psimlearn.train.forward import forward as forward
    from psimlearn.train.recipe import Recipe as Recipe
    from psimlearn.train.score import best as best
    from psimlearn.trajectories import Trajectories as Trajectories
    from psimlearn.trajectories import Trajectory as Trajectory
    from psimlearn.watch import Watch as Watch

_HOMES = {
    "alphabet": ["Alphabet"],
    "baselines": ["KGram", "LastObservation", "TrainingMean"],
    "blackbox": ["SklearnLearner"],
    "errors": ["DataError", "DivergedError", "MissingExtraError", "ModelFileError", "PsimlearnError", "SettingsError"],
    "estimator": ["PSIM"],
    "evaluate": ["compare", "errors_by_horizon"],
    "features": ["SecondMoment", "Stack", "StackSquares"],
    "filter": ["Filter"],
    "gaussian": ["GaussianLearner"],
    "io": ["load", "save"],
    "learners": ["RandomFourierRidge", "Ridge"],
    "live": ["Live"],
    "losses": ["GaussianNLL", "LogLoss", "Squared"],
    "onehot": ["OneHotMarginals", "OneHotProduct"],
    "plots": ["plot_errors", "plot_forecast", "plot_rounds", "plot_surprise"],
    "scaler": ["TrajectoryScaler"],
    "sequences": ["SymbolLive"],
    "symbolic": ["SymbolClassifier", "SymbolLogistic", "SymbolRidge"],
    "train": ["Recipe", "backprop", "best", "dagger", "forward", "random_start"],
    "trajectories": ["Trajectories", "Trajectory"],
    "watch": ["Watch"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)
__version__ = version("psimlearn")


def __getattr__(name: str) -> Any:
    """Load a public name from its home (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'psimlearn' has no attribute {name!r}")
    return getattr(import_module(f"psimlearn.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
