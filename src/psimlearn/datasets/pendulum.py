"""A swinging pendulum seen through noise: nonlinear, with a known floor."""

import numpy as np

from psimlearn.recordings.trajectories import Trajectories

__all__ = ["PENDULUM_FLOOR", "noisy_pendulum"]

PENDULUM_FLOOR = 0.18
"""The observation noise alone, summed over both channels: no predictor can do better."""


def noisy_pendulum(n_trajectories: int, length: int, rng: np.random.Generator) -> Trajectories:
    """Sine and cosine of the angle of a pendulum released anywhere, each with noise of standard deviation 0.3."""
    angle = rng.uniform(-np.pi, np.pi, n_trajectories)
    speed = rng.standard_normal(n_trajectories)
    x = np.empty((n_trajectories, length, 2))
    for t in range(length):
        x[:, t] = np.stack([np.sin(angle), np.cos(angle)], axis=1)
        speed = speed - 0.15 * 4 * np.sin(angle) + 0.05 * rng.standard_normal(n_trajectories)
        angle = angle + 0.15 * speed
    return Trajectories.of(x + 0.3 * rng.standard_normal(x.shape))
