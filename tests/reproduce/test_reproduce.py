"""Experiments are read, run once, kept, and shown as they are."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import kstest

from psimlearn.baselines import Autoregression, LastObservation
from psimlearn.cli.main import cli
from psimlearn.datasets import long_memory_system
from psimlearn.errors import DataError, SettingsError
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.reproduce.command import reproduced
from psimlearn.reproduce.experiment import Experiment, Job, experiment, names
from psimlearn.reproduce.given import given
from psimlearn.reproduce.methods import METHODS, learnt
from psimlearn.reproduce.page import write_page
from psimlearn.reproduce.read import Results, results
from psimlearn.reproduce.run import performed, results_of, run
from psimlearn.reproduce.sets import Fold, fold_of, missing
from psimlearn.reproduce.verdict import verdict_table
from psimlearn.train.backprop import backprop

SMALL = {"source": "random_system", "n_trajectories": 20, "n_test": 10, "length": 12, "window": 2, "skip": 3}


def tiny(**changes: object) -> Experiment:
    plain = Experiment(
        "tiny",
        "Tiny",
        "It runs.",
        "",
        seed=0,
        n_folds=2,
        run_folds=2,
        validation=0.2,
        sets={"small": SMALL},
        methods={"last": {"method": "last"}, "AR-2": {"method": "autoregression", "lags": [2], "priors": ["mean"]}},
        published={},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


# -- experiments -----------------------------------------------------------------------------------------------------


def test_there_is_a_file_for_each_published_result() -> None:
    assert names() == ["appendix", "features", "fig2", "regime", "table1", "theorems", "window"]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", names())
def test_every_file_describes_jobs_that_exist(name: str, quick: bool) -> None:
    own = experiment(name, quick=quick)
    jobs = own.jobs()
    assert len({job.key for job in jobs}) == len(jobs)
    assert {job.settings["method"]["method"] for job in jobs} <= {*METHODS, "theorem"}
    assert {job.set for job in jobs} == set(own.sets)
    assert {job.method for job in jobs} == set(own.methods)
    assert json.loads(json.dumps([job.settings for job in jobs])) == [job.settings for job in jobs]


def test_quick_is_less() -> None:
    for name in names():
        assert len(experiment(name, quick=True).jobs()) < len(experiment(name).jobs()) / 2


def test_a_set_has_the_settings_of_the_set_that_it_is_like() -> None:
    regime, table1 = experiment("regime"), experiment("table1")
    assert regime.sets["robot-5"] == {**table1.sets["robot"], "title": "Robot, 5 Hz", "every": 4}
    assert regime.methods["N4SID"] == table1.methods["N4SID"]
    changed = {**table1.methods["PSIM-RFF"], "one_unit": ["flag-noisy", "ocean-noisy"]}
    assert regime.methods["PSIM-RFF"] == changed
    assert regime.published["robot-noisy"] == table1.published["robot"]
    assert "ocean-noisy" not in regime.published  # the paper has no ocean


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(SettingsError, match="table1"):
        experiment("table2")


# -- sets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 4, 9])
def test_a_film_is_tested_on_frames_apart_from_those_it_trains_on(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every frame of this film is its own number, so that the frames of a fold can be told."""
    film = np.zeros((100, 2, 3), dtype=np.uint8)
    film[:, 0, 0] = np.arange(100)
    monkeypatch.setattr("psimlearn.reproduce.sets.VIDEOS", {"clock": lambda: film})
    of = {"source": "clock", "gap": 3, "piece": 30, "n_components": 1, "window": 2, "skip": 1}
    fold = fold_of({"set": of, "fold": index, "n_folds": 10, "seed": 0})
    assert fold.picture is not None
    tested = fold.picture.pixels.values[:, 0]
    trained = fold.picture.components.restore(fold.train.values)[:, 0].round()
    np.testing.assert_array_equal(tested, np.arange(10 * index, 10 * index + 10))
    assert set(trained) == set(range(100)) - set(range(10 * index - 3, 10 * index + 13))
    for piece in np.split(trained, fold.train.offsets[1:-1]):
        np.testing.assert_array_equal(np.diff(piece), 1)
        assert 20 <= len(piece) <= 45


