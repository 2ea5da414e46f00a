"""The walks of the CMU motion capture database: their names, their checksums, and their download.

A checksum is computed from the words of the lines, so a copy with different line ends or blanks passes. Checksums were
taken from copies of the database, some of which lack frames at either end: a checksum covers the frames of its copy,
and the number of frames is checked besides. For seven walks there was no copy, so only the number of frames is known.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from psimlearn.datasets.asfamc import LONGEST_NUMBER, text
from psimlearn.datasets.store import dataset_path, fetch
from psimlearn.errors import DataError, SettingsError

__all__ = ["ADDRESS", "SUBJECTS", "WALKS", "Walk", "digest", "download_walking"]

ADDRESS = "http://mocap.cs.cmu.edu/subjects"

SUBJECTS = {
    "07": "f955d320cf85878f91c8b104a6d8daa8e7374f459c6cad2bbf9524f6389574c4",
    "35": "bb77bdcb4feaf8e7770da60dae49252f2fc0904030889e95a62c8456cdbccdac",
    "39": "8e5e483a55fe6f66e7682983f77cab82dd47681c1eb0286fafff805bb08288e4",
}
"""The checksum of each subject's skeleton."""

_TABLE = """
07_01 316 1 316 399ccf15de6abdde98aa16901220b94a9f69f33541a03c33e1d816ed06508f3e
07_02 329 1 329 58f7df31fe5131d1ea73ac7cfda080a7a647deb1d4329429e4c0bba44efb0fbe
07_03 415 10 415 24f588922dfce21931421e7949426d8e38d25cd43e9e6c932f450e786c9971ac
07_04 449
07_05 517
07_06 417 1 417 a2304e6db0b49f4062287ed2a85a0619564df1876b4854111d6031316304a202
07_07 379 1 379 fa931a16547360aec5645d3fb3c0e5c5bcd38ba9c6ea1962cc54bd2d33e3ff15
07_08 362 1 362 92ea9530a79a650cd7ad3e28b5a1081ee865a4e97e6a86ca61f20b7bd5b453a7
07_09 306 1 306 07c6db4597fd66e82bad235fe9cd45bd5f60e49a27f5036352dca399226f87a3
07_10 301 1 301 f9a1fc718ddef602efd74591b849fd90f03c67645c4431ccf025cf7b23c77ff5
07_11 315 1 315 21083d2b488b38c5b31e06e27a41d61f4af1cff48e83f4ae7cea39eb3ce718c6
35_01 358 1 358 51650f556a6a4c2afefac90e4085abf07783d45d8e115fae73cbf0ff6506549e
35_02 406 20 406 4be6128d7d8df68090adf253f02f0f0da9f1a9bdb2f2cc297452ca74944cae0e
35_03 427
35_04 433
35_05 427 10 427 ec857652b999488f6ff03d5395bbd9d22727ea5887b7c182856f27de2f47ae13
35_06 438
35_07 360 1 360 a17bf5be4ac025d6640f623283939bc4dc789ab891854fe5973e1b00d892617b
35_08 455 1 445 7eb636e372cd48c837eb9b6402f82e91eaf1facd89dddd06187643d22a97d72b
35_09 384 10 384 39fdc8ed4fbe9207960d5eb93745a7ef10deeb82b4aa7dfef84d2647574f2906
35_10 432 10 432 1ae3c34082fcbebea5246979c22909356967480afe305f4e2eee3bddb13c0faf
35_11 385 16 385 735cfe00a26441db7ae5f802903bd4f51b4addd2aeaf7d4d442eef94bf402792
35_12 397 20 397 6d238c9780bc3bc844fb68248d29f59ba3ce9b3e5e186f6e24ff8193ed5eae45
35_13 454 80 400 68a9dc574f474031a29bf012d3ac2cce61b9b692be9c5ce38689f193b84abcfc
35_14 411 1 411 66d305ecebe951630af87a80ae51b83a6fe05a07a9f2e30c73e20d658b3040ff
35_15 406 1 406 a65f7558d15a1374a6f66b02edf3dda8a218135ebae25c79620b533c123ad067
35_16 443 1 443 55b3630cba7dbd1a2039e43494e56ee596d078edd4428040b06ff62a370fd266
35_28 417 1 417 43564d71da5722923528de50da4182b98e8a2ac88411eb1781e9b47a724f3d4c
35_29 497 1 497 e03ca7f46cefc4a99a0ea6ff69313a4663a4e93309ef34057b58929a91129de4
35_30 412 160 412 6b193f0ffbace7214b54cb448ceadc128217da2aa54d1cb9ef0fc7bdf42d804d
35_31 421 1 421 4fd7ac7c3fc966de424e2548ddc743799cdcb9c95563e7fe5f831efab3b2c835
35_32 392 1 392 de7bc1629f84433d08da97f2f1d0a94415e25f3d879117599a58f43d8b868d84
35_33 421 1 410 72d676c33ae2929759d566438eefc948d502e9d36d5dbafa955081471e881290
35_34 415 1 415 60fa0e520996b837a4480b530a8f2f71c9be0f4af6564c2598e17b3a4577f5f7
39_01 378 1 378 485a47cd14039547d1a3da69ce2d21921d7d24ce886e96e50adb37814cfa9b28
39_02 400 1 400 8e8ffdafb2dacc9f86ef94388b835bb776e05ebb5810c9ae14eade89472b7cb9
39_03 407 1 407 5ea4b86b39c591ef4e99b66213666f2b7a7b6e2ec92a6024cad7d54c5b4770d2
39_04 410 1 410 b929045fa4b9763d3665eeef9d3a83ff6b4f98f4d005278e7e2e53e463573b36
39_05 400 1 400 72fd2182aa345e4a29bf7e0d726b6cd43765bf188a51fa410bbd9015ebff1e35
39_06 368 1 368 9f1afdcf1ae9b62747f0deea8db17f839334d9d02382fd7fef52faad6f972593
39_07 367 1 367 4b3d542547fe85d34e0cee634cb44bff33429ceab7e19a14e394f80b1eff0d2f
39_08 350 30 350 055360a7f0d714fe2f935ea45b916fab0b7969a8057a25a90d07b7be74b8d701
39_09 395 1 395 fc649f65f33e1b093b21aa8ad7f875449fc785ad565006f70290bfb1ff937170
39_10 391
39_11 894
39_12 427 30 427 51b48af9d52e75e8027a042885065b2cc3f807467b051a3d83a8e1b2635b86bf
39_13 378 1 378 e15979cda930be32ca5187c2d5f99af44fdd48f859f6bdfa38eeffe2ce46620c
39_14 399 1 399 3aedf1e4f391ae38499c82a9f2394e659db3e25bcd4f02be03d5bde807739222
"""
"""Walk and number of frames; if there was a copy, its first frame, its last frame and their checksum."""


