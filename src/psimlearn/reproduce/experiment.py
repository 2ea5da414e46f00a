"""Experiments, read from their TOML files, and the jobs that they consist of."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

from psimlearn.errors import SettingsError

__all__ = ["Experiment", "Job", "experiment", "names"]

Settings = Mapping[str, Any]


class Job(NamedTuple):
    """One method on one fold of one set: a job runs once, and its result is kept."""

    set: str
    method: str
    fold: int
    settings: dict[str, Any]
    """Everything that the result depends on: settings of the set and the method, the folds and the seed."""

    @property
    def key(self) -> str:
        """The name of the job among the results."""
        return f"{self.set}/{self.method}/{self.fold}"


@dataclass(frozen=True)
class Experiment:
    """One published result: its methods, its data sets and the number of folds."""

    name: str
    title: str
    claim: str
    """The claim of the paper."""
    notes: str
    """Differences from the paper, and their reasons: Markdown for the page."""
    seed: int
    n_folds: int
    """The number of folds of recordings, or of draws of a simulated system."""
    run_folds: int
    """The number of folds to run: all of them, fewer for a quick look."""
    validation: float
    """The share of the training recordings on which methods choose their settings."""
    sets: Mapping[str, Settings]
    methods: Mapping[str, Settings]
    published: Mapping[str, Any]

    def jobs(self) -> list[Job]:
        """All jobs, fold by fold, so that an interrupted run has the same folds of every method."""
        common = {"seed": self.seed, "n_folds": self.n_folds, "validation": self.validation}
        return [
            Job(set, method, fold, common | {"fold": fold, "set": dict(of_set), "method": _on(set, of_method)})
            for fold in range(self.run_folds)
            for (set, of_set), (method, of_method) in product(self.sets.items(), self.methods.items())
            if set in of_method.get("only", self.sets) and fold < _there(set, of_method).get("folds", self.n_folds)
        ]


def _there(set: str, of_method: Settings) -> Settings:
    """The settings of a method that hold on this set only."""
    there: Settings = of_method.get("on", {}).get(set, {})
    return there


def _on(set: str, of_method: Settings) -> dict[str, Any]:
    """The settings of a method on this set; channels of one unit are not standardised."""
    settings = {**of_method, **_there(set, of_method)}
    one_unit = {"standardise": False} if set in of_method.get("one_unit", ()) else {}
    return {name: value for name, value in settings.items() if name not in ("one_unit", "on", "folds")} | one_unit


def names() -> list[str]:
    """The names of all experiments."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def experiment(name: str, *, quick: bool = False) -> Experiment:
    """Read an experiment.

    Args:
        name: the name of its file, without the suffix.
        quick: change it as its table [quick] says, so that it runs within minutes.
    """
    if name not in names():
        raise SettingsError(f"required the name of an experiment, one of {names()}, received {name!r}.")
    content = _content(name)
    changes = content.pop("quick", {})
    if "sets_of" in content:
        others = _content(content["sets_of"])["sets"]
        content["sets"] = {name: of for name, of in others.items() if name in content.get("sets", others)}
    if "like" in content:
        content |= _completed(content, _content(content["like"]))
    sets, methods = content["sets"], content["methods"]
    if quick:
        sets = {name: of | changes.get("set", {}) for name, of in sets.items() if name in changes.get("sets", sets)}
        methods = {
            name: of | changes.get("method", {})
            for name, of in methods.items()
            if name in changes.get("methods", methods)
        }
    return Experiment(
        name,
        content["title"],
        content["claim"],
        content.get("notes", "").strip(),
        content.get("seed", 0),
        content["n_folds"],
        changes.get("run_folds", content["n_folds"]) if quick else content["n_folds"],
        content.get("validation", 0.2),
        sets,
        methods,
        content.get("published", {}),
    )


def _completed(content: Settings, other: Settings) -> dict[str, Any]:
    """Sets that say which set they are like, and methods of the same name, with the settings that they leave as is."""
    models = {name: of["like"] for name, of in content["sets"].items() if "like" in of}
    sets = {name: {**other["sets"].get(models.get(name), {}), **of} for name, of in content["sets"].items()}
    return {
        "sets": {name: {key: value for key, value in of.items() if key != "like"} for name, of in sets.items()},
        "methods": {name: {**other["methods"].get(name, {}), **of} for name, of in content["methods"].items()},
        "published": {name: other["published"][m] for name, m in models.items() if m in other["published"]},
    }


def _content(name: str) -> dict[str, Any]:
    return tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))


def _folder() -> Any:
    return files("psimlearn.reproduce") / "experiments"
