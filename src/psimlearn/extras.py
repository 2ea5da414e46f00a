"""Optional libraries, imported when they are needed."""

from importlib import import_module
from typing import Any

from psimlearn.errors import MissingExtraError

__all__ = ["imported"]


def imported(module: str, extra: str) -> Any:
    """Import a module of an optional library.

    Args:
        module: the module, such as "pyarrow.csv".
        extra: the extra of psimlearn that installs it, for the message if it is absent.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"required the package {package!r}, received: {error}. Install it with: pip install 'psimlearn[{extra}]'",
            name=package,
        ) from error
