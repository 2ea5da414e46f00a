"""The errors of psimlearn. Every message says what was required, what was received and what to do."""

__all__ = [
    "DataError",
    "DivergedError",
    "MissingExtraError",
    "ModelFileError",
    "PsimlearnError",
    "PsimlearnWarning",
    "SettingsError",
]


class PsimlearnError(Exception):
    """The base class of all errors that psimlearn raises on purpose."""


class PsimlearnWarning(UserWarning):
    """The numbers are as asked for, but may not mean what they seem to; the message says why and what to do."""


class DataError(PsimlearnError, ValueError):
    """Recordings that cannot be used as they are."""


class SettingsError(PsimlearnError, ValueError):
    """A setting, or a combination of settings, that has no meaning."""


class DivergedError(PsimlearnError, ArithmeticError):
    """Training or prediction left no finite numbers."""


class ModelFileError(PsimlearnError, ValueError):
    """A model file that cannot be trusted, read or written."""


class MissingExtraError(PsimlearnError, ImportError):
    """An optional library is not installed; the message names the extra that installs it."""
