"""What `PSIM().fit` chooses, its errors and its CPU seconds, beside those in results/frozen_fits.json.

    PSIMLEARN_DATA=folder python benchmarks/frozen_fits.py [set ..]
    python benchmarks/frozen_fits.py [set ..] --beside ../before     # another checkout, fit by fit in turn
    python benchmarks/frozen_fits.py [set ..] --keep                 # write the present figures into the file

The sets are ten small simulated ones, made in plain numpy so that no change of psimlearn can change them, and those of
`real.py` (without PSIMLEARN_DATA they are left out). Each has parts, a simulation or a fold, and every part is fitted
with the defaults in a process of its own with one thread. Errors are 1, 3 and 5 steps ahead on rows that were not
fitted to, from the eleventh on. A digest of the rows tells whether two figures speak of the same data.

Errors of one machine are those of another but for the last digits, unless two settings are level; seconds are not:
compare them only with `--beside`, with nothing else running.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gap_systems import FAMILIES, Family
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories

FILE = Path(__file__).parent.parent / "results" / "frozen_fits.json"
STEPS, SKIP = [1, 3, 5], 10
N_PARTS = 3
"""Simulations of each small set; real sets have five folds."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Part(NamedTuple):
    """What one fit learns from, and what its errors are measured on."""

    train: Trajectories
    test: Trajectories
    errors: Callable[[Any], np.ndarray]
    """Of a filter, 1 to 5 steps ahead."""


# -- small sets ------------------------------------------------------------------------------------------------------


def _part(train: np.ndarray, test: np.ndarray, *inputs: np.ndarray) -> Part:
    """Recordings as arrays, (m, T, n); with inputs, those of both, (m, T, p)."""
    learnt, judged = (Trajectories.of(x, u) for x, u in zip((train, test), inputs or (None, None), strict=True))
    deviation = np.nanstd(train, axis=(0, 1))
    scale = np.where(deviation > 0, deviation, 1.0)
    return Part(learnt, judged, lambda each: errors_by_horizon(each, judged, max(STEPS), skip=SKIP, scale=scale))


