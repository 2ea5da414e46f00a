"""Filters of symbols, compared with usual methods: the tables of docs/symbols.md.

    python benchmarks/symbols.py [hmm | memory | text | live ..]

Errors are nats per symbol on new sequences. If the exact filter is known, the error is the excess over it: the mean
Kullback-Leibler divergence of the predicted distribution from the exact one, which has no noise of drawn symbols.
hmmlearn (extra `bench`) learns by EM: ten random starts of up to 50 iterations on the first part of the sequences; the
start with the largest likelihood then runs on all sequences, for up to 100 iterations or until an iteration gains less
than a nat in total.
"""

import argparse
import ast
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hmmlearn.hmm import CategoricalHMM

from psimlearn.baselines import KGram, OperatorModel, spectral, word_moments
from psimlearn.datasets import HiddenMarkov, long_memory_hmm, three_state_hmm
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import Forecaster, errors_by_horizon
from psimlearn.filter import OneHotProduct
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.losses import LogLoss

N_RESTARTS, N_SHORT, N_LONG = 10, 50, 100
PART = 16_000
"""The number of symbols on which the starts of EM are compared."""
Fit = Callable[[Trajectories], Forecaster]


class Outcome(NamedTuple):
    forecaster: Forecaster
    seconds: float


def timed(fit: Fit, train: Trajectories) -> Outcome:
    began = time.process_time()
    forecaster = fit(train)
    return Outcome(forecaster, time.process_time() - began)


def nats(forecaster: Forecaster, test: Trajectories) -> float:
    return float(errors_by_horizon(forecaster, test, measure=LogLoss().nats)[0])


def learnt(**settings: object) -> Fit:
    return lambda train: PSIM(random_state=0, **settings).fit(train).filter_


def linear_update(window: int) -> Fit:
    """The plain regression of the next belief on [m; x]; its ridge is chosen as for the joint update."""
    features = OneHotProduct(window)

    def fit(train: Trajectories) -> Forecaster:
        models = [
            PSIM(window, features="onehot", learner=SymbolRidge(features, alpha, "linear", floor), random_state=0)
            for alpha in (1e-6, 1e-4)
            for floor in (1e-6,)
        ]
        for model in models:
            model.fit(train)
        best: Forecaster = min(models, key=lambda model: model.report_["errors"]["PSIM"][0]).filter_
        return best

    return fit


def expectation_maximisation(n_states: int) -> Fit:
    def fit(train: Trajectories) -> Forecaster:
        codes, lengths = train.values.argmax(axis=1)[:, None], train.lengths
        part = int(np.searchsorted(train.offsets, PART))
        runs = [
            CategoricalHMM(n_states, n_iter=N_SHORT, tol=1.0, random_state=seed).fit(
                codes[: train.offsets[part]], lengths[:part]
            )
            for seed in range(N_RESTARTS)
        ]
        best = max(runs, key=lambda model: model.monitor_.history[-1])
        best.init_params, best.n_iter = "", N_LONG
        best.fit(codes, lengths)
        known = HiddenMarkov(best.transmat_.T, best.emissionprob_.T, best.startprob_)
        return known.forward()

    return fit


def excess(forecaster: Forecaster, exact: OperatorModel, test: Trajectories) -> float:
    p, q = (f.forecast(test, 1)[:, 0] for f in (forecaster, exact))
    with np.errstate(divide="ignore"):
        return float(np.mean(np.sum(q * (np.log(q) - np.log(p)), axis=1)))


def simulated(hmm: HiddenMarkov, m: int, length: int, rng: np.random.Generator) -> Trajectories:
    return Trajectories.of_symbols(list(hmm.simulate(m, length, rng)), alphabet=range(len(hmm.emission)))


def table(name: str, methods: dict[str, Fit], systems: list[tuple[HiddenMarkov, Trajectories, Trajectories]]) -> None:
    print(f"\n| {name} | median excess, nats | each | CPU seconds a fit |\n|---|---|---|---|", flush=True)
    for method, fit in methods.items():
        outcomes = [timed(fit, train) for _, train, _ in systems]
        each = [
            excess(outcome.forecaster, hmm.forward(), test)
            for outcome, (hmm, _, test) in zip(outcomes, systems, strict=True)
        ]
        seconds = np.mean([outcome.seconds for outcome in outcomes])
        listed = " ".join(f"{e:.1e}" for e in each)
        print(f"| {method} | {np.median(each):.2e} | {listed} | {seconds:.1f} |", flush=True)


def random_models() -> None:
    """Five random models of three states and symbols, 4000 sequences of 32."""
    systems = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        hmm = three_state_hmm(rng)
        systems.append((hmm, simulated(hmm, 4000, 32, rng), simulated(hmm, 4000, 32, rng)))
    methods: dict[str, Fit] = {
        "3-gram": lambda train: KGram.fit(train, 3),
        "5-gram": lambda train: KGram.fit(train, 5),
        "spectral, told the rank, floor 1e-3": lambda train: spectral(word_moments(train), 3, 1e-3),
        "PSIM, linear update": linear_update(2),
        'PSIM(2, features="onehot")': learnt(window=2, features="onehot"),
        'PSIM(features="onehot")': learnt(features="onehot"),
        'PSIM(3, features="onehot-marginals")': learnt(window=3, features="onehot-marginals"),
        "hmmlearn EM, 3 states": expectation_maximisation(3),
    }
    table("five random models", methods, systems)


