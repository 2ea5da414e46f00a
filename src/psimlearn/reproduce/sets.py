"""Data of a job: recordings cut into folds, or a system simulated anew for each fold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from psimlearn.datasets import (
    LinearSystem,
    PrincipalComponents,
    beach,
    flag,
    joint_angles,
    long_memory_system,
    ocean,
    pixels,
    principal_components,
    random_system,
    snap_assembly,
    walking,
)
from psimlearn.errors import DataError
from psimlearn.evaluate import Forecaster, errors_by_horizon, folds, power, time_folds
from psimlearn.filter import Scaling
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Fold", "fold_of", "missing"]

VIDEOS: dict[str, Callable[[], np.ndarray]] = {"beach": beach, "flag": flag, "ocean": ocean}
RECORDINGS: dict[str, Callable[[Mapping[str, Any]], Trajectories]] = {
    "snap_assembly": lambda of: snap_assembly(of["which"]),
    "walking": lambda of: _of_parts(walking(of["heading"]), of.get("parts")),
    "joint_angles": lambda of: _of_parts(joint_angles(of["trials"]), of.get("parts")),
}
SYSTEMS: dict[str, Callable[[np.random.Generator], LinearSystem]] = {
    "long_memory_system": lambda _: long_memory_system(),
    "random_system": random_system,
}


class Picture(NamedTuple):
    """A film behind its principal components."""

    components: PrincipalComponents
    pixels: Trajectories


class Fold(NamedTuple):
    """Recordings to learn from and recordings to score on, in the units in which errors are reported."""

    train: Trajectories
    test: Trajectories
    skip: int
    horizon: int
    picture: Picture | None = None
    """The film of the test, where errors are reported in pixels too."""
    clean: Trajectories | None = None
    """The recordings to score on without noise, where noise was added."""
    system: LinearSystem | None = None
    """The system, where recordings are simulated."""

    def score(self, forecaster: Forecaster) -> dict[str, Any]:
        """Errors by horizon; also in pixels for films, without noise where it was added, and beside the optimum."""
        found: dict[str, Any] = {"errors": self._errors(forecaster, self.test), "power": power(self.test)}
        if self.picture is not None:
            shown = _Instead(forecaster, self.test, self.picture.components.restore)
            found["pixels"] = self._errors(shown, self.picture.pixels)
        if self.clean is not None:
            found["clean"] = self._errors(_Instead(forecaster, self.test), self.clean)
            found["clean_power"] = power(self.clean)
        if self.system is not None:
            found |= self._beside_the_optimum(forecaster, self.system)
        return found

    def _errors(self, forecaster: Forecaster, truth: Trajectories) -> list[float]:
        errors: list[float] = errors_by_horizon(forecaster, truth, self.horizon, skip=self.skip).tolist()
        return errors

    def _beside_the_optimum(self, forecaster: Forecaster, system: LinearSystem) -> dict[str, Any]:
        """The excess of the one-step error over the Kalman filter's, relative to the Kalman filter's.

        Errors of the optimal filter are orthogonal to every function of the past, so another filter adds, in
        expectation, its squared distance from the optimal one to the squared error; and that distance is free of the
        observations' noise.
        """
        optimal = system.kalman()
        apart = np.sum((forecaster.forecast(self.test, 1) - optimal.forecast(self.test, 1))[:, 0] ** 2, axis=1)
        time = np.concatenate([np.arange(length) for length in self.test.lengths])
        least = float(system.errors(1)[0])
        return {
            "excess": float(apart[time >= self.skip].mean() / least),
            "excess_from_the_first_row": float(apart.mean() / least),
            "optimal": errors_by_horizon(optimal, self.test, self.horizon, skip=self.skip).tolist(),
        }


class _Instead(NamedTuple):
    """A forecaster that sees other recordings than those that it is scored on: components of pixels, or noisy rows."""

    forecaster: Forecaster
    seen: Trajectories
    shown: Callable[[np.ndarray], np.ndarray] = np.asarray
    """How to read predictions as rows of the recordings that are scored."""

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon p"]:
        """Predictions from the recordings seen, which have the rows of `trajectories`."""
        return self.shown(self.forecaster.forecast(self.seen, horizon))


def fold_of(settings: Mapping[str, Any]) -> Fold:
    """The fold that the settings of a job name."""
    of, index = settings["set"], settings["fold"]
    if of["source"] in SYSTEMS:
        return _simulated(of, np.random.default_rng([settings["seed"], index]))
    rng = np.random.default_rng(settings["seed"])
    if of["source"] in VIDEOS:
        fold = _film(of, settings["n_folds"], index)
    else:
        fold = _recorded(of, settings["n_folds"], index, rng)
    return _noisy(fold, of["noise"], np.random.default_rng([settings["seed"], index])) if "noise" in of else fold


def _recorded(of: Mapping[str, Any], n_folds: int, index: int, rng: np.random.Generator) -> Fold:
    """Whole recordings are tested."""
    recordings = _thinned(RECORDINGS[of["source"]](of), of.get("every", 1))
    train, test = list(folds(recordings, n_folds, rng))[index]
    # plain moments, not `standardisation`: they round otherwise, and training with squares amplifies that to 3 %
    scale = train.values.std(axis=0) if of["units"] == "standard deviations" else np.ones(train.n_channels)
    scaling = Scaling(train.values.mean(axis=0), scale)
    train, test = (replace(each, values=scaling(each.values)) for each in (train, test))
    return Fold(train, test, of["skip"], of["window"])


def _noisy(fold: Fold, noise: float, rng: np.random.Generator) -> Fold:
    """The fold with noise added to every row, in training and test: so many standard deviations of each channel."""
    unit = noise * fold.train.values.std(axis=0)
    train, test = (
        replace(each, values=each.values + unit * rng.standard_normal(each.values.shape))
        for each in (fold.train, fold.test)
    )
    return fold._replace(train=train, test=test, clean=fold.test)


def _thinned(recordings: Trajectories, every: int) -> Trajectories:
    """Every so many rows of each recording, from its first row on."""
    if every == 1:
        return recordings
    rows = [np.arange(start, end, every) for start, end in pairwise(recordings.offsets)]
    return replace(recordings.stretches(rows), ids=recordings.ids)


def _of_parts(recordings: Trajectories, parts: Sequence[str] | None) -> Trajectories:
    """The channels of some parts of the body; all for None."""
    if parts is None:
        return recordings
    assert recordings.names is not None
    kept = [i for i, name in enumerate(recordings.names) if name.split(".")[0] in parts]
    return replace(recordings, values=recordings.values[:, kept], names=tuple(recordings.names[i] for i in kept))


def missing(of: Mapping[str, Any]) -> str:
    """The reason why the recordings of a set cannot be read; empty if they can."""
    try:
        if of["source"] in VIDEOS:
            VIDEOS[of["source"]]()
        elif of["source"] not in SYSTEMS:
            RECORDINGS[of["source"]](of)
    except DataError as error:
        return str(error)
    return ""


def _film(of: Mapping[str, Any], n_folds: int, index: int) -> Fold:
    """One stretch of time is tested; frames before and after it, except a gap, train, cut into pieces."""
    film = pixels(VIDEOS[of["source"]]()[:: of.get("every", 1)])
    train, test = list(time_folds(film, n_folds, of["gap"]))[index]
    pieces = _cut(train, of["piece"])
    components = principal_components(pieces, of["n_components"])
    return Fold(
        components.project(pieces), components.project(test), of["skip"], of["window"], Picture(components, test)
    )


def _cut(train: Trajectories, length: int) -> Trajectories:
    """Every stretch cut into pieces of about this length; no row is lost."""
    rows = [
        part
        for start, end in zip(train.offsets[:-1], train.offsets[1:], strict=True)
        for part in np.array_split(np.arange(start, end), max(1, round((end - start) / length)))
    ]
    return train.stretches(rows)


def _simulated(of: Mapping[str, Any], rng: np.random.Generator) -> Fold:
    system = SYSTEMS[of["source"]](rng)
    train, test = (system.simulate(of[m], of["length"], rng) for m in ("n_trajectories", "n_test"))
    return Fold(train, test, of["skip"], of["window"], system=system)
