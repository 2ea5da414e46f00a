"""A campaign of damaged inputs: every one gives the right answer or an error of psimlearn, in bounded time and memory.

The right answer comes from a second reader, written here. Verdicts are counted, because a reader that refuses
everything is no reader. PSIMLEARN_CAMPAIGN says how many cases to try in all.
"""

import csv
import io
import json
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from modelfiles import contents, forged, made, model_bytes, recordings
from psimlearn import PSIM, Trajectories
from psimlearn.cli.stream import stream
from psimlearn.datasets import read
from psimlearn.errors import PsimlearnError
from psimlearn.files.model import load
from psimlearn.filter import Filter
from psimlearn.filter.tabulate import answers_to
from psimlearn.serve.rows import Wanted
from small import QUICK, several

CASES = int(os.environ.get("PSIMLEARN_CAMPAIGN", "300"))
SHARES = {"csv": 0.2, "pipe csv": 0.15, "json": 0.15, "npz": 0.15, "parquet": 0.1, "model": 0.15, "settings": 0.05}
SHARES |= {"times": 0.05}
"""The share of the cases of each kind of input."""
MEMORY = (64 << 20, 200)
"""The most bytes by which a case may lift the peak memory of the process: a constant, and a multiple of its size."""
SECONDS = (2.0, 1e-3)
"""The most processor time of a case: a constant, and seconds for each byte."""
LONGEST_MESSAGE = 3000

Bytes = Callable[[Any], bytes]
pytestmark = pytest.mark.usefixtures("unchecked")