def long_memory() -> None:
    """States that last 200 symbols and are hard to see: 500 sequences of 400."""
    hmm, rng = long_memory_hmm(), np.random.default_rng(0)
    systems = [(hmm, simulated(hmm, 500, 400, rng), simulated(hmm, 500, 400, rng))]
    methods: dict[str, Fit] = {
        "5-gram": lambda train: KGram.fit(train, 5),
        "8-gram": lambda train: KGram.fit(train, 8),
        "spectral, words of 2, told the rank, floor 1e-3": lambda train: spectral(word_moments(train, 2), 3, 1e-3),
        'PSIM(2, features="onehot")': learnt(window=2, features="onehot"),
        'PSIM(features="onehot")': learnt(features="onehot"),
        'PSIM(5, features="onehot-marginals")': learnt(window=5, features="onehot-marginals"),
        "hmmlearn EM, 3 states": expectation_maximisation(3),
    }
    table("long memory", methods, systems)


def docstrings(least: int = 40) -> list[str]:
    """The docstrings of each module of Python's standard library: lower-case letters, space, '.' for all else."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = []
    for path in sorted(folder.glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        found = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
        text = " ".join(" ".join(found).lower().split())
        if len(text) >= least:
            texts.append("".join(c if c == " " or "a" <= c <= "z" else "." for c in text))
    return texts


def chosen_kgram(train: Trajectories) -> Forecaster:
    """Choose order and smoothing on a held-out fifth of the sequences, then learn from all."""
    first, second = train.split(0.2, np.random.default_rng(0))
    tried = [(order, strength) for order in range(2, 10) for strength in (1.0, 4.0, 16.0)]
    return KGram.fit(train, *min(tried, key=lambda choice: nats(KGram.fit(first, *choice), second)))


def text(block: int = 200, n_train: int = 50_000, n_test: int = 10_000) -> None:
    """Learn from the docstrings of some modules, predict the docstrings of others."""
    texts = docstrings()
    order = np.random.default_rng(0).permutation(len(texts))
    blocks = [
        list(texts[i][start : start + block])
        for i in order
        for start in range(0, max(1, len(texts[i]) - block + 1), block)
    ]
    ends = np.cumsum([len(each) for each in blocks])
    cut = int(np.searchsorted(ends, n_test))
    alphabet = " .abcdefghijklmnopqrstuvwxyz"
    train = Trajectories.of_symbols(blocks[cut : int(np.searchsorted(ends, n_test + n_train))], alphabet=list(alphabet))
    test = Trajectories.of_symbols(blocks[:cut], alphabet=list(alphabet))
    print(f"\n{len(train.values)} characters to learn from, {len(test.values)} to predict, alphabet of {len(alphabet)}")
    print("\n| text | nats per character | CPU seconds a fit |\n|---|---|---|", flush=True)
    methods: dict[str, Fit] = {f"{k}-gram": lambda train, k=k: KGram.fit(train, k) for k in range(1, 6)}  # type: ignore[misc]
    methods |= {
        "k-gram, order and smoothing chosen": chosen_kgram,
        'PSIM(features="onehot-marginals", lags=1)': learnt(features="onehot-marginals", lags=1),
        'PSIM(features="onehot-marginals")': learnt(features="onehot-marginals"),
    }
    for method, fit in methods.items():
        forecaster, seconds = timed(fit, train)
        print(f"| {method} | {nats(forecaster, test):.4f} | {seconds:.1f} |", flush=True)


def live() -> None:
    """A hundred thousand live steps: their time, and the error of the sum of probabilities."""
    hmm, rng = three_state_hmm(np.random.default_rng(0)), np.random.default_rng(1)
    model = PSIM(2, features="onehot", n_rounds=5, random_state=0).fit(simulated(hmm, 1000, 32, rng))
    stream, steps = model.start(), 100_000
    drawn = hmm.simulate(1, steps, rng)[0].tolist()
    worst, least, began = 0.0, 1.0, time.process_time()
    for i, symbol in enumerate(drawn):
        stream.update(None if i % 10 == 0 else symbol)
        p = stream.predict_proba()
        worst, least = max(worst, abs(p.sum() - 1)), min(least, p.min())
    micro = 1e6 * (time.process_time() - began) / steps
    print(f"\n{steps} live steps, {micro:.0f} us each; |sum - 1| at most {worst:.1e}, least probability {least:.1e}")


PARTS = {"hmm": random_models, "memory": long_memory, "text": text, "live": live}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="part", help=f"of {', '.join(PARTS)}")
    for part in parser.parse_args().parts:
        PARTS[part]()


if __name__ == "__main__":
    main()
