"""Text for terminals and pages: names of channels and files may hold any character, and some of them act."""

import re

__all__ = ["legible"]

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters other than tab and line end, characters that turn the direction of writing, half characters."""


def legible(text: str) -> str:
    r"""Replace each character that a terminal or a page would obey, or could not show, by its code.

    >>> legible("a\x1b[31mb, Höhe")
    'a\\x1b[31mb, Höhe'
    """
    return ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
