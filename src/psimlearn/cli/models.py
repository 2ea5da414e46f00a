"""Model files, and recordings read the way that the model's were."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from psimlearn.cli.columns import Columns
from psimlearn.errors import DataError
from psimlearn.files.model import read
from psimlearn.filter.filter import Filter

__all__ = ["Model", "opened", "read_for"]


class Model(NamedTuple):
    """A filter and what it was learnt from."""

    filter: Filter
    report: Mapping[str, Any]
    columns: Columns

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels, numbers where they had none."""
        return self.filter.names or tuple(f"channel{i}" for i in range(len(self.filter.scaling.mean)))


def opened(path: Path) -> Model:
    """A model file; one from Python says nothing of columns but the names of its channels."""
    saved = read(path)
    report = saved.notes.get("report", {})
    own = report.get("columns", {})
    columns = Columns(own.get("id"), own.get("time"), saved.filter.names, tuple(own.get("inputs", ())))
    return Model(saved.filter, report, columns)


def read_for(model: Model, source: str, options: Mapping[str, Any]) -> Any:
    """Recordings with the columns of a model, unless options say otherwise."""
    from psimlearn.cli.recordings import recordings, sought

    own = Columns(None, None, None, ()) if options["no_guess"] else model.columns
    columns = sought(own._replace(channels=model.filter.names, inputs=model.columns.inputs), source)
    columns = columns._replace(**{what: options[what] for what in ("id", "time") if options[what]})
    given = recordings(source, columns, guess=not options["no_guess"])
    received, required = (given.data.n_channels, given.data.n_inputs), (len(model.channels), _n_inputs(model.filter))
    if received != required:
        raise DataError(
            f"{source}: required {required[0]} channels and {required[1]} inputs as in training, received "
            f"{received[0]} and {received[1]}."
        )
    return given


def _n_inputs(filter: Filter) -> int:
    return 0 if filter.input_scaling is None else len(filter.input_scaling.mean)
