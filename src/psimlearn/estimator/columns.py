"""The columns of the frames that a model was fitted to: its report and its file keep them as the command line does."""

from collections.abc import Mapping
from typing import Any

from psimlearn.files.checks import require, shown
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.roles import Roles

__all__ = ["check_columns", "columns_known", "columns_noted"]

NAMES, LISTS = ("id", "time", "time_format", "group"), ("channels", "inputs", "hints", "exclude")


def columns_noted(roles: Roles | None) -> dict[str, Any]:
    """The columns for a report; nothing if there are none, or if a name is no text, which no file could keep."""
    if roles is None:
        return {}
    names = [*roles.beside, *(roles.channels or ())]
    if not all(isinstance(name, str) for name in names):
        return {}
    categories = {name: list(words.symbols) for name, words in roles.categories.items()}
    noted = {"id": roles.id, "time": roles.time, "channels": list(roles.channels or ()), "inputs": list(roles.inputs)}
    noted |= {"hints": list(roles.hints), "time_format": roles.time_format, "categories": categories}
    noted["exclude"] = [name for name in roles.exclude if isinstance(name, str)]
    return {"columns": noted | {"by_rows": roles.by_rows}}


def columns_known(report: Mapping[str, Any]) -> Roles | None:
    """The columns in a report; None if it has none."""
    noted = report.get("columns")
    if not noted:
        return None
    categories = {name: Alphabet(tuple(words)) for name, words in (noted.get("categories") or {}).items()}
    return Roles(
        noted.get("id"),
        noted.get("time"),
        tuple(noted.get("channels") or ()),
        tuple(noted.get("inputs") or ()),
        tuple(noted.get("hints") or ()),
        noted.get("time_format"),
        categories,
        bool(noted.get("by_rows", False)),
        tuple(noted.get("exclude") or ()) + tuple(name for name in (noted.get("group"),) if name),
    )


def check_columns(report: Any) -> None:
    """Refuse columns in a file, which may be forged, that are no names and no words."""
    noted = report.get("columns") or {}
    require(isinstance(noted, dict), f"columns: required a dictionary, received {shown(noted)}")
    for what in NAMES:
        name = noted.get(what)
        require(name is None or isinstance(name, str), f"columns, {what}: required a name, received {shown(name)}")
    for what in LISTS:
        names = noted.get(what) or []
        require(_are(str, names), f"columns, {what}: required a list of names, received {shown(names)}")
    categories = noted.get("categories") or {}
    words = isinstance(categories, dict) and all(_are(str | int | float, words) for words in categories.values())
    require(words, f"columns, categories: required lists of words, received {shown(categories)}")
    columns_known(report)  # an error unless words are distinct


def _are(kind: Any, entries: Any) -> bool:
    """Whether these are a list of entries of a kind."""
    return isinstance(entries, list | tuple) and all(isinstance(entry, kind) for entry in entries)
