"""`psimlearn forecast`: the rows after the end of recordings."""

from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["forecast"]

PARTS = ("", ".std", ".low", ".high")
"""Ends of the names of a channel's columns: its mean, standard deviation and bounds."""
LIKELIEST = "likeliest"
"""The column of the likeliest symbol."""


@click.command()
@options.model
@options.data
@click.option("--steps", required=True, type=click.IntRange(1), help="Rows to predict after the end of each recording.")
@click.option(
    "--coverage",
    default=0.9,
    show_default=True,
    type=click.FloatRange(0.01, 0.999),
    help="Share of observations that the intervals should contain.",
)
@click.option("--future-inputs", metavar="DATA", help="Inputs of the rows to predict, for a model with inputs.")
@options.output("A .csv or .parquet file [default: CSV on standard output].")
@options.reading
@options.force
def forecast(model: Path, data: tuple[str, ...], output: Path | None, force: bool, **others: Any) -> None:
    """Predict the rows after the end of each recording.

    For each recording and step, print the mean of each channel C, its standard deviation C.std, and the bounds C.low
    and C.high of an interval that contains the given share of observations. Beyond the calibrated steps, C.std, C.low
    and C.high are empty. Without --future-inputs, a model with inputs gives the wider intervals of unknown inputs. A
    model of symbols prints the likeliest symbol and the probability of each.

    \b
    Examples:
      psimlearn forecast arm.psim today.csv --steps 20
      psimlearn forecast arm.psim today.csv --steps 20 --future-inputs plan.csv -o next.parquet
    """
    from psimlearn.cli.files import check_free, check_names, write_table
    from psimlearn.cli.models import opened, read_for

    check_free(output, force)
    saved, steps = opened(model), others["steps"]
    symbolic = saved.filter.alphabet is not None
    names = [f"{channel}{part}" for channel in saved.channels for part in (PARTS[:1] if symbolic else PARTS)]
    likeliest = [LIKELIEST] if symbolic else []
    check_names(["step", *likeliest, *names])
    given = read_for(saved, data, others)
    several = len(given.data) > 1 or given.columns.id
    recording = next(iter(given.keys), "recording")
    times = given.coming(steps)
    check_names([*([recording] if several else []), *times, "step", *likeliest, *names])
    rows, symbols = _predicted(saved, given, others)
    ids = given.data.ids or range(len(given.data))
    keys: dict[str, list[Any]] = {recording: [id for id in ids for _ in range(steps)]} if several else {}
    keys |= times | {"step": [*range(1, steps + 1)] * len(given.data)} | dict(zip(likeliest, [symbols], strict=False))
    write_table(output, keys, names, rows, given.times)


def _predicted(saved: Any, given: Any, others: dict[str, Any]) -> tuple[Any, list[Any]]:
    """A row of numbers for each recording and step; and for symbols, the likeliest ones."""
    import numpy as np

    filter, steps, n = saved.filter, others["steps"], len(given.data) * others["steps"]
    inputs = _future_inputs(saved, given, others)
    state = filter.run(given.data, None if inputs is None else inputs[:, 0])[1]
    if filter.alphabet is not None:
        probabilities = filter.ahead(state, steps, inputs)
        return probabilities.reshape(n, -1), filter.alphabet.likeliest(probabilities).ravel().tolist()
    prediction = filter.predict(state, steps, inputs)
    if prediction.inputs != "known":
        options.say("The inputs to come are not known, so the intervals are wide; --future-inputs makes them narrower.")
    low, high = prediction.interval(others["coverage"])
    return np.stack([prediction.mean, prediction.std, low, high], axis=-1).reshape(n, -1), []


def _future_inputs(saved: Any, given: Any, others: dict[str, Any]) -> Any:
    """The inputs of the rows to predict (recording, step, input), recordings in the order of DATA."""
    import numpy as np

    from psimlearn.cli.columns import NO_COLUMNS, reading_of
    from psimlearn.cli.recordings import recordings
    from psimlearn.errors import DataError
    from psimlearn.recordings.plans import Plan, inputs_after

    source, steps = others["future_inputs"], others["steps"]
    if saved.filter.input_scaling is None:
        if source:
            raise DataError(
                f"--future-inputs: required none for a model learnt without inputs, received {source}. Leave it out."
            )
        return None
    if source is None:
        if steps > saved.filter.features.window:
            raise DataError(
                f"--future-inputs: required for more than {saved.filter.features.window} steps ahead with a model with "
                "inputs, received none. Give a file with the inputs of the rows to predict."
            )
        return None
    known, reading = given.columns, reading_of(others)
    keys = NO_COLUMNS._replace(id=known.id, time=known.time)  # if the plan has them
    columns = NO_COLUMNS._replace(
        channels=saved.columns.inputs, missing=known.missing, time_format=known.time_format, categories=known.categories
    )
    step = None if reading.step is None else given.data.step or saved.filter.time_step
    as_it_is = reading._replace(guess=False, step=None, sort=True, resample=False)  # rows are matched by their times
    future, found, *_ = recordings(source, columns, as_it_is, keys)
    alone = found.id is None and len(future) == len(given.data) == 1  # the ids are names of files
    try:
        plan = Plan(future.values, future.offsets, None if alone else future.ids, future.times)
        inputs = inputs_after(plan, given.data, steps, step)
    except DataError as error:
        raise DataError(f"{source}: {error}") from error
    if not np.isfinite(inputs).all():
        raise DataError(f"{source}: required a number in every cell, received empty ones. Fill them in.")
    return inputs
