"""`psimlearn reproduce`: the paper's experiments."""

import os
from pathlib import Path
from typing import Any

import click

from psimlearn.cli import INTERRUPTED

__all__ = ["reproduce"]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="A look within minutes: fewer folds, sets and methods.")
@click.option("--sets", multiple=True, metavar="SET", help="Only this set of an experiment; may be repeated.")
@click.option(
    "--results", type=click.Path(path_type=Path), help="Folder of results.  [default: results, results/quick]"
)
@click.option("--docs", type=click.Path(path_type=Path), help="Folder of the page.  [default: docs, results/quick]")
@click.option("--workers", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes; as many as cores.")
@click.option("--fresh", is_flag=True, help="Run again what has been run.")
@click.option("--page-only", is_flag=True, help="Only write the page, from the results there are.")
def reproduce(names: tuple[str, ...], page_only: bool, **options: Any) -> int:
    """Run the paper's experiments and write reproduction.md, our figures beside the published ones.

    NAME is appendix, features, fig2, table1, theorems or window; all of them by default. Every result is kept as soon
    as it is there: after Ctrl-C the same command goes on. Recordings are found in the folder that PSIMLEARN_DATA names;
    experiments whose recordings are not at hand are left out, and said to be. The appendix needs psimlearn[grad].

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
    except KeyboardInterrupt:
        click.echo("psimlearn: stopped; what was done is kept, and the same command goes on from there.", err=True)
        return INTERRUPTED
    return 0
