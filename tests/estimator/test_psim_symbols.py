"""PSIM for symbols, from fit to file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB

from psimlearn import PSIM, Trajectories, load
from psimlearn.datasets import three_state_hmm, two_state_hmm
from psimlearn.errors import DataError, ModelFileError, SettingsError
from psimlearn.estimator.parameters import interpreted
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import OneHotProduct
from psimlearn.filter.symbols import SymbolLive
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.train.losses import LogLoss

RNG = np.random.default_rng


WORDS = np.array(["sun", "rain", "fog"])


def weather(m: int, T: int, seed: int) -> list[list[Any]]:
    return [WORDS[row].tolist() for row in three_state_hmm(RNG(7)).simulate(m, T, RNG(seed))]


@pytest.fixture(scope="module")
def model() -> PSIM:
    return PSIM(2, features="onehot", n_rounds=4, random_state=0).fit(weather(300, 30, 0))


def test_predictions_in_the_form_of_the_recordings(model: PSIM) -> None:
    X = [["sun", None, "fog", "rain"], ["rain"]]
    symbols, p = model.predict(X), model.predict_proba(X)
    assert [len(part) for part in symbols] == [4, 1]
    assert [part.shape for part in p] == [(4, 3), (1, 3)]
    order = np.array(["fog", "rain", "sun"])  # of the alphabet
    for own, probabilities in zip(symbols, p, strict=True):
        np.testing.assert_array_equal(own, order[probabilities.argmax(axis=1)])
    np.testing.assert_allclose(np.concatenate(p).sum(axis=1), 1.0, atol=1e-12)
    two = model.predict_proba(X, horizon=2)[0]
    np.testing.assert_allclose(two[2], model.filter_.forecast(Trajectories.of_symbols(X, alphabet=order), 2)[1, 1])
    assert model.predict(np.array(["sun", "fog"])).shape == (2,)
    assert model.forecast(X, 3).shape == (2, 3)
    assert model.forecast(np.array(["sun", "fog"]), 3).shape == (3,)
    assert model.transform(X)[0].shape == (4, 9)
    as_trajectories = Trajectories.of_symbols(X, alphabet=model.filter_.alphabet)
    np.testing.assert_array_equal(model.predict_proba(as_trajectories)[0], p[0])
    np.testing.assert_array_equal(model.predict_proba([as_trajectories[0]])[0], p[0])


def test_scores_are_mean_log_likelihoods(model: PSIM) -> None:
    X = weather(20, 25, 1)
    X[3][4] = None
    nats, p = model.score_samples(X), model.predict_proba(X)
    for own, likelihood, recording in zip(p, nats, X, strict=True):
        for t, symbol in enumerate(recording):
            expected = 0.0 if symbol is None else np.log(own[t, ["fog", "rain", "sun"].index(symbol)])
            assert likelihood[t] == pytest.approx(expected, abs=1e-12)
    seen = 20 * 25 - 1
    assert model.score(X) == pytest.approx(np.concatenate(nats).sum() / seen, abs=1e-12)
    exact = three_state_hmm(RNG(7)).forward()
    data = Trajectories.of_symbols(X, alphabet=WORDS)  # the model's own order of symbols
    best_possible = -errors_by_horizon(exact, data, measure=LogLoss().nats)[0]
    assert best_possible - 0.02 < model.score(X) < 0


def test_a_learnt_filter_agrees_with_the_likelihood_of_hmmlearn() -> None:
    """Sums of log-likelihoods of the exact model, by somebody else, bound and nearly reach those learnt."""
    hmm = two_state_hmm()
    train, test = hmm.simulate(500, 40, RNG(0)), hmm.simulate(200, 40, RNG(1))
    model = PSIM(3, features="onehot", n_rounds=4, random_state=0).fit(list(train))
    peer = pytest.importorskip("hmmlearn.hmm", reason="needs hmmlearn").CategoricalHMM(2)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = hmm.start, hmm.transition.T, hmm.emission.T
    exact = peer.score(test.reshape(-1, 1), [40] * 200) / test.size
    assert exact - 2e-3 < model.score(list(test)) < exact + 2e-3


def test_live_streams_equal_whole_recordings(model: PSIM) -> None:
    recording: list[Any] = weather(1, 30, 3)[0]
    recording[5] = recording[6] = None
    p, nats = model.predict_proba([recording])[0], model.score_samples([recording])[0]
    live = model.start()
    assert isinstance(live, SymbolLive)
    for t, symbol in enumerate(recording):
        np.testing.assert_allclose(live.predict_proba(), p[t], rtol=0, atol=1e-12)
        assert live.predict() == model.predict([recording])[0][t]
        live.update(symbol)
        assert live.log_likelihood == pytest.approx(nats[t], abs=1e-12)
    assert live.forecast(4).tolist() == model.forecast([recording], 4)[0].tolist()
    bank = model.start(3)
    for symbol in recording:
        bank.update([symbol, "sun", None])
    np.testing.assert_allclose(bank.predict_proba()[0], live.predict_proba(), rtol=0, atol=1e-12)
    with pytest.raises(DataError, match="one for each of 3 streams"):
        bank.update(["sun"])
    before = live.belief
    with pytest.raises(DataError, match=r"required one of \['fog', 'rain', 'sun'\].*received 'snow'"):
        live.update("snow")
    np.testing.assert_array_equal(live.belief, before)
    live.reset()
    np.testing.assert_allclose(live.predict_proba(), p[0], rtol=0, atol=1e-12)
    assert "3 symbols" in repr(live)


def test_probabilities_of_continuations_sum_to_one_and_are_sampled(model: PSIM) -> None:
    live = model.start()
    live.update("sun")
    words = [[a, b, c] for a in WORDS for b in WORDS for c in WORDS]
    p = np.array([live.probability(word) for word in words])
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert live.probability(["sun", None, "fog"]) == pytest.approx(
        sum(live.probability(["sun", b, "fog"]) for b in WORDS), abs=1e-12
    )
    features = model.filter_.features
    assert isinstance(features, OneHotProduct)
    pair = features.probability(live.belief[None], np.array([2, 0]))[0]  # sun, then fog, in the order of the alphabet
    assert pair == pytest.approx(live.probability(["sun", "fog"]), rel=0.05)
    bank = model.start(4000)
    bank.update(["sun"] * 4000)
    drawn = bank.sample(3, RNG(0))
    shares = np.array([np.mean((drawn == word).all(axis=1)) for word in words])
    assert np.abs(shares - p).max() < 5 * np.sqrt(p.max() / 4000)
    assert live.sample(5, RNG(0)).shape == (5,)


@pytest.mark.usefixtures("unchecked")
def test_files_keep_symbols_apart(tmp_path: Path) -> None:
    codes = two_state_hmm().simulate(100, 20, RNG(0))
    X = [[(1, "1")[code] for code in row] for row in codes]
    for settings in (
        {"learner": "ridge"},
        {"learner": "logistic"},
        {"learner": SymbolRidge(OneHotProduct(2), 1e-4, "linear")},
    ):
        model = PSIM(2, features="onehot", n_rounds=2, random_state=0, **settings).fit(X)
        model.save(tmp_path / "m.psim")
        again = PSIM.load(tmp_path / "m.psim")
        assert again.filter_.alphabet == Alphabet((1, "1"))
        np.testing.assert_array_equal(again.predict_proba(X)[0], model.predict_proba(X)[0])
        assert again.predict(X)[0].tolist() == model.predict(X)[0].tolist()
        assert again.summary() == model.summary()
        assert load(tmp_path / "m.psim").alphabet == Alphabet((1, "1"))
    model = PSIM(2, features="onehot", learner=GaussianNB(), n_rounds=1, random_state=0).fit(X)
    with pytest.raises(ModelFileError, match="required a word"):
        model.save(tmp_path / "m.psim")


@pytest.mark.filterwarnings("ignore:partial_fit:psimlearn.errors.PsimlearnWarning")  # a refit is due
def test_learning_goes_on(tmp_path: Path) -> None:
    hmm = three_state_hmm(RNG(7))
    parts = [list(hmm.simulate(200, 30, RNG(seed))) for seed in range(3)]
    model = PSIM(2, features="onehot", n_rounds=3, random_state=0).fit(parts[0])
    model.save(tmp_path / "m.psim", with_sums=True)
    again = PSIM.load(tmp_path / "m.psim")
    model.partial_fit(parts[1])
    again.partial_fit(parts[1])
    np.testing.assert_allclose(again.predict_proba(parts[2])[0], model.predict_proba(parts[2])[0], atol=1e-12)
    assert again.sums_.n == 2 * 200 * 28 * (model.n_rounds_ + 1)


def exclusive(m: int, T: int, rng: np.random.Generator) -> list[list[int]]:
    """Each symbol is the exclusive or of the two before the last, but for one in ten."""
    x = rng.integers(2, size=(m, T))
    for t in range(3, T):
        x[:, t] = (x[:, t - 2] ^ x[:, t - 3]) ^ (rng.random(m) < 0.1)
    return [row.tolist() for row in x]


@pytest.mark.filterwarnings("ignore:partial_fit:psimlearn.errors.PsimlearnWarning")  # a refit is due
@pytest.mark.usefixtures("unchecked")
def test_contexts_are_chosen_where_the_last_few_symbols_tell_all(tmp_path: Path) -> None:
    """No belief about one symbol could remember three. The entropy of a symbol is known."""
    train, test = exclusive(150, 40, RNG(0)), exclusive(300, 40, RNG(1))
    model = PSIM(1, features="onehot", n_rounds=2, random_state=0).fit(train)
    assert model.report_["choices"]["lags"] >= 3
    assert model.report_["choices"]["floor"] == 0.9
    nats = np.array([own[3:] for own in model.score_samples(test)])
    entropy = -(0.1 * np.log(0.1) + 0.9 * np.log(0.9))
    assert entropy - 0.01 < -nats.mean() < entropy + 0.02
    assert np.log(2) - 0.01 < -PSIM(1, features="onehot", lags=1, n_rounds=1, random_state=0).fit(train).score(test)
    gappy: list[Any] = [0, 1, None, 1, 1, 0, 0]
    p = model.predict_proba([gappy])[0]
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert p[4].max() < 0.7  # of the two that matter, one was not observed
    assert p[6, 0] > 0.8
    model.save(tmp_path / "m.psim", with_sums=True)
    again = PSIM.load(tmp_path / "m.psim")
    np.testing.assert_array_equal(again.predict_proba([gappy])[0], p)
    more = exclusive(50, 40, RNG(2))
    for own in (model, again):
        own.partial_fit(more)
        assert isinstance(own.learner_, SymbolRidge)
        assert own.learner_.contexts is not None
        assert own.learner_.contexts.counts[0].sum() == (150 + 50) * 39
    np.testing.assert_array_equal(again.predict_proba([gappy])[0], model.predict_proba([gappy])[0])
    assert not np.array_equal(model.predict_proba([gappy])[0], p)


def test_windows_of_a_handy_size() -> None:
    windows = {}
    for v in (2, 3, 5, 9):
        X = [RNG(v).integers(v, size=40).tolist() for _ in range(3)]
        for features in ("onehot", "onehot-marginals"):
            settings = interpreted(PSIM(features=features).get_params(), Trajectories.of_symbols(X))
            windows[features, v] = settings.features.window
    assert [windows["onehot", v] for v in (2, 3, 5, 9)] == [5, 3, 2, 1]
    assert [windows["onehot-marginals", v] for v in (2, 3, 5, 9)] == [5, 5, 5, 5]
    numbers = interpreted(PSIM().get_params(), Trajectories.of(np.zeros((3, 20, 1))))
    assert numbers.features.window == 5
    with pytest.raises(SettingsError, match="window: required 'auto' or a whole number"):
        PSIM("three").fit(np.zeros((3, 20, 1)))


@pytest.mark.usefixtures("unchecked")
def test_unseen_symbols_and_others() -> None:
    X = weather(40, 20, 0)
    model = PSIM(2, features="onehot", n_rounds=1, random_state=0).fit(X)
    with pytest.raises(DataError, match="received 'snow'"):
        model.predict([["sun", "snow"]])
    X[0][0] = X[7][3] = "hail"
    other = PSIM(2, features="onehot", n_rounds=1, random_state=0).fit(
        Trajectories.of_symbols(X, alphabet=["sun", "rain", "fog", "?"], other="?")
    )
    p = other.predict_proba([["sun", "snow", "fog"]])[0]
    np.testing.assert_array_equal(p, other.predict_proba([["sun", "?", "fog"]])[0])
    assert (p > 0).all()


@pytest.mark.usefixtures("unchecked")
def test_scikit_learns_tools_carry_symbols() -> None:
    X = Trajectories.of_symbols(weather(60, 20, 0))
    model = PSIM(2, features="onehot", n_rounds=1, random_state=0)
    scores = cross_val_score(model, X, cv=3)
    assert (scores < 0).all()
    assert (scores > -np.log(3)).all()
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(PSIM(), "predict_proba")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "last"}, "prior: required 'auto' for symbols"),
        ({"rank": 2}, "rank: required None for symbols"),
        ({"learner": "rff"}, r"learner: required one of \('ridge', 'logistic'\)"),
        ({"learner": SymbolRidge(OneHotProduct(3))}, "required one for OneHotProduct"),
        ({"window": 9}, r"3\^9"),
        ({"features": "stack"}, "learnt with features='onehot'"),
        ({"trainer": "dagger+backprop"}, "trainer: required 'dagger' or 'forward' for symbols"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, Any], message: str) -> None:
    given = {"window": 2, "features": "onehot", "random_state": 0} | settings
    with pytest.raises((SettingsError, DataError, ValueError), match=message):
        PSIM(**given).fit(weather(10, 12, 0))


def test_symbols_need_features_of_symbols_and_numbers_do_not() -> None:
    with pytest.raises(SettingsError, match="'onehot'"):
        PSIM(2).fit(Trajectories.of_symbols(weather(10, 12, 0)))
    with pytest.raises(DataError, match="of_symbols"):
        PSIM(2, features="onehot").fit(Trajectories.of(np.zeros((3, 10, 1))))
    model = PSIM(2, features="onehot", n_rounds=1).fit(weather(10, 12, 0))
    with pytest.raises(SettingsError, match="predict_proba"):
        model.predict_interval(weather(1, 5, 0))
    with pytest.raises(DataError, match="alphabet"):
        model.predict(Trajectories.of_symbols([["a", "b", "c"]]))


@pytest.mark.usefixtures("unchecked")
def test_a_single_short_sequence_teaches_something() -> None:
    text = "to be or not to be that is the question " * 3
    model = PSIM(2, features="onehot-marginals", random_state=0).fit(text)
    assert model.score(text) > np.log(1 / 20)
    tiny = PSIM(1, features="onehot", random_state=0).fit([0, 1, 0, 1, 1])
    assert 0 < tiny.predict_proba([0, 1])[1].min() < 1
    assert "too few rows" in tiny.summary()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_probabilities_stay_probabilities_for_ever(model: PSIM) -> None:
    """20 000 live steps, gaps among them."""
    steps = 20_000
    codes = RNG(0).choice(3, steps).astype(object)
    codes[RNG(1).random(steps) < 0.1] = None
    words = [None if code is None else str(WORDS[code]) for code in codes]
    beliefs, p = np.empty((steps, 9)), np.empty((steps, 3))
    live = model.start()
    for t, word in enumerate(words):
        live.update(word)
        beliefs[t], p[t] = live.belief, live.predict_proba()
    for probabilities in (beliefs, p):
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    whole = model.predict_proba([words[:2001]])[0]
    np.testing.assert_allclose(p[:2000], whole[1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("features", ["onehot", "onehot-marginals"])
@pytest.mark.parametrize("n", [100, 1000])
def test_large_alphabets_choose_a_window_without_trying_it(features: str, n: int) -> None:
    """The words of five of 100 symbols would take 74.5 GiB."""
    data = Trajectories.of_symbols([[i % n for i in range(2 * n)]] * 3)
    settings = interpreted(PSIM(features=features).get_params(), data)
    assert settings.features.window == 1
