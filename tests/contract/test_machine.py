"""The contract of all engines: each says what the textbook says, of every kind of filter, with every kind of gap.

`cases.py` has the filters and recordings, `engines.py` the engines, `textbook.py` and `readings.py` what is right.
What an engine does not say is in `REFUSALS`, and a test holds engines to it: none passes by saying nothing.
With PSIMLEARN_CONTRACT=full, every combination of the settings of a step is tried, and not only every pair.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from compiled import COMPILERS
from contract.cases import GAPS, MODELS, SETTINGS, Case, filter_of, fixed, product_of_all, recordings
from contract.engines import ENGINES, Engine, back_propagation, in_c, is_cut, moments_of
from contract.readings import Answers, textbook
from contract.textbook import Book
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW

pytestmark = pytest.mark.usefixtures("unchecked")

CLOSE = 1e-10
FULL = os.environ.get("PSIMLEARN_CONTRACT") == "full"
TOGETHER = 48 if FULL else 8
"""The cases of one test: their C headers are compiled in one go."""


# -- what engines do not say -------------------------------------------------------------------------------------------


class Refusal(NamedTuple):
    """Answers that an engine leaves out, of which filters and recordings."""

    why: str
    answers: set[str]
    when: Callable[[Case, bool], bool] = lambda case, gappy: True


SPREADS = {"std", "reach", "inside_std", "blind_std"}
OF_ROWS = {"nats", "score", "alarm", "hints"}
ALL = {"belief", "ahead", "inside", "blind"} | SPREADS | OF_ROWS
NUMBA, ONNX = find_spec("numba") is not None, find_spec("onnxruntime") is not None and find_spec("onnx") is not None


def no_machine(case: Case, gappy: bool) -> bool:
    return not case.foldable


REFUSALS: dict[str, list[Refusal]] = {
    "steps": [
        Refusal("a state has no memory of hints and alarms", {"hints", "alarm"}),
        Refusal("a state has taken its row with the next inputs", {"blind", "blind_std", "inside_std"}),
    ],
    "whole": [
        Refusal("nobody asks for the row after the next where only the next inputs are known", {"inside_std"}),
        Refusal("the same", {"inside"}, lambda case, gappy: case.driven),
    ],
    "compiled": [
        Refusal("numba is not installed", ALL, lambda case, gappy: not NUMBA),
        Refusal("loops are compiled for linear filters", ALL, lambda case, gappy: not (case.linear and case.foldable)),
        Refusal("they give beliefs, all else is read from them", ALL - {"belief", "ahead", "nats"}),
    ],
    "live": [Refusal("streams tell whether they are in alarm, not by how much", {"score"})],
    "bank": [Refusal("streams tell whether they are in alarm, not by how much", {"score"})],
    "stretches": [
        Refusal("the server reads hints and alarms from states", {"hints", "alarm"}),
        Refusal("the server asks with known inputs", {"blind_std", "inside_std"}),
    ],
    "C header": [
        Refusal("there is no C compiler", ALL, lambda case, gappy: not COMPILERS),
        Refusal("export takes linear and random-feature maps", ALL, no_machine),
        Refusal("the header has predictions and likelihoods", ALL - {"ahead", "inside", "nats"}),
        Refusal(
            "beliefs claim variances",
            {"nats"},
            lambda case, gappy: case.readings == "first rows" and case.features != "stack",
        ),
    ],
    "ONNX": [
        Refusal("onnxruntime is not installed", ALL, lambda case, gappy: not ONNX),
        Refusal("export takes linear and random-feature maps", ALL, no_machine),
        Refusal("the graph has predictions within the window", ALL - {"inside"}),
    ],
    "JSON": [
        Refusal("a state-space model is linear", ALL, lambda case, gappy: not (case.linear and case.foldable)),
        Refusal("a state-space model has no box", ALL, lambda case, gappy: case.box),
        Refusal("its equations are for complete rows", ALL, lambda case, gappy: gappy),
        Refusal("it predicts rows", ALL - {"ahead"}),
    ],
    "JAX": [
        Refusal("gradients are of fills", ALL, lambda case, gappy: gappy and case.exact),
        Refusal("the loss needs beliefs", ALL - {"belief"}),
    ],
}


KNOWN: dict[str, list[Refusal]] = {
    "whole": [
        Refusal(
            "the slope of random features is taken at the inputs that acted next, though they are not to be known",
            {"blind_std"},
            lambda case, gappy: case.kind.startswith("waves") and case.inputs == "feedthrough" and case.exact and gappy,
        )
    ]
}
"""Answers that are not the textbook's, and should be; a test shows that they still differ."""


