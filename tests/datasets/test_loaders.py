"""Loaders of recordings: by hand on small files, then against what others computed where the real files are at hand."""

import gzip
import http.server
import sys
import threading
import tracemalloc
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from psimlearn import datasets
from psimlearn.datasets import cmu, robot, store, video, walks
from psimlearn.datasets.asfamc import read_amc, read_asf
from psimlearn.datasets.skeleton import Motion, Skeleton, positions, rotation
from psimlearn.errors import DataError, MissingExtraError, SettingsError
from psimlearn.recordings.trajectories import Trajectories

ASF = """# two bones
:version 1.10
:units
  mass 1.0
  length 0.45
  angle deg
:root
  order TX TY TZ RX RY RZ
  axis XYZ
  position 0 0 0
  orientation 0 0 0
:bonedata
  begin
    id 1
    name upper
    direction 0 1 0
    length 2
    axis 0 0 0 XYZ
    dof rx ry rz
    limits (-180 180)
           (-180 180)
           (-180 180)
  end
  begin
    id 2
    name lower
    direction 1 0 0
    length 1
    axis 0 0 90 XYZ
    dof rx
  end
:hierarchy
  begin
    root upper
    upper lower
  end
"""
FRAMES = [  # root, upper, lower; where upper ends, where lower ends, worked out by hand
    ("1 2 3 0 0 0", "0 0 0", "0", (1, 4, 3), (2, 4, 3)),
    ("1 2 3 0 0 0", "0 0 90", "0", (-1, 2, 3), (-1, 3, 3)),  # y turns to -x, x to y
    ("1 2 3 0 0 0", "0 0 0", "90", (1, 4, 3), (1, 4, 2)),  # its own x axis is y, about which x turns to -z
    ("1 2 3 0 90 0", "0 0 0", "0", (1, 4, 3), (1, 4, 2)),
    ("1 2 3 90 0 90", "0 0 0", "0", (1, 2, 5), (1, 3, 5)),  # x first: y turns to z and stays; x stays, then turns to y
    ("0 0 0 0 0 90", "0 0 90", "0", (0, -2, 0), (-1, -2, 0)),
]


def amc(first: int = 1) -> str:
    rows = [
        f"{first + t}\nroot {root}\nupper {upper}\nlower {lower}\n" for t, (root, upper, lower, *_) in enumerate(FRAMES)
    ]
    return "#!OML:ASF\n:FULLY-SPECIFIED\n:DEGREES\n" + "".join(rows)


@pytest.fixture
def body(tmp_path: Path) -> Skeleton:
    (tmp_path / "body.asf").write_text(ASF)
    return read_asf(tmp_path / "body.asf")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("PSIMLEARN_DATA", str(folder))
    return folder


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- skeletons -------------------------------------------------------------------------------------------------------


def test_forward_kinematics_by_hand(body: Skeleton, tmp_path: Path) -> None:
    motion = read_amc(written(tmp_path / "a.amc", amc()), body)
    expected = [[[float(word) for word in root.split()[:3]], upper, lower] for root, _, _, upper, lower in FRAMES]
    np.testing.assert_allclose(positions(body, motion), expected, rtol=0, atol=1e-12)
    assert body.names == ("root", "upper", "lower")
    assert body.metres == pytest.approx(0.0254 / 0.45)


def test_zipped_files_carriage_returns_and_cut_beginnings(body: Skeleton, tmp_path: Path) -> None:
    plain = read_amc(written(tmp_path / "a.amc", amc()), body)
    strange = amc(first=160).replace("\n", " \r\n") + "\r\n"
    cut = read_amc(written(tmp_path / "b.amc.gz", gzip.compress(strange.encode())), body)
    assert (plain.first_frame, cut.first_frame) == (1, 160)
    np.testing.assert_array_equal(plain.values, cut.values)
    again = read_asf(written(tmp_path / "b.asf.gz", gzip.compress(ASF.replace("\n", "\r\n").encode())))
    np.testing.assert_array_equal(positions(again, cut), positions(body, plain))


def test_angles_in_radians(body: Skeleton, tmp_path: Path) -> None:
    degrees = read_amc(written(tmp_path / "a.amc", amc()), body)
    radians = amc().replace(":DEGREES", ":RADIANS").replace("90", repr(np.pi / 2))
    np.testing.assert_allclose(read_amc(written(tmp_path / "b.amc", radians), body).values, degrees.values, atol=1e-15)
    asf = ASF.replace("angle deg", "angle rad").replace("0 0 90 XYZ", f"0 0 {np.pi / 2!r} XYZ")
    np.testing.assert_allclose(read_asf(written(tmp_path / "b.asf", asf)).axes, body.axes, atol=1e-15)


