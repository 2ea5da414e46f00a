"""`PSIM` on shards: as in memory where both can be, and honest about the sample where not."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Ridge, RidgeAndTrees, Shards, Trajectories
from psimlearn.choose.sharded import WORSE
from psimlearn.choose.watch import Stage, Watch
from psimlearn.errors import DataError, ModelFileError, SettingsError
from psimlearn.evaluate import errors_by_horizon, errors_over_shards
from psimlearn.recordings.catalogue import drawn
from psimlearn.train import Recipe


def recordings(m: int = 30, missing: float = 0.0, seed: int = 0) -> Trajectories:
    """A noisy turn of two channels, with one input and the phase as a hint."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6, (m, 1)) + 0.3 * np.arange(25)
    x = np.stack([np.sin(phase), 3 + np.cos(phase)], axis=2) + 0.1 * rng.standard_normal((m, 25, 2))
    x[rng.random(x.shape) < missing] = np.nan
    inputs = rng.standard_normal((m, 25, 1))
    return Trajectories.of(x, inputs, hints=np.sin(phase + 0.5)[:, :, None])


def model(**others: Any) -> PSIM:
    given: dict[str, Any] = {"learner": Ridge(1e-3), "recipe": Recipe(lags=2), "n_rounds": 2, "random_state": 0}
    return PSIM(3, **given | others)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_with_all_recordings_in_the_sample_it_is_the_fit_in_memory(missing: float) -> None:
    data, new = recordings(10, missing), recordings(4, missing, seed=1)
    in_memory = model(validation=0.5).fit(data)
    shards = model(validation=0.5).fit(Shards.cut(data, 7), sample_rows=10**6)
    for method in ("predict", "hints", "score_samples"):
        wanted, found = (np.concatenate(getattr(each, method)(new)) for each in (in_memory, shards))
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    low, high = (each.predict_interval(new, coverage=0.8) for each in (in_memory, shards))
    np.testing.assert_allclose(np.concatenate(high[0]), np.concatenate(low[0]), rtol=1e-10)
    assert in_memory.report_["data"] == shards.report_["data"]
    assert in_memory.n_rounds_ == shards.n_rounds_


def test_a_sample_chooses_and_all_recordings_train() -> None:
    data = recordings(600)
    whole, part = (model().fit(Shards.cut(data, n), sample_rows=11_000) for n in (1, 9))
    np.testing.assert_allclose(part.predict(data[:20]), whole.predict(data[:20]), rtol=1e-10, atol=1e-10)
    assert part.report_["data"]["rows"] == 15_000
    assert part.report_["shards"]["sample_rows"] == 11_000
    assert "a sample of 11000 of 15000 rows" in part.summary()
    ((last, held),) = part.held_out_
    assert last.regressors[0] is part.filter_.regressors[0]  # the filter of all shards is calibrated itself
    learnt_from = part.sums_.n / (part.n_rounds_ + 1) / (25 - 3)
    assert learnt_from == 600 - len(held)  # what calibrates is not learnt from


def test_one_long_recording_is_not_calibrated_on_rows_that_it_taught() -> None:
    """It is cut in time, and training on all shards learns from all of it: only the filter of the split may judge."""
    rng = np.random.default_rng(0)
    parts = [0.1 * np.cumsum(rng.standard_normal((rows, 1)), axis=0) for rows in (42_000, 2, 2, 2)]
    learnt = model(recipe=Recipe(lags=1), n_rounds=1).fit(Shards.of([part] for part in parts), sample_rows=40_000)
    ((judge, held),) = learnt.held_out_
    assert len(held.values) >= 2000
    assert learnt.sums_.n == 2 * (42_000 - 3)
    assert judge.regressors[0] is not learnt.filter_.regressors[0]


def test_scores_and_errors_over_shards_are_those_in_memory() -> None:
    data = recordings(missing=0.1)
    learnt = model().fit(recordings(10, seed=1))
    shards = Shards.cut(data, 4)
    assert learnt.score(shards) == pytest.approx(learnt.score(data), rel=1e-12)
    given: dict[str, Any] = {"skip": 1, "scale": learnt.filter_.scaling.scale}
    in_memory = errors_by_horizon(learnt.filter_, data, 3, **given)
    np.testing.assert_allclose(errors_over_shards(learnt.filter_, shards, 3, **given), in_memory, rtol=1e-12)


