"""Tokens: who may read, and who may write."""

import hmac
import os
from pathlib import Path
from typing import NamedTuple

from psimlearn.errors import SettingsError

__all__ = ["Tokens", "read_token"]

SHORTEST = 16
"""Characters of a token: a shorter one can be guessed."""


class Tokens(NamedTuple):
    """The tokens of the server; None where everybody may."""

    read: str | None = None
    write: str | None = None

    def allow(self, given: str | None, writes: bool) -> bool:
        """Whether a token allows a request; a writer may also read. Comparisons take as long for every token."""
        if (self.write if writes else self.read) is None:
            return True
        shown = (given or "").encode("utf-8", "surrogateescape")
        allowed = [token for token in ((self.write,) if writes else (self.read, self.write)) if token is not None]
        return sum(hmac.compare_digest(shown, token.encode()) for token in allowed) > 0


def read_token(file: Path | None, variable: str) -> str | None:
    """A token from a file, or else from the environment; None if neither is there."""
    if file is None:
        token = os.environ.get(variable)
        where = variable
    else:
        where = str(file)
        try:
            token = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{where}: required a file with a token, received: {error}.") from error
    if token is not None and (len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token):
        raise SettingsError(
            f"{where}: required a token of at least {SHORTEST} ASCII characters without blanks, received another. Make "
            "one with: openssl rand -hex 24"
        )
    return token
