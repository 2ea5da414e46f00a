"""`psimlearn fit`: from recordings to a model file."""

from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["fit"]


def share_or_path(_: click.Context, __: click.Parameter, value: str) -> float | str:
    """The value of --validation: a share if it is a number, else a path."""
    try:
        return float(value)
    except ValueError:
        return value


@click.command()
@options.data
@options.output("The model file.", "model.psim")
@options.reading
@options.columns
@click.option(
    "--hints", metavar="H,..", callback=options.names, help="Columns measured in training only, to be estimated later."
)
@options.group
@click.option(
    "--window",
    type=click.IntRange(1),
    help="Steps ahead that a belief describes [default: 5, or fewer for many symbols].",
)
@click.option(
    "--horizon",
    type=click.IntRange(1),
    help="Choose settings for predictions up to so many rows ahead [default: the window].",
)
@click.option("--lags", type=click.IntRange(1), help="Last rows that a step sees [default: chosen].")
@click.option(
    "--learner",
    default="ridge",
    show_default=True,
    type=click.Choice(["ridge", "rff", "trees", "auto", "logistic"]),
    help="Linear regression; random Fourier features or trees for nonlinear systems; or the best of these; logistic "
    "regression for symbols.",
)
@click.option(
    "--validation",
    default="0.2",
    show_default=True,
    callback=share_or_path,
    metavar="SHARE|DATA",
    help="Share of recordings on which settings are chosen, or a file or folder of them.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the choice of held-out recordings.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep every finished round in this folder; the same command goes on from there after an interruption.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write an HTML report too (needs psimlearn[plot]).")
@options.shards
@options.force
def fit(data: tuple[str, ...], output: Path, report: Path | None, force: bool, **others: Any) -> None:
    """Learn a filter from recordings and save it.

    DATA are CSV, Parquet, npz or npy files, folders of such files (one recording each, unless --id tells them apart),
    or - for standard input. Every row is one moment, every column of numbers a channel; empty cells and NA mean "not
    observed". In an npz archive every array (time, channel) is a recording. At the end, print the chosen settings, and
    the errors on held-out recordings beside those of simple methods.

    Press Ctrl-C to end the search and keep the best filter so far; with --checkpoint, to stop and go on later.

    \b
    Examples:
      psimlearn fit walks.csv --id trial --time t -o walks.psim
      psimlearn fit recordings/*.csv --inputs motor1,motor2 --report arm.html
      psimlearn fit log.csv --time Date,Time --time-format '%d/%m/%Y %H:%M:%S' --missing -999
      psimlearn fit visits.csv --id patient --symbols ward
      zcat big.csv.gz | psimlearn fit - --learner auto -o big.psim
      psimlearn fit years/ --id trip --shards --workers 8 -o fleet.psim
    """
    from psimlearn.cli.columns import reading_of
    from psimlearn.cli.files import check_free, write_text
    from psimlearn.cli.progress import command, learnt
    from psimlearn.cli.recordings import recordings
    from psimlearn.cli.shards import sourced
    from psimlearn.estimator.psim import PSIM
    from psimlearn.report.plots import check_installed

    for path in (output, report):
        check_free(path, force)
    if report is not None:
        check_installed()
    source, columns, how = sourced(data, others, report)
    alphabet, held_out = getattr(source, "alphabet", None), others["validation"]
    if isinstance(held_out, str):
        reading = reading_of(others)._replace(guess=False)
        held_out = recordings(held_out, columns, reading, alphabet=alphabet).data
    model = PSIM(
        others["window"] or "auto",
        features="stack" if alphabet is None else "onehot",
        learner=others["learner"],
        lags=others["lags"] or "auto",
        criterion=others["horizon"] or "window",
        validation=held_out,
        random_state=others["seed"],
    )
    model = learnt(model, source, columns, checkpoint=others["checkpoint"], **how)
    model.save(output)
    options.echo(model.summary() + f"\n\nsaved to {output}")
    if report is not None:
        from psimlearn.report import fit_page

        made = {"recordings": data, "seed": others["seed"], "command": command()}
        write_text(report, fit_page(model, source, made=made))
        click.echo(f"report in {report}")
