"""Model files, and recordings read with the columns of a model."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from psimlearn.cli.columns import NO_COLUMNS, Columns, columns_in, columns_of, reading_of
from psimlearn.cli.options import say
from psimlearn.errors import DataError, ModelFileError
from psimlearn.files.model import read
from psimlearn.filter import Filter
from psimlearn.filter.outside import far_channels, said_of
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.cells import Absent
from psimlearn.recordings.steps import check_step
from psimlearn.recordings.times import step_of
from psimlearn.serve.rows import Wanted

__all__ = ["SYMBOL", "Model", "opened", "read_for", "summary_of", "wanted_by"]

SYMBOL = "symbol"
"""The column of symbols, if the model does not know its name."""


class Model(NamedTuple):
    """A filter, the report of its training, and the columns it was learnt from."""

    filter: Filter
    report: Mapping[str, Any]
    columns: Columns

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels, or channel0, channel1, .. if they had none; for symbols, the symbols."""
        if self.filter.alphabet is not None:
            return tuple(map(str, self.filter.alphabet.symbols))
        return self.filter.names or tuple(f"channel{i}" for i in range(len(self.filter.scaling.mean)))


def opened(path: Path) -> Model:
    """Read a model file; a file written from Python knows the names of its channels, but no other columns."""
    saved = read(path)
    report = saved.notes.get("report", {})
    try:
        columns = columns_in(report.get("columns", {}))._replace(channels=saved.filter.names)
        sound = _sound(columns)
    except (AttributeError, LookupError, TypeError, ValueError):
        sound = False
    if not sound:
        raise ModelFileError(
            f"{path}: required the columns of a model as psimlearn writes them, received others. "
            "psimlearn.load(path) may read its filter."
        )
    return Model(saved.filter, report, columns)


def _sound(columns: Columns) -> bool:
    """Whether columns in a file, which may be forged, are names."""
    names = (columns.id, columns.time, columns.symbols, columns.group, columns.time_format)
    lists = (columns.inputs, columns.hints, columns.exclude, columns.missing, tuple(columns.categories))
    return all(name is None or isinstance(name, str) for name in names) and all(
        isinstance(part, tuple) and all(isinstance(name, str) for name in part) for part in lists
    )


def summary_of(model: Model, path: Path) -> str:
    """The report of a model as text."""
    from psimlearn.choose.summary import summarised
    from psimlearn.estimator.saved import with_infinities

    try:
        return summarised(with_infinities(dict(model.report)))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: required a report as psimlearn writes it, received another ({type(error).__name__}). "
            "psimlearn.load(path) may read its filter."
        ) from error


def read_for(model: Model, sources: str | Sequence[str], options: Mapping[str, Any]) -> Any:
    """Recordings with the columns of a model, unless the options --id, --time and the like say otherwise."""
    from psimlearn.cli.recordings import recordings

    usual, alphabet = model.columns, model.filter.alphabet
    columns = columns_of(options)._replace(
        channels=None if alphabet is not None else model.filter.names,
        inputs=usual.inputs,
        symbols=None if alphabet is None else options["symbols"] or usual.symbols or SYMBOL,
        missing=options["missing"] or usual.missing,
        time_format=options["time_format"] or usual.time_format,
        categories=usual.categories,
    )
    reading = reading_of(options)
    if reading.step == "auto" and model.filter.time_step is not None:
        reading = reading._replace(step=model.filter.time_step)
    given = recordings(sources, columns, reading, usual if reading.guess else NO_COLUMNS, alphabet)
    try:
        check_step(model.filter.time_step, given.data.step, int(given.data.lengths.max()))
    except DataError as error:
        advice = "Use --resample without --step, or --step none if the times are not to be trusted."
        raise DataError(re.sub(r"Resample:.*", advice, str(error))) from error
    received = (given.data.n_channels, given.data.n_inputs)
    required = (len(model.filter.scaling.mean), _n_inputs(model.filter))
    if received != required:
        raise DataError(
            f"{sources}: required {required[0]} channels and {required[1]} inputs as in training, received "
            f"{received[0]} and {received[1]}. Name the columns as they were named in training."
        )
    if far := far_channels(model.filter, given.data):
        say(f"note: {sources if isinstance(sources, str) else ', '.join(sources)}: {said_of(far)}.")
    return given


def wanted_by(model: Model, options: Mapping[str, Any]) -> Wanted:
    """The columns of live rows for a model, unless options such as --id and --time say otherwise."""
    columns, alphabet = model.columns, model.filter.alphabet
    guess = not options.get("no_guess")
    id, time = (options.get(what) or (getattr(columns, what) if guess else None) for what in ("id", "time"))
    step = options.get("step")
    return Wanted(
        model.channels if alphabet is None else (options.get("symbols") or columns.symbols or SYMBOL,),
        columns.inputs or tuple(f"input{i}" for i in range(_n_inputs(model.filter))),
        id,
        time,
        alphabet,
        {name: Alphabet(words) for name, words in columns.categories.items()},
        Absent.of(options.get("missing") or columns.missing),
        options.get("time_format") or columns.time_format,
        None if step == "none" else step_of(step, "--step") if step else model.filter.time_step,
    )


def _n_inputs(filter: Filter) -> int:
    return 0 if filter.input_scaling is None else len(filter.input_scaling.mean)
