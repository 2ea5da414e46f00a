"""Inputs of words, from the words of one frame to the words of a model: each frame numbers the words that it has."""

from dataclasses import replace

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.names import listed
from psimlearn.recordings.roles import Roles
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["recoded"]


def recoded(data: Trajectories, roles: Roles) -> Trajectories:
    """Recordings from a frame, with the inputs that a model requires: in its order, and with its words.

    Args:
        data: recordings; those that know no columns stay as they are.
        roles: the columns of the model.
    """
    theirs = data.roles
    if theirs is None or data.inputs is None or theirs.n_inputs != data.n_inputs:
        return data
    if (theirs.inputs, theirs.categories) == (roles.inputs, roles.categories):
        return data
    if set(theirs.inputs) != set(roles.inputs):
        raise DataError(
            f"required the inputs {listed(roles.inputs)} as in fit, received {listed(theirs.inputs)}. Name the same "
            "inputs=."
        )
    widths = [len(theirs.categories[name]) if name in theirs.categories else 1 for name in theirs.inputs]
    parts = dict(zip(theirs.inputs, np.split(data.inputs, np.cumsum(widths)[:-1], axis=1), strict=True))
    columns = [
        _renumbered(parts[name], theirs.categories.get(name), roles.categories.get(name), name) for name in roles.inputs
    ]
    return replace(
        data,
        inputs=np.concatenate(columns, axis=1),
        roles=theirs._replace(inputs=roles.inputs, categories=roles.categories),
    )


def _renumbered(
    part: Float[np.ndarray, "rows theirs"], received: Alphabet | None, required: Alphabet | None, name: str
) -> Float[np.ndarray, "rows ours"]:
    """The columns of one input."""
    if received is None and required is None:
        return part
    if received is None or required is None:
        kinds = ("numbers", "words") if required is None else ("words", "numbers")
        raise DataError(f"input {name!r}: required {kinds[0]} as in fit, received {kinds[1]}.")
    if unknown := [word for word in received.symbols if word not in required.symbols]:
        raise DataError(
            f"input {name!r}: required the words {listed(required.symbols)} as in training, received "
            f"{listed(unknown)} too. The model has not learnt what these words do: correct them, or fit again with "
            "recordings that have them."
        )
    columns = np.zeros((len(part), len(required)))
    columns[:, [required.symbols.index(word) for word in received.symbols]] = part
    return columns
