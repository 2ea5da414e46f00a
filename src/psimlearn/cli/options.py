"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = ["columns", "data", "force", "model", "names", "output", "say"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def say(message: str) -> None:
    """A line for the person, not for the pipe."""
    click.echo(message, err=True)


def names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names with commas between them."""
    if value is None:
        return None
    found = tuple(name.strip() for name in value.split(",") if name.strip())
    if not found:
        raise click.BadParameter("required names of columns with commas between them, received none.")
    return found


data = click.argument("data", metavar="DATA")
model = click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
force = click.option("--force", is_flag=True, help="Replace files that exist.")


def output(help: str, default: str | None = None) -> Decorator:
    """-o."""
    shown = default is not None
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), default=default, show_default=shown, help=help
    )


def columns(inputs: bool = True) -> Decorator:
    """Which columns mean what."""
    options = [
        click.option("--id", metavar="COLUMN", help="The column that tells recordings apart. Its cells stay text."),
        click.option("--time", metavar="COLUMN", help="A column that must rise within each recording."),
        click.option(
            "--no-guess",
            is_flag=True,
            help="Take no column for --id or --time because of its name; do as you are told.",
        ),
    ]
    if inputs:
        options += [
            click.option(
                "--channels",
                metavar="A,B,..",
                callback=names,
                help="The observed columns [default: all columns of numbers that are nothing else].",
            ),
            click.option("--inputs", metavar="U,V,..", callback=names, help="Columns of known controls."),
        ]

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated
