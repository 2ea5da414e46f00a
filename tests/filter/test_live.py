"""Online filtering equals batch filtering for every kind of filter, and streams do not influence each other."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from modelfiles import situated
from oracles import ragged
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter import Feedback, Filter, Linear, Scaling, SecondMoment, Stack, StackSquares
from psimlearn.filter.live import Live
from psimlearn.filter.rollout import rolled
from psimlearn.filter.uncertainty import calibrated
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger, forward
from small import driven, model

LENGTHS = [9, 30, 17, 30, 12, 21, 25, 14, 28, 11, 19, 23]
HORIZON = 6


def whole(filter: Filter, rng: np.random.Generator) -> Filter:
    """The same filter in a tighter box, with an invented calibration and an invented read-out of two hints."""
    n, d = len(filter.scaling.mean), len(filter.initial)
    n_inputs = 0 if filter.input_scaling is None else len(filter.input_scaling.mean) * (1 + filter.feedthrough)
    errors = rng.standard_normal((80, 8, n)) * np.arange(1, 9)[:, None]
    claimed = None if isinstance(filter.features, Stack) else rng.random((80, 8, n)) + 0.1
    width = d + n * filter.lags + n_inputs
    hinting = Linear(rng.standard_normal((width, 2)), rng.standard_normal(2))
    feedback = filter.feedback
    if feedback.low is not None and feedback.high is not None:
        feedback = feedback._replace(low=feedback.low / 4, high=feedback.high / 4)
    calibration, window = calibrated(errors, claimed), filter.features.window
    unknown = calibrated(3 * errors[:, :window], None if claimed is None else claimed[:, :window])
    return replace(
        filter,
        feedback=feedback,
        calibration=calibration,
        calibration_blind=unknown if n_inputs else None,
        calibration_next=unknown._replace(base=unknown.base / 2) if filter.feedthrough else None,
        hinting=hinting,
    )


@cache
def learnt(case: str) -> tuple[Filter, Trajectories]:
    """A filter of this kind, and the recordings that it was learnt from."""
    rng = np.random.default_rng(3)
    data = ragged(LENGTHS * (4 if "forward" in case else 1), 2, rng, missing=0.15 if "gaps" in case else 0.0)
    if "gaps" in case:
        values = data.values.copy()
        values[rng.random(len(values)) < 0.1] = np.nan
        data = replace(data, values=values)
    if "offset" in case:
        data = replace(data, values=data.values + np.array([1e6, -1e6]))
    if "inputs" in case:
        data = replace(data, inputs=3 + 2 * rng.standard_normal((len(data.values), 2)))
    recipe = Recipe(
        lags=3 if "lags" in case else 1,
        prior="last" if "last" in case else "mean",
        rank=2 if "rank" in case else None,
        belief_weight=0.0 if "weightless" in case else 1.0,
        feedthrough="feedthrough" in case,
        box=None if "open" in case else 0.0,
    )
    learner: Any = Ridge(1e-2)
    if "fourier" in case:
        learner = RandomFourierRidge(30, 1e-2, raw_inputs="curved" not in case)
    if "blackbox" in case:
        learner = SklearnLearner(LinearRegression())
    features: Any = Stack(3)
    if "squares" in case or "moment" in case:
        features = StackSquares(3) if "squares" in case else SecondMoment(2)
    trained = (
        forward(data, data, features, learner, rng=rng, recipe=recipe)
        if "forward" in case
        else dagger(data, data, features, learner, rng=rng, n_rounds=3, recipe=recipe)
    )
    as_they_are = replace(best(trained).filter, gaps="exact")  # training fills them in
    filter = whole(as_they_are, rng)
    return situated(filter) if "local" in case else filter, data


FOLDED = [
    "plain",
    "open",
    "weightless lags",
    "lags last",
    "rank lags",
    "offset lags last",
    "offset gaps",
    "gaps lags last",
    "gaps rank inputs",
    "inputs",
    "inputs feedthrough lags",
    "inputs feedthrough gaps offset",
    "fourier lags last",
    "fourier curved last inputs",
    "fourier curved gaps",
    "fourier rank gaps",
    "squares gaps",
    "squares rank",
    "moment gaps",
    "local gaps lags last",
    "local inputs feedthrough",
    "local fourier gaps",
]
STEPPED = [
    "squares last gaps",
    "moment last lags",
    "blackbox lags gaps",
    "blackbox rank last inputs",
    "forward",
    "forward lags last inputs feedthrough",
    "forward gaps open",
    "forward fourier",
    "local blackbox lags gaps",
    "local forward",
]


def close(ours: Any, theirs: Any, scale: float = 1.0) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * scale)


def test_the_cases_are_what_they_say() -> None:
    """The cases have empty rows, rows with one missing channel, and beliefs that reach the box."""
    filter, data = learnt("gaps lags last")
    assert np.isnan(data[1].values).all(axis=1).sum() >= 2
    assert (np.isnan(data[1].values).sum(axis=1) == 1).sum() >= 2
    filter, data = learnt("plain")
    rollout = rolled(filter, data)
    assert filter.feedback.clipped(rollout.z[:, : len(filter.feedback.mean)]).any()


def counting() -> Filter:
    """The filter m_{t+1} = x_t + 10 x_{t-1} + 100 m_t + x_t, with one channel and window 1."""
    return Filter(
        features=Stack(1),
        regressors=(Linear(np.array([[100.0], [1.0], [10.0]]), np.zeros(1)),),
        initial=np.array([-1.0]),
        scaling=Scaling(np.zeros(1), np.ones(1)),
        feedback=Feedback(np.zeros(1), np.ones(1), low=np.array([-1.0]), high=np.array([1.0])),
        centre=None,
        covariance=np.eye(1),
        lags=2,
    )


def test_counting_by_hand() -> None:
    live = Live(counting())
    assert live.predict().tolist() == [-1.0]
    live.update([1.0])
    assert live.predict().tolist() == [1 + 10 * 1 - 100 + 1]  # the first row stands for the one before it
    live.update(np.array([2]))
    assert live.predict().tolist() == [2 + 10 * 1 - 100 + 2]  # -88 was boxed to -1
    live.update([30.0])
    assert live.predict().tolist() == [30 + 10 * 2 - 100 + 30]
    live.update(None)  # the expected -20 is taken as observed
    assert live.predict().tolist() == [-20 + 10 * 30 - 100 - 20]
    assert live.predict(2).tolist() == [160 + 10 * -20 + 100 + 160]
    assert live.forecast(2).tolist() == [[160.0], [220.0]]
    live.reset()
    assert live.belief.tolist() == [-1.0]
    live.update([5.0])
    assert live.belief.tolist() == [5 + 50 - 100 + 5]


def drive(live: Live, x: np.ndarray, u: np.ndarray | None, each: Callable[[int], None] = lambda t: None) -> None:
    for t in range(len(x)):
        live.update(x[t], None if u is None else u[t], None if u is None else u[min(t + 1, len(u) - 1)])
        each(t)


@pytest.mark.parametrize("case", ["lags last", "forward gaps open"])
def test_streams_do_not_touch_each_other(case: str) -> None:
    """One stream diverges, misses a row, and starts again: the other streams stay the same.

    Up to rounding: streams with and without open gaps are computed apart, and products of other sizes round otherwise.
    """
    filter, _ = learnt(case)
    x = np.random.default_rng(0).standard_normal((9, 3, 2))
    wild = x.copy()
    wild[2, 1], wild[4, 1], wild[5, 1] = 1e100, np.nan, -1e150
    quiet, loud = Live(filter, 3), Live(filter, 3)
    drive(quiet, x, None)
    drive(loud, wild, None, lambda t: loud.reset(1) if t == 7 else None)
    np.testing.assert_allclose(quiet.belief[[0, 2]], loud.belief[[0, 2]], rtol=1e-13)
    np.testing.assert_allclose(quiet.log_likelihood[[0, 2]], loud.log_likelihood[[0, 2]], rtol=1e-13)


@pytest.mark.parametrize("case", ["lags last", "forward", "inputs"])
def test_reset(case: str) -> None:
    filter, data = learnt(case)
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((6, 4, 2)), None if data.inputs is None else rng.standard_normal((6, 4, 2))
    bank, new = Live(filter, 4), Live(filter, 4)
    for streams in ([0, 2], (0, -2), np.array([0, 2]), np.array([True, False, True, False])):
        bank.reset()
        drive(bank, x, u)
        bank.reset(streams)
        np.testing.assert_array_equal(bank.belief[[0, 2]], new.belief[[0, 2]])
        assert (bank.belief[[1, 3]] != new.belief[[1, 3]]).all()
        assert (bank.log_likelihood[[0, 2]] == 0).all()
        assert np.isnan(bank.hints[[0, 2]]).all()
        assert np.isfinite(bank.hints[[1, 3]]).all()
        assert bank.predict(2).shape == (4, 2)
    bank.reset()
    drive(bank, x, u)
    drive(new, x, u)
    np.testing.assert_array_equal(bank.belief, new.belief)
    np.testing.assert_array_equal(bank.forecast(2, coverage=0.9), new.forecast(2, coverage=0.9))
    for wrong in (4, [0, 7], np.zeros(3, dtype=bool)):
        with pytest.raises(DataError, match="streams: required numbers from 0 to 3 or a mask of 4, received"):
            bank.reset(wrong)


@pytest.mark.parametrize(
    "duplicate", [Live.copy, copy.copy, copy.deepcopy, lambda live: pickle.loads(pickle.dumps(live))]
)
@pytest.mark.parametrize("case", ["gaps lags last", "forward gaps open"])
@pytest.mark.parametrize("n_streams", [1, 3])
def test_copies_go_their_own_way(n_streams: int, case: str, duplicate: Callable[[Live], Live]) -> None:
    filter, _ = learnt(case)
    x = np.random.default_rng(0).standard_normal((8, *[n_streams] * (n_streams > 1), 2))
    x[2] = np.nan
    live = Live(filter, n_streams)
    drive(live, x[:3], None)
    twin, before = duplicate(live), live.belief
    np.testing.assert_array_equal(twin.forecast(3, return_std=True), live.forecast(3, return_std=True))
    twin.reset()
    drive(twin, -x, None)
    np.testing.assert_array_equal(live.belief, before)
    drive(live, x[3:], None)
    straight = Live(filter, n_streams)
    drive(straight, x, None)
    np.testing.assert_array_equal(live.belief, straight.belief)
    np.testing.assert_array_equal(live.log_likelihood, straight.log_likelihood)
    live.belief[...] = 7.0  # `belief` is a copy: writing to it does not change the filter
    np.testing.assert_array_equal(live.belief, straight.belief)


@pytest.mark.parametrize("case", ["inputs feedthrough lags", "forward lags last inputs feedthrough"])
@pytest.mark.parametrize("n_streams", [1, 3])
def test_a_refused_row_leaves_everything_as_it_was(n_streams: int, case: str) -> None:
    filter, _ = learnt(case)
    shape = (*[n_streams] * (n_streams > 1), 2)
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((2, 6, *shape))
    infinite = np.where(np.arange(x[0].size).reshape(shape) == x[0].size - 1, -np.inf, x[0])
    where = "stream 2" if n_streams > 1 else "stream 0"
    bad: list[tuple[tuple[Any, ...], str]] = [
        ((infinite, u[0]), f"x, {where}, column 1: required a finite number, received -inf; use NaN"),
        ((x[0], infinite), f"u, {where}, column 1: required a finite number, received -inf"),
        ((x[0], np.full(shape, np.nan)), "u, stream 0, column 0: required a finite number, received nan"),
        ((x[0], u[0], infinite), "next_u, .* required a finite number"),
        ((np.zeros(3), u[0]), rf"x: required shape \({shape[0]},.*\), received \(3,\). Put NaN"),
        ((x[:1], u[0]), "x: required shape"),
        ((x[0], u[0, ..., :1]), "u: required shape"),
        ((x[0], u[0], 3.0), "next_u: required shape"),
        ((["1", "2"], u[0]), "x: required numbers"),
        (([[1], [2, 3]], u[0]), "x: required numbers"),
        ((x[0] * 1j, u[0]), "x: required numbers"),
        (("ab", u[0]), "x: required numbers"),
        ((x[0],), "u: this filter was learnt with 2 inputs, received none"),
        ((None,), "u: this filter was learnt with 2 inputs, received none"),
    ]
    live, straight = Live(filter, n_streams), Live(filter, n_streams)
    for t in range(6):
        for arguments, message in bad:
            with pytest.raises(DataError, match=message):
                live.update(*arguments)
        live.update(x[t], u[t])
        straight.update(x[t], u[t])
        for answer in ("belief", "log_likelihood", "hints"):
            np.testing.assert_array_equal(getattr(live, answer), getattr(straight, answer))


def test_inputs_where_there_are_none() -> None:
    filter, _ = learnt("plain")
    live = Live(filter)
    with pytest.raises(DataError, match="u: this filter was learnt without inputs"):
        live.update(np.zeros(2), np.zeros(2))
    with pytest.raises(DataError, match="future_inputs: this filter was learnt without inputs"):
        live.predict(2, future_inputs=np.zeros((2, 2)))


def test_future_inputs() -> None:
    filter, _ = learnt("inputs")
    live = Live(filter)
    with pytest.raises(DataError, match="future_inputs: required shape \\(5, 2\\), received \\(4, 2\\)"):
        live.forecast(5, future_inputs=np.zeros((4, 2)))
    with pytest.raises(DataError, match=r"future_inputs, .* required a finite number"):
        live.forecast(2, future_inputs=np.full((2, 2), np.nan))
    with pytest.raises(DataError, match=r"required the inputs of the next 5 rows, received none.*at most 3"):
        live.predict(5)
    assert live.predict(3).shape == (2,)


@pytest.mark.parametrize("case", ["inputs feedthrough lags", "forward lags last inputs feedthrough"])
def test_inputs_that_become_known_late_count_all_the_same(case: str) -> None:
    """With feed-through, a forecast with future inputs is the same whether or not `update` received the next inputs."""
    filter, _ = learnt(case)
    x, u = np.random.default_rng(0).standard_normal((2, 4, 3, 2))
    told, held = Live(filter, 3), Live(filter, 3)
    for t in range(2):
        told.update(x[t], u[t], u[t + 1])
        held.update(x[t], u[t], u[t + 1] if t == 0 else None)
        if t == 0:
            told.reset(1)
            held.reset(1)
    future = np.stack([u[2], u[3]], axis=1)
    assert np.abs(told.belief - held.belief).max() > 1e-3
    close(held.forecast(2, future_inputs=future), told.forecast(2, future_inputs=future))


@pytest.mark.parametrize(
    "case", ["inputs feedthrough lags", "inputs feedthrough gaps offset", "forward lags last inputs feedthrough"]
)
def test_a_row_that_was_not_told_the_next_inputs_waits_for_them(case: str) -> None:
    """Whether `update` is told the next inputs or not, the belief before each row knows the inputs of that row."""
    filter, _ = learnt(case)
    rng = np.random.default_rng(1)
    x, u = filter.scaling.mean + rng.standard_normal((9, 3, 2)), rng.standard_normal((10, 3, 2))
    x[3], x[5, 0], x[6, :, 1] = np.nan, np.nan, np.nan
    told, late, sometimes = Live(filter, 3), Live(filter, 3), Live(filter, 3)
    for t in range(9):
        told.update(x[t], u[t], u[t + 1])
        late.update(x[t], u[t])
        sometimes.update(x[t], u[t], u[t + 1] if t % 3 else None)
        twin = late.copy()
        twin.update(-x[t], u[t])  # a copy does not change the other
        for live in (late, sometimes):
            close(live.log_likelihood, told.log_likelihood, 100.0)
            np.testing.assert_array_equal(live.unseen, told.unseen)
        if t in (2, 4):
            for live in (told, late, sometimes):
                live.reset([1] if t == 2 else [0, 1])
    assert np.abs(told.belief - late.belief).max() > 1e-3  # the last row waits
    for live in (told, late, sometimes):
        live.update(np.zeros((3, 2)) + filter.scaling.mean, u[9], u[0])
    close(late.belief, told.belief)
    close(sometimes.belief, told.belief)


@pytest.mark.parametrize("case", ["inputs", "inputs feedthrough lags"])
def test_uncertainty_of_unknown_inputs_in_a_gap(case: str) -> None:
    """A gap adds the variance that it adds where inputs are known; in filters without doubt, half the widths add up."""
    filter, _ = learnt(case)
    live = Live(filter)
    for x in (np.zeros(2), None, None):
        live.update(x, np.ones(2))
    assert filter.calibration is not None
    assert filter.calibration_blind is not None
    inputs = np.ones((3, 2))
    told, blind = (live.forecast(3, return_std=True, future_inputs=u)[1] for u in (inputs, None))
    between = (filter.calibration_blind.base[:3] - filter.calibration.base[:3]) * filter.scaling.scale**2
    close(blind**2 - told**2, between)
    live = Live(replace(filter, gaps="filled"))
    for x in (np.zeros(2), None, None):
        live.update(x, np.ones(2))
    assert filter.calibration is not None
    assert filter.calibration_blind is not None
    known, unknown, scale = filter.calibration, filter.calibration_blind, filter.scaling.scale
    base = unknown.base[:3] + known.base[2:5] - known.base[:3]
    close(live.forecast(3, return_std=True)[1], np.sqrt(base) * scale)
    half = [np.sqrt(part.base) * part.reach(np.arange(1, len(part.base) + 1), 0.9) * scale for part in (known, unknown)]
    _, low, high = live.forecast(3, coverage=0.9)
    close((high - low) / 2, np.sqrt(half[1][:3] ** 2 + half[0][2:5] ** 2 - half[0][:3] ** 2))


@pytest.mark.parametrize("n_streams", [1, 3])
@pytest.mark.parametrize("case", ["plain", "squares gaps", "squares last gaps"])
def test_uncertainty(case: str, n_streams: int) -> None:
    """Live deviations equal the deviations of `Filter.predict`; the age of the last observation is counted by hand."""
    filter, _ = learnt(case)
    assert filter.calibration is not None
    x = np.random.default_rng(0).standard_normal((5, n_streams, 2))
    x[3:, 0] = np.nan  # two rows with nothing for stream 0, half a row for the last stream
    x[4, -1, 0] = np.nan
    live, state = Live(filter, n_streams), filter.start(n_streams)
    for row in x:
        live.update(row[0] if n_streams == 1 else row)
        state = filter.step(state, row)
    exact = case != "squares last gaps"
    unseen = np.array([2, 0, 0])[:n_streams]
    assert state.unseen.tolist() == unseen.tolist()
    mean, std = filter.ahead(state, 9), filter.predict(state, 9).std
    for ours, theirs in zip(live.forecast(9, return_std=True), (mean, std), strict=True):
        close(ours, theirs[0] if n_streams == 1 else theirs)
    assert np.isfinite(std[0, :-3]).all()
    assert np.isfinite(std[0, -3:]).all() == exact  # calibrated for 8 steps, two of them past; a model goes on
    reach = filter.calibration.reach((0 if exact else unseen[:, None]) + np.arange(1, 10), 0.9) * std
    for ours, theirs in zip(live.predict(4, coverage=0.9), (mean, mean - reach, mean + reach), strict=True):
        close(ours, theirs[0, 3] if n_streams == 1 else theirs[:, 3])
    live.update(np.zeros((n_streams, 2))[0 if n_streams == 1 else slice(None)])
    assert np.isfinite(live.forecast(8, return_std=True)[1]).all()  # an observation arrived again


def test_questions_that_have_no_answer() -> None:
    filter, _ = learnt("plain")
    live = Live(filter)
    for answer in ("log_likelihood", "hints"):
        with pytest.raises(SettingsError, match="received none yet; call update first"):
            getattr(live, answer)
    for wrong in (0, -1):
        with pytest.raises(SettingsError, match="horizon: required a whole number of at least 1, received"):
            live.predict(wrong)
    with pytest.raises(SettingsError, match="steps: required"):
        live.forecast(0)
    with pytest.raises(SettingsError, match="either return_std or coverage, not both"):
        live.predict(return_std=True, coverage=0.9)
    with pytest.raises(SettingsError, match="coverage: required"):
        live.predict(coverage=1.5)
    with pytest.raises(SettingsError, match="n_streams: required a whole number of at least 1"):
        Live(filter, 0)
    bare = Live(replace(filter, calibration=None, hinting=None))
    bare.update([0.0, 1.0])
    with pytest.raises(SettingsError, match="calibrated"):
        bare.predict(return_std=True)
    with pytest.raises(SettingsError, match="hints"):
        _ = bare.hints


def test_what_counts_as_a_row() -> None:
    filter, _ = learnt("gaps lags last")
    expected = Live(filter)
    expected.update(np.array([np.nan, 2.0]))
    rows: list[Any] = [
        [None, 2],
        (np.nan, 2),
        np.array([np.nan, 2], dtype=np.float32),
        np.ma.masked_array([7, 2], [True, False]),
        np.array([np.nan, 7.0, 2.0])[::2],
    ]
    for row in rows:
        live = Live(filter)
        live.update(row)
        np.testing.assert_array_equal(live.belief, expected.belief)


def test_repr() -> None:
    assert repr(Live(learnt("plain")[0])) == "Live(1 stream of 2 channels, window 3)"
    assert repr(Live(learnt("inputs")[0], 7)) == "Live(7 streams of 2 channels, 2 inputs, window 3)"


LONG = """
import sys, tracemalloc
import numpy as np
sys.modules["numba"] = None  # as where it is not installed: it imports scipy
from psimlearn.filter import Feedback, Filter, Linear, Scaling, Stack
from psimlearn.filter.live import Live

