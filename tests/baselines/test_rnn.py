"""The recurrent baseline: its states by hand, and its gradients by differences."""

from functools import cache
from typing import Any, get_args

import jax
import numpy as np
import pytest

from oracles import ragged
from psimlearn.baselines import RecurrentNetwork, rnn
from psimlearn.baselines.rnn import Cell, Network
from psimlearn.errors import SettingsError
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng


@cache
def trained(cell: Cell) -> tuple[RecurrentNetwork, Trajectories]:
    data = ragged([12, 30, 9, 25, 28, 14], 2, RNG(0), missing=0.15)
    return RecurrentNetwork.fit(data[:4], data[4:], 3, hidden=6, cell=cell, n_epochs=4, batch=2), data


def sigmoid(a: np.ndarray) -> np.ndarray:
    share: np.ndarray = 1 / (1 + np.exp(-a))
    return share


def by_hand(model: RecurrentNetwork, x: np.ndarray) -> np.ndarray:
    """Predictions before every row of one standardised recording, row by row, with the gates written out."""
    net, n, H = model.network, x.shape[1], len(model.network.start)
    h, last, out = net.start, np.zeros(n), []
    for row in x:
        ahead = (net.read.T @ h + net.offset).reshape(model.horizon, n) + last
        out.append(ahead)
        last = np.where(np.isnan(row), ahead[0], row)
        if model.cell == "tanh":
            h = np.tanh(net.observed.T @ last + net.fed_back.T @ h + net.bias)
            continue
        W, U, b = (np.split(a, 3, axis=-1) for a in (net.observed, net.fed_back, net.bias))
        reset, keep = (sigmoid(W[i].T @ last + U[i].T @ h + b[i]) for i in (0, 1))
        new = np.tanh(W[2].T @ last + b[2] + reset * (U[2].T @ h))
        h = keep * h + (1 - keep) * new
        assert h.shape == (H,)
    return np.array(out)


@pytest.mark.parametrize("cell", get_args(Cell))
def test_states_and_predictions_by_hand(cell: Cell) -> None:
    model, data = trained(cell)
    forecasts = data.unpacked(model.forecast(data, 3))
    for part, forecast in zip(data, forecasts, strict=True):
        expected = model.scaling.undo(by_hand(model, model.scaling(part.values)))
        np.testing.assert_allclose(forecast, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", get_args(Cell))
def test_the_loss_is_that_of_the_forecasts_and_its_gradient_its_slope(cell: Cell) -> None:
    model, data = trained(cell)
    parts = tuple(rnn._laid_out(data, model.scaling, 3))
    assert len(parts) > 1

    def by_forecast(net: Network) -> float:
        """Squared errors of `by_hand`, averaged over what was observed and not beyond the end."""
        moved = RecurrentNetwork(net, cell, 3, model.scaling)
        errors: list[np.ndarray] = []
        for part in data:
            x = model.scaling(part.values)
            padded = np.concatenate([x, np.full((2, 2), np.nan)])
            ahead = by_hand(moved, x)
            errors += [ahead[t] - padded[t : t + 3] for t in range(len(x))]
        return float(np.nanmean(np.square(errors), axis=0).sum())

    with jax.enable_x64(True):
        value, gradient = jax.device_get(jax.jit(jax.value_and_grad(rnn._loss(cell)))(model.network, None, parts))
    assert value == pytest.approx(by_forecast(model.network), rel=1e-12)
    rng = RNG(1)
    for name in Network._fields:
        direction = rng.standard_normal(getattr(gradient, name).shape)
        up, down = (
            by_forecast(model.network._replace(**{name: getattr(model.network, name) + h * direction}))
            for h in (1e-5, -1e-5)
        )
        slope = float(np.sum(getattr(gradient, name) * direction))
        assert (up - down) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-7), name


def test_beyond_its_horizon_it_takes_its_own_predictions_for_observations() -> None:
    model, data = trained("gru")
    x = data[1].values
    ahead = model.forecast(data[1:2], 5)
    longer = np.concatenate([x[:10], ahead[10, :2]])
    for steps in (1, 2):
        imagined = Trajectories.of(np.concatenate([longer[: 10 + steps], x[:1]]))
        after = model.forecast(imagined, 3)[10 + steps]
        # the first imagined row is what was predicted; the second what the imagined past leads to
        if steps == 1:
            np.testing.assert_allclose(ahead[10, 3], after[2], rtol=0, atol=1e-12)
            longer = np.concatenate([x[:10], ahead[10, :1], after[:1]])
        else:
            np.testing.assert_allclose(ahead[10, 4], after[2], rtol=0, atol=1e-12)


def test_the_first_state_is_learnt() -> None:
    """Recordings that all begin far from their mean: before anything is seen, their beginning is expected."""
    rng = RNG(2)
    decay = 3.0 * 0.8 ** np.arange(25)[:, None] + 0.1 * rng.standard_normal((40, 25, 1))
    data = Trajectories.of(decay)
    model = RecurrentNetwork.fit(data[:30], data[30:], 2, hidden=8, n_epochs=60, rate=1e-2)
    begins = model.forecast(data[:1], 2)[0, :, 0]
    np.testing.assert_allclose(begins, [3.0, 2.4], rtol=0, atol=0.3)
    assert abs(decay.mean() - 3.0) > 2


def test_settings_that_mean_nothing_are_refused() -> None:
    data = ragged([12, 12], 1, RNG(0))
    wrong: Any = {"hidden": 0}
    with pytest.raises(SettingsError, match="hidden: required a whole number of at least 1, received 0"):
        RecurrentNetwork.fit(data, data, **wrong)
