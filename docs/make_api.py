"""The page docs/api.md, from the signatures and docstrings of all public names.

python docs/make_api.py            # writes it
python docs/make_api.py --check    # exit code 1 if it is not what would be written
"""

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import psimlearn

PAGE = Path(__file__).parent / "api.md"
HEAD = """# API

Every public name with its signature and what it is, by module, made from the code by `docs/make_api.py`. Names in
**bold** come from `psimlearn` itself, all others from the module in the heading; `help(name)` says what arguments mean.
Letters are those of [notation](notation.md).
"""
ALL = ("*",)
SECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "Learn and use": {
        "estimator.psim": (),
        "export": ALL,
        "adapters": (),
        "filter.live": (),
        "filter.symbols": (),
        "files.model": ALL,
        "choose.watch": ALL,
    },
    "Recordings": {
        "recordings.trajectories": (),
        "recordings.trajectory": (),
        "recordings.alphabet": (),
        "recordings.steps": (),
        "recordings.shards": (),
        "recordings.passes": ("Engine", "Pass", "Portion"),
        "cluster": ALL,
        "estimator.scaler": (),
        "datasets": ALL,
    },
    "What is learnt": {
        "filter": ALL,
        "filter.statespace": (),
        "filter.system": ALL,
        "filter.features": ("Persistent", "Variances"),
        "learners": ("BesideBelief", "Coordinates", "GramSums", "InCoordinates", "Learner"),
        "learners.blackbox": (),
        "learners.gaussian": (),
        "learners.symbolic": (),
        "learners.trees": (),
        "train.losses": ALL,
    },
    "How it is learnt": {
        "train": ALL,
    },
    "How good it is": {"evaluate": ALL, "baselines": ALL, "report.plots": (), "report": ALL},
    "What can go wrong": {"errors": ALL},
}
"""Modules, and which of their names are public beside those that `psimlearn` has."""
LONGEST = 60
"""A default of more letters is left out."""


def page() -> str:
    """All of it."""
    return "\n".join([HEAD, *_lines()]) + "\n"


def public_names() -> dict[str, dict[str, dict[str, Any]]]:
    """Sections, their modules, and the public names of each with their values; every value stands once."""
    told: set[int] = set()
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for title, modules in SECTIONS.items():
        found[title] = {}
        for path, beside in modules.items():
            module = import_module(f"psimlearn.{path}")
            public = module.__all__ if beside is ALL else [*psimlearn.__all__, *beside]
            names = {name: getattr(module, name) for name in module.__all__ if name in public}
            found[title][path] = {name: value for name, value in names.items() if id(value) not in told}
            told.update(map(id, names.values()))
    return found


def _lines() -> Iterator[str]:
    for title, modules in public_names().items():
        yield f"## {title}\n"
        for path, names in modules.items():
            yield f"### psimlearn.{path}\n\n{_first_line(import_module(f'psimlearn.{path}'))}\n"
            for name, value in names.items():
                yield from _entry(name, value)
            yield ""


def _entry(name: str, value: Any) -> Iterator[str]:
    """A name, and its methods if it is a class."""
    shown = f"`{name}{_signature(value)}`"
    yield f"- {f'**{shown}**' if name in psimlearn.__all__ else shown}: {_meaning(name, value)}"
    if not inspect.isclass(value):
        return
    for method, member in vars(value).items():
        if method.startswith("_") or not _is_method(member):
            continue
        plain = getattr(member, "__func__", member)
        if isinstance(member, property):
            yield f"  - `.{method}`: {_first_line(member)}"
        else:
            bound = getattr(value, method) if isinstance(member, classmethod) else _without_self(plain)
            yield f"  - `.{method}{bound if isinstance(bound, str) else _signature(bound)}`: {_first_line(plain)}"


def _is_method(member: Any) -> bool:
    # scikit-learn's available_if wraps a method in a descriptor that keeps it as fn
    return isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member) or _wraps(member)


def _wraps(member: Any) -> bool:
    return hasattr(member, "fn") and hasattr(member, "check")


def _without_self(function: Any) -> str:
    function = getattr(function, "fn", function)
    own = inspect.signature(function)
    return _written(own.replace(parameters=list(own.parameters.values())[1:]))


def _signature(value: Any) -> str:
    """Names and defaults; nothing for protocols, errors and constants, which nobody calls."""
    if inspect.isclass(value):
        called = value.__init__ is not object.__init__ or issubclass(value, tuple)
        if getattr(value, "_is_protocol", False) or issubclass(value, Exception) or not called:
            return ""
    elif not inspect.isroutine(value):
        return ""
    return _written(inspect.signature(value))


def _written(signature: inspect.Signature) -> str:
    parameters = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else _Default(p.default))
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


class _Default:
    """A default as one would write it: Recipe() rather than all that is in it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        fresh = dataclasses.is_dataclass(self.value) and not isinstance(self.value, type)
        if fresh and self.value == type(self.value)():
            return f"{type(self.value).__name__}()"
        text = repr(self.value)
        return text if len(text) <= LONGEST else ".."


def _meaning(name: str, value: Any) -> str:
    described = inspect.isclass(value) or inspect.isfunction(value)
    return _first_line(value) if described else _below(name)


def _first_line(value: Any) -> str:
    value = getattr(value, "fn", value)
    text = inspect.getdoc(value)
    if not text:
        raise ValueError(f"{value!r} has no docstring")
    return text.splitlines()[0]


def _below(name: str) -> str:
    """The string below a constant or an alias where it is made."""
    for module in [own for key, own in sys.modules.items() if key.startswith("psimlearn.")]:
        for statement, after in _pairs(module):
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    return str(after.value.value).splitlines()[0]
                if isinstance(statement, ast.Assign):
                    return f"`{ast.unparse(statement.value)}`."
    raise ValueError(f"{name} is made nowhere")


def _pairs(module: ModuleType) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each statement of a module with the one after it."""
    statements = ast.parse(inspect.getsource(module)).body if getattr(module, "__file__", None) else []
    return zip(statements, [*statements[1:], None], strict=True)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page() and "docs/api.md is stale: run python docs/make_api.py")
    PAGE.write_text(page(), encoding="utf-8")
