"""The wheel and the source archive: contents, metadata, and that one makes the other."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import psimlearn

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INFO = f"psimlearn-{psimlearn.__version__}.dist-info"
ABOUT = {f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    command = [sys.executable, "-m", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and a source archive, made without a package index."""
    folder = tmp_path_factory.mktemp("dist")
    run("hatchling", "build", "--directory", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def source(built: Path) -> Path:
    [found] = built.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def about(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())


def test_a_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src"
    files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        held = set(archive.namelist())
    assert held == {name for name in files if "__pycache__" not in name} | ABOUT
    assert {
        "psimlearn/py.typed",
        "psimlearn/serve/page/page.html",
        "psimlearn/reproduce/experiments/window.toml",
    } < held
    assert wheel.name == f"psimlearn-{psimlearn.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 2 << 20


def test_a_source_archive_holds_what_is_needed_to_build_test_and_read(source: Path) -> None:
    with tarfile.open(source) as archive:
        files = {member.name.partition("/")[2]: member.size for member in archive if member.isfile()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile", "mkdocs.yml"):
        assert name in files
    for folder in ("src/psimlearn", "tests", "docs", "benchmarks"):
        assert any(name.startswith(f"{folder}/") for name in files)
    strays = [
        name for name in files if re.search(r"(^|/)(\.venv|site|dist|\w*cache\w*|\.hypothesis)/|\.(pyc|psim)$", name)
    ]
    assert not [name for name in strays if not name.startswith("docs/site/")]
    assert max(files.values()) < 1 << 20, max(files, key=lambda name: files[name])
    assert source.stat().st_size < 5 << 20


def test_the_source_archive_makes_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    [folder] = tmp_path.iterdir()
    run("hatchling", "build", "--target", "wheel", "--directory", tmp_path / "dist", cwd=folder)
    records = []
    for path in (wheel, tmp_path / "dist" / wheel.name):
        with zipfile.ZipFile(path) as archive:
            records.append(sorted(archive.read(f"{INFO}/RECORD").splitlines()))
    assert records[0] == records[1]


def test_the_metadata_says_what_the_project_is(about: Message, wheel: Path) -> None:
    expected = {"Name": "psimlearn", "Version": psimlearn.__version__, "License-Expression": "MIT"}
    expected |= {"Requires-Python": PROJECT["requires-python"], "Description-Content-Type": "text/markdown"}
    assert {name: about[name] for name in expected} == expected
    assert about.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(about.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    core = [line for line in about.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(core) == sorted(PROJECT["dependencies"])
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{INFO}/entry_points.txt").split() == [
            *(b"[console_scripts]", b"psimlearn", b"=", b"psimlearn.__main__:cli")
        ]


def test_an_index_would_take_both(built: Path) -> None:
    pytest.importorskip("twine", reason="needs the extra test")
    said = run("twine", "--no-color", "check", "--strict", *sorted(built.iterdir()))
    assert said.count("PASSED") == 2
