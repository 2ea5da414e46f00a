"""`psimlearn export`: a model for programs without Python."""

from pathlib import Path

import click

from psimlearn.cli import options

__all__ = ["export"]


@click.command()
@options.model
@click.option("--format", type=click.Choice(["c", "onnx", "json"]), help="[default: as -o ends: .h, .onnx, .json]")
@options.output("The file to write [default: the name of the model with the ending of the format].")
@click.option(
    "--precision",
    type=click.Choice(["double", "float"]),
    default="double",
    show_default=True,
    help="Of the numbers in an ONNX graph; a C header has both.",
)
@click.option(
    "--tolerance",
    type=float,
    default=1e-12,
    show_default=True,
    help="For JSON, the least Hankel singular value to keep, as a share of the largest; 0 keeps all states.",
)
@options.force
def export(model: Path, format: str | None, output: Path | None, precision: str, tolerance: float, force: bool) -> None:
    """Write a model for programs without Python.

    A C header needs no library and allocates nothing; all its names begin with the name of the file. An ONNX graph
    takes a state and a row, and returns predictions and the next state (extra onnx). JSON holds the matrices of the
    state-space model, for any language; it takes linear models only.

    \b
    Examples:
      psimlearn export arm.psim --format c                for robots and microcontrollers: arm.h
      psimlearn export arm.psim -o arm.onnx               for browsers and phones
      psimlearn export arm.psim -o matrices.json          A, B, C, D, K, V, and how to use them
    """
    from psimlearn.cli.files import check_free
    from psimlearn.cli.models import opened
    from psimlearn.export import FORMATS
    from psimlearn.export import export as write

    if output is None:
        if format is None:
            raise click.UsageError("required --format or -o, received neither. Add --format c.")
        output = Path(model.stem + FORMATS[format])
    check_free(output, force)
    write(opened(model).filter, output, format, precision=precision, tolerance=tolerance)
    options.say(f"wrote {output}, {output.stat().st_size / 1024:.0f} KiB")
