"""One epoch of back-propagation, compared with a loop written by hand in JAX; interleaved in one run.

    python benchmarks/grad.py [--repeats 5]

43 recordings x 300 rows x 60 channels, a window of 5, one step of RMSProp for each recording, double precision. Both do
the same arithmetic: the weights after an epoch are compared. Ours also computes the training loss after the epoch and
checks that every step is finite. The compile time is the time of the first epoch minus the best time of the others.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from psimlearn.filter import Stack
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, random_start
from psimlearn.train.descent import descend
from psimlearn.train.unrolled import closed_loop, fixed_of, form_of, parts_of, weights_of

M, ROWS, N, WINDOW, RATE = 43, 300, 60, 5, 1e-4
LEARNERS: dict[str, Any] = {"linear": Ridge(), "500 features": RandomFourierRidge(500, raw_inputs=False)}
RECIPE = Recipe(box=None, standardise=False, prior="zero")  # the plain step, which is easy to write by hand


def recordings() -> Trajectories:
    """Recordings of slow, correlated, noisy channels."""
    rng = np.random.default_rng(0)
    latent = np.cumsum(rng.standard_normal((M, ROWS, 8)), axis=1) * 0.1
    return Trajectories.of(latent @ rng.standard_normal((8, N)) / 3 + 0.1 * rng.standard_normal((M, ROWS, N)))


def by_hand(x: np.ndarray, first: np.ndarray, weights: np.ndarray, frequencies: np.ndarray | None) -> Iterator[Any]:
    """m <- W [m; x; 1], or W [cos; sin; 1] of random projections; one gradient step for each recording."""
    d, T = WINDOW * N, ROWS - WINDOW
    f = np.stack([x[:, t + 1 : t + 1 + WINDOW].reshape(M, d) for t in range(T)], axis=1)
    optimiser = optax.rmsprop(RATE)

    def loss(W: Any, x: Any, f: Any) -> Any:
        def step(m: Any, now: Any) -> Any:
            x, f = now
            z = jnp.concatenate([m, x])
            if frequencies is not None:
                angle = z @ frequencies
                z = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])
            m = z @ W[:-1] + W[-1]
            return m, jnp.sum((m - f) ** 2)

        return jnp.sum(jax.lax.scan(step, first, (x[:T], f))[1]) / T

    @jax.jit
    def update(W: Any, memory: Any, x: Any, f: Any) -> Any:
        gradient = jax.grad(loss)(W, x, f)
        change, memory = optimiser.update(gradient, memory)
        return W + change, memory

    with jax.enable_x64(True):
        W, xs, fs = jnp.asarray(weights), [jnp.asarray(a) for a in x], [jnp.asarray(a) for a in f]
        memory = optimiser.init(W)
    for epoch in range(1_000_000):
        order = np.random.default_rng([0, epoch]).permutation(M)
        with jax.enable_x64(True):
            for i in order:
                W, memory = update(W, memory, xs[i], fs[i])
            W.block_until_ready()
        yield np.asarray(W)


def ours(data: Trajectories, start: Any) -> Iterator[Any]:
    (part,) = parts_of(start, data)
    batches = [(part.some(slice(i, i + 1)),) for i in range(M)]
    batches = [(one._replace(weight=one.weight * M),) for (one,) in batches]
    loss, fixed = closed_loop(form_of(start, True)).loss, fixed_of(start)
    options: dict[str, Any] = {"seed": 0, "optimiser": "rmsprop", "rate": RATE}
    states = descend(loss, weights_of(start), fixed, batches, (part,), **options)
    return (state.parameters for state in islice(states, 1, None))


def timed(epochs: Iterator[Any]) -> tuple[float, Any]:
    """CPU seconds of all threads and the result; on a shared machine, wall time would measure other programs."""
    began = time.process_time()
    out = next(epochs)
    return time.process_time() - began, out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    data = recordings()
    x = data.values.reshape(M, ROWS, N)
    print("| per-trajectory epoch | by hand | ours | ratio | compile by hand | compile ours | weights differ by |")
    print("|---|---|---|---|---|---|---|")
    for name, learner in LEARNERS.items():
        start = random_start(data, Stack(WINDOW), learner, rng=np.random.default_rng(1), recipe=RECIPE)
        frequencies = fixed_of(start).frequencies
        runs = {"hand": by_hand(x, start.initial, weights_of(start), frequencies), "ours": ours(data, start)}
        seconds: dict[str, list[float]] = {method: [] for method in runs}
        for _ in range(repeats + 1):
            last = {}
            for method, epochs in runs.items():
                spent, last[method] = timed(epochs)
                seconds[method].append(spent)
        best = {method: min(each[1:]) for method, each in seconds.items()}
        compiled = {method: each[0] - best[method] for method, each in seconds.items()}
        gap = np.abs(last["hand"] - last["ours"]).max() / np.abs(last["hand"]).max()
        print(
            f"| {name} | {best['hand']:.3f} s | {best['ours']:.3f} s | {best['ours'] / best['hand']:.2f} | "
            f"{compiled['hand']:.1f} s | {compiled['ours']:.1f} s | {gap:.0e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
