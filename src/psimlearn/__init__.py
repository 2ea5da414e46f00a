"""psimlearn learns a filter from recordings.

The names below are loaded when they are first used, so that `import psimlearn` costs next to nothing and a program
that only runs a filter never loads the libraries that train one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psimlearn.baselines import KGram as KGram
    from psimlearn.baselines import LastObservation as LastObservation
    from psimlearn.baselines import TrainingMean as TrainingMean
    from psimlearn.choose.watch import Watch as Watch
    from psimlearn.errors import DataError as DataError
    from psimlearn.errors import DivergedError as DivergedError
    from psimlearn.errors import MissingExtraError as MissingExtraError
    from psimlearn.errors import ModelFileError as ModelFileError
    from psimlearn.errors import PsimlearnError as PsimlearnError
    from psimlearn.errors import PsimlearnWarning as PsimlearnWarning
    from psimlearn.errors import SettingsError as SettingsError
    from psimlearn.estimator.psim import PSIM as PSIM
    from psimlearn.estimator.scaler import TrajectoryScaler as TrajectoryScaler
    from psimlearn.evaluate import compare as compare
    from psimlearn.evaluate import errors_by_horizon as errors_by_horizon
    from psimlearn.files.model import load as load
    from psimlearn.files.model import save as save
    from psimlearn.filter.features import SecondMoment as SecondMoment
    from psimlearn.filter.features import Stack as Stack
    from psimlearn.filter.features import StackSquares as StackSquares
    from psimlearn.filter.filter import Filter as Filter
    from psimlearn.filter.live import Live as Live
    from psimlearn.filter.onehot import OneHotMarginals as OneHotMarginals
    from psimlearn.filter.onehot import OneHotProduct as OneHotProduct
    from psimlearn.filter.statespace import StateSpace as StateSpace
    from psimlearn.filter.symbols import SymbolLive as SymbolLive
    from psimlearn.learners import RandomFourierRidge as RandomFourierRidge
    from psimlearn.learners import Ridge as Ridge
    from psimlearn.learners.blackbox import SklearnLearner as SklearnLearner
    from psimlearn.learners.gaussian import GaussianLearner as GaussianLearner
    from psimlearn.learners.symbolic import SymbolClassifier as SymbolClassifier
    from psimlearn.learners.symbolic import SymbolLogistic as SymbolLogistic
    from psimlearn.learners.symbolic import SymbolRidge as SymbolRidge
    from psimlearn.learners.trees import RidgeAndTrees as RidgeAndTrees
    from psimlearn.recordings.alphabet import Alphabet as Alphabet
    from psimlearn.recordings.passes import InTurn as InTurn
    from psimlearn.recordings.passes import Processes as Processes
    from psimlearn.recordings.shards import Shards as Shards
    from psimlearn.recordings.steps import Clock as Clock
    from psimlearn.recordings.trajectories import Trajectories as Trajectories
    from psimlearn.recordings.trajectory import Trajectory as Trajectory
    from psimlearn.report.plots import plot_errors as plot_errors
    from psimlearn.report.plots import plot_forecast as plot_forecast
    from psimlearn.report.plots import plot_rounds as plot_rounds
    from psimlearn.report.plots import plot_surprise as plot_surprise
    from psimlearn.train.backprop import backprop as backprop
    from psimlearn.train.backprop import random_start as random_start
    from psimlearn.train.dagger import dagger as dagger
    from psimlearn.train.forward import forward as forward
    from psimlearn.train.losses import GaussianNLL as GaussianNLL
    from psimlearn.train.losses import LogLoss as LogLoss
    from psimlearn.train.losses import Squared as Squared
    from psimlearn.train.recipe import Recipe as Recipe
    from psimlearn.train.score import best as best

_HOMES = {
    "baselines": ["KGram", "LastObservation", "TrainingMean"],
    "choose.watch": ["Watch"],
    "errors": [
        "DataError",
        "DivergedError",
        "MissingExtraError",
        "ModelFileError",
        "PsimlearnError",
        "PsimlearnWarning",
        "SettingsError",
    ],
    "estimator.psim": ["PSIM"],
    "estimator.scaler": ["TrajectoryScaler"],
    "evaluate": ["compare", "errors_by_horizon"],
    "files.model": ["load", "save"],
    "filter.features": ["SecondMoment", "Stack", "StackSquares"],
    "filter.filter": ["Filter"],
    "filter.live": ["Live"],
    "filter.onehot": ["OneHotMarginals", "OneHotProduct"],
    "filter.statespace": ["StateSpace"],
    "filter.symbols": ["SymbolLive"],
    "learners.blackbox": ["SklearnLearner"],
    "learners.gaussian": ["GaussianLearner"],
    "learners": ["RandomFourierRidge", "Ridge"],
    "learners.symbolic": ["SymbolClassifier", "SymbolLogistic", "SymbolRidge"],
    "learners.trees": ["RidgeAndTrees"],
    "recordings.alphabet": ["Alphabet"],
    "recordings.passes": ["InTurn", "Processes"],
    "recordings.shards": ["Shards"],
    "recordings.steps": ["Clock"],
    "recordings.trajectories": ["Trajectories"],
    "recordings.trajectory": ["Trajectory"],
    "report.plots": ["plot_errors", "plot_forecast", "plot_rounds", "plot_surprise"],
    "train.backprop": ["backprop", "random_start"],
    "train.dagger": ["dagger"],
    "train.forward": ["forward"],
    "train.losses": ["GaussianNLL", "LogLoss", "Squared"],
    "train.recipe": ["Recipe"],
    "train.score": ["best"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load a public name from its home (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'psimlearn' has no attribute {name!r}")
    return getattr(import_module(f"psimlearn.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
