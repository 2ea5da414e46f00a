"""`psimlearn serve`: a server with a page to watch."""

import shlex
from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["serve"]

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def _size(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Bytes, such as 500M."""
    import re

    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kMG]?)B?", value or "")
    if value is not None and match is None:
        raise click.BadParameter(f"required bytes such as 500M or 2G, received {value!r}.")
    return None if match is None else int(float(match[1]) * UNITS[match[2]])


def _age(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Seconds, from a text such as 30d."""
    from psimlearn.recordings.times import step_of

    return None if value is None else step_of(value, "--keep-age")


@click.command()
@click.argument("model", metavar="[MODEL]", required=False, type=click.Path(path_type=Path))
@click.option("--demo", is_flag=True, help="Serve a model of simulated pendulums, and feed it.")
@click.option(
    "--demo-streams", default=12, type=click.IntRange(1, 100_000), help="Pendulums of --demo.", show_default=True
)
@click.option(
    "--demo-rate", default=5.0, type=click.FloatRange(0.01, 1000), help="Rows a second of each.", show_default=True
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; tokens are required for others."
)
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 for any free port.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="More names by which this server may be called.")
@click.option("--store", type=click.Path(path_type=Path, dir_okay=False), help="SQLite file [default: MODEL.store].")
@click.option(
    "--durability",
    type=click.Choice(["full", "none"]),
    default="full",
    show_default=True,
    help="full: every row is on the disk before its answer. none: rows of the last moments may be lost in a crash.",
)
@click.option("--keep-age", metavar="AGE", callback=_age, help="Remove rows older than this, such as 30d.")
@click.option(
    "--keep-size", metavar="SIZE", callback=_size, help="Remove the oldest rows beyond this size, such as 2G."
)
@click.option(
    "--alarm",
    type=click.FloatRange(0.0, 0.1, min_open=True),
    metavar="RATE",
    help="Share of normal rows that is low enough to begin an alarm [default: that of the model, mostly 0.001].",
)
@click.option("--no-alarms", is_flag=True, help="No alarms.")
@click.option(
    "--on-alarm", metavar="COMMAND", help="Run this when an alarm begins, without a shell, with JSON on its input."
)
@click.option("--read-token-file", type=click.Path(path_type=Path), help="Token of readers [or PSIMLEARN_READ_TOKEN].")
@click.option(
    "--write-token-file", type=click.Path(path_type=Path), help="Token of writers [or PSIMLEARN_WRITE_TOKEN]."
)
@click.option("--max-streams", default=10_000, show_default=True, type=click.IntRange(1, 10_000_000))
@click.option(
    "--max-rows", default=10_000, show_default=True, type=click.IntRange(1, 1_000_000), help="Rows a request."
)
@click.option("--max-body", default="8M", show_default=True, callback=_size, help="Bytes of a body.")
@click.option(
    "--max-rate", default=0.0, type=click.FloatRange(0), help="Requests a second of a client; 0 for no limit."
)
@click.option("--max-channels", default=1000, show_default=True, type=click.IntRange(1), help="Channels of a model.")
@click.option("--max-connections", default=1000, show_default=True, type=click.IntRange(1))
@click.option(
    "--patience", default=10.0, show_default=True, type=click.FloatRange(0.1), help="Seconds to send a request in."
)
@click.option("--time", metavar="COLUMN", help="Name of the time in rows [default: as in the recordings, or time].")
@click.option("--time-format", metavar="FORMAT", help="How times are written.")
@click.option("--step", metavar="STEP", help="Time between rows, such as 50ms; none: every row is the next.")
@click.option("--missing", metavar="-999,?,..", callback=options.names, help="Cells that also mean 'not observed'.")
def serve(model: Path | None, demo: bool, **others: Any) -> int:
    """Serve a model: rows in, predictions and alarms out, by HTTP, with a page to watch.

    Rows are sent as JSON to /v1/streams/ID/rows; each is answered with predictions, deviations, its log-likelihood and
    whether it is part of an alarm. Every row that was answered is kept in a SQLite file, so that all streams go on
    where they were, however the server ended. The page at / shows all streams. /openapi.json describes everything.

    SIGHUP reads MODEL again: streams go on with the newer model.

    \b
    Examples:
      psimlearn serve --demo
      psimlearn serve arm.psim
      psimlearn serve arm.psim --on-alarm "notify-send alarm" --keep-age 30d --keep-size 2G
      curl -d '{"force": 1.2, "angle": null}' localhost:8765/v1/streams/arm-1/rows
    """
    if (model is None) != demo:
        raise click.UsageError("required a MODEL or --demo, and not both.")
    from psimlearn.serve.run import serve as run

    try:
        run(_service(model, others), lambda address: options.say(f"psimlearn: listening on {address}"))
    except KeyboardInterrupt:  # uvicorn has ended in order, and raises the signal again
        options.say("psimlearn: stopped.")
    return 0


def _service(model: Path | None, others: dict[str, Any]) -> Any:
    """The server that the options ask for."""
    from psimlearn.serve.engine import Retention
    from psimlearn.serve.limits import Limits
    from psimlearn.serve.run import Place, Service
    from psimlearn.serve.tokens import Tokens, read_token

    feed = None
    if model is None:
        from psimlearn.serve.demo import demo_model, feeding

        model = demo_model()
        feed = feeding(others["demo_streams"], others["demo_rate"])
    tokens = [read_token(others[f"{w}_token_file"], f"PSIMLEARN_{w.upper()}_TOKEN") for w in ("read", "write")]
    limits = Limits()._replace(
        body=others["max_body"],
        rows=others["max_rows"],
        streams=others["max_streams"],
        rate=others["max_rate"],
        connections=others["max_connections"],
        patience=others["patience"],
    )
    return Service(
        lambda: served_by(model, others),
        others["store"] or model.with_name(model.name + ".store"),
        Place(others["host"], others["port"], tuple(name.lower() for name in others["allow_host"])),
        limits,
        Tokens(*tokens),
        Retention(others["keep_age"], others["keep_size"]),
        others["durability"] == "full",
        tuple(shlex.split(others["on_alarm"] or "")),
        feed,
    )


def served_by(path: Path, others: dict[str, Any]) -> Any:
    """The model in a file, for the server."""
    from hashlib import sha256

    from psimlearn.cli.models import opened, wanted_by
    from psimlearn.errors import SettingsError
    from psimlearn.filter.alarms import known_thresholds
    from psimlearn.serve.served import Served

    model = opened(path)
    if len(model.channels) > others["max_channels"]:
        raise SettingsError(
            f"{path}: required at most {others['max_channels']} channels, received {len(model.channels)}. Use "
            "--max-channels."
        )
    rate = None
    if not others["no_alarms"] and (others["alarm"] is not None or model.filter.thresholds is not None):
        rate = known_thresholds(model.filter).checked(others["alarm"])
    mark = sha256(path.read_bytes()).hexdigest()[:16]
    return Served(model.filter, wanted_by(model, others), rate, mark, path.name)