def test_bones_that_a_motion_never_mentions_rest(body: Skeleton, tmp_path: Path) -> None:
    without = "\n".join(line for line in amc().splitlines() if not line.startswith("lower"))
    assert not read_amc(written(tmp_path / "a.amc", without), body).values[:, 2].any()


@pytest.mark.parametrize("order", ["xyz", "zyx", "yzx"])
def test_rotations_are_those_of_scipy(order: str) -> None:
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, (20, 3))
    expected = Rotation.from_euler(order, angles[:, ["xyz".index(letter) for letter in order]]).as_matrix()
    np.testing.assert_allclose(rotation(angles, order), expected, rtol=0, atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_bones=st.integers(1, 8))
def test_bones_keep_their_lengths(seed: int, n_bones: int) -> None:
    """Whatever the tree, a child listed before its parent included."""
    rng = np.random.default_rng(seed)
    place = np.array([0, *(1 + rng.permutation(n_bones))])
    parents = np.full(n_bones + 1, -1)
    for bone in range(1, n_bones + 1):
        parents[place[bone]] = place[rng.integers(bone)]
    offsets = rng.standard_normal((n_bones + 1, 3))
    axes = rotation(rng.uniform(-4, 4, (n_bones + 1, 3)), "xyz")
    parts = tuple(map(str, range(n_bones + 1)))
    tree = Skeleton(parts, parents, offsets, axes, ("zxy",) * (n_bones + 1), ((),) * (n_bones + 1))
    ends = positions(tree, Motion(1, rng.uniform(-4, 4, (5, n_bones + 1, 6))))
    lengths = np.linalg.norm(ends[:, 1:] - ends[:, parents[1:]], axis=2)
    np.testing.assert_allclose(lengths, np.tile(np.linalg.norm(offsets[1:], axis=1), (5, 1)), rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("length 2", "length two", 17, "1 finite numbers after 'length'"),
        ("direction 0 1 0", "direction 0 1", 16, "3 finite numbers"),
        ("axis 0 0 90 XYZ", "axis 0 0 90 XXZ", 29, "order of the axes"),
        ("dof rx\n", "dof rx l\n", 30, "stretch or slide"),
        ("    name lower\n", "", 24, "a line 'name'"),
        ("name lower", "name upper", 15, "no other bone"),
        ("upper lower", "upper lowest", 35, ":bonedata"),
        ("    upper lower\n", "", 35, "'lower' hangs on the root"),
        ("  end\n  begin\n    id 2", "  begin\n    id 2", 23, "begin and end in turns"),
        ("length 0.45", "length 0", 5, "above 0"),
        (":hierarchy", ":hierarch", 36, "a section :hierarchy"),
        ("  begin\n    id 1", "    id 1", 13, "begin before a bone"),
    ],
)
def test_malformed_skeletons_are_told_with_their_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    assert old in ASF
    with pytest.raises(DataError, match=rf"bad\.asf, line {line}: required .*{said}"):
        read_asf(written(tmp_path / "bad.asf", ASF.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("2\nroot", "3\nroot", 8, "frame 2 after frame 1"),
        ("upper 0 0 90", "upper 0 90", 10, "3 numbers after 'upper'"),
        ("upper 0 0 90", "upper 0 0 ninety", 10, "3 finite numbers after 'upper'"),
        ("upper 0 0 90", "upper 0 0 nan", 10, "3 finite numbers after 'upper'"),
        ("lower 0\n2", "2", 10, "'lower' exactly once in every frame"),
        ("lower 0\n2", "lower 0\nlower 0\n2", 8, "'lower' exactly once in every frame"),
        ("lower 0\n2", "lower 0\ntail 0\n2", 8, "a bone of the skeleton"),
        (":DEGREES\n1\n", ":DEGREES\n", 4, "'root' exactly once in every frame"),
    ],
)
def test_malformed_motions_are_told_with_their_line(
    body: Skeleton, tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    assert old in amc()
    with pytest.raises(DataError, match=rf"bad\.amc, line {line}: required .*{said}"):
        read_amc(written(tmp_path / "bad.amc", amc().replace(old, new, 1)), body)


def test_motions_without_frames_or_end(body: Skeleton, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least one frame"):
        read_amc(written(tmp_path / "empty.amc", ""), body)
    with pytest.raises(DataError, match="'lower' in the frames after this one too"):
        read_amc(written(tmp_path / "short.amc", amc().rpartition("lower")[0]), body)
    with pytest.raises(DataError, match=r"short\.amc\.gz: required a readable file"):
        read_amc(written(tmp_path / "short.amc.gz", gzip.compress(amc().encode())[:40]), body)
    with pytest.raises(DataError, match=r"none\.amc: required a readable file"):
        read_amc(tmp_path / "none.amc", body)


def test_damaged_skeletons_and_motions_are_read_or_refused(body: Skeleton, tmp_path: Path) -> None:
    """One character replaced by a digit or a letter: anything but a DataError is a bug, and refusing all is none."""
    rng = np.random.default_rng(0)
    motion = amc()
    read, said = {"asf": 0, "amc": 0}, []
    for _ in range(150):
        for kind, text in (("asf", ASF), ("amc", motion)):
            place, put = int(rng.integers(len(text))), "0123456789xyz \n"[rng.integers(15)]
            path = written(tmp_path / f"a.{kind}", text[:place] + put + text[place + 1 :])
            try:
                if kind == "asf":
                    assert read_asf(path).offsets.shape[1] == 3
                else:
                    assert np.isfinite(read_amc(path, body).values).all()
            except DataError as error:
                said.append(str(error))
                continue
            read[kind] += 1
    assert all(", line " in words for words in said)
    assert 40 < read["asf"] < 145
    assert 20 < read["amc"] < 130


# --- walks -----------------------------------------------------------------------------------------------------------


def hips(turn: float) -> np.ndarray:
    """Left hip, right hip and toes of somebody who turned to the left by `turn`; facing is toes."""
    body = np.array([[1.0, 0.2, 0.0], [-1.0, 0.0, 0.0], [0.0, -3.0, 2.0]])
    turned: np.ndarray = body @ rotation(np.array([0.0, turn, 0.0]), "xyz").T
    return turned


def test_walkers_can_be_turned_to_face_z() -> None:
    bones = ["lhipjoint", "rhipjoint", "ltoes"]
    walk = np.array([[hips(0.5), hips(0.8)], [hips(-2.0), hips(-2.0)]])
    np.testing.assert_array_equal(walks.faced(walk, bones, "world"), walk)
    np.testing.assert_allclose(walks.faced(walk, bones, "every"), np.tile(hips(0.0), (2, 2, 1, 1)), atol=1e-12)
    first = [[hips(0.0), hips(0.3)], [hips(0.0), hips(0.0)]]
    np.testing.assert_allclose(walks.faced(walk, bones, "first"), first, atol=1e-12)


def stored_walk(home: Path, first: int = 1) -> None:
    folder = home / "mocap_cmu_walk" / "asfamc"
    written(folder / "07.asf", ASF)
    frame = "root 5 6 7 0 0 0\nupper 0 0 90\nlower 0\n"
    text = ":DEGREES\n" + "".join(f"{first + t}\n{frame}" for t in range(310))
    written(folder / "07_01.amc.gz", gzip.compress(text.encode()))


def test_walking_from_skeleton_and_motion(home: Path) -> None:
    stored_walk(home)
    recordings = datasets.walking(trials=["07_01"])
    assert recordings.names == ("upper.x", "upper.y", "upper.z", "lower.x", "lower.y", "lower.z")
    assert (recordings.ids, recordings.values.shape) == (("07_01",), (300, 6))
    np.testing.assert_allclose(recordings.values, np.tile([-2.0, 0, 0, -2, 1, 0], (300, 1)), atol=1e-12)
    stored_walk(home, first=20)
    with pytest.raises(DataError, match=r"required frames 1 to 300, received 20 to 329"):
        datasets.walking(trials=["07_01"])
    with pytest.raises(DataError, match=r"required .*35\.asf, which is missing.*download_walking"):
        datasets.walking(trials=["35_01"])
    with pytest.raises(SettingsError, match="at least one walk"):
        datasets.walking(trials=[])
    with pytest.raises(SettingsError, match="heading"):
        datasets.walking("north")


def test_joint_angles_are_those_of_the_file_in_radians_that_change(home: Path) -> None:
    """The root walks on and is left out; one angle of the upper bone moves by rounding only."""
    folder = home / "mocap_cmu_walk" / "asfamc"
    written(folder / "07.asf", ASF)
    rows = [
        f"{20 + t}\nroot {t} 6 7 0 {t} 0\nupper {t / 10} 30 {9 + 1e-14 * (t % 2)}\nlower {-t}\n" for t in range(310)
    ]
    written(folder / "07_01.amc.gz", gzip.compress((":DEGREES\n" + "".join(rows)).encode()))
    recordings = datasets.joint_angles(["07_01"])
    assert (recordings.ids, recordings.names) == (("07_01",), ("upper.rx", "lower.rx"))
    t = np.arange(300)
    np.testing.assert_allclose(recordings.values, np.deg2rad(np.column_stack([t / 10, -t])), rtol=0, atol=1e-12)
    with pytest.raises(SettingsError, match="at least one walk"):
        datasets.joint_angles([])
    written(folder / "07_01.amc.gz", gzip.compress((":DEGREES\n" + "".join(rows[:250])).encode()))
    with pytest.raises(DataError, match=r"required frames 1 to 300, received 20 to 269"):
        datasets.joint_angles(["07_01"])


def test_walking_agrees_with_the_positions_file_on_all_motions(data_folder: Path) -> None:
    folder = data_folder / "mocap_cmu_walk"
    stored = np.load(folder / "walk48_positions.npz")
    bodies = {subject: read_asf(folder / "asfamc" / f"{subject}.asf") for subject in cmu.SUBJECTS}
    files = sorted((folder / "asfamc").glob("*.amc.gz"))
    assert len(files) == 41
    for file in files:
        trial = file.name[:5]
        body, row = bodies[trial[:2]], stored["trials"].tolist().index(trial)
        motion = read_amc(file, body)
        begin = motion.first_frame - 1
        expected = stored["positions"][row, begin:]
        assert body.names == tuple(stored["joints"].tolist())
        np.testing.assert_allclose(positions(body, motion)[: len(expected)], expected, rtol=0, atol=1e-4)


def test_walking_is_the_set_that_its_readme_describes(data_folder: Path) -> None:
    recordings = datasets.walking()
    assert (len(recordings), recordings.n_channels, set(recordings.lengths)) == (48, 90, {300})
    assert recordings.ids == cmu.WALKS
    centred = recordings.values - recordings.values.mean(axis=0)
    assert (recordings.values**2).sum(axis=1).mean() == pytest.approx(2648, abs=0.5)
    assert (centred**2).sum(axis=1).mean() == pytest.approx(249.6, abs=0.05)
    some = datasets.walking("every", ["39_01", "07_01"])
    np.testing.assert_allclose(some.values[:, 2], some.values[:, 3 * 5 + 2], atol=1e-4)  # hips at the same depth
    with pytest.raises(SettingsError, match="07_12"):
        datasets.walking(trials=["07_12"])


# --- store and downloads ---------------------------------------------------------------------------------------------


def test_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSIMLEARN_DATA", str(tmp_path))
    assert store.data_folder() == tmp_path
    monkeypatch.setenv("PSIMLEARN_DATA", str(tmp_path / "none"))
    with pytest.raises(DataError, match="PSIMLEARN_DATA: required a folder"):
        store.data_folder()
    monkeypatch.delenv("PSIMLEARN_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for system in ("Linux", "Windows", "Darwin"):
        monkeypatch.setattr("platform.system", lambda system=system: system)
        assert store.data_folder().is_relative_to(tmp_path)
        assert "psimlearn" in store.data_folder().parts


@pytest.mark.parametrize("name", store.SOURCES)
def test_what_is_missing_is_told_with_where_to_get_it(home: Path, name: str) -> None:
    with pytest.raises(DataError) as caught:
        store.dataset_path(name, "some.file")
    said = str(caught.value)
    assert str(home / name / "some.file") in said
    assert all(part in said for part in store.SOURCES[name])


def test_files_are_checked_against_their_sums_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summed: list[Path] = []
    plain = store.sha256
    monkeypatch.setattr(store, "sha256", lambda path: summed.append(path) or plain(path))  # type: ignore[func-returns-value]
    folder = home / "sysid_classics"
    good, other = written(folder / "a.csv", "u,y\n1,2\n"), written(folder / "b.csv", "not listed")
    written(folder / "SHA256SUMS", f"{plain(good)}  ./a.csv\n\n")
    for _ in range(3):
        assert store.dataset_path("sysid_classics", "a.csv") == good
        assert store.dataset_path("sysid_classics", "b.csv") == other
    assert summed.count(good) == 1
    written(good, "u,y\n1,2,3\n")
    with pytest.raises(DataError, match=r"a\.csv: required the file with sha256"):
        store.dataset_path("sysid_classics", "a.csv")


def frames_of(n: int, first: int = 1) -> list[str]:
    return [line for t in range(first, n + 1) for line in (str(t), f"root {t} 0 0")]


@pytest.fixture
def small_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two short walks whose checksums are known, one of them for frames 3 to 5 only, and one whose are not."""
    monkeypatch.setattr(cmu, "SUBJECTS", {"07": cmu.digest(ASF.splitlines())})
    known = {
        "07_01": cmu.Walk(6, 1, 6, cmu.digest(frames_of(6))),
        "07_02": cmu.Walk(7, 3, 5, cmu.digest(frames_of(5, first=3))),
        "07_03": cmu.Walk(4),
    }
    monkeypatch.setattr(cmu, "_KNOWN", known)
    folder = tmp_path / "web" / "07"
    written(folder / "07.asf", ASF)
    for trial, walk in known.items():
        written(folder / f"{trial}.amc", "\r\n".join([":DEGREES", *frames_of(walk.n_frames), ""]))
    return folder.parent


@pytest.fixture(params=["fake", "real"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, small_database: Path) -> Iterator[str]:
    """The database behind a stand-in for pooch, and behind pooch itself and a server on this machine."""
    if request.param == "fake":
        fake = types.ModuleType("pooch")
        fake.retrieve = retrieve  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pooch", fake)
        yield small_database.as_posix()
        return
    pytest.importorskip("pooch")
    with serving(small_database) as server:
        yield server


def retrieve(url: str, known_hash: str | None, fname: str, path: Path) -> str:
    assert known_hash is None
    return str(written(path / fname, Path(url).read_bytes()))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class serving:  # noqa: N801
    """A folder behind http on this machine."""

    def __init__(self, folder: Path) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))

    def __enter__(self) -> str:
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


TRIALS = ["07_01", "07_02", "07_03"]


def test_downloads_are_checked_and_remembered(home: Path, address: str, small_database: Path) -> None:
    folder = datasets.download_walking(TRIALS, address)
    assert folder == home / "mocap_cmu_walk" / "asfamc"
    assert sorted(path.name for path in folder.iterdir()) == ["07.asf", "07_01.amc", "07_02.amc", "07_03.amc"]
    assert len((folder.parent / "SHA256SUMS").read_text().splitlines()) == 4
    for file in small_database.rglob("*.amc"):
        file.unlink()  # what is there is not fetched again
    assert datasets.download_walking(TRIALS, address) == folder
    written(folder / "07_01.amc", "changed")
    with pytest.raises(DataError, match="required the file with sha256"):
        datasets.download_walking(TRIALS, address)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("07_01.amc", "root 3 0 0", "root 3 0 1", "sha256 .* of the words of frames 1 to 6"),
        ("07_02.amc", "root 4 0 0", "root 4 0 1", "sha256 .* of the words of frames 3 to 5"),
        ("07_02.amc", "7\r\nroot 7 0 0", "", "required frames 1 to 7, received 6 frames"),
        ("07_03.amc", "4\r\nroot 4 0 0", "", "required frames 1 to 4, received 3 frames"),
        ("07.asf", "length 2", "length 3", "sha256 .* of its words"),
    ],
)
def test_wrong_downloads_are_refused_and_removed(
    home: Path, address: str, small_database: Path, file: str, old: str, new: str, said: str
) -> None:
    served = small_database / "07" / file
    text = served.read_bytes().decode()
    assert old in text
    written(served, text.replace(old, new))
    with pytest.raises(DataError, match=said):
        datasets.download_walking(TRIALS, address)
    assert not (home / "mocap_cmu_walk" / "asfamc" / file).exists()


@pytest.mark.parametrize("kind", [ValueError, UnicodeError, MemoryError, KeyError, KeyboardInterrupt, SystemExit])
def test_a_download_whose_check_fails_in_any_way_is_removed(
    home: Path, address: str, kind: type[BaseException], small_database: Path
) -> None:
    """Else the next call would find the file and take it for a checked one."""

    def check(path: Path) -> None:
        assert path.read_bytes() == (small_database / "07" / "07.asf").read_bytes()
        raise kind("no")

    for _ in range(2):
        with pytest.raises(DataError if issubclass(kind, Exception) else kind):
            store.fetch("mocap_cmu_walk", "asfamc/07.asf", f"{address}/07/07.asf", check)
        assert list((home / "mocap_cmu_walk").rglob("*")) == [home / "mocap_cmu_walk" / "asfamc"]
    fetched = store.fetch("mocap_cmu_walk", "asfamc/07.asf", f"{address}/07/07.asf", lambda _: None)
    assert fetched.exists()


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5000])
def test_numbers_of_frames_that_are_none(number: str, home: Path, address: str, small_database: Path) -> None:
    """A superscript is a digit to Python, but no number; and Python refuses to read numbers of 5000 digits."""
    walk = small_database / "07" / "07_01.amc"
    walk.write_bytes(walk.read_bytes() + f"{number}\r\n".encode("latin-1"))
    with pytest.raises(DataError):
        datasets.download_walking(["07_01"], address)
    skeleton = read_asf(written(home / "b.asf", ASF))
    with pytest.raises(DataError, match="required a bone of the skeleton"):
        read_amc(written(home / "b.amc", number.encode("latin-1")), skeleton)


@pytest.mark.parametrize(
    "read", [read_asf, lambda path: read_amc(path, read_asf(path.with_name("b.asf"))), robot._numbers]
)
def test_small_gzipped_files_that_are_large_unpacked_are_refused(read: Callable[[Path], Any], tmp_path: Path) -> None:
    """100 MB in 100 KB: refused before they fill the memory."""
    written(tmp_path / "b.asf", ASF)
    packed = gzip.compress(b"1 2 3 4 5 6 7\n" * (100_000_000 // 14), compresslevel=9)
    assert len(packed) < 300_000
    tracemalloc.start()
    with pytest.raises(DataError, match="unpacks to more than 30 times its size"):
        read(written(tmp_path / "bomb.gz", packed))
    assert tracemalloc.get_traced_memory()[1] < 32_000_000
    tracemalloc.stop()


def test_downloads_that_fail_say_so(home: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"which could not be downloaded to .*07\.asf"):
        datasets.download_walking(["07_01"], f"{address}/elsewhere")
    with pytest.raises(SettingsError, match="35_99"):
        datasets.download_walking(["35_99"], address)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'psimlearn\[data\]'"):
        datasets.download_walking(["07_01"], address)


def test_the_checksums_are_those_of_the_copies_at_hand(data_folder: Path) -> None:
    """Of all of them, those that lack frames included."""
    checked = []
    for file in sorted((data_folder / "mocap_cmu_walk" / "asfamc").glob("*.amc.gz")):
        lines = gzip.decompress(file.read_bytes()).decode().splitlines()
        first = next(row for row, line in enumerate(lines) if line.strip().isdigit())
        walk = cmu._KNOWN[file.name[:5]]
        assert cmu.digest(lines[first:]) == walk.checksum
        checked.append(file.name[:5])
    assert checked == [trial for trial, walk in cmu._KNOWN.items() if walk.checksum]


def test_downloaded_walks_are_the_walks(
    data_folder: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole road for the walks that are there whole: from the server to recordings."""
    copies, web = data_folder / "mocap_cmu_walk" / "asfamc", tmp_path / "web"
    whole = ["07_01", "35_01", "39_14"]
    for trial in whole:
        subject = trial[:2]
        written(web / subject / f"{subject}.asf", (copies / f"{subject}.asf").read_bytes())
        written(web / subject / f"{trial}.amc", gzip.decompress((copies / f"{trial}.amc.gz").read_bytes()))
    fake = types.ModuleType("pooch")
    fake.retrieve = retrieve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pooch", fake)
    datasets.download_walking(whole, web.as_posix())
    computed = datasets.walking(trials=whole)
    monkeypatch.setenv("PSIMLEARN_DATA", str(data_folder))
    np.testing.assert_allclose(computed.values, datasets.walking(trials=whole).values, rtol=0, atol=1e-4)


# --- robot -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["", "S-22..", "S-30..S-22", "S-22..E-02", "X-01", "S-22..S-46 ", "22..46"])
def test_trials_are_chosen_in_plain_words(which: str) -> None:
    with pytest.raises(SettingsError, match="which must be a trial or a range"):
        robot.trials(which)


def test_raw_trials_are_cut_to_the_shorter_and_averaged(home: Path) -> None:
    raw = home / "robot_hiro_snap_assembly" / "raw"
    wrench = "".join(f"{t * 0.005}\t{t} \t0 \t0 \t0 \t0 \t1 \t\n" for t in range(25))
    angles = "".join(f"{t * 0.005} {-t} 0 0 0 0 2\n" for t in range(29))
    written(raw / "S-30_R_Torques.dat.gz", gzip.compress(wrench.encode()))
    written(raw / "S-30_R_Angles.dat.gz", gzip.compress(angles.encode()))
    recordings = datasets.raw_snap_assembly("S-30")
    assert (recordings.names, recordings.ids) == (robot.SNAP_CHANNELS, ("S-30",))
    assert len(robot.SNAP_UNITS) == len(robot.SNAP_CHANNELS)
    expected = np.zeros((2, 12))
    expected[:, 0], expected[:, 5], expected[:, 6], expected[:, 11] = [4.5, 14.5], 1, [-4.5, -14.5], 2
    np.testing.assert_allclose(recordings.values, expected, atol=1e-12)
    assert len(datasets.raw_snap_assembly("S-30", block=1)[0]) == 25
    with pytest.raises(SettingsError, match="block"):
        datasets.raw_snap_assembly("S-30", block=26)
    for content, said in [("", "an empty file"), ("0 1 2\n", "3 columns"), ("0 1 x 3\n", "'x'")]:
        written(raw / "S-30_R_Angles.dat.gz", gzip.compress(content.encode()))
        with pytest.raises(DataError, match=said):
            datasets.raw_snap_assembly("S-30")
    late = angles.replace("0.025 ", "0.035 ")
    written(raw / "S-30_R_Angles.dat.gz", gzip.compress(late.encode()))
    with pytest.raises(DataError, match="at the same times"):
        datasets.raw_snap_assembly("S-30")
    with pytest.raises(DataError, match=r"S-31_R_Torques\.dat\.gz, which is missing.*github\.com/birlrobotics"):
        datasets.raw_snap_assembly("S-31")


@pytest.mark.parametrize(
    ("which", "n_trials", "n_rows"), [("S-02..S-21", 20, 350), ("S-22..S-46", 25, 350), ("E-02..E-17", 16, 200)]
)
def test_raw_trials_agree_with_the_archives(data_folder: Path, which: str, n_trials: int, n_rows: int) -> None:
    ready, raw = datasets.snap_assembly(which), datasets.raw_snap_assembly(which)
    assert (len(ready), set(ready.lengths), ready.names) == (n_trials, {n_rows}, robot.SNAP_CHANNELS)
    assert ready.ids == raw.ids
    for one, other in zip(ready, raw, strict=True):
        np.testing.assert_allclose(one.values, other.values[:n_rows], rtol=0, atol=1e-5)
    with pytest.raises(SettingsError, match="must lie within"):
        datasets.snap_assembly(which.replace("02", "01").replace("46", "47"))


# --- video -----------------------------------------------------------------------------------------------------------


def picture(t: int) -> np.ndarray:
    """Four grey quarters of 16 x 16 that brighten with time: smooth enough to survive compression."""
    return np.kron(np.array([[40, 90], [140, 190]]) + 10 * t, np.ones((16, 16))).astype(np.uint8)


def test_frames_of_a_video(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    path = tmp_path / "clip.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width = stream.height = 32
        stream.pix_fmt, stream.bit_rate = "yuv420p", 10_000_000
        for t in range(5):
            shot = av.VideoFrame.from_ndarray(np.repeat(picture(t)[..., None], 3, axis=2), format="rgb24")
            container.mux(stream.encode(shot))
        container.mux(stream.encode())
    assert video.frames(path).shape == (5, 32, 32)
    small = video.frames(path, (2, 4))
    assert small.shape == (5, 2, 4)
    expected = np.repeat([picture(t)[::16, ::16] for t in range(5)], 2, axis=2)
    np.testing.assert_allclose(small.astype(float), expected, atol=3)
    with pytest.raises(SettingsError, match="size"):
        video.frames(path, (0, 4))
    with pytest.raises(DataError, match=r"text\.avi: required a video"):
        video.frames(written(tmp_path / "text.avi", "no video at all"))
    with pytest.raises(DataError, match=r"none\.avi: required a video"):
        video.frames(tmp_path / "none.avi")


def test_video_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"'av'.*pip install 'psimlearn\[video\]'") as caught:
        video.frames(tmp_path / "clip.avi", (2, 2))
    assert isinstance(caught.value, ImportError)


def test_frames_of_an_archive(tmp_path: Path) -> None:
    shot = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.savez(tmp_path / "a.npz", frames=shot, fps=25)
    np.testing.assert_array_equal(video.frames(tmp_path / "a.npz", (3, 4)), shot)
    np.testing.assert_array_equal(video.pixels(shot).values[1], np.arange(12, 24))
    with pytest.raises(DataError, match=r"required at least one frame of \(4, 3\)"):
        video.frames(tmp_path / "a.npz", (4, 3))
    np.savez(tmp_path / "b.npz", frames=shot.astype(float))
    with pytest.raises(DataError, match="3-D array of bytes"):
        video.frames(tmp_path / "b.npz")


def test_principal_components_know_only_the_training_blocks() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 12)) + 5
    blocks = Trajectories.of(rows).blocks(10)
    train, test = blocks[:4], blocks[4:]
    few, all_three = (video.principal_components(train, n) for n in (2, 3))
    np.testing.assert_allclose(all_three.restore(all_three.project(test).values), test.values, atol=1e-10)
    assert all_three.share == pytest.approx(1)
    np.testing.assert_allclose(few.components.T @ few.components, np.eye(2), atol=1e-12)
    values = np.linalg.eigvalsh(np.cov(train.values.T))[::-1]  # the same by another road
    np.testing.assert_allclose(few.project(train).values.var(axis=0, ddof=1), values[:2])
    assert few.share == pytest.approx(values[:2].sum() / values.sum())
    assert (few.project(test).offsets == test.offsets).all()
    for n in (0, 13):
        with pytest.raises(SettingsError, match="n must lie between 1 and 12"):
            video.principal_components(train, n)
    with pytest.raises(DataError, match="without gaps"):
        video.principal_components(Trajectories.of(np.array([[1.0, np.nan], [2.0, 3.0]])), 1)


def test_videos_of_the_data_folder(data_folder: Path) -> None:
    assert datasets.flag().shape == (250, 36, 44)
    assert (datasets.ocean().shape, datasets.ocean("texture").shape) == ((740, 27, 48), (100, 32, 32))
    assert (datasets.beach().shape, datasets.beach("shore").shape) == ((250, 27, 48), (85, 27, 48))
    flag = datasets.pixels(datasets.flag())
    assert (flag.values**2).sum(axis=1).mean() == pytest.approx(2.867e7, rel=1e-3)
    shares = [video.principal_components(flag, n).share for n in (51, 52)]
    assert shares[0] < 0.9 <= shares[1]
    with pytest.raises(SettingsError, match="clip"):
        datasets.beach("north")


def test_the_flag_video_becomes_the_flag_archive(data_folder: Path) -> None:
    pytest.importorskip("av")
    decoded = video.frames(data_folder / "video_flag_dyntex" / "flag_dyntex_571c110.avi", (36, 44)).astype(int)
    assert np.abs(decoded - datasets.flag()).max() <= 1


# --- classics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "lengths", "n_channels", "n_inputs"),
    [
        (datasets.exchanger, [4000], 1, 1),
        (datasets.robot_arm, [1024], 1, 1),
        (datasets.ball_and_beam, [1000], 1, 1),
        (datasets.cascaded_tanks, [1024, 1024], 1, 1),
        (datasets.silverbox, [131072], 1, 1),
        (datasets.glass_furnace, [1247], 6, 3),
    ],
)
def test_classics(
    data_folder: Path, load: Callable[[], Trajectories], lengths: list[int], n_channels: int, n_inputs: int
) -> None:
    recordings = load()
    assert recordings.lengths.tolist() == lengths
    assert (recordings.n_channels, recordings.n_inputs) == (n_channels, n_inputs)
    assert np.isfinite(recordings.values).all()
    assert recordings.ids is not None
    assert recordings.names is not None


def test_classics_agree_with_numpy(data_folder: Path) -> None:
    """Columns are where they should be."""
    folder = data_folder / "sysid_classics"
    rows = np.genfromtxt(folder / "tanque.csv", delimiter=",", skip_header=1)
    tanks = datasets.cascaded_tanks()
    assert tanks.inputs is not None
    np.testing.assert_array_equal(tanks.values[:, 0], rows[:, 2:4].T.ravel())
    np.testing.assert_array_equal(tanks.inputs[:, 0], rows[:, :2].T.ravel())
    rows = np.genfromtxt(folder / "exchanger.csv", delimiter=",", skip_header=1)
    exchanger = datasets.exchanger()
    assert exchanger.inputs is not None
    np.testing.assert_array_equal(np.column_stack([exchanger.inputs, exchanger.values]), rows[:, 1:])
