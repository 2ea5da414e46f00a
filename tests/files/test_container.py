"""The bytes of model files are distrusted one by one."""

import os
import pickle
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelfiles import (
    accepted,
    canonical,
    contents,
    made,
    model_bytes,
    refused,
    safetensors_file,
    same,
    says,
)
from psimlearn.errors import ModelFileError
from psimlearn.files.model import load

MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "200"))
"""How many files to damage."""
ALL = list(HealthCheck)


# -- other files -------------------------------------------------------------------------------------------------------


class Bomb:
    """Goes off when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was loaded",))


def test_other_files(tmp_path: Path) -> None:
    whole = model_bytes()
    size = int.from_bytes(whole[:8], "little")
    for other in [
        b"",
        b"{",
        b"\0" * 8,
        b"time,x\n0,1\n" * 100,
        pickle.dumps(Bomb()),
        b"PK\3\4" + bytes(100),
        whole[8:],
    ]:
        refused(other, tmp_path, "required a safetensors file")
    for n in [9, 100, 8 + size - 1]:
        refused(whole[:n], tmp_path, "cut short: the header")
    for n in [8 + size, len(whole) - 1000, len(whole) - 1]:
        refused(whole[:n], tmp_path, "cut short: the arrays")
    refused(whole + b"\0", tmp_path, "1 surplus bytes")
    refused(struct.pack("<Q", 2**63) + whole[8:], tmp_path, "header: required at most")
    refused(struct.pack("<Q", 50_000_000) + whole[8:], tmp_path, "header: required at most")
    for header in [
        b"{}",
        b'{"a":1}',
        b'{"a":{"data_offsets":[0,"x"]}}',
        b'{"a":{"data_offsets":[0,1e999]}}',
        b'{"a":{"data_offsets":[0,' + b"9" * 4300 + b"]}}",
        b"{" * 10**5,
    ]:
        refused(struct.pack("<Q", len(header)) + header, tmp_path)
    refused(safetensors_file({"a": np.zeros(3)}, None), tmp_path, "required a psimlearn model")
    refused(safetensors_file({"a": np.zeros(3)}, {"format": "pt"}), tmp_path, "required a psimlearn model")


def test_headers_that_claim_more_than_there_is(tmp_path: Path) -> None:
    about, arrays = contents(model_bytes("linear"))
    metadata = {"psimlearn": canonical(about)}
    accepted(safetensors_file(arrays, metadata), tmp_path)
    end = sum(array.nbytes for array in arrays.values())
    claims: list[Any] = [
        {"dtype": "F64", "shape": [2**40], "data_offsets": [end, end + 2**43]},
        {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**62, 4], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [0, 2**63], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [0] * 100, "data_offsets": [end, end]},
        {"dtype": "BF16", "shape": [0], "data_offsets": [end, end]},
        {"dtype": "O", "shape": [0], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [end, end]},
        {"dtype": "F64", "shape": [1], "data_offsets": [end - 8, end]},  # shares its bytes with another
    ]
    for claim in claims:
        refused(safetensors_file(arrays, metadata, odd=claim), tmp_path)


# -- damage of any kind ------------------------------------------------------------------------------------------------


def survives(data: bytes, path: Path, case: str) -> bool:
    """Whether a file loads, and if so as the same filter; anything but that and ModelFileError is a failure."""
    path.write_bytes(data)
    try:
        loaded = load(path)
    except ModelFileError:
        return False
    assert same(says(loaded), says(made(case)))
    return True


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """One bit of almost every byte; all of them where many examples are asked for."""
    data = bytearray(model_bytes("linear"))
    for bit in range(0, 8 * len(data), 9 if MANY < 1000 else 1):
        data[bit // 8] ^= 1 << bit % 8
        assert not survives(bytes(data), tmp_path / "model", "linear"), bit
        data[bit // 8] ^= 1 << bit % 8
    assert survives(bytes(data), tmp_path / "model", "linear")


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """Flip, delete, insert, truncate, swap or append, up to three times."""
    for _ in range(draw(st.integers(1, 3))):
        # the header is a small part of a file and the most interesting one
        place = st.one_of(st.integers(0, min(1200, len(data))), st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "delete", "insert", "truncate", "swap", "append", "digit"]))
        a, b = sorted([draw(place), draw(place)])
        some = draw(st.binary(min_size=1, max_size=20))
        if kind == "flip" and a < len(data):
            data = data[:a] + bytes([data[a] ^ (1 << draw(st.integers(0, 7)))]) + data[a + 1 :]
        elif kind == "delete":
            data = data[:a] + data[min(b, a + draw(st.integers(1, 50))) :]
        elif kind == "insert":
            data = data[:a] + some + data[a:]
        elif kind == "truncate":
            data = data[:b]
        elif kind == "swap":
            n = min(draw(st.integers(1, 16)), b - a, len(data) - b)
            data = data[:a] + data[b : b + n] + data[a + n : b] + data[a : a + n] + data[b + n :]
        elif kind == "append":
            data += some
        elif kind == "digit":  # of a size, an offset, a setting
            digits = [i for i, byte in enumerate(data[:4000]) if 48 <= byte < 58]
            if digits:
                i = draw(st.sampled_from(digits))
                data = data[:i] + bytes([draw(st.integers(48, 57))]) + data[i + 1 :]
    return data


DAMAGED = "moments calibrated names rank"


def test_damage_is_found_or_does_not_matter(tmp_path: Path) -> None:
    """Undamaged files among the damaged ones are accepted, every one of them."""
    verdicts: Counter[tuple[bool, bool]] = Counter()
    whole = model_bytes(DAMAGED)

    @settings(
        max_examples=MANY, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(data=st.one_of(st.just(whole), *[damage(whole)] * 4))
    def spoil(data: bytes) -> None:
        verdicts[data == whole, survives(data, tmp_path / "damaged", DAMAGED)] += 1

    spoil()
    assert verdicts[True, True] > 0
    assert verdicts[True, False] == 0
    assert verdicts[False, False] > 0.5 * MANY, verdicts


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux how much memory was used")
@pytest.mark.parametrize("beginning", [b"\x00" * 16, b"PK\x03\x04", b"\x10" + b"\x00" * 7 + b'{"a": 1}        '])
def test_a_large_file_that_is_no_model_is_refused_by_its_first_bytes(beginning: bytes, tmp_path: Path) -> None:
    """2 GiB, nearly all of them a hole; a process with 1 GiB more than it has can refuse it."""
    with open(tmp_path / "model", "wb") as file:
        file.write(beginning)
        file.truncate(2 << 30)
    program = (
        "import sys, psimlearn\n"
        "try: psimlearn.load(sys.argv[1])\n"
        "except psimlearn.ModelFileError as error: print(error)\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "model")]
    said, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "required" in said
    assert int(peak) < 200_000  # KiB
