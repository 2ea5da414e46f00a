"""Shapes written in annotations are checked while tests run; fixtures that all rooms share."""

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import jaxtyping
import pytest
from _pytest.doctest import DoctestModule

import shapes

shapes.install("psimlearn")


CORE = {"evaluate", "files", "filter", "learners", "recordings", "train"}
"""Rooms in which every test checks the first call of each function; others fit whole models, and a process of them
checks it once. The contract calls everything in every way, and checks most."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    often = item.path.parent.name == "contract" or item.path.stem == "test_shapes"
    shapes.begin_test(shapes.FIRST if often else 1 if item.path.parent.name in CORE else None)


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: the collector of garbage need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples stand in docstrings of the package; the search for them in every test would take seconds."""
    collectors = yield
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real recordings, which are not part of the project."""
    folder = os.environ.get("PSIMLEARN_DATA")
    if not folder:
        pytest.skip("needs real recordings: set PSIMLEARN_DATA to their folder")
    return Path(folder)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users run it: without a check of every annotation at every step, of which other tests make enough."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(autouse=True)
def no_figures_left() -> Generator[None]:
    """Close the figures of a test: matplotlib keeps them, and warns once there are many in a process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
