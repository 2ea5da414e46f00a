"""`psimlearn filter`: the answers of a filter to every row, of files or live."""

import sys
from contextlib import nullcontext
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import click

from psimlearn.cli import options

__all__ = ["filtering", "standard_input"]

FILES_ONLY = ("resample", "sort", "array", "channels_first")
"""Options that mend or choose rows of files, which a row that is answered at once cannot obey."""


@click.command("filter")
@options.model
@click.argument("data", metavar="[DATA..]", nargs=-1)
@options.output("A .csv or .parquet file [default: CSV on standard output].")
@click.option("--ahead", default=1, show_default=True, type=click.IntRange(1), help="Steps to forecast at every row.")
@click.option(
    "--alarm",
    type=click.FloatRange(0.0, 0.1, min_open=True),
    metavar="RATE",
    help="Add alarms; of normal rows, this share is low enough to begin one, such as 0.001.",
)
@click.option("--shards", is_flag=True, help="Load one file at a time; OUTPUT is a folder of Parquet files.")
@options.reading
@options.force
def filtering(model: Path, data: tuple[str, ...], output: Path | None, force: bool, **others: Any) -> int:
    """Run a filter over recordings, or over rows as they arrive.

    For every row, print the log-likelihood of the row given the rows before it (low is unusual), and for each channel C
    the expected value (C.expected, with standard deviation C.std) and the forecasts (C.ahead1, C.ahead1.std, ..). For
    a model of symbols, C is a symbol, and its expected value is its probability. A hint H has its estimate after the
    row (H.estimated). Rows keep their order, ids and times.

    With --alarm, two more columns tell whether the row is part of an alarm (alarm: 1 or 0) and the channel that
    contributed most to its low likelihood (alarm.channel). Thresholds come from the held-out recordings of 'fit'.

    If DATA are CSV, Parquet, npz or npy files, or folders of them, everything is checked before anything is written.

    Without DATA, or with -, read rows from standard input, as CSV with a header or as JSON lines, and answer each row
    at once in the same form: in a pipe, for hours, in constant memory. A cell that is no number is reported on
    standard error and taken as not observed; a line that is no row is reported, left out, and answered by empty cells.
    If the model was learnt with an id column, rows of different recordings may alternate. If it is stopped, by Ctrl-C
    or SIGTERM, OUTPUT keeps the answers so far.

    \b
    Examples:
      psimlearn filter arm.psim new.csv -o answers.parquet
      psimlearn filter arm.psim new.csv --alarm 0.001 -o answers.csv
      tail -f sensor.csv | psimlearn filter arm.psim > answers.csv
      psimlearn filter arm.psim years/ --shards -o answers/
      psimlearn filter arm.psim - --ahead 5 < huge.csv > answers.csv
    """
    from psimlearn.cli.files import check_free

    if others.pop("shards"):
        return _shards(model, data, output, force, **others)
    check_free(output, force)
    return (_stream if data in ((), ("-",)) else _file)(model, data, output, **others)


def _shards(model: Path, data: tuple[str, ...], output: Path | None, force: bool, **others: Any) -> int:
    """Answer one file after the other, each in a Parquet file."""
    from psimlearn.cli.shards import outputs_of

    if output is None or not data or "-" in data:
        raise click.UsageError("--shards: required files or folders, and -o FOLDER for the answers to each file.")
    for source, answers in outputs_of(data, output, force):
        _file(model, (source,), answers, **others)
    return 0


def _file(model: Path, data: tuple[str, ...], output: Path | None, **others: Any) -> int:
    import numpy as np

    from psimlearn.cli.files import check_names, write_table
    from psimlearn.cli.models import opened, read_for
    from psimlearn.filter.tabulate import answer_names, answers_to
    from psimlearn.serve.columns import alarm_columns, names_of_alarms
    from psimlearn.serve.symbols import symbol_columns, symbol_names

    saved = opened(model)
    filter, hints = saved.filter, saved.columns.hints if saved.filter.hinting is not None else ()
    alphabet, steps = filter.alphabet, others["ahead"]
    names = answer_names(saved.channels, steps) if alphabet is None else symbol_names(alphabet, steps)
    names += [f"{hint}.estimated" for hint in hints]
    last = names_of_alarms(alphabet, others["alarm"])
    check_names([*names, *last])
    given = read_for(saved, data, others)
    check_names([*given.keys, *names, *last])
    _check_ahead(filter, steps)
    rows = answers_to(filter, given.data, steps)
    if alphabet is not None:
        rows = symbol_columns(rows, len(alphabet))
    if hints:
        rows = np.concatenate([rows, filter.hints(given.data)], axis=1)
    keys, answers = given.answered(rows)
    alarms: dict[str, Any] = {}
    if last:
        alarm, channel, _ = filter.alarms(given.data, others["alarm"])
        _, place = given.answered(np.arange(len(rows)))
        alarms = dict(zip(last, alarm_columns(alarm[place], channel[place], saved.channels), strict=False))
    write_table(output, keys, names, answers, given.times, alarms)
    return 0


def _stream(model: Path, data: tuple[str, ...], output: Path | None, **others: Any) -> int:
    from psimlearn.cli.files import check_names, kept
    from psimlearn.cli.models import opened, wanted_by
    from psimlearn.cli.signals import exit_code
    from psimlearn.cli.stream import stream
    from psimlearn.serve.columns import names_of_alarms, names_of_answers

    _check_for_pipe(output, others)
    saved = opened(model)
    alphabet, wanted = saved.filter.alphabet, wanted_by(saved, others)
    names = [*names_of_answers(wanted, others["ahead"]), *names_of_alarms(alphabet, others["alarm"])]
    check_names([*(name for name in (wanted.id, wanted.time) if name), *names])
    _check_ahead(saved.filter, others["ahead"])
    source, out = standard_input(), cast(BufferedIOBase, sys.stdout.buffer)
    try:
        with nullcontext(out) if output is None else kept(output) as answers:
            header = () if others["no_header"] else others["header"]
            stream(saved.filter, wanted, others["ahead"], source, answers, header, others["alarm"])
    except KeyboardInterrupt as stop:
        options.say("psimlearn: stopped.")
        return exit_code(stop)
    return 0


def _check_for_pipe(output: Path | None, others: dict[str, Any]) -> None:
    """Refuse options that only files can have."""
    for option in FILES_ONLY:
        if others[option]:
            raise click.UsageError(
                f"--{option.replace('_', '-')} is for files; rows on standard input come one by one."
            )
    if output is not None and output.suffix == ".parquet":
        raise click.UsageError(
            f"-o {output}: rows on standard input are answered as text. Give a name that ends in .csv."
        )


def standard_input() -> int:
    """The file descriptor of standard input."""
    from psimlearn.errors import DataError

    if sys.stdin is None:  # its owner has closed it
        raise DataError("standard input: required rows, received a closed input. Give rows through a pipe.")
    return sys.stdin.fileno()


def _check_ahead(filter: Any, steps: int) -> None:
    if filter.input_scaling is not None and steps > filter.features.window:
        raise click.UsageError(
            f"--ahead: required at most {filter.features.window}, the window, for a filter with inputs; received "
            f"{steps}. Use 'psimlearn forecast', which takes future inputs."
        )
