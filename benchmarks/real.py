"""The defaults on real recordings, compared with usual methods: the tables of docs/real-data.md.

    PSIMLEARN_DATA=folder python benchmarks/real.py [set ..] [--methods name ..] [--steps 1 3 5] [--folds 5]
        [--out results/real.json]
    python benchmarks/real.py --out results/real.json --page docs/real-data.md

Every method is fitted on the same folds and scored on the same rows: at least 10 rows into a test recording, 1 to 5
steps ahead, squared errors summed over channels. HIRO and walking are in standard deviations of the training data,
channel by channel; the videos in shares of the total variance of 20 principal components of the training blocks.
With `--steps 1 5 20` all methods are fitted for 20 steps: direct ones predict 20 rows, and PSIM has `criterion=20`.
`--out` keeps the errors of every fold in a file, beside those of earlier runs. With `--page` nothing is fitted: the
tables of a page are written again from that file, and tests hold the page to it.

Sets with noise have noise of 0.3 standard deviations in training and test rows, and errors are measured against rows
without it: 0.3 of each channel for HIRO and walking, 0.3 of the root mean square over components for videos, whose
noise is that of pixels. After each set come the errors of all methods relative to those of `PSIM()`: the mean
difference over folds, plus or minus its standard error, and the folds on which `PSIM()` is better. Last come the errors
of `PSIM()` relative to the best linear method, and of `PSIM(learner="auto")` relative to the best of all others.
"""

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from psimlearn.baselines import Lagged, LastObservation, TrainingMean
from psimlearn.baselines.tuned import Split, tuned_em, tuned_ivr, tuned_n4sid
from psimlearn.cli.methods import autoregression as tuned_autoregression
from psimlearn.datasets import beach, flag, ocean, pixels, principal_components, snap_assembly, walking
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import Forecaster, errors_by_horizon, folds
from psimlearn.files.atomic import atomic
from psimlearn.recordings.trajectories import Trajectories
from rivals import perceptron, recurrent

WINDOW, SKIP, N_FOLDS, N_COMPONENTS = 5, 10, 5, 20
NOISE = 0.3
"""Noise that is added to some sets, in standard deviations."""
GRID: dict[str, list[Any]] = {"standardise": [True, False], "ridge": [1e-6, 1e-3, 1e-2, 1e-1]}
"""Keywords of the subspace methods, each with the values to choose from."""


class Fold(NamedTuple):
    train: Trajectories
    test: Trajectories
    scale: np.ndarray
    truth: Trajectories
    """The rows of the test that errors are measured against: without the noise that was added, if any was."""

    def errors(self, forecaster: Forecaster, horizon: int) -> np.ndarray:
        """Errors by horizon."""
        return errors_by_horizon(_Beside(forecaster, self), self.truth, horizon, skip=SKIP, scale=self.scale)


class _Beside(NamedTuple):
    """Predictions from the rows of a test, for errors against others."""

    forecaster: Forecaster
    fold: Fold

    def forecast(self, trajectories: Trajectories, horizon: int) -> np.ndarray:
        return self.forecaster.forecast(self.fold.test, horizon)


def by_recording(recordings: Trajectories) -> Iterator[Fold]:
    for train, test in folds(recordings, N_FOLDS, np.random.default_rng(0)):
        yield Fold(train, test, train.values.std(axis=0), test)


def by_block(frames: np.ndarray, stride: int) -> Iterator[Fold]:
    """Blocks of `stride` frames; the last frames of each block are left out as a gap."""
    blocks = pixels(frames).blocks(stride - WINDOW, WINDOW)
    for train, test in folds(blocks, N_FOLDS, np.random.default_rng(0)):
        components = principal_components(train, N_COMPONENTS)
        train, test = components.project(train), components.project(test)
        yield Fold(train, test, np.full(N_COMPONENTS, np.sqrt(train.values.var(axis=0).sum())), test)


def legs(step: int) -> Trajectories:
    """The 30 channels of both legs, every `step`-th frame."""
    walks = walking()
    rows = walks.values.reshape(len(walks), -1, walks.n_channels)[:, ::step, :30]
    return Trajectories.of(np.ascontiguousarray(rows), names=list(walks.names or ())[:30])


def noisy(parts: Iterator[Fold], *, of_channels: bool) -> Iterator[Fold]:
    """Noise on all rows: a share of the deviation of each channel, or of the root mean square over channels."""
    rng = np.random.default_rng(0)
    for fold in parts:
        deviation = fold.train.values.std(axis=0)
        size = NOISE * (deviation if of_channels else np.full_like(deviation, np.sqrt(np.mean(deviation**2))))
        train, test = (
            replace(each, values=each.values + size * rng.standard_normal(each.values.shape))
            for each in (fold.train, fold.test)
        )
        yield fold._replace(train=train, test=test)


