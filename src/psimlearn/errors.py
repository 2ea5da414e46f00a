"""What can go wrong, by name. Every message says what was required, what was received and what to do."""

__all__ = ["DataError", "DivergedError", "MissingExtraError", "ModelFileError", "PsimlearnError", "SettingsError"]


class PsimlearnError(Exception):
    """The parent of every error that psimlearn raises on purpose."""


class DataError(PsimlearnError, ValueError):
    """Recordings that cannot be used as they are."""


class SettingsError(PsimlearnError, ValueError):
    """A setting, or a combination of settings, that has no meaning."""


class DivergedError(PsimlearnError, ArithmeticError):
    """Nothing finite is left to learn from or to return."""


class ModelFileError(PsimlearnError, ValueError):
    """A model file that cannot be trusted, read or written."""


class MissingExtraError(PsimlearnError, ImportError):
    """A library that only some uses need is not installed; the message names the extra that brings it."""
