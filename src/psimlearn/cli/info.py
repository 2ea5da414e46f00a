"""`psimlearn info`: the contents of a model file."""

import json
from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["info"]

MOST = 50
"""The most names in a line."""


@click.command()
@options.model
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def info(model: Path, as_json: bool) -> None:
    """Show a model file: its columns, the chosen settings, and its errors on held-out recordings.

    \b
    Examples:
      psimlearn info arm.psim
      psimlearn info arm.psim --json | jq .errors
    """
    from psimlearn.cli.models import opened, summary_of

    saved = opened(model)
    filter, columns = saved.filter, saved.columns
    if as_json:
        facts = {
            "channels": list(saved.channels),
            "alphabet": None if filter.alphabet is None else list(filter.alphabet.symbols),
            "inputs": list(columns.inputs),
            "hints": list(columns.hints),
            "id": columns.id,
            "time": columns.time,
            "step": saved.filter.time_step,
            "window": filter.features.window,
            "calibrated_steps": 0 if filter.calibration is None else filter.calibration.furthest,
        }
        options.echo(json.dumps({**saved.report, **facts}, indent=2))
        return
    options.echo(f"file       {model}, {model.stat().st_size / 1024:.0f} KiB")
    what = "channels" if filter.alphabet is None else "symbols"
    options.echo(f"{what:11}{_few(saved.channels)}")
    for what, value in _columns(saved).items():
        if value:
            options.echo(f"{what:11}{value}")
    reach = "not calibrated" if filter.calibration is None else f"calibrated {filter.calibration.furthest} steps ahead"
    reach += "" if filter.local is None else ", intervals follow the situation"
    options.echo(f"beliefs    of the next {filter.features.window} steps; {reach}")
    options.echo(summary_of(saved, model) if saved.report else "report     none: a filter without an estimator")


def _columns(saved: Any) -> dict[str, Any]:
    """The columns of a model beside its channels, in words; empty where there is none."""
    from psimlearn.recordings.times import spoken

    columns = saved.columns
    words = {name: f"{name} ({_few(found)})" for name, found in columns.categories.items()}
    return {
        "in column": columns.symbols,
        "inputs": ", ".join(words.get(name, name) for name in columns.inputs),
        "hints": ", ".join(columns.hints),
        "id": columns.id,
        "time": columns.time,
        "step": None if saved.filter.time_step is None else spoken(saved.filter.time_step),
        "group": columns.group,
        "missing": ", ".join(columns.missing),
    }


def _few(names: Any) -> str:
    """Some names in a line."""
    shown = [str(name) for name in names[:MOST]]
    return ", ".join(shown) + (f", .. ({len(names)} in all)" if len(names) > MOST else "")
