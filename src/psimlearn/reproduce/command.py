"""Run experiments, then write the page from all results in the folder."""

from collections.abc import Sequence
from pathlib import Path

from psimlearn.reproduce.experiment import experiment
from psimlearn.reproduce.page import write_page
from psimlearn.reproduce.run import run

__all__ = ["reproduced"]


def reproduced(
    names: Sequence[str],
    *,
    quick: bool = False,
    sets: Sequence[str] = (),
    results: Path | None = None,
    docs: Path | None = None,
    workers: int = 1,
    fresh: bool = False,
) -> Path:
    """Run the jobs that have no result yet, write the page and return its path.

    Args:
        names: the experiments to run; an empty sequence only writes the page.
        quick: fewer folds, sets and methods.
        sets: run only these sets of each experiment; an empty sequence means all sets.
        results: the folder of the results; by default "results", or "results/quick" if quick.
        docs: the folder of the page; by default "docs", or the folder of the results if quick.
        workers: the number of processes.
        fresh: run all jobs again, also those that have a result.
    """
    folder = results or Path("results/quick" if quick else "results")
    for each in [experiment(name, quick=quick) for name in names]:
        run(each, folder, workers=workers, only=sets, fresh=fresh)
    return write_page(folder, docs or (folder if quick else Path("docs")), quick=quick)
