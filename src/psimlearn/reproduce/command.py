"""Run experiments, then write the page from all results there are."""

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
    """Run what has not been run, and return the page.

    Args:
        names: of experiments; none only writes the page.
        quick: fewer folds, sets and methods.
        sets: only these sets of each experiment; none for all.
        results: where results are kept: by default "results", or "results/quick".
        docs: where the page goes: by default "docs", or beside the quick results.
        workers: processes.
        fresh: run again what has been run.
    """
    folder = results or Path("results/quick" if quick else "results")
    for own in [experiment(name, quick=quick) for name in names]:
        run(own, folder, workers=workers, only=sets, fresh=fresh)
    return write_page(folder, docs or (folder if quick else Path("docs")), quick=quick)
