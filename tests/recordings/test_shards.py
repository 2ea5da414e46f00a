"""Shards: loading a part at a time, naming the part that is bad, and merging in a fixed order."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psimlearn.errors import DataError
from psimlearn.recordings import Shards, Trajectories
from psimlearn.recordings.catalogue import catalogued, drawn
from psimlearn.recordings.passes import InTurn, Pass, Portion, in_pairs, merged, pairs, portions
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.windows import example_places, example_rows


def silent(_: int, __: int) -> None:
    """Progress that nobody needs."""


def written(folder: Path, **files: dict[str, Any]) -> list[Path]:
    """Parquet files by name and columns."""
    paths = [folder / f"{name}.parquet" for name in files]
    for path, columns in zip(paths, files.values(), strict=True):
        pq.write_table(pa.table(columns), path)
    return paths


GOOD = {"id": ["a", "a", "b", "b"], "x": [1.0, 2.0, 3.0, 4.0]}
OTHER = {"id": ["c", "c", "c"], "x": [5.0, None, 7.0]}


def test_files_are_shards(tmp_path: Path) -> None:
    shards = Shards.from_files(written(tmp_path, one=GOOD, two=OTHER), id="id")
    found = catalogued(shards, InTurn(), silent)
    assert found.lengths.tolist() == [2, 2, 3]
    assert found.shard.tolist() == [0, 0, 1]
    assert found.number.tolist() == [0, 1, 0]
    assert found.missing.tolist() == [0, 0, 1]
    assert (found.names, found.n_channels, found.rows) == (("x",), 1, 7)
    assert repr(found.shards) == "Shards(2 shards, 3 recordings, 7 rows)"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"id": ["c"], "y": [1.0]}, "columns"),
        ({"id": ["c"], "x": [1.0], "z": [1.0]}, r"required the columns of shard 0 .*1 channels \(x\), received 2"),
        ({"id": pa.array([], pa.string()), "x": pa.array([], pa.float64())}, "at least one row, received none"),
        ({"id": ["a"], "x": [1.0]}, r"received the id 'a', which shard 0 \(.*one.parquet\) has, too"),
        ({"id": ["c"], "x": ["word"]}, "at least one column of numbers, received none"),
    ],
)
def test_a_bad_shard_is_named_in_one_line(tmp_path: Path, bad: dict[str, Any], words: str) -> None:
    shards = Shards.from_files(written(tmp_path, one=GOOD, two=bad), id="id")
    with pytest.raises(DataError, match=words) as caught:
        catalogued(shards, InTurn(), silent)
    assert str(caught.value).startswith(f"shard 1 ({tmp_path / 'two.parquet'})")
    assert "\n" not in str(caught.value)


def test_a_shard_that_is_gone_or_corrupt_is_named(tmp_path: Path) -> None:
    one, two = written(tmp_path, one=GOOD, two=OTHER)
    shards = Shards.from_files([one, two], id="id")
    kept = two.read_bytes()
    two.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(DataError, match=r"^shard 1 \(.*two.parquet\): .*required a Parquet file"):
        catalogued(shards, InTurn(), silent)
    two.unlink()
    with pytest.raises(DataError, match=r"^shard 1 \(.*two.parquet\): .*does not exist"):
        catalogued(shards, InTurn(), silent)


def test_a_flipped_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table(GOOD), path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(3.0).tobytes())] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"^shard 0 \(.*one.parquet\)"):
        catalogued(Shards.from_files(path, id="id"), InTurn(), silent)


def test_a_shard_that_changes_is_refused(tmp_path: Path) -> None:
    (one,) = written(tmp_path, one=GOOD)
    known = catalogued(Shards.from_files(one, id="id"), InTurn(), silent).shards
    written(tmp_path, one=OTHER)
    with pytest.raises(DataError, match="required the 2 recordings and 4 rows that it held before, received 1 and 3"):
        known.load(0)


def broken() -> Trajectories:
    raise RuntimeError("the disk\nis away")


def test_functions_are_shards() -> None:
    shards = Shards.of([lambda: np.zeros((4, 2)), broken])
    assert len(shards.load(0)) == 1
    with pytest.raises(DataError, match=r"^shard 1 \(broken\): .*RuntimeError: the disk\.$"):
        shards.load(1)
    with pytest.raises(DataError, match="at least one"):
        Shards.of([])


@pytest.mark.parametrize("n", [1, 3, 7, 50])
def test_cut_keeps_all_recordings_in_order(n: int) -> None:
    data = Trajectories.of([np.full((1 + i % 4, 1), float(i)) for i in range(11)])
    parts = list(Shards.cut(data, n))
    assert len(parts) <= n
    np.testing.assert_array_equal(np.concatenate([part.values for part in parts]), data.values)
    assert [length for part in parts for length in part.lengths] == data.lengths.tolist()


def test_the_sample_and_the_fingerprint_do_not_depend_on_shards() -> None:
    data = Trajectories.of(np.random.default_rng(0).standard_normal((30, 5, 2)))
    found = [catalogued(Shards.cut(data, n), InTurn(), silent) for n in (1, 4, 30)]
    assert len({catalogue.fingerprint for catalogue in found}) == 1
    samples = [drawn(catalogue, 50, 3) for catalogue in found]
    assert len(samples[0]) == 10
    for sample in samples:
        np.testing.assert_array_equal(sample.values, samples[0].values)
    assert catalogued(Shards.cut(data[:29], 4), InTurn(), silent).fingerprint != found[0].fingerprint


def test_long_recordings_are_cut_in_a_sample() -> None:
    data = Trajectories.of([np.arange(5000.0)[:, None], np.arange(300.0)[:, None], np.arange(5000.0)[:, None] + 1])
    sample = drawn(catalogued(Shards.cut(data, 2), InTurn(), silent), 8000, 0)
    assert sample.lengths.tolist() == [2000, 300, 2000]
    assert sample.ids == (0, 1, 2)
    for part, first in zip(sample.unpacked(sample.values), (0.0, 0.0, 1.0), strict=True):
        np.testing.assert_array_equal(part[:, 0], first + np.arange(len(part)))


@pytest.mark.parametrize("n", range(1, 20))
def test_results_are_merged_in_pairs_by_number(n: int) -> None:
    def joined(a: str, b: str) -> str:
        return f"({a} {b})"

    parts: list[Any] = [str(i) for i in range(n)]
    at_once = in_pairs(list(parts), joined)
    for _, a, b in pairs(n):
        parts[a] = merged(joined, parts[a], parts[b])
    assert at_once == parts[0]


def counted(_: None, portion: Portion) -> int | None:
    return len(portion.data) if portion.shard else None


def plus(a: int, b: int) -> int:
    return a + b


def test_a_portion_without_a_contribution_is_passed_over() -> None:
    data = Trajectories.of(np.zeros((9, 2, 1)))
    told: list[tuple[int, int]] = []
    result = InTurn().map_merge(Pass("count", counted, plus), Shards.cut(data, 3), lambda *n: told.append(n))
    assert result == 6
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_portions_bound_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psimlearn.recordings.passes.PORTION", 10)
    data = Trajectories.of([np.zeros((length, 2)) for length in (2, 3, 9, 1, 1)])
    found = list(portions(data, 4))
    assert [(part.first, part.data.lengths.tolist()) for part in found] == [(0, [2, 3]), (2, [9]), (3, [1, 1])]


@pytest.mark.parametrize("skip", [0, 1, 5])
def test_places_of_examples_are_those_of_a_schedule(skip: int) -> None:
    lengths, window = np.array([3, 9, 2, 9, 4, 6]), 2
    plan = schedule(np.concatenate([[0], np.cumsum(lengths)]))
    rows = np.arange(len(plan.order))[example_rows(plan, window, skip)[0]]
    offsets = np.cumsum(lengths) - lengths
    recording, time = example_places(lengths, window, np.arange(len(rows)), skip)
    np.testing.assert_array_equal(offsets[recording] + time, plan.order[rows])
