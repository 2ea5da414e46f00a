"""A filter as one C99 header, for programs without Python: microcontrollers, robots, controllers of plants.

`template.h` holds the code; here the sizes and constants of a filter are written into it.
"""

import re
from importlib.resources import files
from textwrap import fill, wrap

import numpy as np

from psimlearn.export.machine import Affine, Machine

__all__ = ["header"]

LINE = 118
"""The most letters in a line of numbers."""


def header(machine: Machine, name: str) -> str:
    """The text of a header whose names all begin with `name`."""
    name, sizes, arrays = identifier(name), _sizes(machine), _constants(machine)
    told = {
        "name": name,
        "NAME": name.upper(),
        "about": "\n".join(_about(machine, name)),
        "sizes": "\n".join(f"#define {name.upper()}_{key} {value}" for key, value in sizes.items()),
        "constants": "\n".join(_written(f"{name}_{key}", name, values) for key, values in arrays.items()),
        **_signature(machine, name),
        **_bytes(sizes, arrays),
    }
    template = files("psimlearn.export").joinpath("template.h").read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: told[found[1]], template)


def identifier(name: str) -> str:
    """A name as C allows it.

    >>> identifier("3rd arm")
    'model_3rd_arm'
    """
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "model"
    return plain if re.match("[A-Za-z]", plain) else f"model_{plain}"


def _about(machine: Machine, name: str) -> list[str]:
    """The comment at the top: what the filter takes and returns."""
    kind = "random features" if machine.directions.size else "a linear step"
    lines = [f"{name}: a filter learnt by psimlearn, with {kind}, in C99 without dependencies.", ""]
    channels = machine.names or [f"channel{i}" for i in range(machine.n)]
    inputs = f" and {len(machine.input_scaling.mean)} inputs" if len(machine.input_scaling.mean) else ""
    lines += [f"Rows have {machine.n} channels{inputs}, in the units of the recordings it was learnt from:"]
    lines += wrap(", ".join(map(_spoken, channels)), 110)
    lines += ["", f"A prediction within {machine.window} rows is read from the belief. {_of_gaps(machine)}"]
    lines += [] if machine.likelihood else ["", "There is no log-likelihood: beliefs claim variances of their own."]
    return [f" * {line}".rstrip() for line in lines]


def _of_gaps(machine: Machine) -> str:
    exact = "Missing channels are treated exactly, by a covariance in the state."
    return exact if machine.exact else "Missing channels are filled in from the channels that were seen."


def _spoken(channel: str) -> str:
    """A name of a channel inside a comment, which nothing in it may end."""
    return re.sub(r"[^\w .,:+()%-]", "_", channel, flags=re.ASCII)


def _sizes(machine: Machine) -> dict[str, int | str]:
    """The numbers that the code needs when it is compiled."""
    seen, likelihood, waves = machine.seen, machine.likelihood, machine.directions.shape[1]
    ages, horizons = (1, 1) if likelihood is None else likelihood.variance.shape[:2]
    return {
        "CHANNELS": machine.n,
        "INPUTS": len(machine.input_scaling.mean),
        "WINDOW": machine.window,
        "FED": machine.fed,
        "NEXT": machine.fed + machine.n,
        "SEEN": seen,
        "WIDTH": seen + machine.controls,
        "RAW": len(machine.map.raw),
        "WAVES": waves,
        "COVARIANCE": seen if machine.exact else machine.n,
        "SLOPES": seen * (machine.fed + machine.n) if machine.exact and waves else 0,
        "FEEDTHROUGH": int(machine.feedthrough),
        "BOX": int(machine.box is not None),
        "EXACT": int(machine.exact),
        "SPAN": int(machine.span is not None),
        "NEGLIGIBLE": repr(machine.negligible),
        "LIKELIHOOD": int(likelihood is not None),
        "AGES": ages - 1,
        "HORIZONS": horizons,
        "OPENING": machine.ages,
        "COLUMNS": machine.roots.shape[2],
        "FIRST_DIFFERS": int(likelihood is not None and likelihood.first is not None),
    }


