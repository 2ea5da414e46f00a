"""The C header of a filter says what the filter says, live, row by row, with gaps.

Compiled code is run by this process; where there is no C compiler these tests are skipped.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiled import COMPILERS, DRIVER, STRICT, Given, furthest, given, in_c, in_python, library
from psimlearn import PSIM, SettingsError
from psimlearn.datasets import random_system
from psimlearn.export.c import header
from psimlearn.export.machine import machine_of
from psimlearn.filter import Filter, Linear, Stack, StackSquares, spreads
from psimlearn.filter.innovations import innovations
from psimlearn.filter.spreads import Roots
from psimlearn.filter.uncertainty import LEVELS, Calibration, Starting
from psimlearn.learners import Ridge
from psimlearn.train import dagger
from random_filters import RNG, WINDOW, N, made
from small import ONE, several

pytestmark = pytest.mark.skipif(not COMPILERS, reason="needs a C compiler: gcc, clang or cc")

CLOSE, CLOSE_FLOAT, STEPS = 1e-12, 1e-4, 4
VALGRIND = shutil.which("valgrind")


def held(
    filter: Filter, folder: Path, *options: str, kind: Any = np.float64, rows: int = 80, compiler: str = "cc"
) -> None:
    """Hold a compiled header to the live filter, and every answer to be there where Python has one."""
    of = given(filter, rows, seed=1, steps=STEPS)
    assert np.isnan(of.x).any()
    met = in_c(library(filter, folder, *options, compiler=compiler), filter, of, STEPS, kind)
    expected = in_python(filter, of, STEPS, every=2)
    asked = slice(None, None, 2)
    for a, b in zip(met[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(np.isnan(a[asked]), np.isnan(b[asked]))
    assert max(furthest(filter, met, expected).values()) < (CLOSE if kind is np.float64 else CLOSE_FLOAT)


@pytest.mark.parametrize("wide", [False, True])
def test_the_start_of_a_wide_memory_is_exported_by_few_columns(
    wide: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a wide memory, covariances would be most of a header: 113 of 133 MB for 90 channels and 10 lags."""
    monkeypatch.setattr(spreads, "WIDE", 1 if wide else 1000)
    filter = made("opened", Stack(WINDOW), "inputs", 3, "mean", False, False, 3)
    model = innovations(filter)
    assert isinstance(model.kind, Roots) is wide
    roots, covariances = machine_of(filter).roots, model.first_covariances
    np.testing.assert_allclose(
        roots @ roots.swapaxes(1, 2), covariances, rtol=0, atol=1e-13 * np.abs(covariances).max()
    )
    assert roots.shape[2] <= (filter.opening.root.shape[1] if wide and filter.opening else model.s)
    held(filter, tmp_path, "-O0")


def calibrated(filter: Filter, seed: int = 5) -> Filter:
    """The filter with random calibrations, also of first rows; its second channel may be still."""
    rng, horizon, ages = RNG(seed), 4, 3
    base = np.sort(rng.uniform(0.5, 2.0, (horizon, N)), axis=0)
    quantiles = np.sort(rng.uniform(0, 3, (len(LEVELS), horizon, N)), axis=0)
    ratio, young = rng.uniform(0.5, 4.0, (ages, 2, N)), np.sort(rng.uniform(0, 3, (len(LEVELS), ages, N)), axis=0)
    return replace(
        filter,
        calibration=Calibration(base, np.zeros_like(base), quantiles),
        starting=Starting(ratio, young, 3 * filter.covariance),
    )


@pytest.mark.parametrize("gaps", ["exact", "filled"])
def test_the_log_likelihood_leaves_channels_out_that_were_constant(gaps: Any, tmp_path: Path) -> None:
    filter = calibrated(replace(made("linear", Stack(WINDOW), "none", 3, "last", False, True, 3), gaps=gaps))
    assert filter.calibration is not None
    base = filter.calibration.base.copy()
    base[0, 1] = 1e-24
    still = replace(filter, calibration=filter.calibration._replace(base=base))
    assert still.calibration is not None
    assert still.calibration.still.tolist() == [False, True]
    held(still, tmp_path, "-O0")


def test_beliefs_that_claim_variances_leave_the_log_likelihood_to_python(tmp_path: Path) -> None:
    filter = calibrated(made("linear", StackSquares(WINDOW), "none", 1, "mean", False, True, 3))
    assert filter.calibration is not None
    claims = replace(filter, calibration=filter.calibration._replace(gain=np.ones_like(filter.calibration.gain)))
    text = header(machine_of(claims), "model")
    assert "There is no log-likelihood" in text
    assert "#define MODEL_LIKELIHOOD 0" in text
    of = given(claims, 50, seed=1, steps=STEPS)
    met, expected = in_c(library(claims, tmp_path), claims, of, STEPS), in_python(claims, of, STEPS)
    assert np.isnan(met.nats).all()
    assert furthest(claims, met, expected)["ahead"] < CLOSE


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", ["linear", "waves and raw"])
def test_floats_are_close(kind: str, compiler: str, tmp_path: Path) -> None:
    filter = calibrated(made(kind, Stack(WINDOW), "feedthrough", 3, "last", True, True, 4))
    held(filter, tmp_path, "-DMODEL_FLOAT", "-O2", kind=np.float32, rows=600, compiler=compiler)


