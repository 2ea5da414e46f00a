"""Words as inputs: one alphabet for files, shards and frames alike, so that an input means one word everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import run
from psimlearn import PSIM, DataError, SettingsError, Shards, Trajectories
from psimlearn.recordings import tables
from psimlearn.recordings.catalogue import catalogued
from psimlearn.recordings.passes import InTurn

MODES = {"one": ["push", "idle", "push"], "two": ["idle", "pull", "idle"], "three": ["pull", "push", "push"]}
BY_HAND = {  # idle, pull, push
    "one": [[0, 0, 1], [1, 0, 0], [0, 0, 1]],
    "two": [[1, 0, 0], [0, 1, 0], [1, 0, 0]],
    "three": [[0, 1, 0], [0, 0, 1], [0, 0, 1]],
}


def written(folder: Path, ending: str) -> list[Path]:
    """A recording in each file; no file has all words."""
    paths = [folder / f"{name}{ending}" for name in MODES]
    for path, modes in zip(paths, MODES.values(), strict=True):
        if ending == ".parquet":
            pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "mode": modes}), path)
        else:
            path.write_text("x,mode\n" + "".join(f"{t},{mode}\n" for t, mode in enumerate(modes, 1)))
    return paths


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_of_words_have_an_input_for_each_word(ending: str, tmp_path: Path) -> None:
    paths = written(tmp_path, ending)
    data = tables.read(paths, inputs=["mode"])
    assert data.inputs is not None
    np.testing.assert_array_equal(data.inputs, np.concatenate(list(BY_HAND.values())))
    alone = tables.read(paths[1], inputs=["mode"]).inputs
    np.testing.assert_array_equal(np.asarray(alone), [[1, 0], [0, 1], [1, 0]])  # idle, pull
    told = tables.read(paths[1], inputs=["mode"], words={"mode": ["pull", "idle", "push"]}).inputs
    np.testing.assert_array_equal(np.asarray(told), [[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    place = "line 3" if ending == ".csv" else "row 1"
    with pytest.raises(DataError, match=rf"two\{ending}, {place}, column 'mode': required one of \['idle', 'push'\]"):
        tables.read(paths[1], inputs=["mode"], words={"mode": ["idle", "push"]})
    with pytest.raises(SettingsError, match="words: required names of inputs"):
        tables.read(paths[1], inputs=["mode"], words={"x": ["1"]})


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_shards_have_one_alphabet(ending: str, tmp_path: Path) -> None:
    shards = Shards.from_files(written(tmp_path, ending), inputs=["mode"])
    for part, by_hand in zip(shards, BY_HAND.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(part.inputs), by_hand)
    assert catalogued(shards, InTurn(), lambda done, total: None).n_inputs == 3


def test_numbers_in_one_shard_and_words_in_another_are_refused(tmp_path: Path) -> None:
    """One column each, so nothing but the words tells them apart."""
    (tmp_path / "a.csv").write_text("x,mode\n1,0\n2,1\n")
    (tmp_path / "b.csv").write_text("x,mode\n1,idle\n2,idle\n")
    for order in (["a.csv", "b.csv"], ["b.csv", "a.csv"]):
        with pytest.raises(DataError):
            catalogued(
                Shards.from_files([tmp_path / name for name in order], inputs=["mode"]), InTurn(), lambda *_: None
            )


def test_shards_from_functions_with_other_words_are_refused() -> None:
    parts = [
        Trajectories.from_frame({str(i): pd.DataFrame({"x": [1.0, 2, 3], "mode": MODES[name]})}, inputs=["mode"])
        for i, name in enumerate(("one", "two"))
    ]
    with pytest.raises(
        DataError, match=r"shard 1 .*required inputs with the words of shard 0 .*'idle', 'push'.*'pull'"
    ):
        catalogued(Shards.of(parts), InTurn(), lambda *_: None)


def driven(folder: Path) -> list[Path]:
    """Walks that a mode pushes up, leaves, or pulls down, the third file with two of the words only."""
    rng, paths = np.random.default_rng(0), []
    for i in range(3):
        words = ["idle", "pull", "push"] if i < 2 else ["idle", "push"]
        modes = rng.choice(words, (6, 40))
        x = np.cumsum(np.select([modes == "pull", modes == "push"], [-1.0, 1.0], 0.0), axis=1) * 0.3
        x += 0.1 * rng.standard_normal(x.shape)
        frame = pd.DataFrame({"id": np.repeat([f"{i}-{j}" for j in range(6)], 40), "x": x.ravel()})
        paths.append(folder / f"walks{i}.csv")
        frame.assign(mode=modes.ravel()).to_csv(paths[-1], index=False)
    return paths


def test_a_model_of_shards_knows_its_words(tmp_path: Path) -> None:
    """It is the model of the same recordings in memory, and reads files and frames that lack a word as it does."""
    paths = driven(tmp_path)
    told: dict[str, Any] = {"id": "id", "inputs": ["mode"]}
    quick: dict[str, Any] = {"window": 2, "lags": 1, "n_rounds": 1, "random_state": 0, "validation": 0.5}
    ours = PSIM(**quick).fit(Shards.from_files(paths, **told), sample_rows=10**6)
    theirs = PSIM(**quick).fit(tables.read(paths, **told))
    new = tables.read(paths[2], **told)
    assert new.n_inputs == 2
    wanted = theirs.predict(new)
    np.testing.assert_allclose(np.concatenate(ours.predict(new)), np.concatenate(wanted), rtol=1e-9, atol=1e-9)
    found = ours.predict(pd.read_csv(paths[2]))
    np.testing.assert_allclose(found.drop(columns="id").to_numpy(), np.concatenate(wanted), rtol=1e-9, atol=1e-9)


def test_the_command_takes_words_in_shards(tmp_path: Path) -> None:
    paths = driven(tmp_path)
    options = ["--id", "id", "--inputs", "mode", "--window", "2", "--lags", "1"]
    for output, more in (("shards.psim", ["--shards"]), ("memory.psim", [])):
        assert run("fit", *paths, *options, *more, "-o", tmp_path / output) == 0
    for output in ("shards", "memory"):
        assert run("filter", tmp_path / f"{output}.psim", paths[2], "-o", tmp_path / f"{output}.csv") == 0
    shards, memory = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("shards", "memory"))
    assert PSIM.load(tmp_path / "shards.psim").report_["columns"]["categories"] == {"mode": ["idle", "pull", "push"]}
    np.testing.assert_allclose(shards["x.expected"], memory["x.expected"], rtol=1e-6, atol=1e-8)
