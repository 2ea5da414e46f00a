"""Servers run as users run them: without a check of every annotation at every step."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httptools")


@pytest.fixture(autouse=True)
def _unchecked(unchecked: None) -> None:
    """The tests of the filter check shapes."""
