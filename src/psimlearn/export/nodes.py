"""Nodes of an ONNX graph, written like calls of functions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from psimlearn.extras import imported

__all__ = ["Nodes"]

OPSET, IR_VERSION = 17, 8
"""Of 2022, so that older runtimes read the graph too."""


class Nodes:
    """The nodes and constants of a graph that is being written. Results are known by their names."""

    def __init__(self, kind: type[np.floating[Any]]) -> None:
        self._kind = kind
        self._onnx = imported("onnx", "onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._count = 0

    @property
    def code(self) -> int:
        """The number by which ONNX knows the type of numbers."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self._kind)))

    @property
    def whole_code(self) -> int:
        """The number by which ONNX knows the type of whole numbers."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(np.int64)))

    def __call__(self, operation: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add a node, and return the name of its result."""
        out = out or self._name()
        self._nodes.append(self._onnx.helper.make_node(operation, list(inputs), [out], **attributes))
        return out

    def constant(self, values: Any) -> str:
        """Numbers in the type of the graph."""
        return self._kept(np.asarray(values, dtype=self._kind))

    def whole(self, values: Sequence[int]) -> str:
        """Whole numbers, such as shapes and places."""
        return self._kept(np.asarray(values, dtype=np.int64))

    def split(self, whole: str, widths: Sequence[int]) -> list[str]:
        """Split the columns of a matrix. A part without columns has no name: not every runtime knows empty arrays."""
        names = [self._name() if width else "" for width in widths]
        parts, some = [name for name in names if name], self.whole([width for width in widths if width])
        self._nodes.append(self._onnx.helper.make_node("Split", [whole, some], parts, axis=1))
        return names

    def join(self, *parts: str, out: str | None = None) -> str:
        """Join the columns of matrices, without the parts that have no name."""
        return self("Concat", *(part for part in parts if part), axis=1, out=out)

    def either(
        self, condition: str, then: Callable[[], Sequence[str]], other: Callable[[], Sequence[str]]
    ) -> list[str]:
        """The results of one of two branches; only this branch is computed."""
        branches, results = {}, []
        for attribute, branch in (("then_branch", then), ("else_branch", other)):
            outside, self._nodes = self._nodes, []
            results = list(branch())
            infos = [self._onnx.helper.make_empty_tensor_value_info(name) for name in results]
            branches[attribute] = self._onnx.helper.make_graph(self._nodes, attribute, [], infos)
            self._nodes = outside
        names = [self._name() for _ in results]
        self._nodes.append(self._onnx.helper.make_node("If", [condition], names, **branches))
        return names

    def model(self, name: str, inputs: dict[str, list[int]], outputs: dict[str, list[int]]) -> bytes:
        """The bytes of the whole graph; every input and output has the streams as its first axis."""
        helper = self._onnx.helper
        infos = [
            [helper.make_tensor_value_info(part, self.code, ["streams", *shape]) for part, shape in parts.items()]
            for parts in (inputs, outputs)
        ]
        graph = helper.make_graph(self._nodes, name, *infos, initializer=self._constants)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="psimlearn"
        )
        self._onnx.checker.check_model(made)
        return bytes(made.SerializeToString())

    def _kept(self, values: np.ndarray) -> str:
        name = self._name()
        self._constants.append(self._onnx.numpy_helper.from_array(values, name))
        return name

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"
