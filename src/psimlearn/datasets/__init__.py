"""Simulated systems whose best possible filter is known, and loaders of real recordings, which are not included."""

from psimlearn.datasets.asfamc import read_amc as read_amc
from psimlearn.datasets.asfamc import read_asf as read_asf
from psimlearn.datasets.classics import ball_and_beam as ball_and_beam
from psimlearn.datasets.classics import cascaded_tanks as cascaded_tanks
from psimlearn.datasets.classics import exchanger as exchanger
from psimlearn.datasets.classics import glass_furnace as glass_furnace
from psimlearn.datasets.classics import robot_arm as robot_arm
from psimlearn.datasets.classics import silverbox as silverbox
from psimlearn.datasets.cmu import download_walking as download_walking
from psimlearn.datasets.hmm import HiddenMarkov as HiddenMarkov
from psimlearn.datasets.hmm import long_memory_hmm as long_memory_hmm
from psimlearn.datasets.hmm import three_state_hmm as three_state_hmm
from psimlearn.datasets.hmm import two_state_hmm as two_state_hmm
from psimlearn.datasets.linear import LinearSystem as LinearSystem
from psimlearn.datasets.linear import hard_system as hard_system
from psimlearn.datasets.linear import long_memory_system as long_memory_system
from psimlearn.datasets.linear import random_system as random_system
from psimlearn.datasets.pendulum import PENDULUM_FLOOR as PENDULUM_FLOOR
from psimlearn.datasets.pendulum import noisy_pendulum as noisy_pendulum
from psimlearn.datasets.robot import raw_snap_assembly as raw_snap_assembly
from psimlearn.datasets.robot import snap_assembly as snap_assembly
from psimlearn.datasets.skeleton import positions as positions
from psimlearn.datasets.store import data_folder as data_folder
from psimlearn.datasets.store import dataset_path as dataset_path
from psimlearn.datasets.video import PrincipalComponents as PrincipalComponents
from psimlearn.datasets.video import beach as beach
from psimlearn.datasets.video import flag as flag
from psimlearn.datasets.video import frames as frames
from psimlearn.datasets.video import ocean as ocean
from psimlearn.datasets.video import pixels as pixels
from psimlearn.datasets.video import principal_components as principal_components
from psimlearn.datasets.walks import joint_angles as joint_angles
from psimlearn.datasets.walks import walking as walking
from psimlearn.recordings.tables import read as read

__all__ = [
    "PENDULUM_FLOOR",
    "HiddenMarkov",
    "LinearSystem",
    "PrincipalComponents",
    "ball_and_beam",
    "beach",
    "cascaded_tanks",
    "data_folder",
    "dataset_path",
    "download_walking",
    "exchanger",
    "flag",
    "frames",
    "glass_furnace",
    "hard_system",
    "joint_angles",
    "long_memory_hmm",
    "long_memory_system",
    "noisy_pendulum",
    "ocean",
    "pixels",
    "positions",
    "principal_components",
    "random_system",
    "raw_snap_assembly",
    "read",
    "read_amc",
    "read_asf",
    "robot_arm",
    "silverbox",
    "snap_assembly",
    "three_state_hmm",
    "two_state_hmm",
    "walking",
]
