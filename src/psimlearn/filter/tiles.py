"""Products of a few rows and columns whose sums stay in registers: the inner loops of a compiled pass and step.

Of a product y = [z; 1]' W, a tile gives one row or four, and a few registers of columns. All its sums are in registers
until they are complete, so that reading and writing them costs nothing; numba alone would write each sum to memory and
read it again. The instructions are therefore written here, in the language of the compiler (LLVM).
"""

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from psimlearn.filter.loops import compiled

__all__ = ["ROWS", "multiplied_in_tiles", "row_multiplied"]

ROWS = 4
"""The rows of a tile, if there are more than one."""
LANES = 8 if binding.get_host_cpu_features().get("avx512f", False) else 4
"""The numbers of a register."""
NUMBER, WHOLE = ir.DoubleType(), ir.IntType(64)
REGISTER = ir.VectorType(NUMBER, LANES)
BUILDING: Any = cgutils  # numba does not state the types of this module


def _tile(n_rows: int, n_registers: int) -> Any:
    """A function that writes so many rows and registers of y = z' W, where W begins at a row of its table.

    The last weights of p + 1 are added as they are.
    """

    def tile(context: Any, z: Any, row: Any, W: Any, first: Any, p: Any, column: Any, y: Any, to: Any) -> Any:
        return types.void(z, row, W, first, p, column, y, to), instructions

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        z, W, y = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 6))
        _, row, _, first, p, column, _, to = arguments
        places = [builder.add(column, WHOLE(LANES * i)) for i in range(n_registers)]
        starts = [_read(builder, W, builder.add(first, p), place, REGISTER) for place in places]
        sums = [[BUILDING.alloca_once_value(builder, start) for start in starts] for _ in range(n_rows)]
        with BUILDING.for_range(builder, p) as loop:
            k = builder.add(first, loop.index)
            weights = [_read(builder, W, k, place, REGISTER) for place in places]
            for i in range(n_rows):
                v = _repeated(builder, _read(builder, z, builder.add(row, WHOLE(i)), loop.index, NUMBER))
                for sum, weight in zip(sums[i], weights, strict=True):
                    added = builder.fmul(v, weight, flags=("contract",))
                    builder.store(builder.fadd(builder.load(sum), added, flags=("contract",)), sum)
        for i in range(n_rows):
            for sum, place in zip(sums[i], places, strict=True):
                address = _address(builder, y, builder.add(to, WHOLE(i)), place, REGISTER)
                builder.store(builder.load(sum), address, align=8)
        return context.get_dummy_value()

    return intrinsic(tile)


def _address(builder: Any, array: Any, row: Any, column: Any, type: Any) -> Any:
    """The address of a number or register in a contiguous table."""
    place = builder.add(builder.mul(row, builder.extract_value(array.shape, 1)), column)
    return builder.bitcast(builder.gep(array.data, [place]), type.as_pointer())


def _read(builder: Any, array: Any, row: Any, column: Any, type: Any) -> Any:
    """A number or register of a contiguous table."""
    return builder.load(_address(builder, array, row, column, type), align=8)


def _repeated(builder: Any, number: Any) -> Any:
    """A register that holds a number in each of its lanes."""
    empty, first = ir.Constant(REGISTER, ir.Undefined), ir.IntType(32)(0)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(builder.insert_element(empty, number, first), empty, lanes)


_one, _two, _three = (_tile(ROWS, n) for n in (1, 2, 3))
_one_of_row, _eight_of_row = _tile(1, 1), _tile(1, 8)


@compiled()
def multiplied_in_tiles(z: Any, W: Any, y: Any, n_rows: int) -> None:
    """Write y = [z; 1]' W for at least the first `n_rows` rows of z.

    Args:
        z: a multiple of four rows; columns after those that W has weights for are not used.
        W: a multiple of eight columns; its last row is added.
        y: as many rows as z and columns as W.
        n_rows: at most the rows of z.
    """
    p, width = W.shape[0] - 1, W.shape[1]
    whole = width // (3 * LANES) * (3 * LANES)
    for c in range(0, whole, 3 * LANES):  # a few columns of W stay in cache for all rows
        for i in range(0, n_rows, ROWS):
            _three(z, i, W, 0, p, c, y, i)
    for i in range(0, n_rows, ROWS):
        if width - whole == 2 * LANES:
            _two(z, i, W, 0, p, whole, y, i)
        elif width - whole == LANES:
            _one(z, i, W, 0, p, whole, y, i)


@compiled()
def row_multiplied(store: Any, now: Any, first: int, p: Any, to: int, width: Any) -> None:
    """Write row `to` of a table, at least `width` columns, from row `now` and the weights that begin at row `first`.

    All is in one table, since each array that is made costs as much as the arithmetic of a small filter.
    """
    c = 0
    while c < width:
        if width - c > 4 * LANES and store.shape[1] - c >= 8 * LANES:
            _eight_of_row(store, now, store, first, p, c, store, to)
            c += 8 * LANES
        else:
            _one_of_row(store, now, store, first, p, c, store, to)
            c += LANES
