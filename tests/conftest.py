"""Every shape written in an annotation is checked while the tests run."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("psimlearn", "beartype.beartype")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real recordings, which are not part of the project."""
    folder = os.environ.get("PSIMLEARN_DATA")
    if not folder:
        pytest.skip("needs real recordings: set PSIMLEARN_DATA to their folder")
    return Path(folder)