@cache
def fitted(belief_weight: float) -> PSIM:
    """A learnt model of recordings with gaps."""
    data = several()
    for part in data:
        part[3:5, 0] = np.nan
    return PSIM(**ONE | {"belief_weight": belief_weight, "lags": 2, "window": 3}).fit(data)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("belief_weight", [0.0, 1.0])
def test_learnt_models_run_in_c(belief_weight: float, compiler: str, tmp_path: Path) -> None:
    filter = fitted(belief_weight).filter_
    held(filter, tmp_path, "-O2", compiler=compiler)
    assert machine_of(filter).fed == (len(filter.feedback.mean) if belief_weight else 0)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_compiler_here_takes_it_without_a_warning(compiler: str, tmp_path: Path) -> None:
    filter = calibrated(made("waves and raw", Stack(WINDOW), "feedthrough", 3, "last", True, True, 4))
    for options in ([], ["-DMODEL_NO_GAPS"], ["-DMODEL_FLOAT"], ["-DMODEL_NO_GAPS", "-DMODEL_FLOAT"], ["-std=c11"]):
        built = library(filter, tmp_path, "-Wshadow", "-O1", *options, compiler=compiler)
        of = given(filter, 50, seed=1, steps=STEPS, missing=0.0)
        kind = np.float32 if "-DMODEL_FLOAT" in options else np.float64
        far = furthest(filter, in_c(built, filter, of, STEPS, kind), in_python(filter, of, STEPS))
        assert max(far.values()) < (CLOSE if kind is np.float64 else CLOSE_FLOAT)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_wide_filter_compiles_without_a_warning_at_the_highest_level(compiler: str, tmp_path: Path) -> None:
    """gcc saw a place in the weights beyond the largest int, after more rows than there are."""
    data = random_system(RNG(0), n_states=8, n_outputs=60).simulate(30, 20, RNG(0))
    filter = next(dagger(data, data, Stack(3), Ridge(1e-2), rng=RNG(0), n_rounds=0)).filter
    library(filter, tmp_path, "-O3", compiler=compiler)


def test_sizes_are_as_the_header_says(tmp_path: Path) -> None:
    filter = made("waves", Stack(WINDOW), "inputs", 3, "last", True, True, 4)
    text = header(machine_of(filter), "model")
    found = re.search(r"state: (\d+) bytes in double, (\d+) in float;\n \* with MODEL_NO_GAPS (\d+) and (\d+)", text)
    assert found
    sizes = []
    for i, options in enumerate(
        ([], ["-DMODEL_FLOAT"], ["-DMODEL_NO_GAPS"], ["-DMODEL_NO_GAPS", "-DMODEL_FLOAT"]), start=1
    ):
        folder = tmp_path / str(i)
        folder.mkdir()
        sizes.append(library(filter, folder, *options).size())
    assert sizes == [int(size) for size in found.groups()]


REFUSALS = """
#include "model.h"
#include <stdio.h>
#include <string.h>

int main(void)
{
    static model_state before, after;
    model_real x[2] = {0.5, -0.5}, odd[2] = {0.5, 0}, u[1] = {0.1}, bad[1] = {0};
    odd[1] = ODD;
    bad[0] = NAN;
    model_init(&before);
    model_step(&before, x, u);
    after = before;
    printf("%d ", model_step(&after, odd, u));
    printf("%d ", model_step(&after, x, bad));
    printf("%d ", model_predict(&after, 0, x));
    printf("%d ", model_predict(&after, MODEL_WINDOW + 1, x));
    printf("%d ", model_predict_given(&after, 1, bad, x));
    printf("%d", memcmp(&before, &after, sizeof before));
    return 0;
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("odd", "options"), [("INFINITY", []), ("NAN", ["-DMODEL_NO_GAPS"])])
def test_a_refused_row_changes_nothing(odd: str, options: list[str], compiler: str, tmp_path: Path) -> None:
    filter = made("linear", Stack(WINDOW), "inputs", 1, "mean", False, True, 4)
    (tmp_path / "model.h").write_text(header(machine_of(filter), "model"))
    assert executed(compiler, REFUSALS, tmp_path, f"-DODD={odd}", *options) == "-1 -1 -1 -1 -1 0"


def executed(compiler: str, program: str, folder: Path, *options: str, under: Sequence[str] = ()) -> str:
    """The output of a program, on standard error too; `under` runs it."""
    (folder / "main.c").write_text(program)
    command = [compiler, *STRICT, *options, "main.c", "-o", "main", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([*under, folder / "main"], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


MAIN = (
    DRIVER
    + """
#include <stdio.h>

static model_real x[ROWS * MODEL_CHANNELS], u[(ROWS + STEPS) * MODEL_INPUTS + 1];
static model_real ahead[ROWS * STEPS * MODEL_CHANNELS], given[ROWS * STEPS * MODEL_CHANNELS], nats[ROWS];
static unsigned char starts[ROWS];

