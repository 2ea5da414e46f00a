"""A channel that was constant in training, in C and JSON: predicted as itself, and unlikely once it moves."""

import ctypes
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from compiled import COMPILERS, Given, in_c, library
from psimlearn import PSIM, Recipe
from psimlearn.export.matrices import matrices
from small import ONE, beside

STEPS, LABELS = 3, (0.0, 7.0, 1e-5)
FLOOR = {0.0: 0.01, 7.0: 0.01, 1e-5: 1e-7}
"""By hand: a hundredth of 1, or of the constant where that is less."""


def gappy(label: float, seed: int = 0) -> list[np.ndarray]:
    parts = beside(label, seed)
    for part in parts:
        part[4, 0] = part[6, 2] = np.nan
    return parts


@cache
def fitted(label: float, standardise: bool = True) -> PSIM:
    settings = {name: value for name, value in ONE.items() if name not in ("lags", "prior", "belief_weight")}
    recipe = Recipe(lags=2, prior="last", belief_weight=1.0, standardise=standardise)
    return PSIM(**settings, recipe=recipe).fit(gappy(label))


@pytest.mark.skipif(not COMPILERS, reason="needs a C compiler: gcc, clang or cc")
@pytest.mark.parametrize(
    ("label", "standardise"), [*((label, True) for label in LABELS), (7.0, False)], ids=lambda value: f"{value}"
)
def test_the_header_rings_when_it_moves_and_predicts_it_while_it_stays(
    label: float, standardise: bool, tmp_path: Path
) -> None:
    filter, rows = fitted(label, standardise).filter_, gappy(label, 1)[3]
    for options, kind, close in (([], np.float64, 1e-9), (["-DMODEL_FLOAT"], np.float32, 1e-4)):
        built = library(filter, tmp_path, "-O0", *options)

        def told(x: np.ndarray, built: ctypes.CDLL = built, kind: type = kind) -> tuple[np.ndarray, np.ndarray]:
            starts = np.arange(len(x)) == 0
            said = in_c(built, filter, Given(x, np.empty((len(x) + STEPS, 0)), starts), STEPS, kind)
            return said.ahead, said.nats

        ahead, nats = told(rows)
        np.testing.assert_allclose(ahead[:, :, 2], label, rtol=1e-7 if kind is np.float32 else 1e-12, atol=1e-14)
        live = fitted(label, standardise).start()
        for row, expected in zip(rows, nats, strict=True):
            live.update(row)
            assert live.log_likelihood == pytest.approx(expected, rel=close, abs=close)
        moved = rows.copy()
        moved[9, 2] += 0.5
        distance = 0.5 * (0.5 / FLOOR[label]) ** 2
        assert nats[9] - told(moved)[1][9] == pytest.approx(distance, rel=close)


@pytest.mark.parametrize("label", LABELS)
def test_the_matrices_hold_its_floor(label: float) -> None:
    """Whoever computes the Gaussian of the innovations finds it as unlikely as Python does."""
    V = np.array(json.loads(matrices(fitted(label).filter_))["V"])
    assert V[2].tolist() == [0.0, 0.0, pytest.approx(FLOOR[label] ** 2)]
    assert V[:2, 2].tolist() == [0.0, 0.0]
