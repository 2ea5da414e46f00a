"""Commands, run in this process."""

from pathlib import Path

import pytest

from psimlearn.cli.main import cli


def run(*words: str | Path) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words], prog_name="psimlearn")
    assert isinstance(left.value.code, int)
    return left.value.code
