"""A learnt filter as one file for programs without Python: a C header, an ONNX graph, or JSON."""

from psimlearn.export.write import FORMATS as FORMATS
from psimlearn.export.write import export as export

__all__ = ["FORMATS", "export"]
