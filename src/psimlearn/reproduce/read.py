"""Results of an experiment, by set, method and fold, as tables need them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.errors import DataError
from psimlearn.evaluate import Comparison
from psimlearn.reproduce.experiment import Experiment, experiment
from psimlearn.shapes import Float

__all__ = ["Results", "joined", "results"]


@dataclass(frozen=True, eq=False)
class Results:
    """The results of an experiment."""

    experiment: Experiment
    found: dict[str, Any]
    """The result of each job, by the key of the job."""

    @property
    def sets(self) -> list[str]:
        """The sets that have results."""
        return [name for name in self.experiment.sets if self.methods(name)]

    def methods(self, set: str) -> list[str]:
        """The methods that have results on this set, in the order of the experiment."""
        known = {(each["set"], each["method"]) for each in self.found.values()}
        return [method for method in self.experiment.methods if (set, method) in known]

    def of(self, set: str, method: str) -> list[dict[str, Any]]:
        """The results of one method on one set, fold by fold."""
        return [each for each in self.found.values() if (each["set"], each["method"]) == (set, method)]

    def values(self, set: str, method: str, name: str) -> Float[np.ndarray, "folds *rest"]:
        """The named number or numbers of every fold; infinite where a method failed."""
        rows = [each.get(name) for each in self.of(set, method)]
        like = next((np.array(row, dtype=float) for row in rows if row is not None), np.zeros(()))
        return np.array([np.full_like(like, np.inf) if row is None else np.array(row, dtype=float) for row in rows])

    def compared(self, set: str, name: str = "errors", methods: Sequence[str] = ()) -> Comparison:
        """Methods (all by default) on the folds that all of them have."""
        chosen = [method for method in self.methods(set) if not methods or method in methods]
        folds = [[each["fold"] for each in self.of(set, method)] for method in chosen]
        common = [fold for fold in folds[0] if all(fold in others for others in folds)]
        errors = [self.values(set, m, name)[[of.index(f) for f in common]] for m, of in zip(chosen, folds, strict=True)]
        return Comparison(tuple(chosen), np.array(errors))

    def seconds(self, set: str, method: str) -> float:
        """Processor seconds for one fold."""
        return float(np.mean(self.values(set, method, "cpu")))


def joined(first: Results, second: Results | None) -> Results:
    """The methods of both experiments, which share their sets and folds."""
    if second is None:
        return first
    methods = {**second.experiment.methods, **first.experiment.methods}
    return Results(replace(first.experiment, methods=methods), first.found | second.found)


def results(folder: Path, name: str, *, quick: bool = False) -> Results | None:
    """The results of one experiment, or None if it has not been run."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Results(experiment(name, quick=quick), content["results"])
    except (ValueError, KeyError) as error:
        raise DataError(
            f"{path}: required results that `psimlearn reproduce` wrote, received a file that cannot be read as such: "
            f"{error}. Remove the file and run `psimlearn reproduce {name}`."
        ) from error