box = Feedback(np.zeros(4), np.ones(4), low=-np.ones(4), high=np.ones(4))
step = Linear(np.full((8, 4), 0.1), np.zeros(4))
filter = Filter(Stack(2), (step,), np.zeros(4), Scaling(np.zeros(2), np.ones(2)), box, None, np.eye(2), lags=2)
rows = np.random.default_rng(0).standard_normal((1000, 2))
rows[::100] = np.nan
live = Live(filter)

def run(rounds):
    for _ in range(rounds):
        for x in rows:
            live.update(x)
        live.predict(), live.log_likelihood

tracemalloc.start()
run(10)
before = tracemalloc.get_traced_memory()[0]
run(10)
print(tracemalloc.get_traced_memory()[0] - before)
print([name for name in ("scipy", "sklearn", "pandas", "jax") if name in sys.modules])
"""


def test_a_long_run_needs_no_memory_and_no_training_libraries() -> None:
    out = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=True).stdout.split("\n")
    assert int(out[0]) < 50_000  # one pointer kept per row would be 80 000; Python keeps some small objects
    assert out[1] == "[]"


@pytest.mark.parametrize("n_streams", [1, 2])
def test_unseen_is_always_of_one_kind(n_streams: int) -> None:
    live = model().start(n_streams)
    rows = {"seen": np.zeros((n_streams, 2)), "blind": np.full((n_streams, 2), np.nan)}
    for kind, expected in (("", 0), ("seen", 0), ("blind", 1), ("blind", 2), ("seen", 0)):
        if kind:
            live.update(rows[kind][0] if n_streams == 1 else rows[kind])
        if n_streams == 1:
            assert type(live.unseen) is int
            assert live.unseen == expected
        else:
            assert isinstance(live.unseen, np.ndarray)
            assert live.unseen.tolist() == [expected, expected]


def test_a_filter_is_shown_in_one_line() -> None:
    assert repr(model().filter_) == "Filter(Stack(window=2), 2 channels, lags 1, Linear)"
    assert repr(driven().filter_) == "Filter(Stack(window=2), 1 channel, 1 input, lags 1, Linear)"
