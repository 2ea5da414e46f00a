"""Exported C headers compiled and run, and the same answers from Python."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psimlearn.export.c import header
from psimlearn.export.machine import machine_of
from psimlearn.filter import Filter
from psimlearn.filter.live import Live

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
COMPILERS = [path for path in map(shutil.which, ("gcc", "clang")) if path] or [
    path for path in [shutil.which("cc")] if path
]
"""The compilers of this machine."""
DRIVER = """
#include "model.h"
#include "model.h"

#if MODEL_INPUTS > 0
#define STEP(s, t) model_step(s, x + (t) * MODEL_CHANNELS, u + (t) * MODEL_INPUTS NEXT(t))
#if MODEL_FEEDTHROUGH
#define NEXT(t) , u + ((t) + 1) * MODEL_INPUTS
#else
#define NEXT(t)
#endif
#else
#define STEP(s, t) model_step(s, x + (t) * MODEL_CHANNELS)
#endif

int run(const model_real *x, const model_real *u, const unsigned char *starts, int rows, int steps,
        model_real *ahead, model_real *given, model_real *nats);
int size(void);

int run(const model_real *x, const model_real *u, const unsigned char *starts, int rows, int steps,
        model_real *ahead, model_real *given, model_real *nats)
{
    static model_state state;
    int t, h, refused = 0;
    (void)u;
    (void)given;
    (void)nats;
    for (t = 0; t < rows; t++) {
        if (starts[t]) model_init(&state);
#if MODEL_LIKELIHOOD
        nats[t] = model_log_likelihood(&state, x + t * MODEL_CHANNELS);
#endif
        refused -= STEP(&state, t);
        for (h = 1; h <= steps; h++) {
            model_real *out = ahead + (t * steps + h - 1) * MODEL_CHANNELS;
            if (model_predict(&state, h, out) && !(MODEL_INPUTS && h > MODEL_WINDOW)) refused++;
#if MODEL_INPUTS > 0
            out = given + (t * steps + h - 1) * MODEL_CHANNELS;
            refused -= model_predict_given(&state, h, u + (t + 1) * MODEL_INPUTS, out);
#endif
        }
    }
    return refused;
}

int size(void)
{
    return (int)sizeof(model_state);
}
"""


class Said(NamedTuple):
    """Answers after every row: predictions 1 to `steps` rows ahead, and the row's log-likelihood."""

    ahead: np.ndarray
    """NaN beyond the window of a filter with inputs."""
    given: np.ndarray
    """With known inputs; NaN for a filter without inputs."""
    nats: np.ndarray


class Given(NamedTuple):
    """A recording, the inputs of its rows and of some rows after it, and the rows at which a stream starts again."""

    x: np.ndarray
    u: np.ndarray
    starts: np.ndarray


def given(filter: Filter, rows: int, seed: int, steps: int, missing: float = 0.2) -> Given:
    """Random rows with gaps: single entries, empty rows, and rows in which everything was seen."""
    rng, n = np.random.default_rng(seed), len(filter.scaling.mean)
    x = filter.scaling.undo(rng.standard_normal((rows, n)))
    whole = (np.arange(rows) // 25) % 2 == 1  # doubt opens and dies away by turns
    gaps = rng.random((rows, n)) < missing * ~whole[:, None]
    gaps[rng.random(rows) < missing / 4 * ~whole] = True
    starts = rng.random(rows) < 0.02
    starts[0] = True
    p = 0 if filter.input_scaling is None else len(filter.input_scaling.mean)
    return Given(np.where(gaps, np.nan, x), rng.standard_normal((rows + steps, p)), starts)


def library(filter: Filter, folder: Path, *options: str, compiler: str = "cc") -> ctypes.CDLL:
    """The header of a filter and a driver, compiled without a warning."""
    (folder / "model.h").write_text(header(machine_of(filter), "model"), encoding="ascii")
    (folder / "driver.c").write_text(DRIVER, encoding="ascii")
    made = folder / f"driver{len(list(folder.glob('*.so')))}.so"  # a path that was loaded before is not loaded again
    command = [compiler, *STRICT, *options, "-shared", "-fPIC", "driver.c", "-o", str(made), "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return ctypes.CDLL(str(made))


def in_c(built: ctypes.CDLL, filter: Filter, of: Given, steps: int, kind: Any = np.float64) -> Said:
    """Run a compiled header over a recording."""
    rows, n = of.x.shape
    ahead, after = (np.full((rows, steps, n), np.nan, dtype=kind) for _ in range(2))
    nats = np.full(rows, np.nan, dtype=kind)
    x, u, starts = of.x.astype(kind), of.u.astype(kind), of.starts.astype(np.uint8)
    parts = [part.ctypes.data_as(ctypes.c_void_p) for part in (x, u, starts, ahead, after, nats)]
    refused = built.run(*parts[:3], ctypes.c_int(rows), ctypes.c_int(steps), *parts[3:])
    assert refused == 0
    return Said(ahead, after, nats)


def in_python(filter: Filter, of: Given, steps: int, every: int = 1) -> Said:
    """Run the same rows live; all but the next row is asked for after every so many rows, and NaN elsewhere."""
    rows, n = of.x.shape
    live, driven = Live(filter), bool(of.u.shape[1])
    ahead, after = (np.full((rows, steps, n), np.nan) for _ in range(2))
    nats = np.full(rows, np.nan)
    for t in range(rows):
        if of.starts[t]:
            live.reset()
        live.update(of.x[t], *((of.u[t], of.u[t + 1]) if driven else ()))
        ahead[t, 0] = live.predict()
        if t % every == 0:
            nats[t] = live.log_likelihood
            reach = min(steps, filter.features.window) if driven else steps
            ahead[t, :reach] = live.forecast(reach)
            if driven:
                after[t] = live.forecast(steps, future_inputs=of.u[t + 1 : t + 1 + steps])
    return Said(ahead, after, nats)


def furthest(filter: Filter, a: Said, b: Said) -> dict[str, float]:
    """The largest difference of each answer, predictions in units of the channels; only where both answer."""
    scale = filter.scaling.scale
    out = {}
    for what in ("ahead", "given"):
        apart = np.abs(getattr(a, what) - getattr(b, what)) / scale
        out[what] = float(np.nanmax(apart, initial=0.0))
    spread = np.maximum(np.abs(b.nats), 1.0)
    out["nats"] = float(np.nanmax(np.abs(a.nats - b.nats) / spread, initial=0.0))
    return out
