"""One update of an exported C header and of an ONNX graph, beside numpy's, in microseconds of CPU time.

    pip install ".[onnx]"
    python benchmarks/export.py
    python benchmarks/export.py --keep "AMD EPYC, two cores, idle"    # for the pages: see quoted.py

All take turns on one core, and the fastest turn of each counts: quote ratios from one run only. `bare` is a matrix
product in numpy without checks, box, scaling or missing values.
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

import argparse
import ctypes
import subprocess
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import quoted
from online import SIZES, Steps, bare, numpy_alone, ours, ours_predicting
from psimlearn.export import export
from psimlearn.filter import Filter

ROWS, TURNS = 2000, 7
DRIVER = """
#include "model.h"
void steps(const model_real *x, int rows, int predicts);
void steps(const model_real *x, int rows, int predicts)
{
    static model_state state;
    model_real out[MODEL_CHANNELS];
    int t;
    if (!state.started) model_init(&state);
    for (t = 0; t < rows; t++) {
        model_step(&state, x + t * MODEL_CHANNELS);
        if (predicts) model_predict(&state, 1, out);
    }
}
"""


def in_c(filter: Filter, *options: str) -> Steps:
    """The header, compiled by the compiler of this machine."""
    kind = np.float32 if "-DMODEL_FLOAT" in options else np.float64
    with tempfile.TemporaryDirectory() as folder:
        export(filter, Path(folder) / "model.h")
        (Path(folder) / "driver.c").write_text(DRIVER)
        command = ["cc", "-std=c99", *options, "-shared", "-fPIC", "driver.c", "-o", "driver.so", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        library = ctypes.CDLL(str(Path(folder) / "driver.so"))

    def run(rows: np.ndarray) -> None:
        given = np.ascontiguousarray(rows, dtype=kind)
        library.steps(given.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(len(given)), ctypes.c_int(1))

    return run


def in_onnx(filter: Filter) -> Steps:
    """The graph, run by onnxruntime on one thread."""
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        export(filter, Path(folder) / "model.onnx")
        session = runtime.InferenceSession(Path(folder) / "model.onnx", options, providers=["CPUExecutionProvider"])
    state = np.zeros((1, session.get_inputs()[-1].shape[1]))

    def run(rows: np.ndarray) -> None:
        nonlocal state
        for x in rows[:200]:  # slow: two hundred rows tell
            _, state = session.run(None, {"x": x[None], "state": state})

    return run


def timed(contenders: dict[str, Steps], rows: np.ndarray) -> dict[str, float]:
    """Microseconds a row, of the fastest turn."""
    best: dict[str, Any] = dict.fromkeys(contenders, float("inf"))
    for _ in range(TURNS):
        for name, run in contenders.items():
            begun = time.process_time()
            run(rows)
            count = min(len(rows), 200) if name.startswith("onnx") else len(rows)
            best[name] = min(best[name], 1e6 * (time.process_time() - begun) / count)
    return best


def main(machine: str | None) -> None:
    table: quoted.Rows = {}
    for size in SIZES:
        filter = size.filter()
        data = size.data.values[:ROWS]
        gappy = data.copy()
        gappy[::10, 0] = np.nan
        contenders = {
            "C -O2, step and predict": in_c(filter, "-O2"),
            "C -O3 -march=native": in_c(filter, "-O3", "-march=native"),
            "C -O2, float": in_c(filter, "-O2", "-DMODEL_FLOAT"),
            "numpy, bare step": bare(filter),
            "onnxruntime": in_onnx(filter),
        }
        with numpy_alone():
            contenders["numpy, Live.update"] = ours(filter)
            contenders["numpy, Live.update and predict"] = ours_predicting(filter)
        for what, rows in (("without gaps", data), ("in doubt", gappy[:300])):  # a channel missing every tenth row
            print(f"\n{size}, lags {filter.lags}, {what}")
            some = contenders if rows is data else {k: v for k, v in contenders.items() if "bare" not in k}
            for name, us in timed(some, rows).items():
                print(f"  {name:34} {us:9.2f}")
                table.setdefault(f"{name}, {what}", {})[str(size.n)] = us
    if machine:
        quoted.keep("export.py", machine, {"export": table})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--keep", metavar="MACHINE", help="keep the figures for the pages, with the name of the machine"
    )
    main(parser.parse_args().keep)
