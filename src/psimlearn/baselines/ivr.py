"""Predictive state representations by two-stage, instrumental-variable regression.

Regressing one noisy window on the one before would be biased by the noise they share. The first stage therefore
replaces both by their predictions from the past before them; the second stage regresses prediction on prediction.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from psimlearn.baselines.beginning import begun
from psimlearn.baselines.identify import identified, one_or_several, orders_to_try
from psimlearn.baselines.innovations import InnovationsModel
from psimlearn.checks import number, switch, whole
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float
from psimlearn.train.subspace import columns
from psimlearn.train.systems import FLOOR, System, radius, stabilised, steady_gain

__all__ = ["ivr"]


def ivr(
    train: Trajectories,
    rank: int | None = None,
    *,
    validation: Trajectories | None = None,
    window: int = 5,
    past: int | Sequence[int] = 10,
    ridge: float = 1e-6,
    standardise: bool = True,
    riccati: bool = False,
) -> InnovationsModel:
    """Learn a predictive state representation: its state predicts the next `window` observations.

    Args:
        train: recordings; no window spans two of them. Missing entries are carried forward, then filled in by the
            model learnt, which is learnt again.
        rank: the number of states; by default the one with the least one-step error on `validation`.
        validation: recordings to choose the rank by.
        window: how many observations the state predicts, k.
        past: how many observations serve as instruments, p, or several such numbers to choose from as well.
        ridge: added to the variances of the standardised observations.
        standardise: as in `n4sid`.
        riccati: if the filter does not forget its start, give it the gain that the Riccati equation has for the same
            errors. It is better on most recordings, but not on all.
    """
    whole(window, "window")
    number(ridge, "ridge")
    switch(standardise, "standardise")
    switch(riccati, "riccati")
    tried = [
        (rows, orders_to_try(rank, validation, min(window, rows) * train.n_channels, "rank"))
        for rows in one_or_several(past, validation, 1, "past")
    ]

    def candidates(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Iterator[InnovationsModel]:
        for rows, ranks in tried:
            h, xi = (each - each.mean(axis=0) for each in columns(x, plan, rows, window + 1))
            expected = h @ np.linalg.solve(h.T @ h / len(h) + ridge * np.eye(h.shape[1]), h.T @ xi / len(h))
            w = np.concatenate([xi, expected], axis=1)
            systems = (_second_stage(w.T @ w / len(w), train.n_channels, rank, riccati) for rank in ranks)
            yield from (begun(system, x, plan, rows + window) for system in systems)

    return identified(train, validation, candidates, standardise)


def _second_stage(moments: Float[np.ndarray, "w w"], n: int, rank: int, riccati: bool) -> System:
    """Regress the expected window (x_t, .., x_{t+k}) on the state, `rank` directions of its first k blocks.

    Conditioning the jointly Gaussian extended window on x_t and dropping that block is a step of the filter. The
    moments belong to the extended window and, after it, to its expectation.
    """
    e = len(moments) // 2
    expected = moments[e:, e:]
    U = np.linalg.eigh(expected[: e - n, : e - n])[1][:, ::-1][:, :rank]
    q = np.concatenate([U, np.zeros((n, rank))])
    W = np.linalg.lstsq(q.T @ expected @ q, q.T @ expected, rcond=1e-12)[0].T
    residual = np.concatenate([np.eye(e), -W @ q.T], axis=1)
    sigma = residual @ moments @ residual.T
    V = sigma[:n, :n] + FLOOR * np.eye(n)
    A, shrunk = stabilised(U.T @ W[n:])
    K = np.linalg.solve(V, (U.T @ sigma[n:, :n]).T).T
    if riccati and radius(A - K @ W[:n]) >= 1:
        both = np.concatenate([U.T @ sigma[n:], sigma[:n]])  # errors of the next state and of x_t, beside all errors
        K, V = steady_gain(A, W[:n], np.concatenate([both[:, n:] @ U, both[:, :n]], axis=1))
    return System(A, W[:n], K, V, shrunk)
