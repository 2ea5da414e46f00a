"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from psimlearn.legible import legible

__all__ = ["columns", "data", "echo", "force", "model", "names", "output", "reading", "say", "shards"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def say(message: str) -> None:
    """Print a message for the user on standard error, so that standard output stays free for results."""
    click.echo(legible(message), err=True)


def echo(text: str) -> None:
    """Print text for the user on standard output. Names in it cannot command the terminal."""
    click.echo(legible(text))


def names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """The value of an option that takes names separated by commas."""
    if value is None:
        return None
    found = tuple(name.strip() for name in value.split(",") if name.strip())
    if not found:
        raise click.BadParameter(f"required names of columns separated by commas, received {value!r}.")
    return found


data = click.argument("data", metavar="DATA..", nargs=-1, required=True)
model = click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
force = click.option("--force", is_flag=True, help="Replace files that exist.")


def output(help: str, default: str | None = None) -> Decorator:
    """The option -o, with its help and default."""
    shown = default is not None
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), default=default, show_default=shown, help=help
    )


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how files are read."""
    return _decorated(
        command,
        click.option("--id", metavar="COLUMN", help="Column that tells recordings apart. Its cells stay text."),
        click.option(
            "--time",
            metavar="COLUMN",
            help="Column of times, which must rise within each recording; DATE,CLOCK for two columns.",
        ),
        click.option("--time-format", metavar="FORMAT", help="How times are written, such as '%d/%m/%Y %H:%M'."),
        click.option(
            "--step",
            metavar="STEP",
            help="Time between rows, such as 50ms, 1min or 20Hz; none takes rows as they are [default: the usual step "
            "of the times, or the step of the model].",
        ),
        click.option("--resample", is_flag=True, help="Resample rows that are no whole number of steps apart."),
        click.option("--sort", is_flag=True, help="Sort the rows of each recording by time."),
        click.option(
            "--duplicates",
            default="refuse",
            show_default=True,
            type=click.Choice(["refuse", "mean"]),
            help="Rows of one recording with the same time: refuse them, or average them.",
        ),
        click.option("--symbols", metavar="COLUMN", help="Column of symbols, words or whole numbers, to learn from."),
        click.option("--missing", metavar="-999,?,..", callback=names, help="Cells that also mean 'not observed'."),
        click.option(
            "--header", metavar="A,B,..", callback=names, help="Names of the columns of CSV without a header."
        ),
        click.option("--no-header", is_flag=True, help="CSV has no header: columns are column1, column2, .."),
        click.option(
            "--array", metavar="NAME,..", callback=names, help="Arrays to take from npz files [default: all]."
        ),
        click.option("--channels-first", is_flag=True, help="Arrays are (channel, time), not (time, channel)."),
        click.option("--no-guess", is_flag=True, help="Do not choose --id or --time by the names of columns."),
    )


def columns(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name the columns to learn from."""
    return _decorated(
        command,
        click.option(
            "--channels",
            metavar="A,B,..",
            callback=names,
            help="Observed columns [default: all other columns of numbers].",
        ),
        click.option("--exclude", metavar="A,B,..", callback=names, help="Columns to leave out."),
        click.option(
            "--inputs",
            metavar="U,V,..",
            callback=names,
            help="Columns of known controls: numbers, or words (categories).",
        ),
    )


def group(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that names the column of groups."""
    help = "Recordings with the same cell here stay together: all held out, or none of them."
    return click.option("--group", metavar="COLUMN", help=help)(command)


def shards(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options for recordings that do not fit in memory."""
    return _decorated(
        command,
        click.option(
            "--shards",
            is_flag=True,
            help="Load one file at a time, for recordings that do not fit in memory [default: above 2 GiB].",
        ),
        click.option(
            "--sample-rows", type=click.IntRange(100), help="With --shards, the rows on which settings are chosen."
        ),
        click.option("--workers", type=click.IntRange(1), help="Compute shards in so many processes."),
        click.option("--cluster", metavar="ADDRESS", help="Compute shards on a Dask cluster, such as tcp://host:8786."),
    )


def _decorated(command: Callable[..., Any], *options: Decorator) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
