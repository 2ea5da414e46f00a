"""A recurrent network that predicts the next observations: trained by gradient, where a filter is regressed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from psimlearn.baselines.constant import LastObservation
from psimlearn.checks import number, one_of, optional, room_for, switch, whole
from psimlearn.errors import DivergedError
from psimlearn.evaluate import errors_by_horizon
from psimlearn.extras import imported
from psimlearn.filter import Scaling
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.schedule import gridded, grids, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures
from psimlearn.shapes import Float
from psimlearn.train.descent import Optimiser, descend, patient

__all__ = ["Cell", "RecurrentNetwork"]

Cell = Literal["tanh", "gru"]
GATES: dict[str, int] = {"tanh": 1, "gru": 3}


class Network(NamedTuple):
    """The weights. Arrays of numpy, or of JAX while they are trained."""

    start: Any
    """h_0, the state before anything was seen: (hidden,)."""
    observed: Any
    """From observations to gates: (n, gates * hidden)."""
    fed_back: Any
    """From states to gates: (hidden, gates * hidden)."""
    bias: Any
    read: Any
    """From states to changes: (hidden, horizon * n)."""
    offset: Any

    def changes(self, h: Any, n: int | None = None) -> Any:
        """Predicted changes from the last row to the coming ones, or only the first n coordinates of them."""
        return h @ self.read[:, :n] + self.offset[:n]


@dataclass(frozen=True, eq=False)
class RecurrentNetwork:
    """Predicts each of the next `horizon` rows as a change from the last; later rows by feeding predictions back.

    Observations are standardised; a missing one is replaced by its prediction. Before the first row, the learnt first
    state predicts changes from the mean. Inputs beside the observations are not used.
    """

    network: Network
    cell: Cell
    horizon: int
    scaling: Scaling
    epoch: int = 0
    """The number of epochs after which this network had the least validation error."""

    @classmethod
    def fit(
        cls,
        train: Trajectories,
        validation: Trajectories,
        horizon: int = 5,
        *,
        hidden: int = 100,
        cell: Cell = "gru",
        seed: int = 0,
        n_epochs: int = 200,
        batch: int = 10,
        optimiser: Optimiser = "adam",
        rate: float | None = 3e-3,
        clip: float | None = 10.0,
        patience: int = 20,
        criterion: Literal["one-step", "window"] = "one-step",
        standardise: bool = True,
    ) -> "RecurrentNetwork":
        """Descend the squared errors of the next `horizon` rows at every row; the best epoch on validation is kept.

        Args:
            train: recordings.
            validation: recordings whose closed-loop error chooses the epoch.
            horizon: how many rows ahead to predict directly.
            hidden: units of the state; the paper has 100, 200 and 2500.
            cell: "tanh" or "gru".
            seed: of the first weights and of the order of batches.
            n_epochs: the most epochs.
            batch: recordings to a step.
            optimiser: as in `descent.descend`.
            rate: the step size; None for a usual one.
            clip: the largest norm of a gradient; None for any.
            patience: stop when the validation error has not fallen for so many epochs.
            criterion: the error of standardised channels one step ahead, or the mean over the "window" of all horizons,
                each relative to the error of the last observation.
            standardise: measure each channel in its standard deviation. Otherwise all channels have one unit, and
                channels that vary most count most.
        """
        _check_counts(hidden=hidden, horizon=horizon, batch=batch, patience=patience, n_epochs=n_epochs)
        whole(seed, "seed", 0)
        optional(number, rate, "rate", above=True)
        optional(number, clip, "clip", above=True)
        one_of(cell, get_args(Cell), "cell")
        one_of(criterion, ("one-step", "window"), "criterion")
        switch(standardise, "standardise")
        first = _first(train.n_channels, horizon, hidden, cell, seed)
        blank = cls(first, cell, horizon, standardisation(train.values, one_unit=not standardise))
        steps = 1 if criterion == "one-step" else horizon
        scale = blank.scaling.scale
        last = errors_by_horizon(LastObservation.fit(train), validation, steps, scale=scale)
        usual = np.where(last > 0, last, 1.0)

        def epochs() -> Iterator[_Epoch]:
            for state in islice(descent, n_epochs + 1):
                model = replace(blank, network=state.parameters, epoch=state.epoch)
                errors = errors_by_horizon(model, validation, steps, scale=scale)
                yield _Epoch(model, float(np.mean(errors / usual)))

        rectangles = _laid_out(train, blank.scaling, horizon)
        descent = descend(
            _loss(cell),
            blank.network,
            None,
            _batches(rectangles, batch),
            tuple(rectangles),
            seed=seed,
            optimiser=optimiser,
            rate=rate,
            clip=clip,
        )
        best = min(patient(epochs(), patience), key=lambda epoch: epoch.error)
        if not np.isfinite(best.error):
            raise DivergedError("required one epoch with a finite validation error, received none. Use a smaller rate.")
        return best.model

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Direct predictions up to the trained horizon; beyond it, the last direct step from predicted rows."""
        plan = schedule(trajectories.offsets)
        x = self.scaling(trajectories.values)[plan.order]
        n, step = x.shape[1], _step(self.cell, np)
        states = np.empty((len(x), len(self.network.start)))
        latest = np.zeros_like(x)
        h, last = np.tile(self.network.start, (len(x[plan.block(0)]), 1)), latest[plan.block(0)]
        for block in plan.blocks():
            m = block.stop - block.start
            states[block], latest[block] = h[:m], last[:m]
            expected = last[:m] + self.network.changes(h[:m], n)
            last = np.where(np.isnan(x[block]), expected, x[block])
            h = step(self.network, h[:m], last)
        direct = self._read(states, latest)
        ahead = [direct[:, :horizon]]
        for _ in range(horizon - self.horizon):
            latest = direct[:, 0]
            states = step(self.network, states, latest)
            direct = self._read(states, latest)
            ahead.append(direct[:, -1:])
        return plan.packed(self.scaling.undo(np.concatenate(ahead, axis=1)))

    def _read(
        self, states: Float[np.ndarray, "rows hidden"], latest: Float[np.ndarray, "rows n"]
    ) -> Float[np.ndarray, "rows horizon n"]:
        ahead: np.ndarray = self.network.changes(states).reshape(len(states), self.horizon, -1) + latest[:, None]
        return ahead


