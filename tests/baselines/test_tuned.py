"""Tuned baselines: settings chosen on held-out recordings, then fitted again to all."""

from typing import Any

import numpy as np
import pytest

from psimlearn.baselines import Autoregression, InnovationsModel, RecurrentNetwork, em, ivr, n4sid
from psimlearn.baselines.tuned import (
    Split,
    tuned_autoregression,
    tuned_em,
    tuned_ivr,
    tuned_n4sid,
    tuned_network,
)
from psimlearn.datasets import long_memory_system
from psimlearn.errors import DataError
from psimlearn.evaluate import errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories


def split(m: int = 30, length: int = 40) -> Split:
    return Split.of(long_memory_system().simulate(m, length, np.random.default_rng(0)))


def same(one: Any, other: Any, data: Trajectories) -> None:
    np.testing.assert_array_equal(one.forecast(data, 2), other.forecast(data, 2))


def test_a_fifth_of_the_recordings_is_held_out() -> None:
    everything, train, held = split(10)
    assert (len(everything), len(train), len(held)) == (10, 8, 2)
    rows = {tuple(row) for row in train.values}
    assert not rows & {tuple(row) for row in held.values}
    one = Split.of(Trajectories.of(np.arange(11.0)[:, None]))
    assert one.train.values[:, 0].tolist() == list(range(9))
    assert one.held.values[:, 0].tolist() == [9, 10]


def test_an_autoregression_is_chosen_on_a_part_and_fitted_to_all() -> None:
    data = split()
    model, chosen = tuned_autoregression(data, (1, 4), 2, priors=("mean",))
    best = Autoregression.tuned(data.train, data.held, (1, 4), 2, priors=("mean",))
    assert chosen == {"lags": best.lags, "alpha": best.alpha, "prior": "mean"}
    again = Autoregression.fit(data.everything, best.lags, 2, alpha=best.alpha)
    same(model, again, data.held)


def test_systems_are_chosen_on_a_part_and_identified_from_all() -> None:
    data = split()
    order = n4sid(data.train, validation=data.held).order
    model, chosen = tuned_n4sid(data, {}, worse=None)
    assert chosen == {"order": order, "refitted": True}
    same(model, n4sid(data.everything, order), data.held)
    rank = ivr(data.train, validation=data.held, window=3).order
    same(tuned_ivr(data, {}, 3, worse=None).forecaster, ivr(data.everything, rank, window=3), data.held)
    likely, chosen = tuned_em(data, {}, 2, worse=None)
    assert chosen["iterations"] == 2
    same(likely, em(data.everything, order, n_iter=2), data.held)


def test_a_grid_is_searched_one_keyword_after_the_other() -> None:
    data = split()
    grid: dict[str, list[Any]] = {"block_rows": [3, 8], "ridge": [1e-6, 1.0]}
    _, chosen = tuned_n4sid(data, grid, skip=5)

    def error(**setting: Any) -> float:
        return float(errors_by_horizon(n4sid(data.train, validation=data.held, **setting), data.held, skip=5)[0])

    rows = min(grid["block_rows"], key=lambda rows: error(block_rows=rows, ridge=1e-6))
    ridge = min(grid["ridge"], key=lambda ridge: error(block_rows=rows, ridge=ridge))
    assert (chosen["block_rows"], chosen["ridge"]) == (rows, ridge)


def test_settings_that_need_more_data_are_left_out_of_the_grid() -> None:
    data = split(6, 15)
    assert tuned_ivr(data, {"past": [2, 14]}, 2).chosen["past"] == 2
    with pytest.raises(DataError, match="too little data"):
        tuned_ivr(data, {"past": [14]}, 2)


def test_a_system_that_got_worse_on_all_recordings_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    data = split()

    def identify(train: Trajectories, order: int = 2, **_: Any) -> InnovationsModel:
        model = n4sid(train, order, block_rows=3)
        off = 0.0 if train is data.train else 1e3
        return InnovationsModel(
            model.A, model.C, model.K, model.V, model.mean + off, model.initial, model.covariance, model.stabilised
        )

    monkeypatch.setattr("psimlearn.baselines.tuned.n4sid", identify)
    kept, chosen = tuned_n4sid(data, {})
    assert not chosen["refitted"]
    same(kept, identify(data.train), data.held)
    taken, chosen = tuned_n4sid(data, {}, worse=None)
    assert chosen["refitted"]
    same(taken, identify(data.everything), data.held)


def test_a_network_is_trained_again_for_as_many_epochs() -> None:
    pytest.importorskip("jax")
    data = split(10, 12)
    model, chosen = tuned_network(data, 2, ["tanh"], [1e-2], hidden=3, n_epochs=2, seed=1)
    assert isinstance(model, RecurrentNetwork)
    assert (chosen["cell"], chosen["rate"]) == ("tanh", 1e-2)
    assert model.epoch <= chosen["epochs"] <= 2
