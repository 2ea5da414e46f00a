"""Libraries that only some uses need, imported when they are needed."""

from importlib import import_module
from typing import Any

from psimlearn.errors import MissingExtraError

__all__ = ["imported"]


def imported(module: str, extra: str) -> Any:
    """The module, or an error that names the extra which installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"required the package {package!r}, received: {error}. Install it with: pip install 'psimlearn[{extra}]'",
            name=package,
        ) from error