def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings whose rows tell the recording and the time: 10 of 21 rows, 3 channels of two parts."""
    rows = np.arange(10)[:, None] * 1000.0 + np.arange(21)
    values = np.stack([rows, -rows, rows**2], axis=-1)
    recordings = Trajectories.of(values, names=["knee.x", "knee.y", "toe.x"], ids=tuple("abcdefghij"))
    monkeypatch.setattr("psimlearn.reproduce.sets.walking", lambda _: recordings)


PLAIN = {"source": "walking", "heading": "world", "units": "as recorded", "window": 2, "skip": 1}


def test_every_fourth_row_and_some_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch)
    settings = {"fold": 2, "n_folds": 5, "seed": 0}
    whole = fold_of({"set": PLAIN, **settings})
    fold = fold_of({"set": PLAIN | {"every": 4, "parts": ["knee"]}, **settings})
    assert fold.test.ids == whole.test.ids
    assert fold.train.names == ("knee.x", "knee.y")
    assert set(fold.test.lengths) == {6}
    for thin, full in zip(fold.test, whole.test, strict=True):
        np.testing.assert_allclose(np.diff(thin.values[:, 0]), 4.0)
        assert len(full.values) == 21


def test_noise_is_relative_to_each_channel_and_the_same_for_every_method(monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch)
    settings = {"fold": 1, "n_folds": 2, "seed": 0}
    clean, noisy, again, twice = (
        fold_of({"set": PLAIN | more, **settings}) for more in ({}, {"noise": 0.3}, {"noise": 0.3}, {"noise": 0.6})
    )
    np.testing.assert_array_equal(noisy.test.values, again.test.values)
    assert noisy.clean is not None
    np.testing.assert_array_equal(noisy.clean.values, clean.test.values)
    for ours, theirs, more in ((noisy.train, clean.train, twice.train), (noisy.test, clean.test, twice.test)):
        added = (ours.values - theirs.values) / clean.train.values.std(axis=0) / 0.3
        np.testing.assert_allclose(more.values - theirs.values, 2 * (ours.values - theirs.values), rtol=1e-9)
        assert added.std() == pytest.approx(1.0, rel=0.04)  # 315 entries; measured 1.02 and 1.01
        assert kstest(added.ravel(), "norm").pvalue > 0.1  # measured .63 and .29
        np.testing.assert_allclose(added.std(axis=0), 1.0, rtol=0.2)  # 105 entries each; measured .93 to 1.15
    assert not np.isclose(noisy.train.values[:5], noisy.test.values[:5]).any()


def test_a_noisy_fold_is_also_scored_without_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last noisy row as a prediction of the next clean one, by hand."""
    counting(monkeypatch)
    fold = fold_of({"set": PLAIN | {"noise": 0.3}, "fold": 0, "n_folds": 5, "seed": 0})
    assert fold.clean is not None
    score = fold.score(LastObservation.fit(fold.train))
    pairs = zip(fold.test, fold.clean, strict=True)
    apart = np.concatenate([clean.values[1:-1] - noisy.values[:-2] for noisy, clean in pairs])
    np.testing.assert_allclose(score["clean"][0], np.sum(apart**2, axis=1).mean(), rtol=1e-12)
    assert score["clean_power"] == pytest.approx(np.sum(fold.clean.values**2, axis=1).mean())
    assert score["errors"][0] != score["clean"][0]