def campaign(kind: str, draw: Bytes, judge: Callable[[bytes], None], refused: float = 0.1) -> None:
    """Try many inputs; at least 0.1 of them must be accepted, and a share `refused`."""
    verdicts: Counter[str] = Counter()

    @settings(
        max_examples=max(1, round(CASES * SHARES[kind])),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(draws=st.data())
    def case(draws: st.DataObject) -> None:
        verdicts[_verdict(draw(draws), judge)] += 1

    case()
    total = sum(verdicts.values())
    assert verdicts["accepted"] >= 0.1 * total, verdicts
    assert verdicts["refused"] >= refused * total, verdicts


def _verdict(data: bytes, judge: Callable[[bytes], None]) -> str:
    """Judge one input, and hold it to the bounds of time and memory."""
    peak, begin = _peak(), time.process_time()
    verdict, message = "accepted", "none"
    try:
        judge(data)
    except PsimlearnError as error:
        verdict, message = "refused", str(error)
    assert 0 < len(message) < LONGEST_MESSAGE
    assert time.process_time() - begin < SECONDS[0] + SECONDS[1] * len(data)
    assert _peak() - peak < MEMORY[0] + MEMORY[1] * len(data)
    return verdict


def _peak() -> int:
    """The most memory that this process has taken so far; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024 if status.exists() else 0


# -- damage ------------------------------------------------------------------------------------------------------------

HOSTILE = [
    *(b"\x00", b"\xff", b'"', b"\r", b"\n", b",", b";", b"\t", b"-", b"+-1", b"nan", b"inf", b"1e400", b"1_0", b"1,5"),
    *(b"\xef\xbb\xbf", b"\x0c", b"\xe2\x80\xa8", b"\xc2\x85", b"1'234", b"5%", b"NULL", b"\xd9\xa1", b"0x1p3", b" "),
    *(b"9" * 400, b"[" * 2000, b"{", b"}", b"null", b'\\ud800"', b"a,b\n", b"1e-400", b"\x1a", b"=1+1"),
]
"""Bytes that readers of tables and of JSON have stumbled over."""


def damaged(draws: Any, whole: bytes, hostile: Sequence[bytes] = HOSTILE, most: int = 3) -> bytes:
    """Bytes with a few changes: another byte, a hostile word, a part that is gone, doubled or cut off."""
    data = whole
    for _ in range(draws.draw(st.integers(0, most))):
        place = draws.draw(st.integers(0, max(0, len(data) - 1)))
        size = draws.draw(st.integers(1, 40))
        match draws.draw(st.sampled_from(["byte", "word", "word", "gone", "twice", "cut"])):
            case "byte":
                data = data[:place] + bytes([draws.draw(st.integers(0, 255))]) + data[place + 1 :]
            case "word":
                data = data[:place] + draws.draw(st.sampled_from(hostile)) + data[place:]
            case "gone":
                data = data[:place] + data[place + size :]
            case "twice":
                data = data[: place + size] + data[place:]
            case "cut":
                data = data[:-size]
    return data


NUMBERS = st.one_of(
    st.floats(-100, 100).map(lambda x: round(x, 3)),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.integers(-(10**6), 10**6),
    st.none(),
)


def rows_of(draws: Any, most: int = 12) -> list[list[float | None]]:
    pairs = st.lists(NUMBERS, min_size=2, max_size=2)
    rows: list[list[float | None]] = draws.draw(st.lists(pairs, min_size=1, max_size=most))
    return rows


# -- tables as text ----------------------------------------------------------------------------------------------------

MISSING = {"", "na", "n/a", "nan", "null", "none", "-nan", "#n/a"}
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
TRUTH = {"true": 1.0, "false": 0.0}


def table(draws: Any) -> bytes:
    delimiter = draws.draw(st.sampled_from([",", ",", ";", "\t"]))
    end = draws.draw(st.sampled_from(["\n", "\n", "\r\n"]))
    rows = [["" if x is None else repr(x) for x in row] for row in rows_of(draws)]
    return damaged(draws, (end.join(delimiter.join(row) for row in [["a", "b"], *rows]) + end).encode())


def lines_of(text: str) -> list[str]:
    """Lines that are not empty; a line of tabs may be a row, but not the first."""
    lines = [line for line in re.split("\r\n|\r|\n", text.removeprefix("\ufeff")) if line.strip(" ")]
    return list(dropwhile(lambda line: not line.strip(), lines))


def cells(line: str, delimiter: str) -> list[str]:
    (found,) = csv.reader([line], delimiter=delimiter, strict=True)
    return found


def value(cell: str) -> float:
    """A cell as a number, by rules of its own; ValueError for a cell that is none."""
    word = cell.strip().lower()
    if word in MISSING:
        return np.nan
    if word in TRUTH:
        return TRUTH[word]
    if not NUMBER.fullmatch(word) or np.isinf(float(word)):
        raise ValueError(cell)
    return float(word)


def test_tables_are_read_as_a_second_reader_reads_them(tmp_path: Path) -> None:
    def judge(data: bytes) -> None:
        (tmp_path / "x.csv").write_bytes(data)
        received = read(tmp_path / "x.csv", channels=["a", "b"]).values
        head, *rest = lines_of(data.decode(errors="surrogateescape"))
        delimiter = max(",;\t", key=head.count)
        names = [name.strip() for name in cells(head, delimiter)]
        rows = [cells(line, delimiter) for line in rest]
        assert all(len(row) == len(names) for row in rows)
        expected = [[value(row[names.index(name)]) for name in "ab"] for row in rows]
        np.testing.assert_array_equal(received, np.array(expected).reshape(-1, 2))

    campaign("csv", table, judge)


# -- rows through a pipe -----------------------------------------------------------------------------------------------


@cache
def filter_of_two() -> Filter:
    return made("linear calibrated")


def answered(data: bytes, wanted: Wanted = Wanted(("a", "b"), (), None, None)) -> list[str]:
    """The lines that come out of a pipe; every piece is as long as the pipe likes."""
    source, end = os.pipe()
    out = io.BytesIO()
    os.write(end, data)
    os.close(end)
    try:
        stream(filter_of_two(), wanted, 1, source, out)
    finally:
        os.close(source)
    return out.getvalue().decode().splitlines()


def compared(answers: Sequence[Sequence[float]], rows: Sequence[Sequence[float] | None]) -> None:
    """Each row has its answer: NaN for rows that are none, and for the others those to the recording that they are."""
    assert len(answers) == len(rows)
    good = [i for i, row in enumerate(rows) if row is not None]
    expected = np.full((len(rows), 9), np.nan)
    with np.errstate(all="ignore"):
        values = np.array([rows[i] for i in good], dtype=float)
        expected[good] = answers_to(filter_of_two(), Trajectories.of([values]), 1)
    received = np.array(answers, dtype=float)
    lowest = np.finfo(float).min  # JSON has no infinity
    expected, received = (np.where(a <= lowest, -np.inf, a) for a in (expected, received))
    np.testing.assert_allclose(received, expected, rtol=1e-6, atol=1e-9)


def or_nan(cell: str) -> float:
    try:
        return value(cell)
    except ValueError:
        return np.nan


def test_rows_of_csv_through_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    def row(line: str, delimiter: str, names: Sequence[str]) -> list[float] | None:
        try:
            found = cells(line, delimiter)
        except csv.Error:
            return None
        return [or_nan(found[names.index(name)]) for name in "ab"] if len(found) == len(names) else None

    def judge(data: bytes) -> None:
        _, *answers = answered(data)
        head, *rest = lines_of(data.decode(errors="surrogateescape"))
        delimiter = max(",;\t", key=head.count)
        names = [name.strip() for name in cells(head, delimiter)]
        rows = [row(line, delimiter, names) for line in rest if line.strip() != head.strip()]
        compared([[float(cell or "nan") for cell in line.split(",")] for line in answers], rows)

    campaign("pipe csv", table, judge, refused=0.01)
    capfd.readouterr()


ODD = st.sampled_from(
    [
        None,
        "1",
        " 2e0",
        "NA",
        "inf",
        "1_0",
        True,
        [],
        {},
        10**400,
        1e308,
        -0.0,
        "x" * 500,
        [[1]],
        {"a": 1},
        "\ud800",
        2**70,
    ]
)


def objects(draws: Any) -> bytes:
    lines = []
    for row in rows_of(draws):
        cells: dict[str, Any] = dict(zip("ab", row, strict=True))
        if draws.draw(st.booleans()):
            cells[draws.draw(st.sampled_from("abc"))] = draws.draw(ODD)
        for name in draws.draw(st.sampled_from(["", "", "", "a", "ab"])):
            cells.pop(name)
        lines.append(json.dumps(cells))
    return damaged(draws, ("\n".join(lines) + "\n").encode(), most=2)


def test_rows_of_json_through_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    def number(given: Any) -> float:
        if isinstance(given, str):  # a cell of CSV
            return or_nan(given)
        if not isinstance(given, int | float) or not abs(given) <= sys.float_info.max:
            return np.nan
        return float(given)

    def row(line: str) -> list[float] | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        good = isinstance(found, dict) and ("a" in found or "b" in found)
        return [number(found.get(name)) for name in "ab"] if good else None

    def judge(data: bytes) -> None:
        answers, lines = answered(data), lines_of(data.decode(errors="surrogateescape"))
        if not lines[0].lstrip().startswith("{"):  # a header, and then CSV
            assert len(answers) == len(lines)
            return
        received, rows = [json.loads(line) for line in answers], [row(line) for line in lines]
        compared([[np.nan if v is None else v for v in answer.values()] for answer in received], rows)

    campaign("json", objects, judge, refused=0.01)
    capfd.readouterr()


TIMES: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 20),
    st.floats(0, 20),
    st.integers(-(10**12), 10**12),
    st.sampled_from(["2024-01-01", "2024-01-01T00:00:00+01:00", "12:30:00", "noon", "", None, True, [], 10**400]),
    st.floats(),
)


def test_a_pipe_goes_on_after_any_times(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever times came before, four rows in turn are enough to be answered; and each line has its answer."""

    def lines(draws: Any) -> bytes:
        step = draws.draw(st.sampled_from(["step", "none"]))
        before = draws.draw(st.lists(st.tuples(TIMES, st.sampled_from("xxy"), NUMBERS), max_size=12))
        begin = draws.draw(st.integers(0, 20))
        after = [(begin + i, "x", 0.5) for i in range(4)]
        rows = [json.dumps({"t": t, "id": id, "a": a, "b": 1.0}) for t, id, a in before + after]
        return "\n".join([step, *rows]).encode()

    def judge(data: bytes) -> None:
        step, *rows = data.split(b"\n")
        wanted = Wanted(("a", "b"), (), "id", "t", step=1.0 if step == b"step" else None)
        received = [json.loads(line) for line in answered(b"\n".join(rows), wanted)]
        assert len(received) == len(rows)
        assert received[-1]["log_likelihood"] is not None

    campaign("times", lines, judge, refused=0.0)
    capfd.readouterr()


# -- archives and Parquet ----------------------------------------------------------------------------------------------


def archive(draws: Any) -> bytes:
    shape = draws.draw(st.sampled_from([(5, 2)] * 6 + [(3, 5, 2), (1, 1), (0, 2), (5, 0), (5,), (), (2, 2, 2, 2)]))
    kind = draws.draw(st.sampled_from(["<f8"] * 6 + ["<f4", ">f8", "<i4", "|b1", "<c16", "<U3", "<M8[s]", "|O"]))
    size = int(np.prod(shape, dtype=int))
    array = np.arange(size).reshape(shape).astype(kind)
    if array.dtype.kind == "f" and size and draws.draw(st.booleans()):
        array.flat[0] = draws.draw(st.sampled_from([np.nan, np.inf, 1e30]))
    file = io.BytesIO()
    saved: Any = np.savez_compressed if draws.draw(st.booleans()) else np.savez
    saved(file, **{draws.draw(st.sampled_from(["x", "a/b", "trial 1"])): array})
    forged_shape = draws.draw(st.sampled_from([b""] * 4 + [b"(1000000000000, 0, 5)", b"(99999999, 2)"]))
    data = damaged(draws, file.getvalue(), most=1)
    return data.replace(str(shape).encode(), forged_shape) if forged_shape else data


def test_archives_are_read_as_numpy_reads_them(tmp_path: Path) -> None:
    def judge(data: bytes) -> None:
        (tmp_path / "x.npz").write_bytes(data)
        received = read(tmp_path / "x.npz")
        with np.load(tmp_path / "x.npz", allow_pickle=False) as loaded:
            arrays = [loaded[name] for name in loaded.files]
        expected = np.concatenate([array.reshape(-1, array.shape[-1]) for array in arrays if array.ndim in (2, 3)])
        np.testing.assert_array_equal(received.values, expected.astype(float))

    campaign("npz", archive, judge)


def test_parquet_is_read_as_pyarrow_reads_it(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def columns(draws: Any) -> bytes:
        rows = rows_of(draws)
        kinds: dict[str, Any] = {name: draws.draw(st.sampled_from(["f", "f", "f", "i", "s"])) for name in "ab"}
        cast: dict[str, Any] = {"f": float, "i": lambda x: int(x) % 1000, "s": str}
        made = {
            name: pa.array([None if row[i] is None else cast[kinds[name]](row[i]) for row in rows])
            for i, name in enumerate("ab")
        }
        file = io.BytesIO()
        parquet.write_table(pa.table(made), file, write_page_checksum=True)
        return damaged(draws, file.getvalue(), most=1)

    def judge(data: bytes) -> None:
        (tmp_path / "x.parquet").write_bytes(data)
        received = read(tmp_path / "x.parquet", channels=["a", "b"]).values
        whole = parquet.read_table(tmp_path / "x.parquet", page_checksum_verification=True).to_pydict()
        expected = [[np.nan if x is None else float(x) for x in whole[name]] for name in "ab"]
        np.testing.assert_array_equal(received, np.array(expected).T.reshape(-1, 2))

    campaign("parquet", columns, judge)


# -- model files and settings ------------------------------------------------------------------------------------------

SETTINGS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 40), st.just(2**31 - 1), st.floats(), st.text(max_size=3), st.just([[]])
)
FILTERS = ["linear calibrated", "fourier raw rank", "inputs feedthrough lags hints calibrated", "symbols", "moments"]
FILTERS += ["trees lags"]


