"""Shapes in annotations, such as `Float[np.ndarray, "rows n"]`.

The tests check them with jaxtyping. Type checkers read `Float[array, shape]` as `Annotated[array, shape]`, as jaxtyping
tells them to. Neither a program that runs a filter nor a user's type checker needs jaxtyping.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["Bool", "Float", "Int", "UInt8"]

if TYPE_CHECKING:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
    from typing import Annotated as UInt8
else:

    class Float:
        """An array of numbers, where a shape follows it in brackets."""

        def __class_getitem__(cls, annotation: tuple[Any, str]) -> Any:
            """The type of the array, without its shape."""
            return annotation[0]

    Bool = Int = UInt8 = Float