int main(void)
{
    FILE *file = fopen("rows.bin", "rb");
    size_t count = fread(x, sizeof x, 1, file) + fread(u, sizeof u - sizeof *u, MODEL_INPUTS > 0, file)
        + fread(starts, sizeof starts, 1, file);
    fclose(file);
    return count == 2 + (MODEL_INPUTS > 0) ? run(x, u, starts, ROWS, STEPS, ahead, given, nats) : 9;
}
"""
)


def with_rows(kind: str, gaps: Any, folder: Path) -> list[str]:
    """A header and rows with gaps for `MAIN`; returns its options."""
    filter = calibrated(replace(made(kind, Stack(WINDOW), "feedthrough", 3, "last", True, True, 4), gaps=gaps))
    of = given(filter, 300, seed=1, steps=STEPS)
    (folder / "model.h").write_text(header(machine_of(filter), "model"))
    (folder / "rows.bin").write_bytes(b"".join(part.tobytes() for part in of._replace(starts=of.starts.astype("u1"))))
    return ["-g", "-DROWS=300", f"-DSTEPS={STEPS}"]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("kind", "gaps"), [("opened", "exact"), ("waves and raw", "exact"), ("linear", "filled")])
def test_sanitizers_have_nothing_to_say(kind: str, gaps: Any, compiler: str, tmp_path: Path) -> None:
    """Bounds, uses of memory, and operations that C leaves undefined, over rows with gaps."""
    options = [*with_rows(kind, gaps, tmp_path), "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = subprocess.run(
        [compiler, "-fsanitize=address,undefined", "-xc", "-", "-o", "probe"],
        cwd=tmp_path,
        input=b"int main(void) { return 0; }",
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        pytest.skip("this compiler has no sanitizers")
    assert executed(compiler, MAIN, tmp_path, *options) == ""


@pytest.mark.skipif(not VALGRIND, reason="needs valgrind")
def test_valgrind_has_nothing_to_say(tmp_path: Path) -> None:
    """Values that were never set, too, which sanitizers do not see."""
    options = with_rows("waves and raw", "exact", tmp_path)
    under = [str(VALGRIND), "--quiet", "--error-exitcode=9", "--leak-check=full"]
    assert executed(COMPILERS[0], MAIN, tmp_path, *options, under=under) == ""


def test_names_of_channels_end_no_comment(tmp_path: Path) -> None:
    filter = replace(
        made("linear", Stack(WINDOW), "none", 1, "mean", False, True, 4), names=("*/ #error", "Höhe ??/ /*")
    )
    held(filter, tmp_path)
    assert "__ _error, H_he ___ __" in (tmp_path / "model.h").read_text()


def test_two_files_and_two_models_live_in_one_program(tmp_path: Path) -> None:
    """Also a name that C does not allow as it is."""
    for name, seed in (("3rd arm", 1), ("leg", 2)):
        filter = made("linear", Stack(WINDOW), "none", 1, "mean", False, True, seed)
        (tmp_path / f"{name}.h").write_text(header(machine_of(filter), name))
    both = '#include "3rd arm.h"\n#include "leg.h"\n'
    (tmp_path / "other.c").write_text(
        both + "int other(void);\nint other(void) { leg_state s; leg_init(&s); return 0; }\n"
    )
    program = (
        both + "int other(void);\nint main(void) { model_3rd_arm_state s; model_3rd_arm_init(&s); return other(); }\n"
    )
    assert executed(COMPILERS[-1], program, tmp_path, "other.c") == ""


@pytest.mark.parametrize("kind", ["variances", "black box", "two in turn"])
def test_other_filters_are_refused(kind: str) -> None:
    filter = made(kind, StackSquares(WINDOW), "none", 1, "mean", False, True, 1)
    with pytest.raises(SettingsError, match=r"required a linear or random-feature filter .* learner='ridge' or 'rff'"):
        machine_of(filter)


def test_feedback_without_weight_has_no_columns() -> None:
    filter = made("waves and raw", Stack(WINDOW), "inputs", 1, "mean", False, False, 1)
    machine = machine_of(replace(filter, feedback=filter.feedback._replace(weight=0.0)))
    assert machine.fed == 0
    assert len(machine.directions) == len(machine.map.raw) == N + 1
    low = np.full(len(filter.feedback.mean), 0.1)
    away = filter.feedback._replace(weight=0.0, low=low, high=2 * low)
    with pytest.raises(SettingsError, match="box around zero"):
        machine_of(replace(filter, feedback=away))


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    """Another filter's header does not pass for this one's."""
    filter, other = (made("linear", Stack(WINDOW), "none", 1, "mean", False, True, seed) for seed in (1, 2))
    of: Given = given(filter, 20, seed=1, steps=STEPS)
    far = furthest(filter, in_c(library(other, tmp_path), other, of, STEPS), in_python(filter, of, STEPS))
    assert far["ahead"] > 0.01
    assert isinstance(filter.regressors[0], Linear)
