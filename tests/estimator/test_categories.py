"""Inputs of words in frames: an input for each word, learnt in `fit` and kept in the file."""

from collections.abc import Callable
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from commands import run
from psimlearn.errors import DataError
from psimlearn.estimator.psim import PSIM
from psimlearn.recordings.categories import MOST_WORDS
from psimlearn.recordings.trajectories import Trajectories
from small import ONE, RNG

PUSH = {"fast": 2.0, "slow": -1.0, "stop": 0.0}


def driven(runs: str = "abcdefgh") -> pd.DataFrame:
    """x_{t+1} = x_t / 2 + force_t + the push of the mode."""
    rng, parts = RNG(0), []
    for run_ in runs:
        mode, force, x = rng.choice(list(PUSH), 20), rng.standard_normal(20), np.zeros(20)
        for t in range(19):
            x[t + 1] = 0.5 * x[t] + force[t] + PUSH[mode[t]]
        parts.append(pd.DataFrame({"run": run_, "t": np.arange(20) * 0.5, "x": x, "mode": mode, "force": force}))
    return pd.concat(parts, ignore_index=True)


ROLES: dict[str, Any] = {"id": "run", "time": "t", "channels": ["x"], "inputs": ["mode", "force"]}
FORMS: dict[str, Callable[[Any], Any]] = {
    "text": lambda frame: frame,
    "object": lambda frame: frame.astype({"mode": object}),
    "category": lambda frame: frame.astype({"mode": "category"}),
    "more categories than occur": lambda frame: frame.assign(
        mode=pd.Categorical(frame["mode"], ["turbo", "stop", "slow", "fast"])
    ),
    "polars text": pl.from_pandas,
    "polars categorical": lambda frame: pl.from_pandas(frame).with_columns(pl.col("mode").cast(pl.Categorical)),
    "polars enum": lambda frame: pl.from_pandas(frame).with_columns(pl.col("mode").cast(pl.Enum([*PUSH, "turbo"]))),
}


@cache
def fitted() -> PSIM:
    return PSIM(**ONE).fit(Trajectories.from_frame(driven(), **ROLES))


@pytest.mark.parametrize("form", FORMS)
def test_words_are_an_input_each(form: str) -> None:
    frame = FORMS[form](driven())
    data = Trajectories.from_frame(frame, **ROLES)
    by_hand = np.stack([driven()["mode"].to_numpy() == word for word in sorted(PUSH)], axis=1).astype(float)
    np.testing.assert_array_equal(data.inputs, np.column_stack([by_hand, driven()["force"]]))
    found = fitted().predict(frame)
    np.testing.assert_array_equal(found["x"].to_numpy(), np.concatenate(fitted().predict(data))[:, 0])
    assert fitted().score(frame) > 0.999  # the noise is zero, and the mode is most of what happens


def test_truth_is_a_number_as_on_the_command_line() -> None:
    frame = driven().assign(on=lambda f: f["mode"] == "fast")
    data = Trajectories.from_frame(frame, **ROLES | {"inputs": ["on"]})
    assert data.inputs is not None
    np.testing.assert_array_equal(data.inputs[:, 0], frame["on"].astype(float))


@pytest.mark.parametrize("form", FORMS)
def test_a_word_that_fit_has_not_seen_is_an_error_in_words(form: str, tmp_path: Path) -> None:
    fitted().save(tmp_path / "model.psim")
    changed = driven().assign(mode=lambda f: f["mode"].where(f.index != 27, "turbo"))
    for loaded in (fitted(), PSIM.load(tmp_path / "model.psim")):
        with pytest.raises(
            DataError,
            match=r"frame row 27, column 'mode': required one of \['fast', 'slow', 'stop'\] as in training, .*'turbo'",
        ):
            loaded.predict(FORMS[form](changed))


def test_a_word_is_missing() -> None:
    changed = driven().assign(mode=lambda f: f["mode"].where(f.index != 27, None))
    with pytest.raises(DataError, match=r"inputs, trajectory 1 \('b'\), row 7, .*inputs are known, so fill them in"):
        fitted().predict(changed)


def test_recordings_whose_frame_lacks_a_word_are_renumbered() -> None:
    """Alone, a frame without "slow" would give "stop" the place of "slow"."""
    frame = driven().assign(mode=lambda f: f["mode"].replace("slow", "stop"))
    alone = Trajectories.from_frame(frame, **ROLES | {"inputs": ["force", "mode"]})
    assert alone.n_inputs == 3
    expected = fitted().predict(frame)["x"]
    np.testing.assert_array_equal(np.concatenate(fitted().predict(alone))[:, 0], expected)
    held = PSIM(**ONE | {"validation": alone}).fit(Trajectories.from_frame(driven(), **ROLES))
    same = PSIM(**ONE | {"validation": frame}).fit(Trajectories.from_frame(driven(), **ROLES))
    np.testing.assert_array_equal(held.predict(frame)["x"], same.predict(frame)["x"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "turbo"}, r"input 'mode': required the words \['fast', 'slow', 'stop'\].*received \['turbo'\] too"),
        ({"mode": 1.0}, "input 'mode': required words as in fit, received numbers"),
        ({"force": "slow"}, "input 'force': required numbers as in fit, received words"),
    ],
)
def test_recordings_with_other_words_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted().predict(Trajectories.from_frame(driven().assign(**change), **ROLES))
    with pytest.raises(DataError, match=r"required the inputs \['mode', 'force'\] as in fit, received \['mode'\]"):
        fitted().predict(Trajectories.from_frame(driven(), **ROLES | {"inputs": ["mode"]}))