def said_by(name: str, case: Case, gappy: bool, want: Answers) -> set[str]:
    """The answers of the textbook that an engine does not refuse."""
    refused = [each.answers for each in REFUSALS[name] if each.when(case, gappy)]
    return set(want).difference(*refused)


def silent(name: str, data: Trajectories) -> dict[str, tuple[np.ndarray | slice, ...]]:
    """The places within an answer that an engine leaves out."""
    before, ends = moments_of(data)
    first = ends - data.lengths
    every = np.arange(len(before) + len(ends))
    examples = np.concatenate([f + 1 + np.arange(max(m - WINDOW, 0)) for f, m in zip(first, data.lengths, strict=True)])
    left: dict[str, dict[str, tuple[np.ndarray | slice, ...]]] = {
        "compiled": {"ahead": (ends,)},  # forecasts are made before rows
        "ONNX": {"inside": (first,)},  # a graph is asked with a row
        "JSON": {"ahead": (slice(None), slice(1, None))},  # the equations predict the row that comes
        "JAX": {"belief": (np.setdiff1d(every, examples),)},  # rows that make examples
    }
    return left.get(name, {})


# -- the contract ------------------------------------------------------------------------------------------------------


@cache
def cases() -> list[Case]:
    return list(product_of_all()) if FULL else fixed()


def apart(name: str, data: Trajectories, met: Answers, want: Answers) -> dict[str, float]:
    """By how much each answer differs from the textbook's; infinite where just one of them has a number."""
    out = {}
    for what, mine in met.items():
        theirs = want[what].astype(float)
        if what in silent(name, data):
            theirs[silent(name, data)[what]] = np.nan
        assert mine.shape == theirs.shape, (name, what)
        unlike = np.isnan(mine) != np.isnan(theirs)
        far = np.abs(mine - theirs) / np.maximum(1.0, np.abs(theirs))
        out[what] = np.inf if unlike.any() else float(np.nanmax(far, initial=0.0))
    return out


def some(data: Trajectories, answers: Answers, chosen: list[int]) -> tuple[Trajectories, Answers]:
    """Some of the recordings, and the answers about them."""
    rows = np.isin(np.repeat(np.arange(len(data)), data.lengths), chosen)
    moments = np.isin(np.repeat(np.arange(len(data)), data.lengths + 1), chosen)
    return data[chosen], {name: a[rows if name in OF_ROWS else moments] for name, a in answers.items()}


def broken(number: int, case: Case, engines: dict[str, Engine], gappy: bool) -> Iterator[str]:
    """What engines say that they should not, about one case."""
    filter, data = filter_of(case, number), recordings(case, gappy, number)
    want = textbook(filter, data)
    for name, engine in engines.items():
        rows, right = (data, want) if name != "live" else some(data, want, list(range(number % 3, len(data), 3)))
        met = engine(filter, rows)
        if set(met) != said_by(name, case, gappy, want):
            yield f"{name} answers {sorted(met)}, declared are {sorted(said_by(name, case, gappy, want))}: {case}"
            continue
        known = [each.answers for each in KNOWN.get(name, []) if each.when(case, gappy)]
        far = {what: by for what, by in apart(name, rows, met, right).items() if not by < CLOSE}
        told = {what: f"{by:.0e}" for what, by in far.items() if what not in set().union(*known)}
        if told:
            yield f"{name}, {'gaps' if gappy else 'no gaps'}, {told}: filter {number}, {case}"