class Walk(NamedTuple):
    """A walk's number of frames, and the checksum of its frames from `first` to `last`."""

    n_frames: int
    first: int = 1
    last: int = 0
    checksum: str | None = None


def _walk(n_frames: str, first: str = "1", last: str = "0", checksum: str | None = None) -> Walk:
    return Walk(int(n_frames), int(first), int(last), checksum)


_KNOWN = {name: _walk(*rest) for name, *rest in map(str.split, _TABLE.strip().splitlines())}

WALKS = tuple(_KNOWN)
"""Subjects 07, 35 and 39 have 49 recordings called walks; these 48 have at least 300 frames."""


def download_walking(trials: Sequence[str] = WALKS, address: str = ADDRESS) -> Path:
    """Download skeletons and walks that are still absent (15 MB in all) and check them. Needs the extra `data`.

    Returns the folder in which `walking` finds them. The database is free for all uses. Acknowledge it:
    "The data used in this project was obtained from mocap.cs.cmu.edu. The database was created with funding from NSF
    EIA-0196217."
    """
    if unknown := [trial for trial in trials if trial not in _KNOWN]:
        raise SettingsError(f"trials must be among {WALKS}; received {unknown}.")
    for subject in sorted({trial[:2] for trial in trials}):
        check = partial(_check_skeleton, checksum=SUBJECTS[subject])
        fetch("mocap_cmu_walk", f"asfamc/{subject}.asf", f"{address}/{subject}/{subject}.asf", check)
    for trial in trials:
        check = partial(_check_walk, walk=_KNOWN[trial])
        fetch("mocap_cmu_walk", f"asfamc/{trial}.amc", f"{address}/{trial[:2]}/{trial}.amc", check)
    return dataset_path("mocap_cmu_walk", "asfamc")


def digest(lines: Iterable[str]) -> str:
    """The sha256 of the words in lines."""
    return hashlib.sha256("\n".join(" ".join(line.split()) for line in lines).encode()).hexdigest()


def _check_skeleton(path: Path, checksum: str) -> None:
    received = digest(_filled(path))
    if received != checksum:
        raise _strange(path, f"sha256 {checksum} of its words", received)


def _check_walk(path: Path, walk: Walk) -> None:
    lines = _filled(path)
    frames = {int(line): row for row, line in enumerate(lines) if line.isdecimal() and len(line) <= LONGEST_NUMBER}
    if sorted(frames) != list(range(1, walk.n_frames + 1)):
        raise _strange(path, f"frames 1 to {walk.n_frames}", f"{len(frames)} frames")
    received = digest(lines[frames[walk.first] : frames.get(walk.last + 1)])
    if walk.checksum not in (None, received):
        raise _strange(path, f"sha256 {walk.checksum} of the words of frames {walk.first} to {walk.last}", received)


def _filled(path: Path) -> list[str]:
    return [line.strip() for line in text(path).splitlines() if line.strip()]


def _strange(path: Path, required: str, received: str) -> DataError:
    return DataError(
        f"{path.name}: required {required}, received {received}. The download was cut off or is a different file; it "
        "was removed. Try again; if this error comes again, the database has changed: please report it."
    )
