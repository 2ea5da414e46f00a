"""Shapes in annotations, such as `Float[np.ndarray, "rows n"]`.

Type checkers and the tests read them with jaxtyping. A program that runs a filter needs no jaxtyping: there an
annotation means the array alone.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["Bool", "Float", "Int", "UInt8"]

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
    from jaxtyping import UInt8 as UInt8
else:

    class Float:
        """An array of numbers, where a shape follows it in brackets."""

        def __class_getitem__(cls, annotation: tuple[Any, str]) -> Any:
            """The type of the array, without its shape."""
            return annotation[0]

    Bool = Int = UInt8 = Float
