"""Files are written at once or not at all."""

import os
import stat
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
from psimlearn.files.atomic import atomic
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
    opened = os.open

    def fail(path: Any, *rest: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError("no")
        return opened(path, *rest)

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


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    """A device or FIFO would become a file, and its readers would wait for ever."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for place in (tmp_path / "fifo", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(ModelFileError, match="FIFO or socket, which must not be replaced"):
            save(made("linear"), place)
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o400])
def test_a_new_file_keeps_the_mode_of_the_old_one(mode: int, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"old")
    (tmp_path / "model").chmod(mode)
    save(made("linear"), tmp_path / "model")
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == mode
    load(tmp_path / "model")


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root may give files away")
def test_a_new_file_keeps_the_owner_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"old")
    os.chown(tmp_path / "model", 1234, 5678)
    (tmp_path / "model").chmod(0o640)
    save(made("linear"), tmp_path / "model")
    new = (tmp_path / "model").stat()
    assert (new.st_uid, new.st_gid, stat.S_IMODE(new.st_mode)) == (1234, 5678, 0o640)


def test_leftovers_of_killed_writers_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from psimlearn.files.atomic import atomic\n"
        "with atomic(Path(sys.argv[1])) as file:\n"
        "    print('begun', flush=True)\n"
        "    sys.stdin.read()\n"
        "    file.write(b'whole')\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "other")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
    processes[0].kill()
    processes[0].communicate()
    os.mkfifo(tmp_path / ".psimlearn-fifo.tmp")
    (tmp_path / ".psimlearn-link.tmp").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").write_text("mine")
    assert len(list(tmp_path.glob(".psimlearn-*"))) == 4
    save(made("linear"), tmp_path / "model")
    assert len(list(tmp_path.glob(".psimlearn-????????????????.tmp"))) == 1  # of the writer that still writes
    processes[1].communicate()
    assert (tmp_path / "other").read_bytes() == b"whole"
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, OSError, MemoryError])
def test_an_interrupted_writer_of_lines_keeps_the_whole_ones(kind: type[BaseException], tmp_path: Path) -> None:
    for n_lines, rest in ((3, b"half"), (3, b""), (1, b"x" * 200_000), (0, b"half"), (0, b"")):
        place = tmp_path / f"{n_lines}{len(rest)}"
        place.write_bytes(b"old")
        with pytest.raises(kind):
            _fail_after(atomic(place, keep_whole_lines=True), b"line\n" * n_lines + rest, kind)
        assert place.read_bytes() == (b"line\n" * n_lines or b"old")
        with pytest.raises(kind):
            _fail_after(atomic(place), b"line\n", kind)
        assert place.read_bytes() == (b"line\n" * n_lines or b"old")
    assert not list(tmp_path.glob(".*"))


def _fail_after(opened: Any, text: bytes, kind: type[BaseException]) -> None:
    with opened as file:
        file.write(text)
        raise kind


def test_a_full_disk_keeps_the_whole_lines(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from psimlearn.files.atomic import atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1003, 1003))\n"
        "try:\n"
        "    with atomic(Path(sys.argv[1]), keep_whole_lines=True) as file:\n"
        "        for _ in range(30):\n"
        "            file.write(b'123456789\\n' * 10)\n"
        "            file.flush()\n"
        "except OSError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "lines")]
    assert "too large" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (tmp_path / "lines").read_bytes() == b"123456789\n" * 100
    assert not list(tmp_path.glob(".*"))


def test_a_link_stays_a_link_and_a_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "model")
    save(made("linear"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "any").write_bytes(b"")
    assert (tmp_path / "there" / "model").stat().st_mode == (tmp_path / "any").stat().st_mode
    load(tmp_path / "link")