def _check_counts(**counts: Any) -> None:
    """Refuse what is no count, and a state too large for memory."""
    for name, value in counts.items():
        whole(value, name)
    room_for("hidden", counts["hidden"], 3 * counts["hidden"])


class _Epoch(NamedTuple):
    """The network after an epoch, and its validation error."""

    model: RecurrentNetwork
    error: float


class Grid(NamedTuple):
    """Trajectories of similar length, (time, trajectory, ..), zero beyond their ends and where nothing was seen."""

    x: Any
    seen: Any
    f: Any
    """The next rows from each row on, stacked."""
    weight: Any
    """The weight of each of these entries: 0 where it was not observed."""


def _laid_out(train: Trajectories, scaling: Scaling, horizon: int) -> list[Grid]:
    """Standardised rows and their futures, as rectangles."""
    plan = schedule(train.offsets)
    x = scaling(train.values)[plan.order]
    f = futures(x, plan, horizon).reshape(len(x), -1)
    weight = ~np.isnan(f) / np.maximum((~np.isnan(f)).sum(axis=0), 1)
    filled = [np.nan_to_num(x), ~np.isnan(x), np.nan_to_num(f), weight]
    return [Grid(*(gridded(grid, rows) for rows in filled)) for grid in grids(plan, slice(None))]


def _batches(whole: list[Grid], size: int) -> list[tuple[Grid]]:
    """Some trajectories each, with the weight of all of them."""
    cut = [Grid(*(rows[:, i : i + size] for rows in part)) for part in whole for i in range(0, part.x.shape[1], size)]
    return [(part._replace(weight=part.weight * len(cut)),) for part in cut]


def _first(n: int, horizon: int, hidden: int, cell: Cell, seed: int) -> Network:
    """Random weights that keep states moderate, and predictions that begin at the last observation."""
    rng = np.random.default_rng(seed)

    def uniform(inputs: int, outputs: int, scale: float) -> Float[np.ndarray, "_ _"]:
        weights: np.ndarray = rng.uniform(-scale, scale, (inputs, outputs)) / np.sqrt(inputs)
        return weights

    wide = GATES[cell] * hidden
    return Network(
        np.zeros(hidden),
        uniform(n, wide, 1.0),
        uniform(hidden, wide, 1.0),
        np.zeros(wide),
        uniform(hidden, horizon * n, 0.1),
        np.zeros(horizon * n),
    )


def _step(cell: Cell, xp: Any) -> Callable[[Network, Any, Any], Any]:
    """The next state, in numpy or JAX alike."""

    def tanh(net: Network, h: Any, x: Any) -> Any:
        return xp.tanh(x @ net.observed + net.bias + h @ net.fed_back)

    def gru(net: Network, h: Any, x: Any) -> Any:
        seen, fed = x @ net.observed + net.bias, h @ net.fed_back
        size = h.shape[-1]
        reset, keep = xp.split(_sigmoid(xp, seen[..., : 2 * size] + fed[..., : 2 * size]), 2, axis=-1)
        new = xp.tanh(seen[..., 2 * size :] + reset * fed[..., 2 * size :])
        return keep * h + (1 - keep) * new

    return {"tanh": tanh, "gru": gru}[cell]


def _sigmoid(xp: Any, a: Any) -> Any:
    return 0.5 * (1 + xp.tanh(0.5 * a))


@cache
def _loss(cell: Cell) -> Callable[[Any, Any, Any], Any]:
    """The squared errors of all predictions, made once: JAX compiles for the function that it is given."""
    jax = imported("jax", "grad")
    jnp = jax.numpy
    step = _step(cell, jnp)

    def misfit(net: Network, part: Grid) -> Any:
        _, b, n = part.x.shape

        def met(carry: Any, now: Any) -> Any:
            h, last = carry
            x, seen = now
            x = jnp.where(seen, x, last + net.changes(h, n))
            return (step(net, h, x), x), (h, last)

        start = (jnp.tile(net.start, (b, 1)), jnp.zeros((b, n)))
        _, (h, last) = jax.lax.scan(met, start, (part.x, part.seen))
        ahead = net.changes(h) + jnp.tile(last, (1, 1, part.f.shape[2] // n))
        return jnp.sum(part.weight * (ahead - part.f) ** 2)

    def loss(net: Network, _: Any, parts: Any) -> Any:
        return sum((misfit(net, part) for part in parts), jnp.zeros(()))

    return loss
