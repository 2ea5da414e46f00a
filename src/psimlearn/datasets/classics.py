"""Classics of system identification: recordings of systems that are driven by known inputs.

Each function returns `Trajectories` with `inputs`.
"""

import numpy as np

from psimlearn.datasets.store import dataset_path
from psimlearn.errors import DataError
from psimlearn.recordings.tables import read
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["ball_and_beam", "cascaded_tanks", "exchanger", "glass_furnace", "robot_arm", "silverbox"]

FOLDER = "sysid_classics"


def exchanger() -> Trajectories:
    """Heat exchanger (DaISy): liquid flow -> outlet temperature; 4000 rows, one a second."""
    return read(dataset_path(FOLDER, "exchanger.csv"), time="ts", channels=["th"], inputs=["q"])


def robot_arm() -> Trajectories:
    """Flexible robot arm (DaISy 96-009): reaction torque of the structure -> acceleration of the arm; 1024 rows."""
    return read(dataset_path(FOLDER, "robot-arm.csv"), channels=["y"], inputs=["u"])


def ball_and_beam() -> Trajectories:
    """Ball on a beam (DaISy): angle of the beam -> position of the ball; 1000 rows, ten a second."""
    return read(dataset_path(FOLDER, "ball-and-beam.csv"), channels=["y"], inputs=["u"])


def cascaded_tanks() -> Trajectories:
    """Two tanks that overflow: pump voltage -> level of the lower tank; "estimation" and "validation", 1024 rows each.

    One row every 4 seconds. The initial levels are unknown and differ.
    """
    path = dataset_path(FOLDER, "tanque.csv")
    halves = [read(path, channels=[f"y{half}"], inputs=[f"u{half}"]) for half in ("Est", "Val")]
    values, inputs = [half.values for half in halves], [half.inputs for half in halves]
    return Trajectories.of(values, inputs, names=["y"], ids=["estimation", "validation"])


def silverbox() -> Trajectories:
    """An electronic oscillator with a hardening spring: voltage -> voltage; 131072 rows, 610.35 a second.

    The first 40 000 rows or so are noise of growing amplitude, commonly the test set; the rest are random multisines.
    """
    return read(dataset_path(FOLDER, "SNLS80mV.csv"), channels=["V2"], inputs=["V1"])


def glass_furnace() -> Trajectories:
    """Glass furnace (DaISy): heating and cooling, 3 inputs -> 6 temperatures; 1247 rows, standardised."""
    from scipy.io import loadmat

    path = dataset_path(FOLDER, "glassfurnace.mat")
    rows = np.asarray(loadmat(path, variable_names=["glassfurnace"]).get("glassfurnace", np.empty((0, 0))))
    if rows.shape != (1247, 10):
        raise DataError(f"{path}: required 1247 x 10 numbers, received {rows.shape}. Get the file again.")
    return Trajectories.of(rows[:, 4:], rows[:, 1:4], names=[f"T{i}" for i in range(1, 7)], ids=["glassfurnace"])
