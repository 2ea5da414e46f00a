"""Model files, and recordings read with the columns of a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from psimlearn.cli.columns import NO_COLUMNS, Columns
from psimlearn.cli.options import say
from psimlearn.errors import DataError
from psimlearn.files.model import read
from psimlearn.filter import Filter
from psimlearn.filter.outside import far_channels, said_of

__all__ = ["Model", "opened", "read_for"]


class Model(NamedTuple):
    """A filter, the report of its training, and the columns it was learnt from."""

    filter: Filter
    report: Mapping[str, Any]
    columns: Columns

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels, or channel0, channel1, .. if they had none."""
        return self.filter.names or tuple(f"channel{i}" for i in range(len(self.filter.scaling.mean)))


def opened(path: Path) -> Model:
    """Read a model file; a file written from Python knows the names of its channels, but no other columns."""
    saved = read(path)
    report = saved.notes.get("report", {})
    noted = report.get("columns", {})
    columns = Columns(noted.get("id"), noted.get("time"), saved.filter.names, tuple(noted.get("inputs", ())))
    return Model(saved.filter, report, columns)


def read_for(model: Model, source: str, options: Mapping[str, Any]) -> Any:
    """Recordings with the columns of a model, unless the options --id, --time and --no-guess say otherwise."""
    from psimlearn.cli.recordings import recordings

    columns = Columns(options["id"], options["time"], model.filter.names, model.columns.inputs)
    guess = not options["no_guess"]
    given = recordings(source, columns, guess, usual=model.columns if guess else NO_COLUMNS)
    received, required = (given.data.n_channels, given.data.n_inputs), (len(model.channels), _n_inputs(model.filter))
    if received != required:
        raise DataError(
            f"{source}: required {required[0]} channels and {required[1]} inputs as in training, received "
            f"{received[0]} and {received[1]}. Name the columns as they were named in training."
        )
    if far := far_channels(model.filter, given.data):
        say(f"note: {source}: {said_of(far)}.")
    return given


def _n_inputs(filter: Filter) -> int:
    return 0 if filter.input_scaling is None else len(filter.input_scaling.mean)
