"""A fit that was interrupted goes on from its checkpoint to the same bits; checkpoints of other fits are refused."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import ragged
from psimlearn.choose import checkpoint as checkpoints
from psimlearn.choose import folder, gaps, runs
from psimlearn.choose.journal import LOST, lane_of, with_sums
from psimlearn.choose.journal import Path as Rounds
from psimlearn.choose.resume import sums_arrays
from psimlearn.choose.watch import Stage, Watch
from psimlearn.errors import ModelFileError, PsimlearnWarning, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.files.atomic import atomic
from psimlearn.files.model import described
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.dagger import Aggregation
from small import QUICK, several

RNG = np.random.default_rng
KILLS = int(os.environ.get("PSIMLEARN_KILLS", "6"))
"""How many fits are killed; CI kills few."""
LITTLE: dict[str, Any] = QUICK | {"n_rounds": 3, "init": "zero"}
"""F_0 is zero, so the best round is a later one."""
USUAL = LITTLE | {"init": "history"}


def holey() -> list[np.ndarray]:
    parts = [part.values.copy() for part in ragged([20, 25, 22, 30], 2, RNG(3))]
    for i, part in enumerate(parts):
        part[RNG(i).random(part.shape) < 0.2] = np.nan
    return parts


CASES: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
    "ridge": (USUAL | {"belief_weight": "auto"}, several),
    "zero start": (LITTLE, several),
    "systems": (USUAL | {"init": "auto"}, several),
    "random features": (USUAL | {"learner": "rff"}, several),
    "trees": (USUAL | {"learner": "trees", "n_rounds": 1}, several),
    "symbols": (
        {"window": 2, "n_rounds": 4, "features": "onehot", "validation": 0.5, "random_state": 0},
        lambda: RNG(0).integers(2, size=(6, 20)).tolist(),
    ),
    "gaps": (USUAL, holey),
    "too few to choose": (USUAL, lambda: RNG(0).standard_normal((20, 2))),
}


def bytes_of(filter: Filter) -> Any:
    settings, arrays = described(filter)
    return str(settings), {name: (array.shape, array.tobytes()) for name, array in arrays.items()}


def bits(model: PSIM) -> list[Any]:
    """Everything that a fit found, as bytes and numbers."""
    sums = sums_arrays(model.sums_) or {}
    return [
        bytes_of(model.filter_),
        [bytes_of(filter) for filter, _ in model.held_out_],
        [(bytes_of(r.filter), r.number, r.error, r.clipped, r.dropped) for r in model.rounds_],
        {name: array.tobytes() for name, array in sums.items()},
        [str(row) for row in model.trials_],
        str(model.report_),
    ]


class Interrupted(Watch):
    """Stops a fit at its n-th report, as Ctrl-C would."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.reports = 0

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        self.reports += 1
        if self.reports == self.at:
            raise KeyboardInterrupt
        return True


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the rounds that were computed rather than recalled."""
    numbers: list[int] = []
    for module, name in ((runs, "next_round"), (gaps, "next_refined")):
        compute = getattr(module, name)

        def counted(current: Any, *others: Any, compute: Any = compute) -> Any:
            numbers.append(current.number + 1)
            return compute(current, *others)

        monkeypatch.setattr(module, name, counted)
    return numbers


@pytest.mark.parametrize("case", CASES)
def test_interrupted_again_and_again_a_fit_ends_with_the_same_bits(
    case: str, tmp_path: Path, computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaps, "MOST_ROUNDS", 3)  # as many as it takes
    settings, data = CASES[case][0], CASES[case][1]()
    watch = Interrupted(0)
    expected = bits(PSIM(**settings, verbose=watch).fit(data))
    once, n_reports = len(computed), watch.reports
    computed.clear()
    for at in np.linspace(1, n_reports, 4)[1:].astype(int):
        with pytest.raises(KeyboardInterrupt) as stop:
            PSIM(**settings, verbose=Interrupted(at)).fit(data, checkpoint=tmp_path / "c")
        assert str(tmp_path / "c") in stop.value.__notes__[0]
    assert bits(PSIM(**settings).fit(data, checkpoint=tmp_path / "c")) == expected
    if case != "trees":  # no file holds the examples of trees, so rounds after the last one begin at F_0
        assert len(computed) == once
    computed.clear()
    assert bits(PSIM(**settings).fit(data, checkpoint=tmp_path / "c")) == expected
    assert case == "trees" or not computed


@cache
def plain() -> list[Any]:
    """The bits of a fit that nothing interrupts."""
    return bits(PSIM(**LITTLE).fit(several()))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a fit, for tests that only read it."""
    folder = tmp_path_factory.mktemp("original") / "done"
    PSIM(**LITTLE).fit(several(), checkpoint=folder)
    return folder


