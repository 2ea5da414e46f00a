"""A checkpoint: a folder with the journal of one fit, and a file that says which fit that is.

`checkpoint.psim` holds fingerprints of the recordings and of each setting, the seed, and the versions of the programs
that wrote it. A checkpoint of another fit, of another version of psimlearn, or with a damaged file is refused.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from psimlearn.checks import shown
from psimlearn.choose.folder import ABOUT, KIND, Folder, contents, refused, write_file
from psimlearn.choose.journal import Journal
from psimlearn.choose.watch import Watch
from psimlearn.errors import ModelFileError, SettingsError
from psimlearn.files.atomic import remove_leftovers
from psimlearn.files.checks import require
from psimlearn.files.container import unpack

__all__ = ["opened"]

LAYOUT = 1
"""The version of the meaning of all files: raise it whenever that changes."""


@contextmanager
def opened(
    place: Any, asked: Mapping[str, str], seed: int, any_seed: bool, tell: Watch = Watch()
) -> Iterator[tuple[Journal, int]]:
    """The journal in a folder, and the seed of its fit; at the end, whatever happens, all that waits is written.

    Args:
        place: the folder, which is made if it is not there; None for a journal that keeps nothing.
        asked: a fingerprint of the recordings and of each setting.
        seed: the seed of a new checkpoint.
        any_seed: whether the seed of an old checkpoint will do, too.
        tell: is told how much was done already.
    """
    if place is None:
        yield Journal(), seed
        return
    folder = _folder(place)
    with refused(folder):
        seed = _begun(folder, asked, seed, any_seed)
        journal = Folder(folder, _fingerprint(asked, seed))
    if journal.numbers or journal.places:
        tried, n_rounds = len(journal.numbers), len(journal.places)
        tell(f"checkpoint {folder}: {tried} settings tried and {n_rounds} rounds done already")
    try:
        yield journal, seed
    except KeyboardInterrupt as stop:
        stop.add_note(f"the rounds that are done are in {folder}: the same call goes on from there")
        raise
    finally:
        journal.write()


def _folder(place: Any) -> Path:
    """The folder of a checkpoint, made if it is not there."""
    if not isinstance(place, str | PathLike) or "\0" in fspath(place) or not fspath(place):
        raise SettingsError(f"checkpoint: required a folder or None, received {shown(place)}.")
    folder = Path(fspath(place))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = [] if (folder / ABOUT).exists() else sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise SettingsError(f"checkpoint {folder}: required a folder to write to, received: {error}.") from error
    if any(not name.startswith(".psimlearn-") for name in strangers):
        raise SettingsError(
            f"checkpoint {folder}: required an empty folder or a checkpoint, received a folder with {strangers!s:.100}."
            " Use another folder."
        )
    remove_leftovers(folder)  # a fit that has nothing left to write would leave them for ever
    return folder


def _begun(folder: Path, asked: Mapping[str, str], seed: int, any_seed: bool) -> int:
    """The seed of the checkpoint in a folder, which is begun if there is none; refuses one of another fit."""
    writer = {name: version(name) for name in ("psimlearn", "numpy")}
    about = _about(folder)
    if about is None:
        _begin(folder, {"asked": dict(asked), "seed": seed, "layout": LAYOUT, "versions": writer})
        return seed
    wrote = "psimlearn {psimlearn} and numpy {numpy}".format(**about["versions"])
    same = (about["layout"], about["versions"]["psimlearn"]) == (LAYOUT, writer["psimlearn"])
    require(same, f"written by {wrote}; required one of psimlearn {writer['psimlearn']}")
    there = about["asked"]
    others = sorted(name for name in {*asked, *there} if asked.get(name) != there.get(name))
    differs = ", ".join(others)
    require(not others, f"required a checkpoint of the same recordings and settings, received one with other {differs}")
    if any_seed or about["seed"] == seed:
        found: int = about["seed"]
        return found
    raise ModelFileError("required a checkpoint of the same random_state, received one of another")


def _about(folder: Path) -> dict[str, Any] | None:
    """The description of the fit; None if there is no such file."""
    data = contents(folder / ABOUT)
    return None if data is None else unpack(data, KIND)[0]


def _begin(folder: Path, about: dict[str, Any]) -> None:
    try:
        write_file(folder / ABOUT, about)
    except OSError as error:
        raise ModelFileError(f"required room for a file, received: {error}") from error


def _fingerprint(asked: Mapping[str, str], seed: int) -> str:
    """One text for all that was asked."""
    return sha256(repr((sorted(asked.items()), seed)).encode()).hexdigest()