def test_inputs_are_required() -> None:
    with pytest.raises(DataError, match=r"required columns \['mode'\]"):
        fitted().predict(driven().drop(columns="mode"))


def test_a_column_of_texts_is_no_category() -> None:
    frame = driven().assign(mode=lambda f: [f"note {i}" for i in range(len(f))])
    with pytest.raises(DataError, match=f"at most {MOST_WORDS} different words, received 160 words"):
        Trajectories.from_frame(frame, **ROLES)


def test_words_that_one_of_several_frames_lacks() -> None:
    frames = {"a": driven("a"), "b": driven("b").assign(mode="slow")}
    data = Trajectories.from_frame(
        {key: part.drop(columns="run") for key, part in frames.items()}, **ROLES | {"id": None}
    )
    assert data.n_inputs == 4
    assert data[1].inputs is not None
    np.testing.assert_array_equal(data[1].inputs[:, :3], np.tile([0.0, 1.0, 0.0], (20, 1)))


# -- inputs to come ----------------------------------------------------------------------------------------------------


def plan(runs: str, Frame: Any = pd.DataFrame) -> Any:
    words = {"run": np.repeat(list(runs), 4), "mode": ["fast", "slow", "stop", "slow"] * len(runs)}
    return Frame(words | {"force": np.arange(4.0 * len(runs)) / 10})


@pytest.mark.parametrize("Frame", [pd.DataFrame, pl.DataFrame])
def test_inputs_to_come_are_frames_too(Frame: Any) -> None:
    """The plan has the recordings in another order: ids decide."""
    frame, coming = driven(), plan("hgfedcba", Frame)
    codes = {"fast": [1, 0, 0], "slow": [0, 1, 0], "stop": [0, 0, 1]}
    by_hand = np.stack(
        [
            [
                [*codes[word], force]
                for word, force in zip(["fast", "slow", "stop"], np.arange(3.0) / 10 + 0.4 * i, strict=True)
            ]
            for i in reversed(range(8))
        ]
    )
    found = fitted().forecast(frame, 3, future_inputs=coming)
    plain = fitted().forecast(Trajectories.from_frame(frame, **ROLES), 3, future_inputs=by_hand)
    np.testing.assert_allclose(found["x"], np.concatenate(list(plain))[:, 0], rtol=0, atol=1e-12)


def test_inputs_to_come_of_one_recording_need_no_id() -> None:
    one = driven("a").drop(columns="run")
    last = driven("a").iloc[-1]
    found = fitted().forecast(one, 1, future_inputs=plan("a").drop(columns="run"))
    expected = 0.5 * last["x"] + last["force"] + PUSH[last["mode"]]
    assert found["x"][0] == pytest.approx(expected, abs=0.05)
    assert found["t"].tolist() == [10.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[f["run"] != "c"], r"required rows for the ids \['c'\]"),
        (lambda f: f.iloc[:-1], "required 4 rows for each recording, received 3"),
        (lambda f: f.assign(mode="turbo"), "as in training, received 'turbo'"),
        (lambda f: f.drop(columns="force"), r"required columns \['force'\]"),
    ],
)
def test_inputs_to_come_that_do_not_fit(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted().forecast(driven(), 4, future_inputs=change(plan("abcdefgh")))


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_command_line_knows_the_words_of_a_model_from_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, new = tmp_path / "model.psim", tmp_path / "new.csv"
    fitted().save(model)
    driven().to_csv(new, index=False)
    assert run("filter", model, new) == 0
    shown = pd.read_csv(StringIO(capsys.readouterr().out))
    np.testing.assert_allclose(shown["x.expected"], fitted().predict(driven())["x"], rtol=0, atol=1e-9)
    driven().assign(mode="turbo").to_csv(new, index=False)
    assert run("filter", model, new) != 0
    assert "required one of ['fast', 'slow', 'stop'] as in training, received 'turbo'" in capsys.readouterr().err


def test_python_knows_the_words_of_a_model_from_the_command_line(tmp_path: Path) -> None:
    model, table = tmp_path / "model.psim", tmp_path / "table.csv"
    driven().to_csv(table, index=False)
    options = [
        "--id",
        "run",
        "--time",
        "t",
        "--inputs",
        "mode,force",
        "--channels",
        "x",
        "--window",
        "2",
        "--lags",
        "1",
    ]
    assert run("fit", table, "-o", model, *options) == 0
    loaded = PSIM.load(model)
    found = loaded.predict(pl.from_pandas(driven()))
    assert found.columns == ["run", "t", "x"]
    plain = np.concatenate(loaded.predict(Trajectories.from_frame(driven(), **ROLES)))
    np.testing.assert_array_equal(found["x"].to_numpy(), plain[:, 0])
    with pytest.raises(DataError, match="as in training, received 'turbo'"):
        loaded.predict(driven().assign(mode="turbo"))