@pytest.fixture
def done(original: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may change."""
    return Path(shutil.copytree(original, tmp_path / "done"))


def test_sums_of_settings_that_lost_are_removed(original: Path) -> None:
    names = sorted(path.name for path in original.iterdir())
    assert {"checkpoint.psim", "numbers.psim"} < set(names)
    assert all(name.startswith("sums-everything") for name in names if name.startswith("sums"))


@pytest.mark.parametrize("damage", ["cut short", "emptied", "flipped"])
@pytest.mark.parametrize("kind", ["checkpoint", "numbers", "sums-", "rounds-"])
def test_damaged_files_are_refused(damage: str, kind: str, done: Path) -> None:
    path = next(iter(sorted(done.glob(f"{kind}*"))))
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) * 3 // 4] ^= 4
    path.write_bytes(bytes({"cut short": data[: len(data) // 2], "emptied": b"", "flipped": data}[damage]))
    with pytest.raises(ModelFileError, match=r"checkpoint .*done: .*Delete the folder .* or use another") as refusal:
        PSIM(**LITTLE).fit(several(), checkpoint=done)
    assert kind == "checkpoint" or path.name in str(refusal.value)


OTHERS: dict[str, tuple[dict[str, Any], Callable[[], Any], str]] = {
    "recordings": ({}, lambda: several(seed=1), "other recordings"),
    "names": ({}, lambda: Trajectories.of(several(), names=["a", "b"]), "other recordings"),
    "one setting": ({"prior": "last"}, several, "other prior"),
    "two settings": ({"n_rounds": 4, "learner": "rff"}, several, "other learner, n_rounds"),
    "validation": ({"validation": Trajectories.of(several(seed=2))}, several, "other validation"),
    "seed": ({"random_state": 1}, several, "the same random_state"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_of_another_fit_is_refused(other: str, done: Path) -> None:
    settings, data, words = OTHERS[other]
    with pytest.raises(ModelFileError, match=words):
        PSIM(**LITTLE | settings).fit(data(), checkpoint=done)


def test_groups_are_part_of_a_fit(done: Path) -> None:
    with pytest.raises(ModelFileError, match="other groups"):
        PSIM(**LITTLE).fit(several(), groups=[0, 0, 1, 1, 2, 2, 3, 3], checkpoint=done)


def test_a_checkpoint_of_another_version_is_refused(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "version", lambda name: "99.0")
    with pytest.raises(ModelFileError, match=r"written by psimlearn .* and numpy .*required one of psimlearn 99\.0"):
        PSIM(**LITTLE).fit(several(), checkpoint=done)


def test_a_file_of_another_checkpoint_is_refused(done: Path, tmp_path: Path) -> None:
    PSIM(**LITTLE | {"random_state": 1}).fit(several(), checkpoint=tmp_path / "other")
    path = next((tmp_path / "other").glob("rounds-*"))
    path.rename(done / "rounds-999999.psim")
    with pytest.raises(ModelFileError, match=r"rounds-.*one of another"):
        PSIM(**LITTLE).fit(several(), checkpoint=done)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(SettingsError, match=r"empty folder or a checkpoint.*thesis\.tex"):
        PSIM(**LITTLE).fit(several(), checkpoint=tmp_path)
    with pytest.raises(SettingsError, match="required a folder to write to"):
        PSIM(**LITTLE).fit(several(), checkpoint=tmp_path / "thesis.tex")
    for wrong in (3, "", "a\0b"):
        with pytest.raises(SettingsError, match="checkpoint: required a folder or None"):
            PSIM(**LITTLE).fit(several(), checkpoint=wrong)


def test_without_a_seed_the_seed_of_the_checkpoint_is_used(tmp_path: Path) -> None:
    settings = LITTLE | {"random_state": None}
    first, again = (PSIM(**settings).fit(several(), checkpoint=tmp_path / "c") for _ in range(2))
    assert bits(first) == bits(again)


def test_on_a_full_disk_the_fit_goes_on_and_files_stay_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = plain()
    monkeypatch.setattr(folder, "SHARE", 1e9)  # write after every round
    before, room = atomic, iter(range(5))

    def full(path: Path) -> Any:
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return before(path)

    monkeypatch.setattr(folder, "atomic", full)
    with pytest.warns(PsimlearnWarning, match="No space left on device.*The fit goes on") as told:
        assert bits(PSIM(**LITTLE).fit(several(), checkpoint=tmp_path / "c")) == expected
    assert len(told) == 1
    monkeypatch.setattr(folder, "atomic", before)
    assert bits(PSIM(**LITTLE).fit(several(), checkpoint=tmp_path / "c")) == expected


def test_rounds_of_foreign_learners_are_computed_again(tmp_path: Path) -> None:
    for init in ("history", "zero"):  # a zero start is a filter that a file can hold
        settings = LITTLE | {"learner": SklearnRidge(), "init": init}
        expected = PSIM(**settings).fit(several())
        for _ in range(2):
            model = PSIM(**settings).fit(several(), checkpoint=tmp_path / init)
            assert [r.error for r in model.rounds_] == [r.error for r in expected.rounds_]
        assert not list((tmp_path / init).glob("rounds-*"))


def test_other_trainers_have_checkpoints(tmp_path: Path) -> None:
    data = RNG(0).standard_normal((60, 8, 1))
    settings = LITTLE | {"trainer": "forward"}
    expected = bits(PSIM(**settings).fit(data))
    for _ in range(2):
        assert bits(PSIM(**settings).fit(data, checkpoint=tmp_path / "c")) == expected
    assert (tmp_path / "c" / "numbers.psim").exists()


def test_lost_sums_are_summed_again() -> None:
    path = Rounds(lambda: _round(0, 1.0), lambda current: _round(current.number + 1, current.sums + 1.0))
    assert with_sums(path, _round(3, LOST)).sums == 4.0
    assert with_sums(path, _round(3, 9.0)).sums == 9.0


def _round(number: int, sums: Any) -> Any:
    return Aggregation(number, None, sums, 0.0, 0.0, 0)  # type: ignore[arg-type]


def test_a_lane_is_told_by_its_course_candidate_and_start() -> None:
    one, other = (PSIM(**LITTLE).fit(several(seed)).filter_ for seed in (0, 1))
    named = {
        lane_of("split 0", "a", one),
        lane_of("split 1", "a", one),
        lane_of("split 0", "b", one),
        lane_of("split 0", "a", other),
        lane_of("split 0", "a", None),
        lane_of("split 0", "a", one, one),
    }
    assert len(named) == 6
    assert None not in named
    assert lane_of("split 0", object(), one) == lane_of("split 0", object(), one)  # wherever it lies in memory


def test_old_sums_go_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_SUMS", 1)
    expected = plain()
    for _ in range(2):
        assert bits(PSIM(**LITTLE).fit(several(), checkpoint=tmp_path / "c")) == expected
        assert not list((tmp_path / "c").glob("sums-*"))


def test_temporary_files_of_a_killed_fit_go_even_if_nothing_is_left_to_write(tmp_path: Path) -> None:
    PSIM(**LITTLE).fit(several(), checkpoint=tmp_path)
    leftover = tmp_path / ".psimlearn-0123456789abcdef.tmp"
    leftover.write_bytes(b"half")
    PSIM(**LITTLE).fit(several(), checkpoint=tmp_path)
    assert not leftover.exists()


KILLED = """
import os, shutil, signal, sys, time
import numpy as np
from psimlearn.choose import folder
from small import several
from test_checkpoint import LITTLE, bits
from psimlearn import PSIM

place, kills, rng = sys.argv[1], int(sys.argv[2]), np.random.default_rng()
fit = lambda **given: bits(PSIM(**LITTLE).fit(several(), **given))
fit()
began = time.monotonic()
expected = fit()
seconds = time.monotonic() - began
found = 0
kept = lambda: os.path.isdir(place) and len(os.listdir(place)) > 2
for i in range(kills):
    folder.SHARE = 0.03 if i % 2 else 1e9  # 1e9: a file after every round
    shutil.rmtree(place, ignore_errors=True)
    for _ in range(1 + i % 2):  # fits that go on are killed, too
        child = os.fork()
        if not child:
            fit(checkpoint=place)
            os._exit(0)
        if i == 0:  # killed as soon as there is something to go on from
            while not kept():
                time.sleep(0.001)
        else:
            time.sleep(rng.uniform(0, 1.2 * seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    found += kept()
    assert fit(checkpoint=place) == expected, i
    left = [name for name in os.listdir(place) if not name.endswith(".psim")]
    assert not left, left
print("same bits", kills, found)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are quick, and Windows has none")
def test_killed_at_any_moment_a_fit_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    tests = Path(__file__).parent
    paths = os.pathsep.join([str(tests), str(tests.parent), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "c"), str(KILLS)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.startswith(f"same bits {KILLS}"), run.stderr[-2000:]
    assert int(run.stdout.split()[-1]) >= 1, "required a kill that leaves a checkpoint behind"
