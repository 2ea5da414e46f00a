"""`psimlearn reproduce`: the paper's experiments."""

import os
from pathlib import Path
from typing import Any

import click

from psimlearn.cli.signals import exit_code

__all__ = ["reproduce"]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Take minutes: fewer folds, sets and methods.")
@click.option("--sets", multiple=True, metavar="SET", help="Run only this data set of an experiment; may be repeated.")
@click.option(
    "--results", type=click.Path(path_type=Path), help="Folder of results.  [default: results, results/quick]"
)
@click.option("--docs", type=click.Path(path_type=Path), help="Folder of the page.  [default: docs, results/quick]")
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Number of processes.  [default: number of cores]",
)
@click.option("--fresh", is_flag=True, help="Run all jobs again, also those that have a result.")
@click.option("--page-only", is_flag=True, help="Write the page from the results in the folder, and run nothing.")
def reproduce(names: tuple[str, ...], page_only: bool, **options: Any) -> int:
    """Run the paper's experiments and write reproduction.md, which shows our results beside the published ones.

    NAME is appendix, features, fig2, regime, table1, theorems or window; all of them by default. Each result is saved
    as soon as it is computed: after Ctrl-C the same command continues. Recordings are read from the folder that
    PSIMLEARN_DATA names; an experiment without its recordings is skipped, with a message. Back-propagation in the
    appendix and in regime needs psimlearn[grad].

    \b
    Examples:
      psimlearn reproduce theorems
      psimlearn reproduce table1 --quick
      PSIMLEARN_DATA=recordings psimlearn reproduce
    """
    from psimlearn.reproduce import experiment
    from psimlearn.reproduce.command import reproduced

    try:
        click.echo(f"wrote {reproduced(() if page_only else names or experiment.names(), **options)}")
    except KeyboardInterrupt as stop:
        click.echo("psimlearn: stopped; finished jobs are saved, and the same command continues from there.", err=True)
        return exit_code(stop)
    return 0