def test_model_files_run_or_are_refused(tmp_path: Path) -> None:
    """Bytes that were changed are found by their hash; whatever is hashed anew makes sense, or is refused."""

    def model(draws: Any) -> bytes:
        case = draws.draw(st.sampled_from(FILTERS))
        if draws.draw(st.booleans()):
            return damaged(draws, model_bytes(case), most=1)
        about, arrays = contents(model_bytes(case))
        for _ in range(draws.draw(st.integers(0, 2))):
            if draws.draw(st.booleans()):
                about[draws.draw(st.sampled_from(sorted(about)))] = draws.draw(SETTINGS)
            else:
                name = draws.draw(st.sampled_from(sorted(arrays)))
                arrays[name] = np.array(arrays[name])
                place = draws.draw(st.integers(0, 3)) % arrays[name].size
                with np.errstate(all="ignore"):  # a number that no whole number holds becomes another wrong one
                    arrays[name].flat[place] = np.float64(draws.draw(st.floats())).astype(arrays[name].dtype)
        return forged(about, arrays)

    def judge(data: bytes) -> None:
        (tmp_path / "m.psim").write_bytes(data)
        loaded = load(tmp_path / "m.psim")
        given = recordings(loaded)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            state = loaded.run(given)[1]
            ahead = loaded.ahead(state, 2, None if given.inputs is None else np.zeros((4, 2, given.n_inputs)))
        assert ahead.shape == (len(given), 2, given.n_channels)
        if loaded.alphabet is not None:
            np.testing.assert_allclose(ahead.sum(axis=2), 1, rtol=1e-6)

    campaign("model", model, judge)