def test_partial_fit_takes_one_shard_after_the_other() -> None:
    first, more = recordings(), recordings(9, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = model().fit(first).partial_fit(Shards.cut(more, 3))
        other = model().fit(first)
        for part in Shards.cut(more, 3):
            other.partial_fit(part)
    np.testing.assert_array_equal(one.predict(first), other.predict(first))
    assert one.report_["later"] == other.report_["later"]
    assert one.report_["later"]["updates"] == 3


def test_the_sample_trains_a_filter_only_if_all_shards_gave_a_bad_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data, said = recordings(60), Said()
    shards = Shards.cut(data, 3)
    model(verbose=said).fit(shards, sample_rows=500)
    assert not any("training on all" in each for each in said.heard)
    samples = []

    def kept_drawn(*given: Any) -> Trajectories:
        samples.append(drawn(*given))
        return samples[-1]

    monkeypatch.setattr("psimlearn.choose.sharded.drawn", kept_drawn)
    monkeypatch.setattr("psimlearn.choose.sharded.as_good", lambda *_: False)
    kept = model(verbose=said).fit(shards, sample_rows=500)
    assert any("training on all" in each for each in said.heard)
    assert kept.report_["notes"][-1] == WORSE
    assert len(samples[0].values) == 500
    np.testing.assert_array_equal(kept.predict(data), model().fit(samples[0]).predict(data))


def test_a_model_of_shards_is_saved_and_goes_on(tmp_path: Path) -> None:
    learnt = model().fit(Shards.cut(recordings(), 3), sample_rows=300)
    learnt.save(tmp_path / "m.psim", with_sums=True)
    loaded = PSIM.load(tmp_path / "m.psim")
    assert loaded.report_["shards"] == learnt.report_["shards"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded.partial_fit(recordings(5, seed=3))


class Said(Watch):
    """Keeps messages."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, message: str) -> None:
        self.heard.append(message)


class Counted(Watch):
    """Counts what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        self.heard.append((stage, done, total))
        return True

    def passes(self) -> int:
        """How many passes over three shards were made."""
        return self.heard.count(("shards", 3, 3))


class Stopped(Watch):
    """Ends the process, so to speak, in the middle of the first round over all shards."""

    trains = rounds = False

    def __call__(self, message: str) -> None:
        self.trains = "shards with the settings chosen" in message

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        if stage == "shards" and self.rounds and done == 2:
            raise KeyboardInterrupt
        self.rounds = self.rounds or (self.trains and stage == "training")
        return True


def test_a_checkpoint_goes_on_over_shards(tmp_path: Path) -> None:
    data = recordings(12)
    shards = Shards.cut(data, 3)
    given: dict[str, Any] = {"sample_rows": 200, "checkpoint": tmp_path / "work"}
    with pytest.raises(KeyboardInterrupt):
        model(verbose=Stopped()).fit(shards, **given)
    first, second = Counted(), Counted()
    resumed, again = (model(verbose=watch).fit(shards, **given) for watch in (first, second))
    whole = model().fit(shards, sample_rows=200)
    for other in (resumed, again):
        np.testing.assert_array_equal(other.predict(data), whole.predict(data))
    assert second.passes() == first.passes() - resumed.n_rounds_  # its rounds were kept
    with pytest.raises(ModelFileError, match="sample_rows"):
        model().fit(shards, **given | {"sample_rows": 150})


def test_settings_that_need_memory_are_refused() -> None:
    shards = Shards.cut(recordings(10), 3)
    with pytest.raises(SettingsError, match="trainer='dagger'"):
        model(trainer="forward").fit(shards)
    with pytest.raises(SettingsError, match="linear regression or random Fourier"):
        model(learner=RidgeAndTrees(1e-3)).fit(shards, sample_rows=100)
    words = Trajectories.of_symbols([list("abcab"), list("bcabc")])
    with pytest.raises(
        DataError, match=r"shard 0.*: required recordings of numbers, received symbols. Fit them in mem"
    ):
        model(learner="ridge").fit(Shards.cut(words, 2))
    with pytest.raises(SettingsError, match="groups"):
        model().fit(shards, groups=np.zeros(10))
    with pytest.raises(SettingsError, match="engine: required"):
        model().fit(shards, engine="dask")
    with pytest.raises(SettingsError, match="required Shards"):
        model().fit(recordings(), sample_rows=100)
    with pytest.raises(SettingsError, match="sample_rows"):
        model().fit(shards, sample_rows=3)


def test_progress_tells_shards() -> None:
    watch = Counted()
    model(verbose=watch).fit(Shards.cut(recordings(), 3), sample_rows=300)
    assert watch.passes() >= 5  # catalogue, units, history, spreads, first examples
    assert ("shards", 1, 3) in watch.heard


def swinging(m: int = 24, seed: int = 0) -> np.ndarray:
    """Slow swings under noise that begin at any moment: filters remember them for long, and learn how they begin."""
    rng, A = np.random.default_rng(seed), np.array([[0.97, 0.1], [-0.1, 0.97]])
    x, s = np.empty((m, 60, 2)), 3 * rng.standard_normal((m, 2))
    for t in range(60):
        s = s @ A.T + 0.2 * rng.standard_normal((m, 2))
        x[:, t] = s + rng.standard_normal((m, 2))
    return x


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("absent", [(), (3,), (0, 5, 11)])
def test_beginnings_are_learnt_from_the_recordings_that_teach(refit: bool, absent: tuple[int, ...]) -> None:
    """Held-out recordings, and those without a channel, tell nothing of beginnings: in shards as in memory."""
    values, new = swinging(), Trajectories.of(swinging(6, seed=1))
    values[absent, :, 0] = np.nan
    data = Trajectories.of(values)
    given: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "recipe": None, "refit": refit}
    in_memory, shards = model(**given).fit(data), model(**given).fit(Shards.cut(data, 5), sample_rows=10**6)
    assert in_memory.report_["choices"]["begins"] == shards.report_["choices"]["begins"] == "any moment"
    left_out = sum("left out" in note for note in in_memory.report_["notes"])
    assert left_out == (len(absent) > 0)
    for method in ("predict", "score_samples"):
        wanted, found = (np.concatenate(getattr(each, method)(new)) for each in (in_memory, shards))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