@pytest.mark.parametrize("first", range(0, len(cases()), TOGETHER))
def test_every_engine_takes_the_steps_of_the_textbook(first: int, tmp_path: Path) -> None:
    chosen = dict(list(enumerate(cases()))[first : first + TOGETHER])
    headers = in_c([filter_of(case, number) for number, case in chosen.items()], tmp_path) if COMPILERS else []
    found = []
    for number, case in chosen.items():
        engines = {name: engine for name, engine in ENGINES.items() if name not in ("C header", "JAX")}
        if headers:
            engines["C header"] = headers[number - first]
        if FULL and number % 4:
            del engines["live"]  # the slowest: it takes one row of one stream at a time
        if not ONNX:
            del engines["ONNX"]
        for gappy in (False, True):
            found += list(broken(number, case, engines, gappy))
    assert not found, "\n".join(found)


JAX = [
    ("linear", "squares", "inputs", 3, "last", False, True, True),
    ("linear", "moments", "feedthrough", 1, "last", True, True, False),
    ("waves", "stack", "feedthrough", 3, "last", False, True, True),
    ("waves", "moments", "none", 3, "mean", True, True, False),
    ("waves and raw", "squares", "inputs", 1, "mean", False, False, True),
]
"""Kind, features, inputs, lags, prior, rank, box, gaps. Each takes a second to compile, so these are few."""


@pytest.mark.parametrize("number", range(len(JAX)))
def test_back_propagation_takes_the_steps_of_the_textbook(number: int) -> None:
    pytest.importorskip("jax")
    kind, features, inputs, lags, prior, rank, box, gappy = JAX[number]
    case = Case(kind, features, inputs, lags, prior, 0.7, rank, box, "filled", False, 0.0, "plain", 2)
    filter, data = filter_of(case, number), recordings(case, gappy, number)
    data = data[[i for i in range(len(data)) if data.lengths[i] == data.lengths.max()]]  # one shape, compiled once
    want, met = textbook(filter, data), back_propagation(filter, data)
    assert set(met) == said_by("JAX", case, gappy, want)
    assert np.isfinite(met["belief"]).any()
    assert apart("JAX", data, met, want)["belief"] < CLOSE
    if gappy:
        assert not back_propagation(replace(filter, gaps="exact"), data)


def test_cases_meet_all_that_is_told_apart() -> None:
    """Each refusal, but for what is not installed, is met by some cases and not by others, and so is each setting."""
    chosen = [(case, gappy) for case in cases() for gappy in (False, True)]
    for name in set(ENGINES) - {"JAX"}:
        answered = [said_by(name, case, gappy, dict.fromkeys(ALL, np.empty(0))) for case, gappy in chosen]
        missing = (name == "compiled" and not NUMBA) or (name == "ONNX" and not ONNX)
        assert sum(map(bool, answered)) >= (0 if missing or (name == "C header" and not COMPILERS) else 5), name
        for refusal in REFUSALS[name]:
            if "install" not in refusal.why and "compiler" not in refusal.why:
                assert any(refusal.when(case, gappy) for case, gappy in chosen), refusal.why
    for setting, values in SETTINGS.items():
        assert {getattr(case, setting) for case in cases()} == set(values)
    models = [case for case in cases() if case.exact]
    for setting, values in MODELS.items():
        assert {getattr(case, setting) for case in models} == set(values), setting


@pytest.mark.parametrize(("name", "known"), [(name, known) for name, several in KNOWN.items() for known in several])
def test_what_is_known_to_differ_still_does(name: str, known: Refusal) -> None:
    number, case = next((number, case) for number, case in enumerate(fixed()) if known.when(case, True))
    filter, data = filter_of(case, number), recordings(case, True, number)
    far = apart(name, data, ENGINES[name](filter, data), textbook(filter, data))
    assert min(far[what] for what in known.answers) > CLOSE


