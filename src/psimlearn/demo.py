"""What psimlearn is for, on simulated recordings whose best possible filter is known: `python -m psimlearn.demo`."""

import sys
import time

import numpy as np

from psimlearn.baselines import LastObservation, TrainingMean
from psimlearn.datasets import long_memory_system
from psimlearn.evaluate import Forecaster, errors_by_horizon
from psimlearn.features import Stack
from psimlearn.learners import Ridge
from psimlearn.train import best, dagger

__all__ = ["main"]


def main(n_recordings: int = 200, length: int = 100) -> None:
    """Learn a filter from recordings of a noisy linear system and set it beside the optimal one."""
    rng = np.random.default_rng(0)
    system = long_memory_system()
    train, validation = system.simulate(n_recordings, length, rng).split(0.2, rng)
    test = system.simulate(1000, length, rng)
    print(f"Learning a filter from {n_recordings} recordings of {length} noisy observations, 2 channels:")
    began, rounds = time.perf_counter(), []
    for round in dagger(train, validation, Stack(2), Ridge(1e-4), rng=rng):
        rounds.append(round)
        if sys.stdout.isatty():
            print(f"\r  round {round.number:2d} of 20, held-out error {round.error:.4f}", end="", flush=True)
    learnt = best(rounds)
    print(
        f"\r  done in {time.perf_counter() - began:.2f} s; round {learnt.number} of 20 has the lowest held-out error.\n"
    )
    methods: dict[str, Forecaster] = {
        "training mean": TrainingMean.fit(train),
        "last observation": LastObservation.fit(train),
        "psimlearn": learnt.filter,
        "optimal Kalman filter": system.kalman(),
    }
    errors = {name: errors_by_horizon(method, test, 2) for name, method in methods.items()}
    optimal = errors["optimal Kalman filter"]
    print("Squared error on 1000 new recordings       1 step   2 steps   above optimal")
    for name, error in errors.items():
        print(f"  {name:38} {error[0]:8.3f}  {error[1]:8.3f}  {100 * (error[0] / optimal[0] - 1):12.1f} %")
    print("\nOnly the last line was told how the system works; psimlearn saw recordings.")


if __name__ == "__main__":
    main()
