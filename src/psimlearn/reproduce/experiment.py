"""Experiments as their TOML files describe them, and the jobs they consist of."""

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
    """One method on one fold of one set: what is done once, kept, and never done again."""

    set: str
    method: str
    fold: int
    settings: dict[str, Any]
    """All that its result depends on: of the set, of the method, the folds and the seed."""

    @property
    def key(self) -> str:
        """Its name among results."""
        return f"{self.set}/{self.method}/{self.fold}"


@dataclass(frozen=True)
class Experiment:
    """One published result: which methods, on which sets, in how many folds."""

    name: str
    title: str
    claim: str
    """What the paper says."""
    notes: str
    """What is different here, and why."""
    seed: int
    n_folds: int
    """For recordings, folds; for simulated systems, draws."""
    run_folds: int
    """How many of them are run: all, but for a quick look."""
    validation: float
    """The share of the training recordings by which methods choose their settings."""
    sets: Mapping[str, Settings]
    methods: Mapping[str, Settings]
    published: Mapping[str, Any]

    def jobs(self) -> list[Job]:
        """Fold by fold, so that all that is compared grows together; a set and a method may exclude each other."""
        common = {"seed": self.seed, "n_folds": self.n_folds, "validation": self.validation}
        return [
            Job(set, method, fold, common | {"fold": fold, "set": dict(of_set), "method": _on(set, of_method)})
            for fold in range(self.run_folds)
            for (set, of_set), (method, of_method) in product(self.sets.items(), self.methods.items())
            if set in of_method.get("only", self.sets) and fold < _there(set, of_method).get("folds", self.n_folds)
        ]


def _there(set: str, of_method: Settings) -> Settings:
    """What holds for a method on this set only."""
    own: Settings = of_method.get("on", {}).get(set, {})
    return own


def _on(set: str, of_method: Settings) -> dict[str, Any]:
    """What a method is told on this set, whether its channels have one unit included."""
    own = {**of_method, **_there(set, of_method)}
    one_unit = {"standardise": False} if set in of_method.get("one_unit", ()) else {}
    return {name: value for name, value in own.items() if name not in ("one_unit", "on", "folds")} | one_unit


def names() -> list[str]:
    """All experiments there are."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def experiment(name: str, *, quick: bool = False) -> Experiment:
    """Read one.

    Args:
        name: of its file.
        quick: a variant of minutes: what its table [quick] says instead.
    """
    if name not in names():
        raise SettingsError(f"required an experiment of {names()}, received {name!r}.")
    own = tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    changes = own.pop("quick", {})
    if "sets_of" in own:
        others = tomllib.loads((_folder() / f"{own['sets_of']}.toml").read_text(encoding="utf-8"))["sets"]
        own["sets"] = {name: of for name, of in others.items() if name in own.get("sets", others)}
    sets, methods = own["sets"], own["methods"]
    if quick:
        sets = {name: of | changes.get("set", {}) for name, of in sets.items() if name in changes.get("sets", sets)}
        methods = {
            name: of | changes.get("method", {})
            for name, of in methods.items()
            if name in changes.get("methods", methods)
        }
    return Experiment(
        name,
        own["title"],
        own["claim"],
        own.get("notes", "").strip(),
        own.get("seed", 0),
        own["n_folds"],
        changes.get("run_folds", own["n_folds"]) if quick else own["n_folds"],
        own.get("validation", 0.2),
        sets,
        methods,
        own.get("published", {}),
    )


def _folder() -> Any:
    return files("psimlearn.reproduce") / "experiments"
