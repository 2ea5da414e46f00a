"""One version: the number in the package, its metadata, the citation, the changelog and the README are the same."""

import re
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import psimlearn

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def written(file: str, pattern: str) -> list[str]:
    """The versions that a file names."""
    return re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_version_is_written_in_one_place_and_the_others_agree() -> None:
    assert "version" in PROJECT["dynamic"]
    assert written("src/psimlearn/__init__.py", r'^__version__ = "(.*)"$') == [psimlearn.__version__]
    assert metadata("psimlearn")["Version"] == psimlearn.__version__
    assert written("CITATION.cff", r"^version: (.*)$") == [psimlearn.__version__]
    assert written("README.md", r"psimlearn-([\d.]+)-py3") == [psimlearn.__version__]
    assert written("CHANGELOG.md", r"^## ([\d.]+)")[0] == psimlearn.__version__


def test_the_changelog_goes_down_in_versions() -> None:
    """Each heading is a version and its date, or that it is not released; only the newest may lack a date."""
    headings = written("CHANGELOG.md", r"^## (.*)$")
    found = [
        re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((not released yet|\d{4}-\d\d-\d\d)\)", heading) for heading in headings
    ]
    assert all(found), headings
    versions = [tuple(map(int, match.groups()[:3])) for match in found if match]
    assert versions == sorted(set(versions), reverse=True)
    assert not any("not released" in heading for heading in headings[1:])


def test_the_pythons_that_are_promised() -> None:
    """The least one is that of the metadata; each one that is named has its line; this one is among them."""
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: Python :: 3\.\d", line)]
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert [int(name.partition(".")[2]) for name in named] == list(range(11, 11 + len(named)))
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named
