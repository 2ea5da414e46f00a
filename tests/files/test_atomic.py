"""Files are written at once or not at all."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from modelfiles import (
    made,
    same,
    says,
)
from psimlearn.errors import ModelFileError
from psimlearn.files.model import load, save

MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "200"))
"""How many files to damage."""


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("place", ["os.replace", "os.fsync"])
def test_a_failure_leaves_the_old_file(
    place: str, kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        assert len(list(tmp_path.iterdir())) == 2  # the temporary file is in the same folder
        raise kind("no")

    save(made("linear"), tmp_path / "model")
    old = (tmp_path / "model").read_bytes()
    monkeypatch.setattr(place, fail)
    with pytest.raises(ModelFileError if kind is OSError else kind):
        save(made("fourier"), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == old


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on file sizes makes the write itself fail half way."""
    save(made("linear"), tmp_path / "model")
    old = (tmp_path / "model").read_bytes()
    program = (
        "import resource, signal, sys, psimlearn\n"
        "f = psimlearn.load(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: psimlearn.save(f, sys.argv[1])\n"
        "except psimlearn.ModelFileError as error: print(error)"
    )
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == old


def test_a_folder_that_cannot_be_flushed_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise PermissionError("no")

    monkeypatch.setattr(os, "open", fail)
    save(made("linear"), tmp_path / "model")
    monkeypatch.undo()
    assert same(says(load(tmp_path / "model")), says(made("linear")))


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    places: list[Any] = [tmp_path / "folder", tmp_path / "none" / "model", tmp_path / ("x" * 300), f"{tmp_path}/a\0b"]
    for place in places:
        with pytest.raises(ModelFileError):
            save(made("linear"), place)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_a_link_stays_a_link_and_a_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "model")
    save(made("linear"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "any").write_bytes(b"")
    assert (tmp_path / "there" / "model").stat().st_mode == (tmp_path / "any").stat().st_mode
    load(tmp_path / "link")
