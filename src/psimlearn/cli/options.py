"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from psimlearn.legible import legible

__all__ = ["columns", "data", "echo", "force", "model", "names", "output", "say"]

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


data = click.argument("data", metavar="DATA")
model = click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
force = click.option("--force", is_flag=True, help="Replace files that exist.")


def output(help: str, default: str | None = None) -> Decorator:
    """The option -o, with its help and default."""
    shown = default is not None
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), default=default, show_default=shown, help=help
    )


def columns(inputs: bool = True) -> Decorator:
    """The options that name columns: --id, --time and --no-guess, and with `inputs` --channels and --inputs too."""
    options = [
        click.option("--id", metavar="COLUMN", help="Column that tells recordings apart. Its cells stay text."),
        click.option("--time", metavar="COLUMN", help="Column of times, which must rise within each recording."),
        click.option(
            "--no-guess",
            is_flag=True,
            help="Do not choose --id or --time by the names of columns.",
        ),
    ]
    if inputs:
        options += [
            click.option(
                "--channels",
                metavar="A,B,..",
                callback=names,
                help="Observed columns [default: all other columns of numbers].",
            ),
            click.option("--inputs", metavar="U,V,..", callback=names, help="Columns of known controls."),
        ]

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated
