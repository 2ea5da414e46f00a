"""A pendulum observed with noise: a nonlinear system with a known lower bound of the error."""

import numpy as np

from psimlearn.checks import generator, room_for, whole
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["PENDULUM_FLOOR", "noisy_pendulum"]

PENDULUM_FLOOR = 0.18
"""The variance of the observation noise, summed over both channels: no predictor has a smaller error."""


def noisy_pendulum(n_trajectories: int, length: int, rng: np.random.Generator) -> Trajectories:
    """Sine and cosine of the angle of a pendulum released at a random angle, with noise of standard deviation 0.3."""
    room_for("n_trajectories", whole(n_trajectories, "n_trajectories"), whole(length, "length"), 2)
    generator(rng)
    angle = rng.uniform(-np.pi, np.pi, n_trajectories)
    speed = rng.standard_normal(n_trajectories)
    x = np.empty((n_trajectories, length, 2))
    for t in range(length):
        x[:, t] = np.stack([np.sin(angle), np.cos(angle)], axis=1)
        speed = speed - 0.15 * 4 * np.sin(angle) + 0.05 * rng.standard_normal(n_trajectories)
        angle = angle + 0.15 * speed
    return Trajectories.of(x + 0.3 * rng.standard_normal(x.shape))
