"""Filters that were fitted once, and what they answered: `python tests/contract/freeze.py [case ..]` writes them.

A case is written again only when its answers were wrong, in a commit of its own that shows old and new. Each case is
two files in `frozen/`: the filter as `psimlearn.save` writes it, and its answers with the rows that they are about.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import psimlearn
from psimlearn import PSIM, Filter, Live, OneHotProduct, Recipe, RidgeAndTrees, SettingsError, SymbolRidge, Trajectories
from psimlearn.datasets import noisy_pendulum, random_system, two_state_hmm
from psimlearn.filter.smooth import smooth

FOLDER = Path(__file__).parent / "frozen"
N_STREAMS, N_ROWS = 4, 14
M, LENGTH = 100, 12
"""Short recordings: the quantiles of a filter, by horizon, are most of its file."""
COVERAGE = 0.9
Answers = dict[str, np.ndarray]


# -- what is fitted --------------------------------------------------------------------------------------------------


def rng(case: str) -> np.random.Generator:
    """The same numbers for a case in every process."""
    return np.random.default_rng(list(case.encode()))


def linear(case: str, n: int = 2, m: int = M, length: int = LENGTH) -> Trajectories:
    draw = rng(case)
    return random_system(draw, n_outputs=n).simulate(m, length, draw)


def learnt(data: Any, **settings: Any) -> Filter:
    given = {"window": 2, "learner": psimlearn.Ridge(1e-4), "n_rounds": 2, "lags": 1, "random_state": 0} | settings
    fitted: Filter = PSIM(**given).fit(data).filter_
    return fitted


def gappy(case: str) -> Trajectories:
    data = linear(case)
    values = data.values.copy()
    values[rng(case + "gaps").random(values.shape) < 0.2] = np.nan
    return replace(data, values=values)


def at_rest(case: str) -> Trajectories:
    """Recordings that begin at rest: openings are learnt."""
    draw = rng(case)
    system = random_system(draw, radius=0.97)
    return replace(system, mean=np.zeros(3)).simulate(M, LENGTH, draw, start_covariance=1e-6 * np.eye(3))


def gusty(case: str) -> Trajectories:
    """Noise whose size wanders: a local scale is learnt."""
    draw = rng(case)
    size = np.exp(np.cumsum(0.2 * draw.standard_normal((M, LENGTH, 1)), axis=1) - 1)
    x = np.cumsum(0.1 * draw.standard_normal((M, LENGTH, 2)), axis=1)
    return Trajectories.of(x + size * draw.standard_normal(x.shape))


def driven(case: str) -> Trajectories:
    draw = rng(case)
    u, data = draw.standard_normal((M, LENGTH, 2)), linear(case)
    x = data.values.reshape(M, LENGTH, 2).copy()
    x += 0.5 * u
    x[:, 1:] += u[:, :-1] @ draw.standard_normal((2, 2))
    return Trajectories.of(x, u)


def hinted(case: str) -> Trajectories:
    data = linear(case)
    hints = data.values.reshape(M, LENGTH, 2).cumsum(axis=1)[..., :1]
    return Trajectories.of(data.values.reshape(M, LENGTH, 2), hints=hints)


def named(case: str) -> Trajectories:
    return replace(linear(case), names=("flow (l/s)", "Höhe"), step=0.25)


def still(case: str) -> Trajectories:
    data = linear(case, 3)
    values = data.values.copy()
    values[:, 2] = 7.0
    return replace(data, values=values)


def symbols(case: str) -> list[np.ndarray]:
    system = two_state_hmm()
    return list(system.simulate(M, LENGTH, rng(case)))


CASES: dict[str, Callable[[str], Filter]] = {
    "ridge": lambda case: learnt(linear(case)),
    "defaults": lambda case: PSIM(2, random_state=0).fit(linear(case)).filter_,
    "lags, last": lambda case: learnt(linear(case), lags=3, prior="last", level_weight=0.3),
    "autoregression": lambda case: learnt(linear(case), lags=4, belief_weight=0.0),
    "cross weight": lambda case: learnt(linear(case, 4), lags=2, cross_weight=0.3),
    "four directions": lambda case: learnt(linear(case, 4), recipe=Recipe(rank=4, prior="mean")),
    "no box, zero": lambda case: learnt(linear(case), box=False, prior="zero"),
    "as published": lambda case: PSIM.as_published(2, random_state=0, n_rounds=2).fit(linear(case)).filter_,
    "at rest": lambda case: learnt(at_rest(case), lags=2, window=3),
    "gaps": lambda case: learnt(gappy(case), lags=2),
    "gaps filled": lambda case: replace(learnt(gappy(case)), gaps="filled"),
    "gusty": lambda case: learnt(gusty(case), lags=2),
    "squares": lambda case: learnt(linear(case), features="squares", prior="mean"),
    "random features": lambda case: learnt(noisy_pendulum(M, LENGTH, rng(case)), learner=_waves(False)),
    "random features, raw, last": lambda case: learnt(
        noisy_pendulum(M, LENGTH, rng(case)), learner=_waves(True), lags=2, prior="last"
    ),
    "trees": lambda case: learnt(
        noisy_pendulum(M, LENGTH, rng(case)), learner=RidgeAndTrees(n_ridges=2, n_trees=3, min_leaf=20)
    ),
    "trees, random features": lambda case: learnt(
        noisy_pendulum(M, LENGTH, rng(case)), learner=RidgeAndTrees(n_ridges=1, n_trees=2, min_leaf=20, n_features=8)
    ),
    "inputs": lambda case: learnt(driven(case), lags=2),
    "inputs at once": lambda case: learnt(driven(case), feedthrough=True),
    "random features, inputs": lambda case: learnt(driven(case), learner=_waves(True)),
    "hints": lambda case: learnt(hinted(case), lags=2),
    "names, step": lambda case: learnt(named(case)),
    "constant channel": lambda case: learnt(still(case)),
    "for each time": lambda case: learnt(linear(case, m=120, length=12), trainer="forward"),
    "reduced": lambda case: learnt(linear(case, 3), lags=3, window=3).reduced(0.02),
    "symbols": lambda case: learnt(symbols(case), features="onehot", learner=SymbolRidge(OneHotProduct(2), 1e-4)),
    "symbols, linear": lambda case: learnt(
        symbols(case), features="onehot", learner=SymbolRidge(OneHotProduct(2), 1e-4, "linear"), lags=2
    ),
    "symbols, marginals": lambda case: learnt(symbols(case), features="onehot-marginals", learner="ridge"),
}
"""Every part of a filter, but full Gaussians and logistic regression of symbols, which may go."""


def _waves(raw: bool) -> psimlearn.RandomFourierRidge:
    return psimlearn.RandomFourierRidge(12, 1e-3, raw_inputs=raw)


# -- what it answers -------------------------------------------------------------------------------------------------


def rows_of(case: str, filter: Filter) -> Mapping[str, np.ndarray]:
    """Rows of four streams, in the units of the channels: whole, single entries missing, a channel out, nothing seen.

    None begins late, and of first rows only single entries are missing: how a stream starts that begins late changes.
    """
    draw, n = rng(case + " rows"), len(filter.scaling.mean)
    given = {}
    if filter.alphabet is None:
        x = filter.scaling.undo(1.5 * draw.standard_normal((N_STREAMS, N_ROWS, n)).cumsum(axis=1) / 3)
        x[1][draw.random((N_ROWS, n)) < 0.3] = np.nan
        x[2, 4:9, 0] = np.nan
        x[3, 5:8] = np.nan
    else:
        x = np.eye(n)[draw.integers(n, size=(N_STREAMS, N_ROWS))]
        x[3, 5:8] = np.nan
    if filter.input_scaling is not None:
        given["u"] = draw.standard_normal((N_STREAMS, N_ROWS, len(filter.input_scaling.mean)))
    return {"x": x} | given


def answers_of(filter: Filter, rows: Mapping[str, np.ndarray]) -> Answers:
    """What a filter says of the rows, as whole recordings and live."""
    data = Trajectories.of(rows["x"], rows.get("u"))
    data = replace(data, alphabet=filter.alphabet, names=filter.names, step=filter.time_step)
    horizon = filter.features.window
    found = {"forecast": filter.forecast(data, horizon), "log_likelihood": filter.log_likelihood(data)}
    if filter.hinting is not None:
        found["hints"] = filter.hints(data)
    if filter.thresholds is not None:
        alarms = filter.alarms(data)
        found |= {"alarm": alarms.alarm.astype(float), "score": alarms.score}
    if filter.alphabet is None:
        found |= _smoothed(filter, data) | _live(filter, rows)
    return {name: np.ascontiguousarray(values, dtype=float) for name, values in found.items()}


def _smoothed(filter: Filter, data: Trajectories) -> Answers:
    """Gaps filled from both sides; nothing from filters that refuse it: a file without it asks for the refusal."""
    try:
        smoothed = smooth(filter, data)
    except SettingsError:
        return {}
    return {"smoothed": smoothed.mean, "smoothed std": smoothed.std}


def _live(filter: Filter, rows: Mapping[str, np.ndarray]) -> Answers:
    """A bank that takes the rows: the next two rows and those beyond the window, with deviations and bounds."""
    live = Live(filter, N_STREAMS)
    said: dict[str, list[np.ndarray]] = {"mean": [], "std": [], "low": [], "high": []}
    ahead = (1, filter.features.window + 2)
    for t in range(N_ROWS):
        live.update(rows["x"][:, t], *([rows["u"][:, t]] if "u" in rows else []))
        for horizon in ahead:
            beyond = horizon > filter.features.window and "u" in rows
            inputs: Any = {"future_inputs": np.repeat(rows["u"][:, t : t + 1], horizon, axis=1)} if beyond else {}
            mean, std = live.predict(horizon, return_std=True, **inputs)
            _, low, high = live.predict(horizon, coverage=COVERAGE, **inputs)
            for name, values in zip(said, (mean, std, low, high), strict=True):
                said[name].append(values)
    shape = (N_ROWS, len(ahead), N_STREAMS, -1)
    return {f"live {name}": np.reshape(values, shape) for name, values in said.items()}


def files_of(case: str) -> tuple[Path, Path]:
    name = case.replace(", ", "-").replace(" ", "-")
    return FOLDER / f"{name}.filter", FOLDER / f"{name}.answers"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for case in sys.argv[1:] or CASES:
        filter = CASES[case](case)
        model, answers = files_of(case)
        psimlearn.save(filter, model)
        rows = rows_of(case, filter)
        said = {f"row {name}": values for name, values in rows.items()}
        save_file(said | {f"said {name}": values for name, values in answers_of(filter, rows).items()}, answers)
        print(f"{case}: {model.stat().st_size + answers.stat().st_size} bytes, {filter!r}")


if __name__ == "__main__":
    main()
