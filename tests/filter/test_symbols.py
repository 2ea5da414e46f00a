"""Symbols: alphabets, beliefs on a simplex, and updates that are exact for hidden Markov models."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from psimlearn.baselines import KGram, spectral, word_moments
from psimlearn.datasets import HiddenMarkov, long_memory_hmm, three_state_hmm, two_state_hmm
from psimlearn.errors import DataError, SettingsError
from psimlearn.evaluate import Forecaster, errors_by_horizon
from psimlearn.filter import OneHot, OneHotMarginals, OneHotProduct
from psimlearn.filter.conditioning import Conditional, Projected
from psimlearn.filter.contexts import Contexts
from psimlearn.filter.onehot import LARGEST, onto_simplices, softmax
from psimlearn.learners import Ridge
from psimlearn.learners.symbolic import SymbolClassifier, SymbolLogistic, SymbolRidge, Update
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import preceding
from psimlearn.train import Recipe, best, dagger, forward
from psimlearn.train.losses import LogLoss

RNG = np.random.default_rng
FEATURES: list[OneHot] = [OneHotProduct(1), OneHotProduct(3), OneHotMarginals(3)]


def symbols(hmm: HiddenMarkov, m: int, T: int, rng: np.random.Generator, missing: float = 0.0) -> Trajectories:
    drawn = hmm.simulate(m, T, rng).astype(object)
    drawn[rng.random(drawn.shape) < missing] = None
    return Trajectories.of_symbols(list(drawn), alphabet=range(len(hmm.emission)))


def nats(forecaster: Forecaster, data: Trajectories) -> float:
    return float(errors_by_horizon(forecaster, data, measure=LogLoss().nats)[0])


# -- recordings --------------------------------------------------------------------------------------------------------


def test_one_and_the_word_one_are_two_symbols() -> None:
    data = Trajectories.of_symbols([[1, "1", 1.0, None], np.array([1, 1])])
    assert data.alphabet == Alphabet((1, "1"))
    np.testing.assert_array_equal(data.values, [[1, 0], [0, 1], [1, 0], [np.nan, np.nan], [1, 0], [1, 0]])
    assert data.alphabet.decoded(np.array([0, 1])).tolist() == [1, "1"]


@pytest.mark.parametrize(
    ("recordings", "expected"),
    [
        ("abca", [[0, 1, 2, 0]]),
        ([3, 1, 3], [[1, 0, 1]]),
        (np.array([3, 1, 3]), [[1, 0, 1]]),
        (np.array([[3], [1], [3]]), [[1, 0, 1]]),
        (np.array([3.0, np.nan, 1.0]), [[1, -1, 0]]),
        (pd.Series(["b", None, "a"]), [[1, -1, 0]]),
        (pd.Series(pd.Categorical(["b", "a"])), [[1, 0]]),
        ([list("ab"), ["b", None]], [[0, 1], [1, -1]]),
        ([np.array(["x", "y"]), ("y",)], [[0, 1], [1]]),
        ([np.ma.masked_array([1, 2], [False, True]), [2]], [[0, -1], [1]]),
    ],
)
def test_forms_of_recordings(recordings: object, expected: list[list[int]]) -> None:
    data = Trajectories.of_symbols(recordings)
    assert data.alphabet is not None
    missing = np.isnan(data.values).any(axis=1)
    codes = np.where(missing, -1, np.nan_to_num(data.values).argmax(axis=1))
    assert [part.tolist() for part in np.split(codes, data.offsets[1:-1])] == expected


@pytest.mark.parametrize(
    ("recordings", "message"),
    [
        (["walk", "run"], "list of strings"),
        ([[0.5]], "whole number"),
        ([[True]], "whole number"),
        ([[b"a"]], "whole number"),
        (np.zeros((3, 2), dtype=int), r"list\(array\)"),
        ([[None, None]], "at least one observed symbol"),
        ([], "required a list of sequences"),
        (7, "required a list of sequences"),
        ([["a"], []], "at least 1 row"),
    ],
)
def test_what_is_no_recording_is_refused(recordings: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Trajectories.of_symbols(recordings)


def test_unseen_symbols_are_refused_or_other() -> None:
    with pytest.raises(DataError, match=r"trajectory 1, row 2: required one of \['a', 'b'\].*received 'c'"):
        Trajectories.of_symbols([["a"], ["b", "a", "c"]], alphabet=["a", "b"])
    data = Trajectories.of_symbols([["a", "b"]], other="?")
    assert data.alphabet == Alphabet(("?", "a", "b"), "?")
    np.testing.assert_array_equal(data.alphabet.one_hot(["z", "a"]), [[1, 0, 0], [0, 1, 0]])
    with pytest.raises(SettingsError, match="other"):
        Alphabet(("a",), "b")
    with pytest.raises(SettingsError, match="distinct"):
        Alphabet(("a", "a"))


def test_symbols_survive_selection_and_lists() -> None:
    data = Trajectories.of_symbols([["a", "b"], ["b"], ["c", "a"]])
    assert data[1:].alphabet == data.alphabet
    assert data[0].alphabet == data.alphabet
    again = Trajectories.of([data[2], data[0]])
    assert again.alphabet == data.alphabet
    np.testing.assert_array_equal(again.values, data[[2, 0]].values)
    with pytest.raises(DataError, match="one alphabet"):
        Trajectories.of([data[0], Trajectories.of_symbols([["x", "y", "z"]])[0]])


# -- beliefs -----------------------------------------------------------------------------------------------------------


def test_words_by_hand() -> None:
    word = np.eye(3)[[[2, 0, 1]]]  # number 2 * 9 + 0 * 3 + 1
    assert OneHotProduct(3)(word).argmax() == 19
    m = RNG(0).dirichlet(np.ones(27), size=2)
    cube = m.reshape(2, 3, 3, 3)
    features = OneHotProduct(3)
    np.testing.assert_allclose(features.observations(m)[:, 1], cube.sum(axis=(1, 3)), atol=1e-15)
    np.testing.assert_allclose(features.probability(m, np.array([2, 0])), cube[:, 2, 0].sum(axis=1), atol=1e-15)
    np.testing.assert_allclose(features.probability(m, np.array([2, 0, 1])), m[:, 19], atol=0)
    with pytest.raises(SettingsError, match="at most 3 symbols"):
        features.probability(m, np.array([0, 0, 0, 0]))
    drawn = features.sample(np.repeat(m[:1], 40_000, axis=0), RNG(1))
    counts = np.bincount(drawn @ [9, 3, 1], minlength=27)
    assert np.abs(counts / 40_000 - m[0]).max() < 5 * np.sqrt(0.25 / 40_000)
    assert set(OneHotProduct(2).sample(np.tile([0.0, 0.0, 1.0, 0.0], (50, 1)), RNG(0)).ravel().tolist()) == {0, 1}


def test_too_many_words_are_refused_with_advice() -> None:
    OneHotProduct(5).check(4)  # 1024
    with pytest.raises(SettingsError, match=r"27\^5.*window of at most 2, 'onehot-marginals'"):
        OneHotProduct(5).check(27)
    OneHotMarginals(5).check(27)
    with pytest.raises(SettingsError, match="smaller window"):
        OneHotMarginals(5).check(LARGEST)


@given(st.integers(0, 2**32 - 1), st.sampled_from([-300, -20, 0, 20, 300]), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_whatever_comes_is_brought_onto_the_simplex(seed: int, scale: int, n: int) -> None:
    y = RNG(seed).standard_normal((20, 6 * n)) * 10.0**scale
    y[0] = -1.0
    shares = onto_simplices(y, n).reshape(20, n, -1)
    assert np.isnan(shares[0]).all()
    kept = shares[~np.isnan(shares).any(axis=2)]
    assert (kept >= 0).all()
    np.testing.assert_allclose(kept.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert len(kept) >= 10 * n  # few rows have no positive entry
    soft = softmax(y, n).reshape(20, n, -1)
    np.testing.assert_allclose(soft.sum(axis=2), 1.0, rtol=0, atol=1e-14)


# -- exact filters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", FEATURES, ids=str)
@pytest.mark.parametrize("hmm", [two_state_hmm(), three_state_hmm(RNG(0)), three_state_hmm(RNG(1)), long_memory_hmm()])
def test_the_predictive_filter_of_a_known_model_is_the_forward_filter(hmm: HiddenMarkov, features: OneHot) -> None:
    drawn = hmm.simulate(50, 60, RNG(2))
    data = Trajectories.of_symbols(list(drawn), alphabet=range(len(hmm.emission)))
    filter = hmm.filter(features)
    exact = hmm.predictive(drawn).reshape(len(data.values), -1)
    np.testing.assert_allclose(filter.forecast(data, 1)[:, 0], exact, rtol=0, atol=1e-12)
    np.testing.assert_allclose(filter.forecast(data, 7), hmm.forward().forecast(data, 7), rtol=0, atol=1e-12)
    gappy = symbols(hmm, 40, 30, RNG(3), missing=0.3)
    np.testing.assert_allclose(filter.forecast(gappy, 4), hmm.forward().forecast(gappy, 4), rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_spectral_model_with_exact_moments_is_the_forward_filter(seed: int, window: int) -> None:
    hmm = three_state_hmm(RNG(seed))
    data = symbols(hmm, 50, 60, RNG(seed))
    learnt = spectral(hmm.moments(window), 3).forecast(data, 5)
    np.testing.assert_allclose(learnt, hmm.forward().forecast(data, 5), rtol=0, atol=1e-12)


def test_the_spectral_model_learns() -> None:
    hmm = three_state_hmm(RNG(0))
    train, test = symbols(hmm, 4000, 32, RNG(1)), symbols(hmm, 1000, 32, RNG(2))
    moments = word_moments(train)
    np.testing.assert_allclose(moments.triple, hmm.moments().triple, atol=0.01)
    assert nats(spectral(moments, 3, 1e-3), test) - nats(hmm.forward(), test) < 0.01
    with pytest.raises(SettingsError, match="rank"):
        spectral(moments, 4)


def test_the_forward_filter_agrees_with_hmmlearn() -> None:
    hmm = three_state_hmm(RNG(3))
    peer = pytest.importorskip("hmmlearn.hmm", reason="needs hmmlearn").CategoricalHMM(3)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = hmm.start, hmm.transition.T, hmm.emission.T
    drawn = hmm.simulate(5, 40, RNG(4))
    data = Trajectories.of_symbols(list(drawn))
    ours = hmm.filter(OneHotProduct(2)).log_likelihood(data)
    for recording, rows in zip(drawn, data.unpacked(ours), strict=True):
        assert peer.score(recording[:, None]) == pytest.approx(rows.sum(), abs=1e-10)


def test_a_window_too_short_to_tell_states_apart_is_refused() -> None:
    blind = HiddenMarkov(two_state_hmm().transition, np.full((2, 2), 0.5), two_state_hmm().start)
    with pytest.raises(SettingsError, match="tells the 2 states apart"):
        blind.filter(OneHotProduct(2))


# -- k-grams -----------------------------------------------------------------------------------------------------------


def counted(text: list[list[int]], order: int, context: tuple[int, ...], v: int) -> np.ndarray:
    """P(. | context) by plain counting."""
    p = np.full(v, 1 / v)
    for length in range(order):
        tail = context[len(context) - length :]
        after = [s[i + length] for s in text for i in range(len(s) - length) if tuple(s[i : i + length]) == tail]
        counts = np.bincount(after, minlength=v) if after else np.zeros(v)
        if counts.sum() and length <= len(context):
            different = (counts > 0).sum()
            p = (counts + different * p) / (counts.sum() + different)
    return p


def test_kgrams_by_counting() -> None:
    text = [[0, 1, 0, 2, 0, 1, 1], [1, 0, 2, 0, 1, 0]]
    model = KGram.fit(Trajectories.of_symbols(text), 3)
    test = Trajectories.of_symbols([[0, 1, 2, 2, 0]], alphabet=range(3))
    predicted = model.forecast(test, 3)
    for t in range(5):
        context = tuple([0, 1, 2, 2, 0][max(0, t - 2) : t])
        np.testing.assert_allclose(predicted[t, 0], counted(text, 3, context, 3), atol=1e-15)
    two_ahead = sum(
        counted(text, 3, (0,), 3)[x] * counted(text, 3, (0, x), 3) for x in range(3)
    )  # after the first symbol
    np.testing.assert_allclose(predicted[1, 1], two_ahead, atol=1e-15)
    np.testing.assert_allclose(predicted.sum(axis=2), 1.0, atol=1e-14)
    gappy = KGram.fit(Trajectories.of_symbols([[0, None, 1, 0]]), 2)
    np.testing.assert_array_equal(gappy.contexts.numbers, [0, 2])  # only 1 -> 0 was seen whole
    with pytest.raises(SettingsError, match="order"):
        KGram.fit(test, 0)
    with pytest.raises(SettingsError, match="continuations"):
        model.forecast(test, 30)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(0, 3), st.sampled_from([0.5, 1.0, 8.0]))
@settings(max_examples=20, deadline=None)
def test_contexts_by_counting(seed: int, v: int, length: int, strength: float) -> None:
    """Futures of two symbols, each counted after the longest context that was seen whole."""
    rng = RNG(seed)
    codes = rng.integers(-1, v, size=(30, length + 2))
    recent, future = codes[:, :length], np.maximum(codes[:, length:], 0)
    phi = np.eye(v)[future].reshape(30, -1)
    contexts = Contexts.of(recent, phi, v, 2, strength)
    asked = rng.integers(-1, v, size=(20, length))
    for last, p in zip(asked, contexts(asked), strict=True):
        for j in range(2):
            expected = np.full(v, 1 / v)
            for n in range(length + 1):
                alike = (recent[:, :n] == last[:n]).all(axis=1) & (recent[:, :n] >= 0).all(axis=1)
                counts = np.bincount(future[alike, j], minlength=v)
                if (last[:n] < 0).any() or not counts.any():
                    break
                back = strength * (counts > 0).sum()
                expected = (counts + back * expected) / (counts.sum() + back)
            np.testing.assert_allclose(p.reshape(2, v)[j], expected, atol=1e-14)
    halves = [Contexts.of(recent[i::2], phi[i::2], v, 2, strength) for i in (0, 1)]
    merged = halves[0].merged(halves[1])
    np.testing.assert_array_equal(merged.numbers, contexts.numbers)
    np.testing.assert_array_equal(merged.counts, contexts.counts)


def test_contexts_that_were_seldom_seen_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    recent = RNG(0).choice(4, p=[0.6, 0.2, 0.1, 0.1], size=(500, 3))
    phi = np.eye(4)[RNG(1).integers(4, size=500)]
    whole = Contexts.of(recent, phi, 4)
    monkeypatch.setattr("psimlearn.filter.contexts.MOST_ENTRIES", 40)
    few = Contexts.of(recent, phi, 4)
    assert 2 <= len(few.numbers) <= 10 < len(whole.numbers)
    place = np.searchsorted(whole.numbers, few.numbers)
    np.testing.assert_allclose(few.shares, whole.shares[place], atol=1e-15)  # shorter contexts are kept as well
    assert whole.counts.sum(axis=1)[place].min() >= np.delete(whole.counts.sum(axis=1), place).max()
    with pytest.raises(SettingsError, match=r"5\^30. Use fewer lags"):
        Contexts.of(np.zeros((3, 30), dtype=np.int64), phi[:3], 4)


def test_kgrams_of_a_chain_find_its_transitions() -> None:
    transition = np.array([[0.7, 0.1, 0.2], [0.2, 0.5, 0.3], [0.1, 0.6, 0.3]])
    chain = HiddenMarkov(transition.T, np.eye(3), np.full(3, 1 / 3))
    train, test = symbols(chain, 2000, 30, RNG(0)), symbols(chain, 200, 30, RNG(1))
    np.testing.assert_allclose(
        KGram.fit(train, 2).forecast(test, 3)[1:30], chain.forward().forecast(test, 3)[1:30], atol=0.02
    )


# -- learning ----------------------------------------------------------------------------------------------------------


def learner(name: str, features: OneHot) -> Any:
    learners: dict[str, Any] = {
        "joint": SymbolRidge(features, 1e-5),
        "linear": SymbolRidge(features, 1e-5, "linear"),
        "logistic": SymbolLogistic(features, 1e-4, max_rows=3000),
        "classifier": SymbolClassifier(features, LogisticRegression(), 3000),
    }
    return learners[name]


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["whole", "gappy"])
@pytest.mark.parametrize("features", [OneHotProduct(2), OneHotMarginals(2)], ids=str)
@pytest.mark.parametrize("name", ["joint", "linear", "logistic", "classifier"])
def test_any_learner_of_symbols(name: str, features: OneHot, missing: float) -> None:
    hmm = two_state_hmm()
    train, test = symbols(hmm, 150, 30, RNG(0), missing), symbols(hmm, 100, 30, RNG(1), missing)
    options: dict[str, Any] = {"recipe": Recipe.for_symbols(), "loss": LogLoss(), "n_rounds": 2}
    runs = [list(dagger(train, test, features, learner(name, features), rng=RNG(2), **options)) for _ in range(2)]
    filter, again = (best(run).filter for run in runs)
    predicted = filter.forecast(test, 4)
    np.testing.assert_array_equal(predicted, again.forecast(test, 4))
    assert (predicted >= 0).all()
    np.testing.assert_allclose(predicted.sum(axis=2), 1.0, rtol=0, atol=1e-12)
    assert nats(filter, test) < nats(KGram.fit(train, 1), test)
    _, state = filter.run(test[:1])
    live = filter.start()
    for x in test[0].values:
        live = filter.step(live, x[None])
    np.testing.assert_allclose(live.belief, state.belief, rtol=0, atol=1e-12)


def test_forward_training_learns_from_symbols() -> None:
    hmm = two_state_hmm()
    train, test = symbols(hmm, 1000, 12, RNG(0)), symbols(hmm, 300, 12, RNG(1))
    features = OneHotProduct(2)
    (round,) = forward(
        train, test, features, SymbolRidge(features, 1e-4), rng=RNG(0), recipe=Recipe.for_symbols(), loss=LogLoss()
    )
    assert round.error == pytest.approx(nats(round.filter, test), abs=1e-12)
    assert round.error - nats(hmm.forward(), test) < 0.01


def test_the_joint_update_beats_the_linear_one_and_nears_the_exact_filter() -> None:
    """The excess is the mean divergence of predictions from the exact ones; it has no noise of drawn symbols.

    In one of five systems the linear update happens to be as good, so the comparison is by a quantile.
    """
    excess = {}
    updates: tuple[Update, ...] = ("joint", "linear")
    for update in updates:
        divergences = []
        for seed in range(5):
            rng = RNG(seed)
            hmm = three_state_hmm(rng)
            train, held, test = (symbols(hmm, m, 32, rng) for m in (2000, 100, 100))
            features = OneHotProduct(2)
            learner = SymbolRidge(features, 1e-5, update)
            rounds = dagger(
                train, held, features, learner, rng=rng, n_rounds=1, recipe=Recipe.for_symbols(), loss=LogLoss()
            )
            predicted, exact = (f.forecast(test, 1)[:, 0] for f in (best(rounds).filter, hmm.forward()))
            divergences.append(np.sum(exact * np.log(exact / predicted), axis=1).mean())
        excess[update] = np.array(divergences)
    assert (excess["joint"] < 1e-3).all()
    assert np.quantile(excess["joint"] / excess["linear"], 0.75) < 0.8  # measured .40


def test_joint_sums_are_those_of_the_examples_written_out() -> None:
    rng = RNG(0)
    features = OneHotProduct(2)
    z = np.concatenate(
        [rng.dirichlet(np.ones(4), 50), np.eye(2)[rng.integers(2, size=50)], rng.random((50, 3))], axis=1
    )
    y = np.eye(4)[rng.integers(4, size=50)]
    z[7, 4:6] = 0.5  # a symbol that was not observed: no example
    kept = np.arange(50) != 7
    known = np.delete(z, [4, 5], axis=1)[kept]
    targets = np.einsum("bx,by->bxy", z[kept, 4:6], y[kept]).reshape(49, -1)
    written = Ridge().summarise(known, targets)
    sums = SymbolRidge(features).summarise(z, y)
    for ours, expected in zip(map(np.asarray, sums), map(np.asarray, written), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-12)
    parts = [SymbolRidge(features).summarise(z[i::2], y[i::2]) for i in (0, 1)]
    merged = SymbolRidge(features).merge(*parts)
    for ours, expected in zip(map(np.asarray, merged), map(np.asarray, sums), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_a_symbol_not_observed_is_averaged_over() -> None:
    """A row of probabilities gives the mixture of the beliefs after each symbol, except for the linear update."""
    rng = RNG(1)
    features = OneHotProduct(2)
    z = np.concatenate([rng.dirichlet(np.ones(4), 300), np.eye(2)[rng.integers(2, size=300)]], axis=1)
    y = np.eye(4)[rng.integers(4, size=300)]
    learners: list[Any] = [
        SymbolRidge(features),
        SymbolLogistic(features, seed=0),
        SymbolClassifier(features, LogisticRegression(), seed=0),
    ]
    for learner in learners:
        update = learner.solve(learner.summarise(z, y))
        mixed, first, second = (
            np.concatenate([z[:5, :4], np.tile(x, (5, 1))], axis=1) for x in ([0.3, 0.7], [1.0, 0.0], [0.0, 1.0])
        )
        np.testing.assert_allclose(update(mixed), 0.3 * update(first) + 0.7 * update(second), atol=1e-14)


def test_logistic_updates_are_those_of_scikit_learn() -> None:
    rng = RNG(2)
    features = OneHotProduct(2)
    z = np.concatenate([rng.dirichlet(np.ones(4), 400), np.eye(2)[rng.integers(2, size=400)]], axis=1)
    y = np.eye(4)[rng.integers(4, size=400)]
    learner = SymbolLogistic(features, 1e-3, floor=0.0, seed=0)
    update = learner.solve(learner.summarise(z, y))
    rows = z[:, 4] == 1
    peer = LogisticRegression(C=1 / (1e-3 * rows.sum()), max_iter=500).fit(z[rows, :4], y[rows].argmax(axis=1))
    np.testing.assert_allclose(update(z[rows]), peer.predict_proba(z[rows, :4]), atol=1e-12)


def test_contexts_are_mixed_in() -> None:
    """Part of every belief is the distribution after the last symbols; a symbol not observed gives the mixture."""
    data = symbols(three_state_hmm(RNG(0)), 100, 30, RNG(1))
    features = OneHotProduct(2)
    filters = []
    for floor in (0.0, 0.25):
        learner = SymbolRidge(features, 1e-4, floor=floor, strength=2.0)
        rounds = dagger(data, data, features, learner, rng=RNG(0), n_rounds=0, recipe=Recipe.for_symbols(3))
        filters.append(next(rounds).filter)
    pure, mixed = (filter.regressors[0] for filter in filters)
    m, codes = RNG(2).dirichlet(np.ones(9), 40), RNG(3).integers(3, size=(40, 3))
    z = np.concatenate([m, np.eye(3)[codes].reshape(40, -1)], axis=1)
    recent = np.stack(
        [preceding(data.values.argmax(axis=1), data.offsets, 3)[t, ::-1] for t in range(len(data.values))]
    )
    starts = np.repeat(data.offsets[:-1], 30)
    first = data.values.argmax(axis=1)[starts]
    recent = np.where(recent < 0, first[:, None], recent)  # before the beginning stands the first symbol
    future = [t for t in range(len(data.values) - 1) if 1 <= t - starts[t] <= 28]
    phi = np.stack([features(data.values[t : t + 2][None])[0] for t in future])
    contexts = Contexts.of(recent[future], phi, 3, strength=2.0)
    np.testing.assert_allclose(mixed(z), 0.75 * pure(z) + 0.25 * contexts(codes), atol=1e-12)
    unseen = z.copy()
    unseen[:, 9:12] = [0.2, 0.3, 0.5]
    each = []
    for symbol in range(3):
        certain = z.copy()
        certain[:, 9:12] = np.eye(3)[symbol]
        each.append(mixed(certain))
    np.testing.assert_allclose(mixed(unseen), np.einsum("s,sbd->bd", [0.2, 0.3, 0.5], each), atol=1e-12)
    older = z.copy()
    older[:, 12:15] = [0.2, 0.3, 0.5]  # the symbol before: only the last one is left of the context
    codes[:, 1] = -1
    np.testing.assert_allclose(mixed(older), 0.75 * pure(z) + 0.25 * contexts(codes), atol=1e-12)


def test_updates_hold_where_almost_nothing_was_seen() -> None:
    """With one class, two classes, or a symbol that never occurred, every answer is a distribution."""
    z = np.concatenate([np.full((6, 4), 0.25), np.eye(2)[[0, 0, 0, 0, 0, 0]]], axis=1)
    asked = np.concatenate([z, np.concatenate([z[:1, :4], [[0.0, 1.0]]], axis=1)])
    features = OneHotProduct(2)
    for classes in ([0] * 6, [0, 1] * 3):
        y = np.eye(4)[classes]
        learners: list[Any] = [
            SymbolRidge(features),
            SymbolRidge(features, update="linear"),
            SymbolLogistic(features),
        ]
        for learner in learners:
            p = learner.solve(learner.summarise(z, y))(asked)
            assert (p > 0).all()
            np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


def test_impossible_settings_are_refused() -> None:
    data = Trajectories.of_symbols(list(two_state_hmm().simulate(20, 10, RNG(0))))
    features = OneHotProduct(2)
    with pytest.raises(SettingsError, match=r"Recipe.for_symbols\(\)"):
        next(dagger(data, data, features, SymbolRidge(features), rng=RNG(0)))
    with pytest.raises(SettingsError, match="floor"):
        SymbolRidge(features, floor=1.0)
    with pytest.raises(SettingsError, match="alpha"):
        SymbolRidge(features, alpha=-1.0)
    with pytest.raises(SettingsError, match="predict_proba"):
        SymbolClassifier(features, LinearSVC())


def test_log_loss_by_hand() -> None:
    p = np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.25, 0.75], [0.5, 0.5]]])
    truth = np.array([[[1.0, 0.0], [np.nan, np.nan]], [[0.0, 1.0], [0.0, 1.0]]])
    np.testing.assert_allclose(LogLoss().nats(p, truth), [-(np.log(0.5) + np.log(0.75)) / 2, np.log(2)])
    assert LogLoss().nats(np.array([[[0.0, 1.0]]]), np.array([[[1.0, 0.0]]]))[0] == np.inf


# -- probabilities, whatever comes -------------------------------------------------------------------------------------


@st.composite
def odd_sequences(draw: st.DrawFn) -> list[list[int | None]]:
    """Ragged sequences of few or many symbols: noise, constants, cycles, with gaps."""
    v = draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(3, 25), min_size=1, max_size=6))
    rng = RNG(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["noise", "constant", "cycle", "switch"]))
    missing = draw(st.sampled_from([0.0, 0.0, 0.2, 0.8]))
    sequences: list[list[int | None]] = []
    for length in lengths:
        codes = {
            "noise": rng.integers(v, size=length),
            "constant": np.full(length, v - 1),
            "cycle": np.arange(length) % v,
            "switch": np.repeat(rng.integers(v, size=length), 4)[:length],
        }[kind].tolist()
        sequences.append([None if rng.random() < missing else code for code in codes])
    if all(code is None for sequence in sequences for code in sequence):
        sequences[0][0] = 0
    return sequences


def test_recordings_that_begin_unseen_begin_with_a_distribution() -> None:
    features = OneHotProduct(2)
    for sequences in ([[None, None, 0]], [[None, None, 1, 0]], [[None, 2, None], [None, None, 3]]):
        data = Trajectories.of_symbols(sequences, alphabet=range(5))
        learner = SymbolRidge(features, 0.0)
        rounds = dagger(
            data, data, features, learner, rng=RNG(0), n_rounds=1, recipe=Recipe.for_symbols(), loss=LogLoss()
        )
        np.testing.assert_allclose(best(rounds).filter.run(data)[0].sum(axis=1), 1.0, rtol=0, atol=1e-12)


@given(
    odd_sequences(),
    st.sampled_from(["joint", "linear"]),
    st.sampled_from([*FEATURES[:1], OneHotProduct(2), OneHotMarginals(2)]),
    st.sampled_from([0.0, 1e-8, 1e-2]),
)
@settings(max_examples=25, deadline=None)
def test_beliefs_are_distributions_for_any_data(
    sequences: list[list[int | None]], update: Update, features: OneHot, alpha: float
) -> None:
    data = Trajectories.of_symbols(sequences, alphabet=range(5))
    learner = SymbolRidge(features, alpha, update)
    rounds = dagger(data, data, features, learner, rng=RNG(0), n_rounds=3, recipe=Recipe.for_symbols(), loss=LogLoss())
    for round in itertools.islice(rounds, 4):
        for p in (round.filter.run(data)[0], round.filter.forecast(data, 4).reshape(-1, 5)):
            assert ((p >= 0) & (p <= 1 + 1e-12)).all()
            n = features.n_simplices if p.shape[1] != 5 else 1
            np.testing.assert_allclose(p.reshape(len(p), n, -1).sum(axis=2), 1.0, rtol=0, atol=1e-12)


def test_kinds_of_updates() -> None:
    features = OneHotProduct(1)
    z, y = np.concatenate([np.eye(2), np.eye(2)], axis=1), np.eye(2)
    assert isinstance(SymbolRidge(features).solve(SymbolRidge(features).summarise(z, y)), Conditional)
    linear = SymbolRidge(features, update="linear")
    assert isinstance(linear.solve(linear.summarise(z, y)), Projected)
