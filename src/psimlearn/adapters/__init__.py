"""`PSIM` in the words of other libraries: a forecaster of sktime; a forecaster and a detector of anomalies of river."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psimlearn.adapters.river import PSIMAnomaly as PSIMAnomaly
    from psimlearn.adapters.river import PSIMOnlineForecaster as PSIMOnlineForecaster
    from psimlearn.adapters.sktime import PSIMForecaster as PSIMForecaster

_HOME = {"PSIMAnomaly": "river", "PSIMForecaster": "sktime", "PSIMOnlineForecaster": "river"}

__all__ = ["PSIMAnomaly", "PSIMForecaster", "PSIMOnlineForecaster"]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used, so that each library is needed by its users only."""
    if name not in _HOME:
        raise AttributeError(f"module 'psimlearn.adapters' has no attribute {name!r}")
    return getattr(import_module(f"psimlearn.adapters.{_HOME[name]}"), name)
