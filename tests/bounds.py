"""The oldest versions that pyproject.toml allows, as constraints for pip: `make minimum` tests with exactly these.

python tests/bounds.py [EXTRA or PACKAGE ..] > oldest.txt
python tests/bounds.py [EXTRA or PACKAGE ..] --beside PYTHON   # has PYTHON exactly these?
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
LOWER = re.compile(r"([A-Za-z0-9._-]+)>=([0-9.]+)(,<[0-9.]+)?(;.*)?")
"""A requirement: a name, its lower bound, and perhaps an upper bound and a marker."""
LISTED = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"


def oldest(words: Iterable[str] = ()) -> dict[str, str]:
    """The lower bounds of the core, of extras, and of single packages of any extra."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    every = lower_bounds(line for lines in extras.values() for line in lines if not line.startswith("psimlearn["))
    found = lower_bounds(project["dependencies"])
    for word in words:
        found |= lower_bounds(extras[word]) if word in extras else {word: every[word]}
    return found


def lower_bounds(lines: Iterable[str]) -> dict[str, str]:
    """The lower bound of each requirement; an error for one without, and for two bounds of one package."""
    bounds: dict[str, str] = {}
    for line in lines:
        match = LOWER.fullmatch(line)
        if not match:
            raise ValueError(f"required NAME>=VERSION, received {line!r}: give its lower bound")
        name, version = match[1].lower(), match[2]
        if bounds.setdefault(name, version) != version:
            raise ValueError(
                f"required one lower bound of {name}, received {bounds[name]} and {version}: make them one"
            )
    return bounds


def others(python: str, bounds: dict[str, str]) -> list[str]:
    """Packages of an environment that have another version than their lower bound, or are missing."""
    said = subprocess.run([python, "-c", LISTED], capture_output=True, text=True, check=True).stdout
    there = {name.lower().replace("_", "-"): version for name, version in json.loads(said).items()}
    return [
        f"{name} {there.get(name)}, not {bound}" for name, bound in bounds.items() if not same(there.get(name), bound)
    ]


def same(version: str | None, bound: str) -> bool:
    """Whether a version is the bound, up to zeros: 2 is 2.0.0."""
    return version is not None and re.sub(r"(\.0)+$", "", version) == re.sub(r"(\.0)+$", "", bound)


def main(words: Sequence[str]) -> None:
    if "--beside" in words:
        at = words.index("--beside")
        found = others(words[at + 1], oldest(words[:at]))
        sys.exit("\n".join(found) if found else 0)
    for name, version in sorted(oldest(words).items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main(sys.argv[1:])
