"""Checks shapes and types written in annotations while tests run, at a cost that long fits can bear.

On import, every function and dataclass of the package gets a check of its arguments and result, by jaxtyping and
beartype. One check takes longer than most of these functions do, so `checked` makes it in some calls only.
"""

import ast
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

import jaxtyping
from beartype import beartype
from jaxtyping import jaxtyped

__all__ = ["EVERY", "FIRST", "begin_test", "checked", "install"]

FIRST, EVERY = 8, 200
"""In tests of the contract the first eight calls of a function are checked, in all tests every 200th."""
CALLS: dict[Callable[..., Any], int] = {}
"""How often each function was called since the calls are counted."""
checks = {"first": FIRST}
"""How many of the first calls are checked."""


def install(package: str) -> None:
    """Check all modules of a package that are imported from now on."""
    sys.meta_path.insert(0, _Finder(package))
    annotations = import_module(f"{package}.shapes")  # before all others: they take their annotations from it
    vars(annotations).update({name: getattr(jaxtyping, name) for name in annotations.__all__})


def begin_test(first: int | None = FIRST) -> None:
    """Count calls from zero again and check so many of the first; None goes on counting and checks what is new."""
    if first is not None:
        CALLS.clear()
    checks["first"] = first or 1


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which raises `jaxtyping.TypeCheckError` in checked calls that break its annotations."""
    strict: Callable[..., Any] | None = None

    @wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        CALLS[function] = number = CALLS.get(function, 0) + 1
        if number > checks["first"] and number % EVERY:
            return function(*args, **kwargs)
        nonlocal strict
        if strict is None:  # not at import: most tests call a few of all functions, and it takes milliseconds to make
            strict = jaxtyped(function, typechecker=beartype)
        return strict(*args, **kwargs)

    return counted


def _checked_class(kind: type) -> type:
    if is_dataclass(kind) and "__init__" in vars(kind):
        kind.__init__ = checked(kind.__init__)  # type: ignore[method-assign]
    return kind


def _named(name: str, place: ast.stmt) -> ast.Name:
    """A name at the place of a statement, so that no other node of the tree has to be visited for its line."""
    return ast.copy_location(ast.Name(name, ast.Load()), place)


class _Decorated(ast.NodeTransformer):
    """Adds the decorators. Functions inside functions get none, because they would be decorated at every call."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if any(isinstance(each, ast.Call) and ast.unparse(each.func) == "compiled" for each in node.decorator_list):
            return node  # numba compiles a function, and not its check
        # innermost, where the annotations still are those in the text
        node.decorator_list.append(_named("__checked__", node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # outermost: `dataclass` has to write `__init__` first
        node.decorator_list.insert(0, _named("__checked_class__", node))
        return self.generic_visit(node)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        # from the text, because a compiled file beside it has no checks
        path = self.get_filename(fullname)
        tree = _Decorated().visit(ast.parse(self.get_data(path), path))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(__checked__=checked, __checked_class__=_checked_class)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.package:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec
