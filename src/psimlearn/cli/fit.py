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
@click.option("--report", type=click.Path(path_type=Path), help="Write an HTML report too (needs psimlearn[plot]).")
@options.force
def fit(data: tuple[str, ...], output: Path, report: Path | None, force: bool, **others: Any) -> None:
    """Learn a filter from recordings and save it.

    DATA are CSV, Parquet, npz or npy files, folders of such files (one recording each, unless --id tells them apart),
    or - for standard input. Every row is one moment, every column of numbers a channel; empty cells and NA mean "not
    observed". In an npz archive every array (time, channel) is a recording. At the end, print the chosen settings, and
    the errors on held-out recordings beside those of simple methods.

    Press Ctrl-C to end the search and keep the best filter so far.

    \b
    Examples:
      psimlearn fit walks.csv --id trial --time t -o walks.psim
      psimlearn fit recordings/*.csv --inputs motor1,motor2 --report arm.html
      psimlearn fit log.csv --time Date,Time --time-format '%d/%m/%Y %H:%M:%S' --missing -999
      psimlearn fit visits.csv --id patient --symbols ward
      zcat big.csv.gz | psimlearn fit - --learner auto -o big.psim
    """
    from psimlearn.cli.columns import columns_of, reading_of
    from psimlearn.cli.files import check_free, write_text
    from psimlearn.cli.progress import command, learnt
    from psimlearn.cli.recordings import recordings
    from psimlearn.estimator.psim import PSIM
    from psimlearn.report.plots import check_installed

    for path in (output, report):
        check_free(path, force)
    if report is not None:
        check_installed()
    reading = reading_of(others)
    given = recordings(data, columns_of(others), reading)
    alphabet, held_out = given.data.alphabet, others["validation"]
    if isinstance(held_out, str):
        held_out = recordings(held_out, given.columns, reading._replace(guess=False), alphabet=alphabet).data
    model = PSIM(
        others["window"] or "auto",
        features="stack" if alphabet is None else "onehot",
        learner=others["learner"],
        lags=others["lags"] or "auto",
        criterion=others["horizon"] or "window",
        validation=held_out,
        random_state=others["seed"],
    )
    model = learnt(model, given.data, given.columns, given.groups)
    model.save(output)
    options.echo(model.summary() + f"\n\nsaved to {output}")
    if report is not None:
        from psimlearn.report import fit_page

        made = {"recordings": data, "seed": others["seed"], "command": command()}
        write_text(report, fit_page(model, given.data, made=made))
        click.echo(f"report in {report}")