def test_boxes_bite_while_something_is_in_doubt() -> None:
    bites = 0
    for number, case in enumerate(fixed()):
        if not (case.exact and case.box and case.weight):
            continue
        filter, data = filter_of(case, number), recordings(case, True, number)
        book = Book(filter)
        for part in data[list(range(len(GAPS)))]:
            s = book.start()
            for x in filter.scaling(part.values):
                in_doubt, more = s.L is not None and not s.fresh, dict[str, Any]()
                s = book.take(s, x, np.zeros(book.wide - book.rf - book.n * book.q), more)
                fed = more["z"][: book.rf]
                bites += in_doubt and bool((np.abs(fed) >= filter.feedback.high).any())
    assert bites > 100


# -- wide memories, long recordings ------------------------------------------------------------------------------------

WIDE = [
    Case("linear", "stack", "inputs", 3, "last", 0.7, False, True, "exact", True, 0.0, "first rows", 20),
    Case("opened", "stack", "none", 3, "mean", 0.7, False, False, "exact", False, 0.0, "plain", 20),
    Case("waves", "stack", "feedthrough", 3, "mean", 0.7, False, False, "exact", False, 0.0, "plain", 20),
]
"""Memories of a hundred numbers and more keep square roots."""


@pytest.mark.parametrize("number", range(len(WIDE)))
def test_wide_memories_take_the_steps_of_the_textbook(number: int) -> None:
    engines = {name: ENGINES[name] for name in ("steps", "whole", "bank", "stretches", "compiled")}
    found = list(broken(number, WIDE[number], engines, True))
    assert not found, "\n".join(found)


LONG = [
    Case("linear", "stack", "none", 1, "mean", 0.7, False, False, "exact", True, 0.0, "plain", 2),
    Case("linear", "stack", "feedthrough", 3, "last", 0.7, True, True, "exact", False, 0.0, "plain", 2),
    Case("opened", "stack", "inputs", 3, "last", 0.7, False, False, "exact", False, 0.0, "first rows", 2),
    Case("linear", "stack", "inputs", 3, "last", 0.0, True, True, "exact", False, 0.0, "plain", 2),
    Case("waves", "stack", "none", 3, "mean", 0.7, True, True, "exact", False, 0.0, "plain", 2),
    Case("waves and raw", "stack", "feedthrough", 1, "last", 0.7, False, False, "exact", True, 0.0, "plain", 2),
]


def long(case: Case, number: int, gappy: bool) -> Trajectories:
    """Long recordings and a short one; a sensor is out for twelve rows, as longer gaps may enlarge rounding."""
    rng, filter = RNG(number), filter_of(case, number)
    parts = [filter.scaling.undo(rng.standard_normal((length, 2))) for length in ([1100], [1100, 3, 900])[number % 2]]
    for part in parts if gappy else ():
        part[rng.random(part.shape) < 0.01] = np.nan
        part[300:312, 0] = np.nan
        part[[0, *range(511, 514)][: len(part)] if len(part) > 600 else [0]] = np.nan
    data = Trajectories.of(parts)
    return replace(data, inputs=rng.standard_normal((len(data.values), 1))) if case.driven else data


@pytest.mark.parametrize("gappy", [False, True])
@pytest.mark.parametrize("number", range(len(LONG)))
def test_long_recordings_take_the_steps_of_the_textbook(number: int, gappy: bool) -> None:
    """They are cut into chunks, which run at once."""
    filter, data = filter_of(LONG[number], number), long(LONG[number], number, gappy)
    assert is_cut(filter, data)
    want = textbook(filter, data, ahead=False)
    for name in ("whole", "compiled"):
        met = {what: values for what, values in ENGINES[name](filter, data).items() if what in want}
        assert set(met) == said_by(name, LONG[number], gappy, want)
        if met:
            assert max(apart(name, data, met, want).values()) < CLOSE


# -- nearly noise-free data --------------------------------------------------------------------------------------------

