"""The journal of a fit as a folder of safe files, each written whole or not at all.

    checkpoint.psim      the fit (`psimlearn.choose.checkpoint`)
    numbers.psim         errors of settings that were tried
    rounds-NUMBER.psim   rounds that were written together: their filters and scores
    sums-LANE.psim       the sums of the latest round of a lane, from which the next round goes on

Every file has a sha256 of its contents (`psimlearn.files.container`) and the fingerprint of the fit, so a file that was
cut short, damaged or copied from another checkpoint is refused.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from psimlearn.choose.journal import LOST, Journal, lane_of
from psimlearn.choose.resume import sums_arrays, sums_from
from psimlearn.errors import ModelFileError, PsimlearnWarning
from psimlearn.files.atomic import atomic
from psimlearn.files.checks import Arrays, require
from psimlearn.files.container import as_json, pack, unpack
from psimlearn.files.model import described, rebuilt
from psimlearn.files.settings import written
from psimlearn.filter import Filter
from psimlearn.train.dagger import Aggregation

__all__ = ["ABOUT", "KIND", "Folder", "contents", "refused", "write_file"]

KIND = "psimlearn checkpoint"
ABOUT, NUMBERS, ROUNDS, SUMS, SUFFIX = "checkpoint.psim", "numbers.psim", "rounds-", "sums-", ".psim"
SHARE = 0.03
"""The share of the time that files may take: rounds quicker than files wait, and are written together."""
MOST_SUMS = 2**31
"""Bytes of sums in a folder. Beyond, the oldest go, and rounds that need them are computed again."""


class Folder(Journal):
    """A journal in a folder. Rounds wait until `write` is due, which takes a small share of the time."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder, self.fingerprint = folder, fingerprint
        self.waiting: dict[tuple[str, int], Aggregation] = {}
        self.numbers: dict[str, Any] = {}
        self.places: dict[tuple[str, int], tuple[Path, int]] = {}
        self.n_files = 0
        self.latest: tuple[Path, dict[str, Any], Arrays] | None = None
        self.tried = False
        self.due = 0.0
        self.failed = False
        for path in sorted(folder.glob(f"*{SUFFIX}")):  # damage is found before the work rather than after it
            self._read(path)

    def lane(self, name: str, candidate: object, *starts: Filter | None) -> str | None:
        """The name of a lane; None if no file can hold its filters."""
        return lane_of(name, candidate, *starts)

    def recall(self, lane: str, number: int) -> Aggregation | None:
        """The round of a lane: from its file, unless it waits."""
        if (lane, number) in self.waiting:
            return self.waiting[lane, number]
        if (lane, number) not in self.places:
            return None
        with refused(self.folder):
            path, at = self.places[lane, number]
            settings, arrays = self._contents(path)
            about = settings["rounds"][at]
            require((about["lane"], about["number"]) == (lane, number), f"{path.name}: another fit writes here, too")
            prefix = f"{at}:"
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            error, clipped = float.fromhex(about["error"]), float.fromhex(about["clipped"])
            filter = rebuilt(about["filter"], own)
            return Aggregation(number, filter, self._sums(lane, number), error, clipped, about["dropped"])

    def keep(self, lane: str, current: Aggregation) -> None:
        """Let a round wait for its file; the sums of the round before it are of no use any more."""
        if not _can_be_written(current.filter):
            return
        before = lane, current.number - 1
        if before in self.waiting:
            self.waiting[before] = self.waiting[before]._replace(sums=LOST)
        self.waiting[lane, current.number] = current
        self._write_if_due()

    def recall_numbers(self, lane: str) -> Sequence[float] | None:
        """The numbers of a lane."""
        known = self.numbers.get(lane)
        return None if known is None else [float.fromhex(number) for number in known]

    def keep_numbers(self, lane: str, numbers: Sequence[float]) -> None:
        """Let numbers wait for their file."""
        self.numbers[lane] = [float(number).hex() for number in numbers]
        self.tried = True
        self._write_if_due()

    def end(self, stage: str) -> None:
        """Write all that waits, and remove the sums of a stage that is done."""
        over = {at: r._replace(sums=LOST) for at, r in self.waiting.items() if at[0].startswith(stage)}
        self.waiting |= over
        self.write()
        with suppress(OSError):  # sums that stay take room, and nothing more
            for path in self.folder.glob(f"{SUMS}{stage}*{SUFFIX}"):
                path.unlink(missing_ok=True)

    def write(self) -> None:
        """Write all that waits. Files that cannot be written, as on a full disk, wait on; a warning says so once."""
        try:
            if self.waiting:
                self._write_rounds()
            if self.tried:
                write_file(self.folder / NUMBERS, self._signed({"numbers": self.numbers}))
                self.tried = False
            self._bound()
        except OSError as error:
            if not self.failed:
                warnings.warn(
                    f"checkpoint {self.folder}: required room for a file, received: {error}. The fit goes on, and the "
                    "files written so far stay valid. Free some space, or begin again with another folder.",
                    PsimlearnWarning,
                    stacklevel=2,
                )
            self.failed = True

    # -- files ---------------------------------------------------------------------------------------------------------

    def _write_if_due(self) -> None:
        began = monotonic()
        if began >= self.due:
            self.write()
            ended = monotonic()
            self.due = ended + (ended - began) / SHARE

    def _write_rounds(self) -> None:
        """The rounds first: without them, their sums would be those of rounds that are not known."""
        rounds: list[dict[str, Any]] = []
        arrays: Arrays = {}
        for (lane, number), current in self.waiting.items():
            settings, own = described(current.filter)
            if _is_understood(settings, own):
                numbers = {"error": float(current.error).hex(), "clipped": float(current.clipped).hex()}
                about = {"lane": lane, "number": number, "dropped": int(current.dropped), "filter": settings}
                arrays |= {f"{len(rounds)}:{name}": array for name, array in own.items()}
                rounds.append(numbers | about)
        path = self.folder / f"{ROUNDS}{self.n_files:06d}{SUFFIX}"
        write_file(path, self._signed({"rounds": rounds}), arrays)
        done, self.waiting = self.waiting, {}
        self._note(path, rounds)
        for (lane, number), current in done.items():
            sums = sums_arrays(current.sums)
            if sums is not None and (lane, number) in self.places:
                write_file(self._sums_path(lane), self._signed({"number": number}), sums)

    def _note(self, path: Path, rounds: Sequence[dict[str, Any]]) -> None:
        """Note where rounds are, and the number of the next file of rounds."""
        if path.name.startswith(ROUNDS):
            self.n_files = max(self.n_files, int(path.stem.removeprefix(ROUNDS)) + 1)
        self.places |= {(each["lane"], each["number"]): (path, at) for at, each in enumerate(rounds)}

    def _contents(self, path: Path) -> tuple[dict[str, Any], Arrays]:
        """The contents of a file of rounds, which the next round to be recalled is in, as a rule."""
        if self.latest is None or self.latest[0] != path:
            self.latest = path, *unpack(contents(path) or b"", KIND)
        return self.latest[1:]

    def _signed(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings | {"fingerprint": self.fingerprint}

    def _read(self, path: Path) -> None:
        """Refuse a file that is damaged, or of another fit; take its numbers, and note its rounds."""
        try:
            settings, _ = unpack(contents(path) or b"", KIND)
        except ModelFileError as error:
            raise ModelFileError(f"{path.name}: {error}") from error
        same = path.name == ABOUT or settings.get("fingerprint") == self.fingerprint
        require(same, f"{path.name}: required a file of this fit, received one of another")
        self.numbers |= settings.get("numbers", {})
        self._note(path, settings.get("rounds", []))

    def _sums_path(self, lane: str) -> Path:
        return self.folder / f"{SUMS}{lane}{SUFFIX}"

    def _sums(self, lane: str, number: int) -> Any:
        """The sums after a round, if these are the latest of its lane."""
        data = contents(self._sums_path(lane))
        if data is None:
            return LOST
        settings, arrays = unpack(data, KIND)
        return sums_from(arrays) if settings["number"] == number else LOST

    def _bound(self) -> None:
        """Remove the oldest sums if there are too many."""
        paths = sorted(self.folder.glob(f"{SUMS}*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
        room = sum(path.stat().st_size for path in paths) - MOST_SUMS
        for path in paths:
            if room <= 0:
                return
            room -= path.stat().st_size
            path.unlink(missing_ok=True)


@contextmanager
def refused(folder: Path) -> Iterator[None]:
    """Say of every error about a file which checkpoint it is in, and what to do."""
    try:
        yield
    except (ModelFileError, AttributeError, LookupError, TypeError, ValueError) as error:
        words = str(error).rstrip(".")
        raise ModelFileError(
            f"checkpoint {folder}: {words}. Delete the folder to begin again, or use another one."
        ) from error


def write_file(path: Path, settings: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write one file of a checkpoint, whole or not at all."""
    _write(path, pack(settings, arrays or {}, KIND))


def _can_be_written(filter: Filter) -> bool:
    """Whether a file can hold a filter: not that of a foreign learner, nor one of foreign features."""
    try:
        written(filter)
    except ModelFileError:
        return False
    return True


def _is_understood(settings: dict[str, Any], arrays: Arrays) -> bool:
    """Whether a reader would take this filter; one near divergence is refused, and computed again."""
    try:
        rebuilt(as_json(settings), arrays)
    except ModelFileError:
        return False
    return True


def _write(path: Path, data: bytes) -> None:
    with atomic(path) as file:
        file.write(data)


def contents(path: Path) -> bytes | None:
    """The contents of a file; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModelFileError(f"{path.name}: required a readable file, received: {error.strerror}") from error
