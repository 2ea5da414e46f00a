"""A step of a filter as an ONNX graph, with the state in and out: for onnxruntime, browsers and phones.

A state is one row of numbers for each stream, [rows so far; fed; e; older rows; covariance], and a row of zeros is a
stream that has not begun. Rows are counted as far as they matter: the first, and those that have gains of their own.
The covariance is computed where a row of the batch has or had gaps, or such a gain, and skipped elsewhere. Letters are
those of `filter/doubt.py`; all constants are folded into the weights where that costs no digits.
"""

from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.export.machine import Machine
from psimlearn.export.nodes import Nodes

__all__ = ["graph", "width"]

KINDS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "float": np.float32}


def graph(machine: Machine, name: str, precision: str = "double") -> bytes:
    """The bytes of a graph that computes in "double" or in "float".

    Args:
        machine: the numbers of a filter.
        name: of the graph.
        precision: of all its numbers.
    """
    if precision not in KINDS:
        raise SettingsError(f"precision: required one of {', '.join(KINDS)}, received {precision!r}.")
    nodes = Nodes(KINDS[precision])
    row = _standardised(nodes, machine)
    before = _before(nodes, machine, row)
    if machine.exact:
        after = nodes.either(
            _has_gaps(nodes, row, before),
            lambda: _with_gaps(nodes, machine, row, before),
            lambda: [_joined(nodes, machine, row.x, before), nodes("Identity", before.P)],
        )
    else:
        after = [_joined(nodes, machine, _filled(nodes, machine, row, before), before), ""]
    _answers(nodes, machine, nodes.join(after[0], *row.u), _counted(nodes, machine, before), after[1])
    outputs = {"predictions": [machine.window, machine.n], "next_state": [width(machine)]}
    return nodes.model(name, _inputs(machine), outputs)


def width(machine: Machine) -> int:
    """The numbers in the state of a stream."""
    return 1 + machine.seen + machine.exact * machine.seen**2


def _inputs(machine: Machine) -> dict[str, list[int]]:
    """The inputs of the graph, and how many numbers each has for a stream."""
    p = len(machine.input_scaling.mean)
    names = ["u", "next_u"][: bool(p) * (1 + machine.feedthrough)]
    return {"x": [machine.n], **{name: [p] for name in names}, "state": [width(machine)]}


class Row(NamedTuple):
    """A row of every stream, standardised."""

    x: str
    """NaN where missing."""
    missing: str
    u: list[str]


class Before(NamedTuple):
    """The parts of the state before the row."""

    begun: str
    """Whether the stream has had a row."""
    young: str
    """1 if nothing was missing so far, not in this row either, and this row has a gain of its own; or 0."""
    rows: str
    """The rows so far."""
    next: str
    """[fed; e]."""
    older: str
    P: str
    """As matrices."""


def _standardised(nodes: Nodes, machine: Machine) -> Row:
    x = nodes("Div", nodes("Sub", "x", nodes.constant(machine.scaling.mean)), nodes.constant(machine.scaling.scale))
    names = [name for name in _inputs(machine) if name in ("u", "next_u")]
    mean, scale = (nodes.constant(part) for part in machine.input_scaling) if names else ("", "")
    return Row(x, nodes("IsNaN", x), [nodes("Div", nodes("Sub", name, mean), scale) for name in names])


def _before(nodes: Nodes, machine: Machine, row: Row) -> Before:
    """Split the state; a stream that has not begun has the first feedback and expects the first row."""
    q, older = machine.fed + machine.n, machine.n * (machine.lags - 1)
    started, kept, recent, P = nodes.split("state", [1, q, older, machine.exact * machine.seen**2])
    begun, young = nodes("Greater", started, nodes.constant(0.5)), ""
    P = nodes("Reshape", P, nodes.whole([-1, machine.seen, machine.seen])) if machine.exact else P
    if machine.ages:
        count = nodes("Squeeze", nodes("Cast", started, to=nodes.whole_code), nodes.whole([1]))
        roots = np.concatenate([machine.roots, np.zeros((1, *machine.roots.shape[1:]))])
        root = nodes("Gather", nodes.constant(roots), count, axis=0)
        P = nodes("Add", P, nodes("MatMul", root, nodes("Transpose", root, perm=[0, 2, 1])))
        missing = nodes("ReduceMax", nodes("Cast", row.missing, to=nodes.code), axes=[1], keepdims=1)
        early = nodes("Cast", nodes("Less", started, nodes.constant(machine.ages - 0.5)), to=nodes.code)
        young = nodes("Mul", early, nodes("Sub", nodes.constant(1.0), missing))
        recent = nodes("Where", begun, recent, nodes.constant(machine.older)) if recent else recent
    return Before(begun, young, started, nodes("Where", begun, kept, nodes.constant(machine.first)), recent, P)