def _simulated(family: Family, seed: int, m: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    system = family.system(seed)
    return system.simulate(m, length, family.rng(seed, 1)), system.simulate(60, 150, family.rng(seed, 2))


def _linear(family: str, m: int, length: int) -> Callable[[int], Part]:
    return lambda seed: _part(*_simulated(FAMILIES[family], seed, m, length))


def _gappy(seed: int) -> Part:
    """A fifth of the entries of all recordings is missing."""
    train, test = _simulated(FAMILIES["noisy"], seed, 60, 100)
    rng = np.random.default_rng([9, seed])
    for x in (train, test):
        x[rng.random(x.shape) < 0.2] = np.nan
    return _part(train, test)


def _pendulum(seed: int) -> Part:
    """Sine and cosine of the angle of a pendulum, released at a random angle, with noise of .3."""

    def swings(m: int, length: int, rng: np.random.Generator) -> np.ndarray:
        angle, speed = rng.uniform(-np.pi, np.pi, m), rng.standard_normal(m)
        x = np.empty((m, length, 2))
        for t in range(length):
            x[:, t] = np.stack([np.sin(angle), np.cos(angle)], axis=1)
            speed = speed - 0.6 * np.sin(angle) + 0.05 * rng.standard_normal(m)
            angle = angle + 0.15 * speed
        return x + 0.3 * rng.standard_normal(x.shape)

    return _part(swings(100, 80, np.random.default_rng([1, seed])), swings(60, 80, np.random.default_rng([2, seed])))


def _walks(seed: int) -> Part:
    """Levels that wander, each recording from another one: the prior "last" is right."""
    rng = np.random.default_rng([3, seed])
    steps = rng.standard_normal((100, 120, 3)) @ rng.standard_normal((3, 3))
    x = 10 * rng.standard_normal((100, 1, 3)) + steps.cumsum(axis=1) + 0.5 * rng.standard_normal((100, 120, 3))
    return _part(x[:40], x[40:])


def _driven(seed: int) -> Part:
    """A linear system with two known inputs that are held for ten rows."""
    system, rng = FAMILIES["noisy"].system(seed), np.random.default_rng([4, seed])
    u = np.repeat(rng.standard_normal((140, 12, 2)), 10, axis=1)
    x, effect = system.simulate(140, 120, rng), np.zeros((140, len(system.A)))
    B = rng.standard_normal((len(system.A), 2))
    for t in range(120):
        x[:, t] += effect @ system.C.T
        effect = effect @ system.A.T + u[:, t] @ B.T
    return _part(x[:80], x[80:], u[:80], u[80:])


def _with_flags(seed: int) -> Part:
    """A linear system beside a constant channel, a counter, and a flag that is rarely set."""
    train, test = _simulated(FAMILIES["noisy"], seed, 40, 150)
    rng, parts = np.random.default_rng([5, seed]), []
    for x in (train, test):
        still, counter = np.full(x.shape[:2], 7.0), np.tile(np.arange(150.0), (len(x), 1))
        flag = (rng.random(x.shape[:2]) < 0.02).astype(float)
        parts.append(np.concatenate([x, np.stack([still, counter, flag], axis=2)], axis=2))
    return _part(*parts)


SMALL: dict[str, Callable[[int], Part]] = {
    "noisy systems": _linear("noisy", 60, 100),
    "accurate systems": _linear("accurate", 60, 100),
    "12 outputs": _linear("12 outputs", 40, 100),
    "3 recordings of 40 rows": _linear("noisy", 3, 40),
    "one recording of 1500 rows": _linear("noisy", 1, 1500),
    "a fifth missing": _gappy,
    "noisy pendulum": _pendulum,
    "random walks": _walks,
    "two inputs": _driven,
    "constant, counter, flag": _with_flags,
}


def sets() -> dict[str, tuple[int, Callable[[int], Part]]]:
    """The sets that can be made here: the number of parts of each, and how a part is made."""
    found = {name: (N_PARTS, made) for name, made in SMALL.items()}
    if "PSIMLEARN_DATA" in os.environ:
        import real

        def folded(name: str) -> Callable[[int], Part]:
            def part(number: int) -> Part:
                fold = next(fold for at, fold in enumerate(real.SETS[name]()) if at == number)
                return Part(fold.train, fold.test, lambda each: fold.errors(each, max(STEPS)))

            return part

        found |= {name: (real.N_FOLDS, folded(name)) for name in real.SETS}
    return found


# -- fits ------------------------------------------------------------------------------------------------------------


def fitted(part: Part) -> dict[str, Any]:
    """The defaults on one part: errors, CPU seconds, what was chosen."""
    began = time.process_time()
    model = PSIM(random_state=0).fit(part.train)
    seconds = time.process_time() - began
    chosen = {key: value for key, value in model.report_["choices"].items() if value is not None}
    errors = [float(f"{error:.8g}") for error in part.errors(model.filter_)[np.array(STEPS) - 1]]
    digest = hashlib.sha256(np.ascontiguousarray(part.train.values).tobytes()).hexdigest()[:12]
    return {"errors": errors, "seconds": round(seconds, 2), "rows": digest, "chosen": chosen}


def in_process(root: Path, name: str, number: int) -> dict[str, Any]:
    """The same by the code of a checkout, in a process of its own."""
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(root / "src")}
    command = [sys.executable, str(root / "benchmarks" / "frozen_fits.py"), "--part", name, str(number)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Beside(NamedTuple):
    """The fits of one set, and others to judge them by."""

    now: Sequence[dict[str, Any]]
    before: Sequence[dict[str, Any]]

    def told(self) -> str:
        """Errors relative to those before: mean over parts, its standard error and the worst; and the seconds."""
        if any(a["rows"] != b["rows"] for a, b in zip(self.now, self.before, strict=True)):
            return "other rows than before: errors cannot be compared"
        now, before = (np.array([fit["errors"] for fit in fits]) for fits in self)
        share = now / before
        spread = share.std(axis=0, ddof=1) / np.sqrt(len(share)) if len(share) > 1 else np.zeros(len(STEPS))
        cells = (f"{m:.4f} +- {s:.4f}" for m, s in zip(share.mean(axis=0), spread, strict=True))
        seconds = [sum(fit["seconds"] for fit in fits) / len(fits) for fits in self]
        same = sum(a["chosen"] == b["chosen"] for a, b in zip(self.now, self.before, strict=True))
        return (
            f"{' | '.join(cells)} | worst {share.max():.4f} | {seconds[0]:.2f} / {seconds[1]:.2f} s"
            f" = {seconds[0] / max(seconds[1], 0.01):.2f} | {same} of {len(share)} choices the same"
        )


def written(kept: dict[str, list[dict[str, Any]]]) -> str:
    """The file: a line for each fit."""
    lines = (",\n".join(json.dumps(fit) for fit in fits) for fits in kept.values())
    return "{\n" + ",\n".join(f"{json.dumps(n)}: [\n{of}\n]" for n, of in zip(kept, lines, strict=True)) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="set", help=f"of {', '.join(SMALL)}, and those of real.py")
    parser.add_argument("--parts", type=int, help="how many parts of each set are fitted")
    parser.add_argument("--beside", type=Path, help="the root of another checkout, whose fits run in turn with these")
    parser.add_argument("--keep", action="store_true", help="write the figures into results/frozen_fits.json")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    known = sets()
    if chosen.part:
        print(json.dumps(fitted(known[chosen.part[0]][1](int(chosen.part[1])))))
        return
    kept = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    root = Path(__file__).parent.parent
    print(f"| set | {' | '.join(f'{step} steps' for step in STEPS)} | | CPU seconds a fit, now / before | choices |")
    print("|---|---|---|---|---|---|---|")
    for name in chosen.sets or known:
        now, before = [], list(kept.get(name, []))
        for number in range(min(chosen.parts or known[name][0], known[name][0])):
            if chosen.beside:
                before[number : number + 1] = [in_process(chosen.beside, name, number)]
            now.append(in_process(root, name, number))
        told = Beside(now, before[: len(now)]).told() if len(before) >= len(now) else "not in the file"
        print(f"| {name} | {told} |", flush=True)
        if chosen.keep:
            kept[name] = now
            FILE.write_text(written(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
