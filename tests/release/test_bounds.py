"""The oldest versions: each requirement has one, each package one only, and `make minimum` can tell others apart."""

import sys
from importlib.metadata import version

import pytest

from bounds import lower_bounds, oldest, others, same


def test_every_requirement_has_one_lower_bound() -> None:
    found = oldest(["data", "plot", "web", "pandas"])
    assert {"numpy", "scipy", "scikit-learn", "safetensors", "pyarrow", "matplotlib", "starlette", "pandas"} <= set(
        found
    )
    assert "polars" not in found
    assert all(bound[0].isdigit() for bound in found.values())


def test_bounds_that_are_missing_or_differ_are_told() -> None:
    assert lower_bounds(["Jax>=0.10,<1", "uvloop>=0.20; sys_platform != 'win32'"]) == {"jax": "0.10", "uvloop": "0.20"}
    with pytest.raises(ValueError, match="give its lower bound"):
        lower_bounds(["numpy"])
    with pytest.raises(ValueError, match=r"numpy, received 2\.0 and 2\.1"):
        lower_bounds(["numpy>=2.0", "numpy>=2.1"])


def test_an_environment_is_told_from_the_oldest_one() -> None:
    assert others(sys.executable, {"numpy": version("numpy")}) == []
    assert others(sys.executable, {"numpy": "1.0", "nothing-of-this-name": "2"}) == [
        f"numpy {version('numpy')}, not 1.0",
        "nothing-of-this-name None, not 2",
    ]
    assert same("2.0.0", "2")
    assert not same("2.0.1", "2")
    assert not same("20", "2")