def _has_gaps(nodes: Nodes, row: Row, before: Before) -> str:
    """Whether any entry of a row is missing, or any covariance is not zero."""
    missing = nodes("ReduceMax", nodes("Cast", row.missing, to=nodes.code), keepdims=0)
    open = nodes("ReduceMax", nodes("Abs", before.P), keepdims=0)
    return nodes("Greater", nodes("Add", missing, open), nodes.constant(0.0))


def _joined(nodes: Nodes, machine: Machine, x: str, before: Before) -> str:
    """[fed; x; older rows], if nothing is in doubt."""
    fed, _ = nodes.split(before.next, [machine.fed, machine.n])
    return nodes.join(fed, x, _older(nodes, machine, x, before))


def _older(nodes: Nodes, machine: Machine, x: str, before: Before) -> str:
    """The rows before this one; the first row stands for all rows before it."""
    if machine.lags == 1 or machine.ages:
        return before.older
    return nodes("Where", before.begun, before.older, nodes.join(*[x] * (machine.lags - 1)))


def _with_gaps(nodes: Nodes, machine: Machine, row: Row, before: Before) -> list[str]:
    """[fed; x; older rows] given the entries seen, and the covariance of the next memory."""
    n, fed, seen = machine.n, machine.fed, machine.seen
    noise = np.zeros((2, seen, seen))
    noise[:, fed : fed + n, fed : fed + n] = machine.noise, machine.first_noise
    begun = nodes("Unsqueeze", before.begun, nodes.whole([2]))
    J = nodes("Add", before.P, nodes("Where", begun, *map(nodes.constant, noise)))
    mean, J = _conditioned(nodes, row, nodes.join(before.next, before.older), J, fed, n)
    J = _without_seen(nodes, machine, row, J)
    if machine.lags > 1 and not machine.ages:
        E = np.eye(seen)
        E[fed + n :] = np.tile(E[fed : fed + n], (machine.lags - 1, 1))  # all rows are the first one
        J = nodes("Where", begun, J, nodes("MatMul", nodes("MatMul", nodes.constant(E), J), nodes.constant(E.T)))
    part, corrected, older = nodes.split(mean, [fed, n, seen - fed - n])
    x = nodes("Where", row.missing, corrected, row.x)
    joined = nodes.join(_boxed(nodes, machine, part), x, _older(nodes, machine, x, before._replace(older=older)))
    moved = _moved(nodes, machine, J, nodes.join(joined, *row.u))
    if machine.ages:  # the covariance of a young stream follows from its rows so far
        old = nodes("Sub", nodes.constant(1.0), before.young)
        moved = nodes("Mul", moved, nodes("Unsqueeze", old, nodes.whole([2])))
    return [joined, moved]


def _without_seen(nodes: Nodes, machine: Machine, row: Row, J: str) -> str:
    """J with zeros for the entries seen, which are known without rounding."""
    n, fed, seen = machine.n, machine.fed, machine.seen
    missing = nodes("Where", row.missing, nodes.constant(1.0), nodes.constant(0.0))
    others = np.ones(seen)
    others[fed : fed + n] = 0.0
    kept = nodes("Add", nodes("MatMul", missing, nodes.constant(np.eye(n, seen, fed))), nodes.constant(others))
    across, down = (nodes("Unsqueeze", kept, nodes.whole([axis])) for axis in (1, 2))
    return nodes("Mul", J, nodes("Mul", across, down))


def _conditioned(nodes: Nodes, row: Row, mean: str, J: str, first: int, n: int) -> tuple[str, str]:
    """Condition a Gaussian on the entries seen, one after the other; the row is at coordinate `first` of it."""
    nothing = nodes.constant(0.0)
    for c in range(n):
        at = nodes.whole([first + c])
        missing, x = (nodes("Gather", part, nodes.whole([c]), axis=1) for part in (row.missing, row.x))
        D = nodes("Gather", J, at, axis=1)
        error = nodes("Where", missing, nothing, nodes("Sub", x, nodes("Gather", mean, at, axis=1)))
        column = nodes("Squeeze", D, nodes.whole([1]))
        gain = nodes("Where", missing, nothing, nodes("Div", column, nodes("Gather", column, at, axis=1)))
        mean = nodes("Add", mean, nodes("Mul", gain, error))
        J = nodes("Sub", J, nodes("Mul", nodes("Unsqueeze", gain, nodes.whole([2])), D))
    return mean, J


