"""`psimlearn info`: the contents of a model file."""

import json
from pathlib import Path

import click

from psimlearn.cli import options

__all__ = ["info"]


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
    from psimlearn.choose.summary import summarised
    from psimlearn.cli.models import opened

    saved = opened(model)
    filter, columns = saved.filter, saved.columns
    if as_json:
        facts = {
            "channels": list(saved.channels),
            "inputs": list(columns.inputs),
            "id": columns.id,
            "time": columns.time,
            "window": filter.features.window,
            "calibrated_steps": 0 if filter.calibration is None else filter.calibration.furthest,
        }
        options.echo(json.dumps({**saved.report, **facts}, indent=2))
        return
    options.echo(f"file       {model}, {model.stat().st_size / 1024:.0f} KiB")
    options.echo(f"channels   {', '.join(saved.channels)}")
    for what, value in (("inputs", ", ".join(columns.inputs)), ("id", columns.id), ("time", columns.time)):
        if value:
            options.echo(f"{what:11}{value}")
    reach = "not calibrated" if filter.calibration is None else f"calibrated {filter.calibration.furthest} steps ahead"
    options.echo(f"beliefs    of the next {filter.features.window} steps; {reach}")
    options.echo(summarised(saved.report) if saved.report else "report     none: a filter without an estimator")