def test_pixels_add_what_the_components_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pythagoras: what is lost is perpendicular to what is kept, whatever was predicted."""
    rng = np.random.default_rng(0)
    film = rng.integers(0, 255, (60, 3, 4)).astype(np.uint8)
    monkeypatch.setattr("psimlearn.reproduce.sets.VIDEOS", {"noise": lambda: film})
    of = {"source": "noise", "gap": 2, "piece": 20, "n_components": 5, "window": 2, "skip": 1}
    fold = fold_of({"set": of, "fold": 1, "n_folds": 4, "seed": 0})
    assert fold.picture is not None
    components, pixels = fold.picture
    lost = np.sum((pixels.values - components.restore(fold.test.values)) ** 2, axis=1)
    score = fold.score(LastObservation.fit(fold.train))
    for ahead in (0, 1):  # predictions before rows 1 to 13 of 15
        expected = score["errors"][ahead] + lost[1 + ahead : 14 + ahead].mean()
        np.testing.assert_allclose(score["pixels"][ahead], expected, rtol=1e-10)


def test_the_excess_is_that_of_squared_errors() -> None:
    """Two ways to it: the distance from the optimal filter, and the difference of errors on many recordings."""
    system, rng = long_memory_system(), np.random.default_rng(0)
    train, test = system.simulate(50, 30, rng), system.simulate(20_000, 30, rng)
    model = Autoregression.fit(train, 3, 2)
    score = Fold(train, test, 5, 2, system=system).score(model)
    directly = score["errors"][0] / score["optimal"][0] - 1
    assert 0.1 < score["excess"] < 1
    np.testing.assert_allclose(score["excess"], directly, rtol=0.02)


def test_a_missing_data_set_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSIMLEARN_DATA", str(tmp_path))
    assert "robot_hiro_snap_assembly" in missing(experiment("table1").sets["robot"])
    assert "video_flag_dyntex" in missing(experiment("table1").sets["flag"])
    assert missing(SMALL) == ""


# -- methods ---------------------------------------------------------------------------------------------------------


def some_recordings(m: int = 40, length: int = 40) -> Trajectories:
    return long_memory_system().simulate(m, length, np.random.default_rng(3))


def test_settings_are_chosen_on_recordings_apart_and_learning_is_from_all() -> None:
    data = given(some_recordings(), 0.2, 2, 5, 0)
    assert (len(data.train), len(data.held), len(data.everything)) == (32, 8, 40)
    rows = {tuple(row) for row in data.train.values}
    assert not rows & {tuple(row) for row in data.held.values}
    model, chosen = learnt(data, "autoregression", lags=[2, 4], priors=["mean"])
    again = Autoregression.fit(data.everything, chosen["lags"], 2, alpha=chosen["alpha"])
    np.testing.assert_array_equal(model.forecast(data.held, 2), again.forecast(data.held, 2))
    assert chosen["lags"] == 4


GRIDS = {
    "n4sid": {"block_rows": [3, 5], "weighting": ["cva"], "ridge": [1e-6], "standardise": [True, False]},
    "ivr": {"past": [3, 8], "ridge": [1e-6], "standardise": [True]},
    "em": {"block_rows": [3], "weighting": ["cva"], "ridge": [1e-6], "standardise": [True], "n_iter": 2},
    "dagger": {"alphas": [1e-6, 1e-2], "n_rounds": 3, "n_racing": 1},
    "forward": {"alphas": [1e-4]},
    "psim": {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 2},
    "backprop": {"optimisers": [{"optimiser": "gd"}, {"optimiser": "lbfgs"}], "n_racing": 3, "n_epochs": 20},
    "rnn": {"hidden": 8, "cells": ["tanh"], "rates": [1e-2, 3e-2], "n_epochs": 15},
}


@pytest.mark.parametrize("method", GRIDS)
def test_methods_learn(method: str) -> None:
    """All are better than the last observation by far, on recordings they have not seen."""
    data = given(some_recordings(), 0.2, 2, 5, 0)
    model, chosen = learnt(data, method, **GRIDS[method])  # type: ignore[arg-type]
    new = long_memory_system().simulate(50, 40, np.random.default_rng(4))
    error, last = (errors_by_horizon(each, new, skip=5)[0] for each in (model, LastObservation.fit(data.train)))
    assert error < 0.6 * last
    assert chosen
    json.dumps(chosen)


def test_random_features_and_the_literal_algorithm_are_dagger_too() -> None:
    data = given(some_recordings(), 0.2, 2, 5, 0)
    _, rff = learnt(data, "dagger", alphas=[1e-4], n_features=20, bandwidths=[1.0, 4.0], n_rounds=2, n_racing=1)
    assert rff["bandwidth_factor"] in (0.25, 1.0, 4.0, 16.0, 64.0, 128.0)
    literal, _ = learnt(data, "dagger", alphas=[1e-2], init="zero", recipe="as published", n_rounds=2, n_racing=1)
    regressor = literal.regressors[0]  # type: ignore[attr-defined]
    assert not regressor.intercept.any()
    assert literal.feedback.low is None  # type: ignore[attr-defined]


def test_a_grid_of_random_features_grows_beyond_its_edges() -> None:
    """A linear system wants wide bandwidths and weak ridges: far from the one point that the grid begins with."""
    data = given(some_recordings(), 0.2, 2, 5, 0)
    options = {"n_features": 20, "n_rounds": 1, "n_racing": 1}
    _, chosen = learnt(data, "dagger", alphas=[1e-3], bandwidths=[1.0], **options)
    assert chosen["tried"] > 4
    assert chosen["alpha"] < 1e-3
    assert chosen["bandwidth_factor"] > 1.0


@pytest.mark.parametrize("n_features", [0, 20])
def test_a_descent_does_not_depend_on_the_one_unit_of_all_channels(n_features: int) -> None:
    data = some_recordings()
    found = []
    for unit in (1.0, 1e3):
        own = given(replace(data, values=unit * data.values), 0.2, 2, 5, 0)
        model, chosen = learnt(
            own, "backprop", standardise=False, n_features=n_features, optimisers=[{"optimiser": "adam", "rate": 1e-2}],
            n_racing=1, n_epochs=3,
        )  # fmt: skip
        found.append(model.forecast(own.held, 2) / unit)
        assert chosen == {"optimiser": "adam", "rate": 1e-2, "epochs": 3, "descent_refitted": True}
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_a_refined_filter_is_the_one_refined_from_all_recordings() -> None:
    """By the optimiser and as many epochs as were best on the part, from where DAgger ends on all."""
    data = given(some_recordings(), 0.2, 2, 5, 0)
    grid = {"alphas": [1.0], "n_rounds": 2, "n_racing": 1}
    optimisers = [{"optimiser": "gd", "rate": 1e-9}, {"optimiser": "lbfgs"}]
    plain, _ = learnt(data, "dagger", **grid)
    refined, chosen = learnt(data, "dagger", **grid, refining={"optimisers": optimisers, "n_racing": 1, "n_epochs": 5})
    assert isinstance(plain, Filter)
    assert chosen["optimiser"] == "lbfgs"
    assert 1 <= chosen["epochs"] <= 5
    *_, last = backprop(data.everything, data.held, plain, n_epochs=chosen["epochs"], patience=99)
    np.testing.assert_allclose(refined.forecast(data.held, 2), last.filter.forecast(data.held, 2), rtol=1e-9)


def test_a_ridge_is_relative_to_the_one_unit_of_all_channels() -> None:
    """So recordings in other units give the same filter in those units."""
    data = some_recordings()
    found = []
    for unit in (1.0, 1e3):
        own = given(replace(data, values=unit * data.values), 0.2, 2, 5, 0)
        model, chosen = learnt(own, "dagger", alphas=[1e-6, 1e-2], standardise=False, n_rounds=2, n_racing=1)
        found.append((model.forecast(own.held, 2) / unit, chosen["alpha"] / unit**2))
    (one, alpha), (other, same) = found
    np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(alpha, same, rtol=1e-9)


def test_a_method_is_told_where_channels_share_a_unit() -> None:
    methods = {"PSIM": {"method": "dagger", "one_unit": ["films"]}}
    jobs = tiny(sets={"small": SMALL, "films": SMALL}, methods=methods).jobs()
    told = {job.set: job.settings["method"] for job in jobs}
    assert told == {"small": {"method": "dagger"}, "films": {"method": "dagger", "standardise": False}}


def test_a_method_may_have_settings_and_fewer_folds_on_a_set() -> None:
    """The number of folds is no setting: whoever runs more of them keeps those that were run."""
    methods = {"RNN": {"method": "rnn", "hidden": 100, "on": {"films": {"hidden": 2500, "folds": 1}}}}
    jobs = tiny(sets={"small": SMALL, "films": SMALL}, methods=methods).jobs()
    told = [(job.set, job.fold, job.settings["method"]["hidden"]) for job in jobs]
    assert told == [("small", 0, 100), ("films", 0, 2500), ("small", 1, 100)]
    assert set(jobs[1].settings["method"]) == {"method", "hidden"}


# -- running ---------------------------------------------------------------------------------------------------------


def test_a_job_is_done_once_and_its_result_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tiny(), tmp_path, workers=1)
    assert path is not None
    first = results_of(path)
    assert list(first) == ["small/last/0", "small/AR-2/0", "small/last/1", "small/AR-2/1"]
    assert "min left" in capsys.readouterr().out
    again = run(tiny(), tmp_path, workers=1)
    assert again == path
    assert results_of(path) == first  # the seconds too: nothing was run
    assert "min left" not in capsys.readouterr().out
    fresh = run(tiny(), tmp_path, workers=1, fresh=True)
    assert fresh is not None
    assert [each["errors"] for each in results_of(fresh).values()] == [each["errors"] for each in first.values()]


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def interrupted(job: Job) -> dict[str, object]:
        calls.append(job.key)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return performed(job)

    monkeypatch.setattr("psimlearn.reproduce.run.performed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tiny(), tmp_path, workers=1)
    assert list(results_of(tmp_path / "tiny.json")) == ["small/last/0", "small/AR-2/0"]
    run(tiny(), tmp_path, workers=1)
    assert calls[3:] == ["small/last/1", "small/AR-2/1"]


def test_only_what_changed_is_run_again(tmp_path: Path) -> None:
    run(tiny(), tmp_path, workers=1)
    before = results_of(tmp_path / "tiny.json")
    methods = dict(tiny().methods) | {"AR-2": {"method": "autoregression", "lags": [3], "priors": ["mean"]}}
    run(tiny(methods=methods), tmp_path, workers=1)
    after = results_of(tmp_path / "tiny.json")
    assert after["small/last/0"] == before["small/last/0"]
    assert after["small/AR-2/0"]["chosen"]["lags"] == 3


def test_other_sets_keep_their_results(tmp_path: Path) -> None:
    both = tiny(sets={"small": SMALL, "other": SMALL | {"n_trajectories": 15}})
    run(both, tmp_path, workers=1)
    run(both, tmp_path, workers=1, only=["other"])
    assert {each["set"] for each in results_of(tmp_path / "tiny.json").values()} == {"small", "other"}
    with pytest.raises(SettingsError, match="small"):
        run(both, tmp_path, workers=1, only=["large"])


def test_processes_find_the_same(tmp_path: Path) -> None:
    alone, together = (run(tiny(), tmp_path / str(n), workers=n) for n in (1, 2))
    assert alone is not None
    assert together is not None
    one, two = ({k: v["errors"] for k, v in results_of(path).items()} for path in (alone, together))
    assert one == two


def test_a_method_that_fails_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    methods = {"AR-50": {"method": "autoregression", "lags": [50], "priors": ["mean"]}} | dict(tiny().methods)
    path = run(tiny(methods=methods), tmp_path, workers=1)
    assert path is not None
    found = results_of(path)
    assert "too little data" in found["small/AR-50/0"]["failed"]
    assert "errors" in found["small/last/0"]


def test_recordings_that_are_not_at_hand_are_said_to_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PSIMLEARN_DATA", str(tmp_path))
    assert run(experiment("table1", quick=True), tmp_path, workers=1) is None
    assert "robot is left out: required" in capsys.readouterr().out


# -- the page --------------------------------------------------------------------------------------------------------


def crafted(quick: bool = False, name: str = "table1") -> dict[str, object]:
    """Results of Table 1, or of the appendix, from which every entry of the page can be told."""
    own = experiment(name, quick=quick)
    level = {"PSIM-Linear": 2.0, "N4SID": 4.0, "IVR": 1.6, "PSIM-RFF": 1.0, "PSIM-Linear_b": 3.0, "RNN": 0.5}
    found = {}
    for job in own.jobs():
        errors = [
            level.get(job.method, 8.0) * (1 + 0.1 * (job.fold % 2)) * h
            for h in range(1, job.settings["set"]["window"] + 1)
        ]
        found[job.key] = {
            "set": job.set, "method": job.method, "fold": job.fold, "errors": errors, "power": 32.0, "cpu": 60.0,
            "seconds": 61.0, "settings": job.settings, "chosen": {"optimiser": "lbfgs", "epochs": 40 + job.fold},
        }  # fmt: skip
        if "gap" in job.settings["set"]:
            found[job.key]["pixels"] = [1000 + each for each in errors]
    return {"results": found}


def test_the_page_shows_what_the_results_say(tmp_path: Path) -> None:
    (tmp_path / "table1.json").write_text(json.dumps(crafted()), encoding="utf-8")
    page = write_page(tmp_path, tmp_path).read_text(encoding="utf-8")
    assert (
        page.index("## Verdict")
        < page.index("PSIM-Linear has less error than N4SID | Robot")
        < page.index("## Table 1")
    )
    assert "| PSIM-Linear | 2.1 +- 0.11 |" in page  # 2 and 2.2 in turn: deviation .105
    assert "| **1.05 +- 0.053** |" in page
    # ours, and the paper's 2.15/2.87, 2.15/2.39, 1.80/2.15
    assert "| Robot assembly | 0.50 (0.75) | 1.25 (0.90) | 0.50 (0.84) |" in page
    assert "| PSIM-Linear - N4SID | 1 | -50.0% +- 0.8% (10/10) |" in page
    assert "PSIM-Linear at or below IVR, 1 step ahead**: holds on none; does not hold on Robot assembly (2.1 " in page
    assert "1e+03" in page.split("Videos in pixels")[1]
    svg = ET.parse(tmp_path / "figures" / "fig3.svg")
    assert svg.getroot().tag.endswith("svg")


def test_the_appendix_stands_beside_table_1_on_the_folds_of_both(tmp_path: Path) -> None:
    for name in ("table1", "appendix"):
        (tmp_path / f"{name}.json").write_text(json.dumps(crafted(name=name)), encoding="utf-8")
    table1, appendix = write_page(tmp_path, tmp_path).read_text(encoding="utf-8").split("## The appendix")
    # fewer folds are said to be fewer, and are not called the least
    assert "| RNN | **0.525 +- 0.026** |  | 0.517 +- 0.029 (3 folds) |" in table1
    assert "| Robot assembly | 0.50 (0.75) | 1.25 (0.90) | 0.50 (0.84) | 1.50 (1.18) |" in table1
    cost = table1.split("What it costs")[1]
    assert "650 minutes" in cost  # a minute for each job, and none of the appendix's
    assert "RNN" not in cost
    # three folds: 1, 1.1 and 1 times the level, and the printed figures below
    assert "| Walking | 3 | 2.07 +- 0.12 | 3.1 +- 0.17 | 8.27" in appendix
    assert "| Robot Drill Assembly, printed | 10 | 2.15 | 2.54 | 2.09 | 1.8 | 2.54 | 1.99 |  |  |" in appendix
    assert "| PSIM-Linear_b - PSIM-Linear | 1 | +50.0% +- 0.8% (0/10) | +50.0% +- 1.6% (0/3) |" in appendix
    assert "| PSIM-Linear_b | lbfgs 10; 44 | lbfgs 3; 41 |" in appendix


def verdict_on(tmp_path: Path, *named: str) -> dict[str, list[str]]:
    """The cells of the verdict on crafted results, by claim."""
    for name in named:
        if not (tmp_path / f"{name}.json").exists():
            (tmp_path / f"{name}.json").write_text(json.dumps(crafted(name=name)), encoding="utf-8")
    found = {name: of for name in named if (of := results(tmp_path, name)) is not None}
    lines = verdict_table(found).splitlines()[2:]
    return {line.split(" | ")[0].removeprefix("| "): line.removesuffix(" |").split(" | ")[1:] for line in lines}


def test_the_verdict_says_where_each_claim_holds(tmp_path: Path) -> None:
    """PSIM-Linear 2, N4SID 4, IVR 1.6, PSIM-RFF 1, all others 8, in the same ratio on every fold."""
    rows = verdict_on(tmp_path, "table1", "regime")
    holds, undecided, fails = rows["PSIM-Linear has less error than N4SID"]
    assert holds.startswith("Robot assembly -50.0% (10/10); Robot assembly, near copies -50.0% (10/10); Walking")
    assert "Robot, 5 Hz -50.0% (10/10)" in holds
    assert (undecided, fails) == ("", "")
    holds, _, fails = rows["PSIM-Linear has less error than IVR"]
    assert holds == ""
    assert fails.startswith("Robot assembly +25.0% (0/10)")
    assert "back-propagation refines DAgger's solution a little" in rows
    assert not any("random weights" in claim or "trajectories" in claim for claim in rows)  # these were not run


def test_a_claim_within_two_standard_errors_is_not_decided(tmp_path: Path) -> None:
    content = crafted()
    for job in content["results"].values():  # type: ignore[attr-defined]
        if job["method"] == "N4SID":
            job["errors"] = [2.0 + (-1) ** job["fold"]] * len(job["errors"])
    (tmp_path / "table1.json").write_text(json.dumps(content), encoding="utf-8")
    holds, undecided, _ = verdict_on(tmp_path, "table1")["PSIM-Linear has less error than N4SID"]
    assert holds == ""
    assert undecided.startswith("Robot assembly +5.0% (5/10)")


def test_the_verdict_on_number_and_theorems_is_that_of_the_results_kept() -> None:
    """The files of this repository, against the same medians by numpy alone."""
    folder = Path(__file__).parents[2] / "results"
    found = {name: of for name in ("fig2", "theorems") if (of := results(folder, name)) is not None}
    table = verdict_table(found)
    kept = [json.loads((folder / "fig2.json").read_text(encoding="utf-8"))["results"][f"memory, 25000/{m}/{fold}"]
            for m in ("Forward Training", "DAgger, history start") for fold in range(3)]  # fmt: skip
    ours, other = (np.log1p(np.median([each["excess"] for each in part])) for part in (kept[:3], kept[3:]))
    assert f"long memory, history start ({ours:.1e} against {other:.1e})" in table
    assert "10 of 10 random systems" in table


def test_the_regime_shows_shares_of_the_power_and_errors_without_noise(tmp_path: Path) -> None:
    content = crafted(name="regime")
    found: dict[str, dict[str, object]] = content["results"]  # type: ignore[assignment]
    for key, job in list(found.items()):
        if "noise" in job["settings"]["set"]:  # type: ignore[index]
            job["clean"] = [7.5 for _ in job["errors"]]  # type: ignore[attr-defined]
        if key.startswith("angles") and job["fold"] > 1:  # type: ignore[operator]
            del found[key]
    (tmp_path / "regime.json").write_text(json.dumps(content), encoding="utf-8")
    page = write_page(tmp_path, tmp_path).read_text(encoding="utf-8")
    assert "Folds that were run: Joint angles, 30 Hz: 2 of 10; elsewhere all." in page
    shares = page.split("percent of the trajectory power")[1].split("###")[0]
    assert "| Robot Drill Assembly, printed |  |  |  | 8.6% | 10.3% |" in shares  # 2.39 and 2.87 of 27.9
    assert "| Robot, 5 Hz | 26.25% |" in shares  # 8 and 8.8 in turn, of 32
    clean = page.split("without noise")[1]
    assert "|  | Robot, noise | Walking, 30 Hz, noise | Flag, noise | Ocean, noise |" in clean
    assert "7.5 +- 0" in clean


def test_a_quick_look_has_a_page_too(tmp_path: Path) -> None:
    """Of the sets and folds that were run: the published table leaves out the others."""
    (tmp_path / "table1.json").write_text(json.dumps(crafted(quick=True)), encoding="utf-8")
    page = write_page(tmp_path, tmp_path, quick=True).read_text(encoding="utf-8")
    assert "|  | Robot Drill Assembly | Flag Video Texture |" in page
    assert "| PSIM-Linear - N4SID | 1 | -50% | -50% |" in page


def test_the_page_and_its_figures_are_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "table1.json").write_text(json.dumps(crafted()), encoding="utf-8")
    written = []
    for folder in ("a", "b"):
        page = write_page(tmp_path, tmp_path / folder)
        written.append(page.read_bytes() + (tmp_path / folder / "figures" / "fig3.svg").read_bytes())
    assert written[0] == written[1]


def test_results_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "table1.json").write_text('{"results": 3', encoding="utf-8")
    with pytest.raises(DataError, match="reproduce table1"):
        write_page(tmp_path, tmp_path)


def test_a_fold_that_failed_counts_as_infinite() -> None:
    found = {
        "small/last/0": {"set": "small", "method": "last", "errors": [1.0, 2.0]},
        "small/last/1": {"set": "small", "method": "last", "failed": "no"},
    }
    errors = Results(tiny(), found).values("small", "last", "errors")
    np.testing.assert_array_equal(errors, [[1.0, 2.0], [np.inf, np.inf]])


def test_methods_are_compared_on_the_folds_that_both_have() -> None:
    """The first has folds 0, 1, 2, the second 0 and 2: the second entries of both belong to different folds."""
    errors = {("last", 0): 1.0, ("last", 1): 10.0, ("last", 2): 3.0, ("AR-2", 0): 2.0, ("AR-2", 2): 5.0}
    found = {
        f"small/{method}/{fold}": {"set": "small", "method": method, "fold": fold, "errors": [error]}
        for (method, fold), error in errors.items()
    }
    compared = Results(tiny(), found).compared("small")
    np.testing.assert_array_equal(compared.errors[:, :, 0], [[1.0, 3.0], [2.0, 5.0]])


def test_there_is_nothing_to_show_without_results(tmp_path: Path) -> None:
    assert results(tmp_path, "table1") is None
    assert "## " not in write_page(tmp_path, tmp_path).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_command_runs_and_writes_the_page(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(
        cli, ["reproduce", "theorems", "--quick", "--results", str(tmp_path), "--workers", "1"]
    )
    assert outcome.exit_code == 0
    assert str(tmp_path / "reproduction.md") in outcome.stdout
    page = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert page.count("| 1/1 |") == 20  # both inequalities, for two sizes and five numbers of rounds
    forward = next(line for line in page.splitlines() if line.startswith("| Forward Training |"))
    assert all(2 < float(cell) < 20 for cell in forward.split("|")[2:-1])


def test_the_page_alone_runs_nothing(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(cli, ["reproduce", "--page-only", "--results", str(tmp_path), "--docs", str(tmp_path)])
    assert outcome.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["reproduction.md"]


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(cli, ["reproduce", "table9", "--results", str(tmp_path)])
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("psimlearn: required the name of an experiment")


def test_an_interruption_keeps_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(job: Job) -> dict[str, object]:
        raise KeyboardInterrupt

    monkeypatch.setattr("psimlearn.reproduce.run.performed", interrupted)
    outcome = CliRunner().invoke(
        cli, ["reproduce", "theorems", "--quick", "--results", str(tmp_path), "--workers", "1"]
    )
    assert outcome.exit_code == 130
    assert "the same command continues" in outcome.stderr
    with pytest.raises(KeyboardInterrupt):
        reproduced(["theorems"], quick=True, results=tmp_path)