def _moved(nodes: Nodes, machine: Machine, J: str, z: str) -> str:
    """P' = T J T'; zero once all its variances are negligible."""
    T, back = _derivative(nodes, machine, z)
    P = nodes("MatMul", nodes("MatMul", nodes("Transpose", T, perm=back), J), T)
    P = nodes("Mul", nodes("Add", P, nodes("Transpose", P, perm=[0, 2, 1])), nodes.constant(0.5))
    largest = nodes("ReduceMax", nodes("Mul", P, nodes.constant(np.eye(machine.seen))), axes=[1, 2], keepdims=1)
    return nodes("Where", nodes("Greater", largest, nodes.constant(machine.negligible)), P, nodes.constant(0.0))


def _derivative(nodes: Nodes, machine: Machine, z: str) -> tuple[str, list[int]]:
    """The derivative of the next memory by [fed; x; older rows], transposed, and how to transpose it back."""
    fed, seen, q = machine.fed, machine.seen, machine.fed + machine.n
    moved = np.zeros((seen, seen))
    moved[fed : fed + seen - q, q:] = np.eye(seen - q)
    if len(machine.map.raw):
        moved[:, :q] = machine.map.raw[:seen]
    if not machine.directions.size:
        return nodes.constant(moved), [1, 0]
    cos, sin = (nodes("Unsqueeze", wave, nodes.whole([2])) for wave in _waves(nodes, machine, z))
    wide = np.eye(q, seen)
    cosines, sines = (nodes.constant(part @ wide) for part in (machine.map.cosines, machine.map.sines))
    inner = nodes("Sub", nodes("Mul", cos, sines), nodes("Mul", sin, cosines))
    slope = nodes("MatMul", nodes.constant(machine.directions[:seen]), inner)
    return nodes("Add", slope, nodes.constant(moved)), [0, 2, 1]


def _filled(nodes: Nodes, machine: Machine, row: Row, before: Before) -> str:
    """The row with guesses for its missing entries, within the span."""
    _, e = nodes.split(before.next, [machine.fed, machine.n])
    guess, _ = _conditioned(nodes, row, e, nodes.constant(machine.noise[None]), 0, machine.n)
    if machine.span is not None:
        guess = nodes("Min", nodes("Max", guess, nodes.constant(machine.span[0])), nodes.constant(machine.span[1]))
    return nodes("Where", row.missing, guess, row.x)


def _waves(nodes: Nodes, machine: Machine, z: str) -> tuple[str, str]:
    angle = nodes("MatMul", z, nodes.constant(machine.directions))
    return nodes("Cos", angle), nodes("Sin", angle)


def _boxed(nodes: Nodes, machine: Machine, fed: str) -> str:
    if machine.box is None or not fed:
        return fed
    return nodes("Min", nodes("Max", fed, nodes.constant(machine.box[0])), nodes.constant(machine.box[1]))


def _counted(nodes: Nodes, machine: Machine, before: Before) -> str:
    """The rows after this one, counted as far as they matter: all of them, once an entry was missing."""
    if machine.ages:
        young = nodes("Greater", before.young, nodes.constant(0.5))
        more = nodes("Add", before.rows, nodes.constant(1.0))
        return nodes("Where", young, more, nodes.constant(float(machine.ages)))
    always = nodes("Or", before.begun, nodes("Not", before.begun))  # 1 for every stream, whatever is in its state
    return nodes("Cast", always, to=nodes.code)


def _answers(nodes: Nodes, machine: Machine, z: str, started: str, P: str) -> None:
    """All that a step gives: the rows that it expects, and the next state."""
    n, window, lags = machine.n, machine.window, machine.lags
    bias, raw, cosines, sines = (np.concatenate(parts, -1) for parts in zip(machine.map, machine.read, strict=True))
    out = nodes.constant(bias)
    if len(raw):
        out = nodes("Add", nodes("MatMul", z, nodes.constant(raw)), out)
    if machine.directions.size:
        for wave, weights in zip(_waves(nodes, machine, z), (cosines, sines), strict=True):
            out = nodes("Add", nodes("MatMul", wave, nodes.constant(weights)), out)
    fed, rows = nodes.split(out, [machine.fed, n * window])
    blocks = nodes("Mul", nodes("Reshape", rows, nodes.whole([-1, window, n])), nodes.constant(machine.scaling.scale))
    nodes("Add", blocks, nodes.constant(machine.scaling.mean), out="predictions")
    e, _ = nodes.split(rows, [n, n * (window - 1)])
    _, recent, _ = nodes.split(z, [machine.fed, n * (lags - 1), n + machine.controls])
    flat = nodes("Reshape", P, nodes.whole([-1, machine.seen**2])) if P else ""
    nodes.join(started, _boxed(nodes, machine, fed), e, recent, flat, out="next_state")