def _constants(machine: Machine) -> dict[str, np.ndarray]:
    """The arrays that the code needs; none is empty, which C does not allow."""
    arrays = {"mean": machine.scaling.mean, "scale": machine.scaling.scale}
    if len(machine.input_scaling.mean):
        arrays |= {"input_mean": machine.input_scaling.mean, "input_scale": machine.input_scaling.scale}
    arrays |= {"first": machine.first, "weights": _by_rows(machine.map)}
    if machine.directions.size:
        arrays["directions"] = machine.directions.T
    if machine.window > 1:
        arrays |= {"first_rows": machine.first_rows, "read": _blocks(machine)}
    if machine.box is not None:
        arrays |= {"low": machine.box[0], "high": machine.box[1]}
    if machine.ages:
        arrays |= {"gains": machine.gains, "roots": machine.roots}
        arrays |= {"older": machine.older} if machine.lags > 1 else {}
    arrays["noise"] = machine.noise
    if machine.exact:
        arrays["first_noise"] = machine.first_noise
    if machine.span is not None:
        arrays |= {"least": machine.span[0], "most": machine.span[1]}
    if machine.likelihood is not None:
        variance, correlation, first, widened, still, place, strictness = machine.likelihood
        arrays |= {"variance": variance, "correlation": correlation, "widened": widened, "still": still.astype(float)}
        arrays |= {"place": place, "strictness": strictness}
        arrays |= {} if first is None else {"first_covariance": first}
    return arrays


def _by_rows(map: Affine) -> np.ndarray:
    return np.vstack([map.bias, map.raw, map.cosines, map.sines])


def _blocks(machine: Machine) -> np.ndarray:
    """The rows of weights of each row of the window after the first."""
    rows = _by_rows(machine.read)
    blocks: np.ndarray = rows.reshape(len(rows), machine.window - 1, machine.n).swapaxes(0, 1)
    return blocks.reshape(machine.window - 1, -1)


def _written(name: str, prefix: str, values: np.ndarray) -> str:
    """A constant array in C; a matrix of blocks keeps its first axis."""
    blocks = values if name.endswith("_read") else values.reshape(1, -1)
    rows = [
        fill(", ".join(map(repr, row.tolist())), LINE, initial_indent="    ", subsequent_indent="    ")
        for row in blocks
    ]
    if name.endswith("_read"):
        body = ",\n".join(f"  {{\n{row}\n  }}" for row in rows)
        return f"static const {prefix}_real {name}[{blocks.shape[0]}][{blocks.shape[1]}] = {{\n{body}\n}};"
    return f"static const {prefix}_real {name}[{values.size}] = {{\n{rows[0]}\n}};"


def _signature(machine: Machine, name: str) -> dict[str, str]:
    """The inputs of a step, as parameters, as arguments and in words."""
    if not len(machine.input_scaling.mean):
        return {"parameters": "", "arguments": "", "next_u": "", "inputs_said": "", "horizons_said": ""}
    known = ["u", "next_u"] if machine.feedthrough else ["u"]
    said = "; u, the inputs that acted at this row" + "; next_u, those of the next row" * machine.feedthrough
    return {
        "parameters": "".join(f", const {name}_real *{one}" for one in known),
        "arguments": "".join(f", {one}" for one in known),
        "next_u": known[-1],
        "inputs_said": said,
        "horizons_said": ".\n   Beyond the window the inputs to come must be known: see the function below",
    }


def _bytes(sizes: dict[str, int | str], arrays: dict[str, np.ndarray]) -> dict[str, str]:
    """The sizes of a state and of all constants, where an int has four bytes."""
    without = int(sizes["WIDTH"]) + int(sizes["NEXT"])
    reals = without + int(sizes["COVARIANCE"]) ** 2 + int(sizes["SLOPES"])
    return {
        "size": str(8 * reals + 16),
        "size_float": str(4 * reals + 16),
        "size_no_gaps": str(8 * without + 16),
        "size_float_no_gaps": str(4 * without + 16),
        "size_constants": str(8 * sum(values.size for values in arrays.values())),
    }
