"""What psimlearn is for, on simulated recordings whose best possible filter is known: `python -m psimlearn.demo`."""

import time

import numpy as np

from psimlearn.baselines import LastObservation, TrainingMean
from psimlearn.datasets import long_memory_system
from psimlearn.estimator import PSIM
from psimlearn.evaluate import Forecaster, errors_by_horizon

__all__ = ["main"]


def main(n_recordings: int = 200, length: int = 100) -> None:
    """Learn a filter from recordings of a noisy linear system and set it beside the optimal one."""
    rng = np.random.default_rng(0)
    system = long_memory_system()
    train, test = system.simulate(n_recordings, length, rng), system.simulate(1000, length, rng)
    print(f"Learning a filter from {n_recordings} recordings of {length} noisy observations, 2 channels ..")
    began = time.perf_counter()
    model = PSIM(window=2, random_state=0).fit(train)
    print(f"done in {time.perf_counter() - began:.1f} s.\n\n{model.summary()}\n")
    methods: dict[str, Forecaster] = {
        "training mean": TrainingMean.fit(train),
        "last observation": LastObservation.fit(train),
        "psimlearn": model.filter_,
        "optimal Kalman filter": system.kalman(),
    }
    errors = {name: errors_by_horizon(method, test, 2) for name, method in methods.items()}
    optimal = errors["optimal Kalman filter"]
    print("Squared error on 1000 new recordings       1 step   2 steps   above optimal")
    for name, error in errors.items():
        print(f"  {name:38} {error[0]:8.3f}  {error[1]:8.3f}  {100 * (error[0] / optimal[0] - 1):12.1f} %")
    low, high = model.predict_interval(test)
    seen = test.values
    inside = np.mean((np.concatenate(low) <= seen) & (seen <= np.concatenate(high)))
    print(f"\n90 % intervals cover {inside:.1%} of them. Only the last line was told how the system works;")
    print("psimlearn saw recordings.")


if __name__ == "__main__":
    main()