PARAMETERS: dict[str, Any] = {
    "window": [1, 3, "auto", 0, 2.5, None, "x", 10**9, True],
    "features": ["stack", "squares", "moments", "onehot", "x", None, 3],
    "learner": ["ridge", "rff", None, 3, "x", object],
    "n_rounds": [1, 2, 0, -1, 1.5, None, float("nan"), "x"],
    "lags": [1, 2, "auto", 0, -1, 1.5, None, "x"],
    "prior": ["mean", "last", "zero", None, 3],
    "belief_weight": [0.0, 1.0, -1.0, float("nan"), "x", None],
    "level_weight": ["auto", None, 0.5, -1.0, float("inf"), "x"],
    "cross_weight": ["auto", 1, 0.3, 0.0, 2.0, float("nan"), None, "x"],
    "rank": [None, 1, "auto", 0, 10**9, "x"],
    "validation": [0.5, 0.3, 0.0, 1.0, float("nan"), "x", None, 2],
    "criterion": ["window", "one-step", "x", None],
    "refit": [True, False, "x", None],
    "random_state": [0, None, -1, "x", 1.5],
}


def test_settings_fit_or_are_refused() -> None:
    def parameters(draws: Any) -> bytes:
        names = draws.draw(st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=1, max_size=2, unique=True))
        return repr([(name, draws.draw(st.integers(0, len(PARAMETERS[name]) - 1))) for name in names]).encode()

    def judge(data: bytes) -> None:
        changes = {name: PARAMETERS[name][i] for name, i in eval(data)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PSIM(**QUICK | {"learner": "ridge"} | changes).fit(several())
            (ahead,) = model.forecast(several()[:1], 3)
        assert ahead.shape == (3, 2)
        assert np.isfinite(ahead).all()

    campaign("settings", parameters, judge)