RUNGS = [1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14]
"""The noise, as a share of the doubt of the start."""


class Digits(NamedTuple):
    """The largest errors allowed at each rung: of means in deviations of the channel, of deviations in proportion."""

    means: list[float]
    deviations: list[float]
    nats: list[float]


COVARIANCES = Digits(
    [1e-13, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9],
    [1e-11, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2],
    [1e-11, 1e-9, 1e-7, 1e-5, 1e-3, 0.1],
)
"""Covariances lose what noise and doubt differ by: two digits of deviations a rung, one of means. Likelihoods as well,
in any engine: they form the covariance of a row."""
ROOTS = Digits([1e-13] * 5 + [1e-8], [1e-12] * 5 + [1e-2], COVARIANCES.nats)
"""Square roots lose nothing up to 1e-12."""
LADDER: dict[tuple[str, int], Digits] = {
    **{(name, 2): COVARIANCES for name in ("steps", "whole", "bank", "stretches", "C header", "ONNX")},
    **{(name, 20): ROOTS for name in ("steps", "whole", "bank", "stretches")},
    ("ONNX", 20): COVARIANCES._replace(means=[1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7]),
}
"""Of engines, with so many channels: memories of 20 channels keep roots."""


def quiet(rung: float, channels: int, seed: int) -> tuple[Filter, Trajectories]:
    """A filter whose noise is small beside the doubt of its start, and recordings of its model with gaps."""
    case = Case(
        "opened", "stack", "none", 1 + 2 * (seed % 2), "mean", 0.7, False, False, "exact", False, 0.0, "plain", channels
    )
    filter, rng = filter_of(case, seed), RNG([seed, 5])
    opening = filter.opening
    assert opening is not None
    assert filter.calibration is not None
    share = rung / np.diag(filter.covariance).mean()
    calibration = filter.calibration._replace(base=filter.calibration.base * rung)
    filter = replace(filter, covariance=filter.covariance * share, calibration=calibration)
    book, parts, d, n = Book(filter), [], len(filter.initial), channels
    for missing in (
        (),
        ((0, 0),),
        ((slice(0, 2), slice(None)),),
        ((slice(2, 6), 0),),
        ((slice(0, 3), 1), (5, slice(None))),
    ):
        begins = opening.root @ rng.standard_normal(opening.root.shape[1])
        older = book.start().older
        older[: filter.lags - 1] += begins[d:].reshape(-1, n)
        s, x = replace(book.start(), m=filter.initial + begins[:d], older=older, L=None, fresh=False), np.zeros((10, n))
        for t in range(len(x)):
            x[t] = s.m[:n] + np.linalg.cholesky(filter.covariance) @ rng.standard_normal(n)
            s = book.take(s, x[t], np.zeros(0))
        for entries in missing:
            x[entries] = np.nan
        parts.append(filter.scaling.undo(x))
    return filter, Trajectories.of(parts)


@pytest.mark.parametrize("channels", [2, 20])
@pytest.mark.parametrize("rung", range(len(RUNGS)))
def test_engines_keep_their_digits_where_noise_is_small(rung: int, channels: int, tmp_path: Path) -> None:
    for seed in range(2 if channels == 2 else 1):
        seed = seed if channels == 2 else 1
        filter, data = quiet(RUNGS[rung], channels, seed)
        want = textbook(filter, data, np.longdouble)
        for (name, width), digits in LADDER.items():
            if width != channels or (name == "ONNX" and not ONNX) or (name == "C header" and not COMPILERS):
                continue
            met = ENGINES[name](filter, data)
            assert met
            for what in {"belief", "inside", "ahead", "blind"} & set(met):
                assert apart(name, data, {what: met[what]}, want)[what] < digits.means[rung], (name, what)
            if "std" in met:
                assert np.abs(met["std"] / want["std"] - 1).max() < digits.deviations[rung], name
            if "nats" in met:
                assert apart(name, data, {"nats": met["nats"]}, want)["nats"] < digits.nats[rung], name