SETS: dict[str, Callable[[], Iterator[Fold]]] = {
    "HIRO assembly": lambda: by_recording(snap_assembly("S-22..S-46")),  # S-02..S-21 are near copies of each other
    "walking": lambda: by_recording(walking()),
    "flag": lambda: by_block(flag(), 50),
    "ocean": lambda: by_block(ocean(), 74),
    "beach swash": lambda: by_block(beach(), 50),
    "HIRO, noise": lambda: noisy(by_recording(snap_assembly("S-22..S-46")), of_channels=True),
    "walking 30 Hz, legs, noise": lambda: noisy(by_recording(legs(4)), of_channels=True),
    "ocean, noise": lambda: noisy(by_block(ocean(), 74), of_channels=False),
}


Method = Callable[[Trajectories, int], Forecaster]
"""From training recordings, and the most steps ahead that count, to a forecaster."""


def learnt(**settings: Any) -> Method:
    def fit(train: Trajectories, horizon: int) -> Forecaster:
        criterion = "window" if horizon <= WINDOW else horizon
        return PSIM(WINDOW, random_state=0, criterion=criterion, **settings).fit(train).filter_

    return fit


def autoregression(lags: int, prior: str) -> Method:
    """Direct multi-step ridge regression on lags: the filter without a belief; its ridge is chosen in the same way."""
    return learnt(lags=lags, prior=prior, belief_weight=0.0, level_weight=None)


def trees(train: Trajectories, horizon: int, lags: int = 5) -> Forecaster:
    """Fewer trees for wide data: the cost of a split is inputs times outputs."""
    wide = train.n_channels > 50
    size: dict[str, Any] = (
        {"n_estimators": 30, "max_features": 30, "min_samples_leaf": 2} if wide else {"n_estimators": 200}
    )
    return Lagged.fit(train, ExtraTreesRegressor(**size, random_state=0), lags, horizon)


LINEAR = ("AR, tuned", "N4SID", "IVR", "EM")
OURS = ("PSIM()", 'PSIM(learner="auto")')
METHODS: dict[str, Method] = {
    "training mean": lambda train, _: TrainingMean.fit(train),
    "last observation": lambda train, _: LastObservation.fit(train),
    "AR-5": autoregression(5, "mean"),
    "AR-5, persistence prior": autoregression(5, "last"),
    "AR-10": autoregression(10, "mean"),
    "AR-10, persistence prior": autoregression(10, "last"),
    "ExtraTrees, 5 lags": trees,
    "ExtraTrees, 10 lags": lambda train, horizon: trees(train, horizon, 10),
    "MLP, 5 lags": perceptron,
    "GRU": recurrent,
    "AR, tuned": lambda train, horizon: tuned_autoregression(train, horizon, SKIP),
    "N4SID": lambda train, _: tuned_n4sid(Split.of(train), {**GRID, "block_rows": [10, 5]}, skip=SKIP).forecaster,
    "IVR": lambda train, _: tuned_ivr(Split.of(train), {**GRID, "past": [10, 5]}, WINDOW, skip=SKIP).forecaster,
    "EM": lambda train, _: tuned_em(Split.of(train), {"block_rows": [10, 5]}, 20, skip=SKIP).forecaster,
    "PSIM()": learnt(),
    'PSIM(learner="trees")': learnt(learner="trees"),
    'PSIM(learner="auto")': learnt(learner="auto"),
}


class Scores(NamedTuple):
    """The scores of one method on one set."""

    errors: np.ndarray
    """By fold and step."""
    seconds: float
    """Of one core, for a fit."""


def scored(method: str, parts: list[Fold], steps: list[int]) -> Scores:
    """The scores of a method; prints a row of the table."""
    began = time.process_time()
    forecasters = [METHODS[method](fold.train, max(steps)) for fold in parts]
    seconds = (time.process_time() - began) / len(parts)
    errors = np.array([fold.errors(f, max(steps)) for f, fold in zip(forecasters, parts, strict=True)])
    errors = errors[:, np.array(steps) - 1]
    print(f"{row(method, errors)} {seconds:.1f} |", flush=True)
    return Scores(errors, seconds)


def head(name: str, steps: Sequence[int]) -> str:
    """The first line of a table."""
    return f"| {name} | {' | '.join(f'{step} step' + 's' * (step > 1) for step in steps)} |"


