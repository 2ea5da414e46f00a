"""Run experiments and write the page: `python -m psimlearn.reproduce [name ..] [--quick]`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from psimlearn.errors import PsimlearnError
from psimlearn.reproduce.experiment import experiment, names
from psimlearn.reproduce.page import write_page
from psimlearn.reproduce.run import run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what has not been run, then write the page from all results there are."""
    parser = argparse.ArgumentParser(prog="python -m psimlearn.reproduce", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(names())}; all by default")
    parser.add_argument("--quick", action="store_true", help="a look within minutes: fewer folds, sets and methods")
    parser.add_argument("--sets", nargs="*", default=[], metavar="set", help="only these sets of an experiment")
    parser.add_argument("--results", type=Path, help="folder of results; results, or results/quick")
    parser.add_argument("--docs", type=Path, help="folder of the page; docs, or the folder of quick results")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; as many as cores")
    parser.add_argument("--fresh", action="store_true", help="run again what has been run")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results there are")
    given = parser.parse_args(arguments)
    results = given.results or Path("results/quick" if given.quick else "results")
    docs = given.docs or (results if given.quick else Path("docs"))
    try:
        for name in [] if given.page_only else given.names or names():
            own = experiment(name, quick=given.quick)
            run(own, results, workers=given.workers, only=given.sets, fresh=given.fresh)
        print(f"wrote {write_page(results, docs, quick=given.quick)}")
    except PsimlearnError as error:
        sys.exit(f"psimlearn: {error}")
    except KeyboardInterrupt:
        sys.exit(f"interrupted: what was done is in {results}, and the same command goes on from there")


if __name__ == "__main__":
    main()
