"""The meaning of the columns of a table, and how a table is read."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["AS_USUAL", "NO_COLUMNS", "Columns", "Reading", "columns_in", "columns_of", "reading_of"]


class Columns(NamedTuple):
    """Names of columns by their meaning, and the codes in their cells; None for a column that is absent or unknown."""

    id: str | None
    time: str | None
    """A column, or two columns, date and time of day, with a comma between them."""
    channels: tuple[str, ...] | None
    inputs: tuple[str, ...]
    hints: tuple[str, ...] = ()
    symbols: str | None = None
    group: str | None = None
    exclude: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Cells that also mean "not observed"."""
    time_format: str | None = None
    categories: Mapping[str, tuple[str | int, ...]] = {}
    """The words of each input that holds words."""


NO_COLUMNS = Columns(None, None, None, ())
"""Nothing is known of a table yet, or it has no columns."""


class Reading(NamedTuple):
    """How files are read, whatever their columns mean."""

    guess: bool = True
    """Whether columns for id and time may be found by their names."""
    header: bool | tuple[str, ...] = True
    array: tuple[str, ...] = ()
    channels_first: bool = False
    step: Any = "auto"
    duplicates: Literal["refuse", "mean"] = "refuse"
    sort: bool = False
    resample: bool = False


AS_USUAL = Reading()


def columns_of(options: Mapping[str, Any]) -> Columns:
    """The columns that options of the command line name."""
    lists = ("inputs", "hints", "exclude", "missing")
    given = {name: options.get(name) for name in Columns._fields if name != "categories"}
    return Columns(**given | {name: given[name] or () for name in lists})


def columns_in(noted: Mapping[str, Any]) -> Columns:
    """The columns that a model file knows."""
    known = {name: noted[name] for name in Columns._fields if noted.get(name) is not None}
    lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    categories = {name: tuple(words) for name, words in known.get("categories", {}).items()}
    return NO_COLUMNS._replace(**known | lists | {"categories": categories})


def reading_of(options: Mapping[str, Any]) -> Reading:
    """How the options of the command line say that files are read."""
    step = options["step"] or "auto"
    return Reading(
        not options["no_guess"],
        options["header"] or not options["no_header"],
        options["array"] or (),
        options["channels_first"],
        None if step == "none" else step,
        options["duplicates"],
        options["sort"],
        options["resample"],
    )
