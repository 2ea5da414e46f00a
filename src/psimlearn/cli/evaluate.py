"""`psimlearn evaluate` and `psimlearn compare`: how good a filter is, beside other methods."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["compare", "evaluate"]

USUAL = ("mean", "last", "ar", "n4sid", "ivr", "em", "psim", "psim-rff")
TITLES = {
    "mean": "training mean",
    "last": "last observation",
    "ar": "autoregression",
    "n4sid": "N4SID",
    "ivr": "predictive (IVR)",
    "em": "EM",
    "rnn": "recurrent network",
    "psim": "PSIM",
    "psim-rff": "PSIM, random features",
}
LEVELS = (0.5, 0.8, 0.9, 0.95)
UNITS = ("standard deviations", "units of the recordings")
"""The units of errors, as a report names them; the first is usual."""
NATS = "nats per symbol by steps ahead"


@click.command()
@options.model
@options.data
@click.option("--steps", type=click.IntRange(1), help="Steps ahead to score [default: the window of the model].")
@click.option(
    "--train",
    metavar="DATA",
    help="Recordings to fit the autoregression to [default: the recordings in DATA that it is not scored on].",
)
@options.output("Write the errors to a .csv or .parquet file too.")
@click.option("--report", type=click.Path(path_type=Path), help="Write an HTML report too (needs psimlearn[plot]).")
@click.option("--shards", is_flag=True, help="Load one file at a time, for recordings that do not fit in memory.")
@options.reading
@options.group
@options.force
def evaluate(
    model: Path, data: tuple[str, ...], output: Path | None, report: Path | None, force: bool, **others: Any
) -> None:
    """Measure a filter on recordings that it has not seen, beside simple methods.

    Shows the error by steps ahead of the filter, the training mean, the last observation and an autoregression, and the
    share of observations within the filter's intervals. Errors are squared, in standard deviations of the training
    data (or in the units that the model was learnt in), summed over channels. The errors of a model of symbols are nats
    per symbol, beside those of frequencies and bigrams in --train.

    \b
    Examples:
      psimlearn evaluate arm.psim new.csv
      psimlearn evaluate arm.psim new/ --train old/ --steps 20 --report arm.html
      psimlearn evaluate arm.psim years/ --shards
    """
    import numpy as np

    from psimlearn.cli.files import check_free
    from psimlearn.cli.models import opened, read_for
    from psimlearn.cli.tables import coverage_table, error_table
    from psimlearn.evaluate import errors_by_horizon
    from psimlearn.evaluate.residuals import coverage, ways_ahead
    from psimlearn.report.plots import check_installed
    from psimlearn.train.losses import LogLoss

    for path in (output, report):
        check_free(path, force)
    if report is not None:
        check_installed()
    saved = opened(model)
    if others.pop("shards"):
        if report is not None or others["train"] or others["group"]:
            raise click.UsageError("--shards: --report, --train and --group need recordings in memory.")
        _over_shards(saved, data, output, others)
        return
    recordings = read_for(saved, data, others)
    given, filter = recordings.data, saved.filter
    steps = others["steps"] or max(1, min(filter.features.window, int(given.lengths.max()) - 1))
    symbolic = filter.alphabet is not None
    scored: Any = {"measure": LogLoss().nats} if symbolic else {"scale": filter.scaling.scale}
    beside = (_symbols_beside if symbolic else _beside)(saved, recordings, steps, others)
    errors = {name: errors_by_horizon(method, given, steps, skip=1, **scored) for name, method in beside.items()}
    fitted = others["train"] or (None if symbolic else "the recordings it is not scored on")
    click.echo(f"{given}" + (f"\n{'k-grams' if symbolic else 'autoregression'}: fitted to {fitted}" if fitted else ""))
    error_table(errors, (NATS if symbolic else _squared(saved)) + (", inputs to come known" if given.n_inputs else ""))
    if symbolic:
        click.echo(f"the likeliest symbol is right at {_share_right(filter, given):.1%} of rows, one step ahead")
    elif filter.calibration is not None:
        ways = ways_ahead(filter, (1, steps))
        shares = [coverage(filter, given, way.horizon, LEVELS, inputs_known=way.inputs_known) for way in ways]
        coverage_table(ways, np.array(shares), LEVELS)
    click.echo(f"mean log-likelihood of a row: {filter.log_likelihood(given).mean():.4g} nats")
    _write_errors(output, errors)
    if report is not None:
        _write_report(report, saved, given, errors, {"model": model, "recordings": data})


def _over_shards(saved: Any, data: tuple[str, ...], output: Path | None, others: dict[str, Any]) -> None:
    """Measure a filter on one file after the other, beside methods that need no training."""
    from psimlearn.baselines import LastObservation, TrainingMean
    from psimlearn.cli.shards import shards_for
    from psimlearn.cli.tables import coverage_table, error_table
    from psimlearn.evaluate.residuals import ways_ahead
    from psimlearn.evaluate.sharded import measured_over_shards

    filter, shards = saved.filter, shards_for(saved, data, others)
    steps, mean = others["steps"] or filter.features.window, filter.scaling.mean
    beside: dict[str, Any] = {"training mean": TrainingMean(mean), "last observation": LastObservation(mean)}
    ways = [] if filter.calibration is None else ways_ahead(filter, (1, steps))
    by_method, found = measured_over_shards(filter, [*beside.values()], shards, steps, ways, LEVELS, skip=1)
    errors = dict(zip([*beside, "PSIM"], by_method, strict=True))
    click.echo(f"{len(shards)} shards, {found.rows} rows")
    known = ", inputs to come known" if filter.input_scaling is not None else ""
    error_table(errors, f"{_squared(saved)}{known}")
    if ways:
        coverage_table(ways, found.shares, LEVELS)
    click.echo(f"mean log-likelihood of a row: {found.nats / found.rows:.4g} nats")
    _write_errors(output, errors)


def _squared(saved: Any) -> str:
    """What errors are, in words. The units stand in the file, which may be forged: only known words are repeated."""
    units = saved.report.get("units")
    return f"squared error by steps ahead, in {units if units in UNITS else UNITS[0]}, channels summed"


def _write_errors(output: Path | None, errors: dict[str, Any]) -> None:
    """Write errors by method and step, if asked to."""
    import numpy as np

    from psimlearn.cli.files import write_table

    if output is not None:
        table = np.array(list(errors.values()))
        write_table(output, {"method": list(errors)}, [f"step{h + 1}" for h in range(table.shape[1])], table)


def _write_report(path: Path, saved: Any, given: Any, errors: dict[str, Any], origin: dict[str, Any]) -> None:
    """Write the page of a filter, its errors on these recordings, and where both come from."""
    from psimlearn.cli.files import write_text
    from psimlearn.cli.progress import command
    from psimlearn.report import model_page

    told = {name: by_step.tolist() for name, by_step in errors.items()}
    write_text(path, model_page(saved.filter, dict(saved.report), given, told, origin | {"command": command()}))
    click.echo(f"report in {path}")


def _beside(saved: Any, recordings: Any, steps: int, others: dict[str, Any]) -> dict[str, Any]:
    """The filter beside simple methods; without an autoregression where the recordings do not allow one."""
    from psimlearn.baselines import LastObservation, TrainingMean
    from psimlearn.cli.methods import Setup, autoregression, cross_fitted
    from psimlearn.cli.models import read_for
    from psimlearn.errors import DataError

    mean = saved.filter.scaling.mean
    methods: dict[str, Any] = {"training mean": TrainingMean(mean), "last observation": LastObservation(mean)}
    try:
        if others["train"]:
            train = read_for(saved, others["train"], others)
            split = Setup(steps, saved.filter.features.window, 0, train.group_of).split(train.data)
            methods["autoregression"] = autoregression(split, steps)
        else:
            setup = Setup(steps, saved.filter.features.window, 0, recordings.group_of)
            methods["autoregression"] = cross_fitted(recordings.data, setup)
    except DataError as error:
        options.say(f"note: no autoregression to compare with: {error}")
    return methods | {"PSIM": saved.filter}


def _symbols_beside(saved: Any, _: Any, steps: int, others: dict[str, Any]) -> dict[str, Any]:
    """The filter of symbols beside counts of symbols and of pairs, if there are recordings to count in."""
    from psimlearn.baselines import KGram
    from psimlearn.cli.models import read_for

    if not others["train"]:
        return {"PSIM": saved.filter}
    train = read_for(saved, others["train"], others).data
    return {"frequencies": KGram.fit(train, 1), "bigrams": KGram.fit(train, 2), "PSIM": saved.filter}


def _share_right(filter: Any, given: Any) -> float:
    """The share of observed symbols that were the likeliest, given the symbols before them."""
    import numpy as np

    expected, truth = filter.forecast(given, 1)[:, 0], given.values
    seen = ~np.isnan(truth).any(axis=1)
    return float(np.mean(expected[seen].argmax(axis=1) == truth[seen].argmax(axis=1)))


def methods_of(_: click.Context, __: click.Parameter, value: str) -> Sequence[str]:
    """Parse the names of methods, with commas between them."""
    chosen = [name.strip() for name in value.split(",") if name.strip()]
    if not chosen or set(chosen) - set(TITLES):
        raise click.BadParameter(f"required some of {', '.join(TITLES)}, received {value!r}.")
    return list(dict.fromkeys(chosen))


@click.command()
@options.data
@click.option("--steps", default=5, show_default=True, type=click.IntRange(1), help="Steps ahead to score.")
@click.option(
    "--folds", default=5, show_default=True, type=click.IntRange(2), help="Number of folds: each is held out once."
)
@click.option(
    "--methods",
    default=",".join(USUAL),
    show_default=True,
    callback=methods_of,
    metavar="A,B,..",
    help="Methods to compare: some of these, or rnn (takes minutes; needs psimlearn[grad]).",
)
@click.option(
    "--window",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Window of PSIM: how many steps a belief covers.",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Decides which recordings are held out together.",
)
@options.output("Write the errors of every fold to a .csv or .parquet file too.")
@options.reading
@options.columns
@options.group
@options.force
def compare(data: tuple[str, ...], output: Path | None, force: bool, **others: Any) -> None:
    """Compare methods on recordings, each fitted and scored on the same folds.

    Every recording is held out once; a single recording is cut in time; with --group, recordings of one group stay
    together, also where settings are chosen. Each method chooses its settings on a part of
    the training recordings. The table shows the mean and standard deviation over folds of the squared error, in
    standard deviations, summed over channels; a star marks the least. Beside it, on how many folds PSIM has the lower
    one-step error, and the seconds that one fit takes. Only PSIM sees inputs.

    \b
    Examples:
      psimlearn compare walks.csv --id trial
      psimlearn compare walks.csv --methods ar,n4sid,psim --folds 10 -o folds.csv
      psimlearn compare walks.csv --id trial --group person
    """
    import numpy as np

    from psimlearn.cli.columns import columns_of, reading_of
    from psimlearn.cli.comparison import compared
    from psimlearn.cli.files import check_free, write_table
    from psimlearn.cli.recordings import recordings
    from psimlearn.cli.tables import comparison_table

    check_free(output, force)
    if others["symbols"]:
        raise click.UsageError("--symbols: compare takes recordings of numbers. Fit and evaluate models of symbols.")
    given = recordings(data, columns_of(others), reading_of(others))
    titles = {name: TITLES[name] for name in others["methods"]}
    comparison, seconds = compared(given.data, titles, others, given.group_of)
    click.echo(f"{given.data}, {comparison.errors.shape[1]} folds" + (" by group" if given.groups else ""))
    comparison_table(comparison, seconds)
    for name, reason in comparison.failures.items():
        click.echo(f"note: {name} failed: {reason}")
    if output is not None:
        n_methods, n_folds, steps = comparison.errors.shape
        keys = {"method": np.repeat(comparison.methods, n_folds).tolist(), "fold": [*range(n_folds)] * n_methods}
        write_table(output, keys, [f"step{h}" for h in range(1, steps + 1)], comparison.errors.reshape(-1, steps))