def row(method: str, errors: np.ndarray) -> str:
    """A line of a table: mean and deviation over folds, and the number of folds where not all were run."""
    moments = zip(errors.mean(axis=0), errors.std(axis=0, ddof=1), strict=True)
    cells = (f"{mean:.3g} +- {float(f'{deviation:.1g}'):g}" for mean, deviation in moments)
    some = "" if len(errors) == N_FOLDS else f" ({len(errors)} folds)"
    return f"| {method}{some} | {' | '.join(cells)} |"


def with_tables(page: str, kept: dict[str, Any]) -> str:
    """The page, with the table of each set in the file written again: those that begin with the name of the set."""
    for name, found in kept.items():
        steps = next(iter(found.values()))["steps"]
        rows = [row(method, np.array(found[method]["errors"])) for method in METHODS if method in found]
        table = "\n".join([head(name, steps), "|---" * (1 + len(steps)) + "|", *rows, ""])
        before = re.search(rf"^\| {re.escape(name)} \| 1 step .*\n(\|.*\n)+", page, flags=re.M)
        if before is None:
            raise SystemExit(f"required a table of {name!r} in the page, received none")
        page = page[: before.start()] + table + page[before.end() :]
    return page


def keep(path: Path, name: str, method: str, steps: list[int], scores: Scores) -> None:
    """Write scores into a file, beside those of other sets and methods."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = {"steps": steps, "errors": [[float(f"{e:.6g}") for e in fold] for fold in scores.errors.tolist()]}
    key = name if max(steps) <= WINDOW else f"{name}, {max(steps)} steps"
    kept.setdefault(key, {})[method] = found | {"seconds": round(scores.seconds, 1)}
    sets = (f"{json.dumps(each)}: {{\n{_lines(of)}\n}}" for each, of in kept.items())
    with atomic(path) as file:
        file.write(("{\n" + ",\n".join(sets) + "\n}\n").encode())


def _lines(found: dict[str, Any]) -> str:
    """A line for each method."""
    return ",\n".join(f"{json.dumps(method)}: {json.dumps(scores)}" for method, scores in found.items())


def beside_the_best(errors: dict[str, np.ndarray]) -> None:
    """Print our mean errors relative to those of the best linear method, and of the best of all others."""
    rivals = {OURS[0]: [name for name in LINEAR if name in errors]}
    rivals[OURS[1]] = [name for name in errors if not name.startswith("PSIM")]
    for ours, others in rivals.items():
        if ours in errors and others:
            means = np.array([errors[name].mean(axis=0) for name in others])
            ratios = errors[ours].mean(axis=0) / means.min(axis=0)
            cells = (f"{ratio:.3f} ({others[at]})" for ratio, at in zip(ratios, means.argmin(axis=0), strict=True))
            print(f"{ours} / the best of {len(others)} others: {', '.join(cells)}", flush=True)


def paired(errors: dict[str, np.ndarray], ours: str = OURS[0]) -> None:
    """Print the errors of other methods relative to ours."""
    for method, theirs in errors.items() if ours in errors else ():
        if method == ours:
            continue
        share = (theirs - errors[ours]) / errors[ours].mean(axis=0)
        spread = share.std(axis=0, ddof=1) / np.sqrt(len(share))
        cells = [
            f"{100 * mean:+.1f} +- {100 * std:.1f} % ({np.sum(column > 0)}/{len(share)})"
            for mean, std, column in zip(share.mean(axis=0), spread, share.T, strict=True)
        ]
        print(f"{method} beside {ours}: {', '.join(cells)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="set", help=f"of {', '.join(SETS)}")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--steps", nargs=3, type=int, default=[1, 3, 5], help="the steps ahead of the table")
    parser.add_argument("--out", type=Path, help="a file of errors, to which these are added")
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="how many of the five folds are run")
    parser.add_argument("--page", type=Path, help="write the tables of this page again from the file of errors")
    chosen = parser.parse_args()
    if chosen.page:
        kept = json.loads(chosen.out.read_text(encoding="utf-8"))
        chosen.page.write_text(with_tables(chosen.page.read_text(encoding="utf-8"), kept), encoding="utf-8")
        return
    for name in chosen.sets:
        parts = list(SETS[name]())[: chosen.folds]
        print(f"\n{head(name, chosen.steps)} seconds a fit |\n|---|---|---|---|---|", flush=True)
        errors = {}
        for method in chosen.methods:
            scores = scored(method, parts, chosen.steps)
            errors[method] = scores.errors
            if chosen.out:
                keep(chosen.out, name, method, chosen.steps, scores)
        paired(errors)
        beside_the_best(errors)


if __name__ == "__main__":
    main()
