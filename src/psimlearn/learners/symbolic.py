"""Learners of updates for beliefs about symbols: ridge regression, logistic regression, any classifier.

Examples are the same as for numbers, z = [m; x; rest] and y = phi(f), with one-hot rows for x. Examples in which the
symbol x was not observed are left out: to fill x in, one would need the update that is to be learnt.
"""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from psimlearn.checks import number, one_of, share, shown, whole
from psimlearn.errors import SettingsError
from psimlearn.filter import Linear, OneHot, Opaque
from psimlearn.filter.conditioning import CERTAIN, Conditional, Projected, recent_symbols
from psimlearn.filter.contexts import Contexts
from psimlearn.filter.onehot import onto_simplices
from psimlearn.learners.blackbox import FromSample, Stacked
from psimlearn.learners.learner import Y, Z
from psimlearn.learners.ridge import GramSums, Ridge
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Classified", "SymbolClassifier", "SymbolLogistic", "SymbolRidge", "Update"]

Update = Literal["joint", "linear"]
"""The update of `SymbolRidge`."""


@dataclass(frozen=True)
class SymbolRidge:
    """Ridge regression of e_x (x) phi(f) on m, followed by conditioning on x; or of phi(f) on [m; x].

    Args:
        features: the features of symbols that define a belief.
        alpha: the penalty per example, as in `Ridge`.
        update: "joint", which is exact for hidden Markov models, or "linear", the plain regression of the paper.
        floor: the share of every belief that is the distribution of futures after the last symbols in training, with
            as many symbols as lags. It keeps possible futures from getting probability 0.
        strength: the smoothing of that distribution, as in `Contexts`.
    """

    features: OneHot
    alpha: float = 1e-6
    update: Update = "joint"
    floor: float = 1e-5
    strength: float = 1.0
    contexts: Contexts | None = field(default=None, compare=False, repr=False)
    """The counts of futures after the last symbols, set by trainers; if None, only the last symbol counts."""

    def __post_init__(self) -> None:
        """Refuse settings that have no meaning."""
        _check(self)
        one_of(self.update, get_args(Update), "update")

    def counting(self, z: Z, y: Y, lags: int, more: bool = False) -> "SymbolRidge":
        """A learner with the contexts of these examples; with `more`, added to the contexts counted before."""
        return self if self.update == "linear" else replace(self, contexts=_counted(self, z, y, lags, more))

    def prepare(self, z: Z, rng: np.random.Generator) -> "SymbolRidge":
        """The learner itself: it has nothing to freeze."""
        return self

    def summarise(self, z: Z, y: Y, same: tuple[int, GramSums] | None = None) -> GramSums:
        """The Gram sums of [m; rest] with e_x (x) y, or of z with y."""
        seen = _seen(z, y, self.features)
        if self.update == "linear":
            return Ridge().summarise(z[seen.rows], y[seen.rows])
        known, y = _known(z, y, self.features, self.contexts)[seen.rows], y[seen.rows]
        rows, columns = np.nonzero(y)  # one-hot: a sparse product costs as much as there are ones
        entries = (y[rows, columns], (rows, seen.codes[rows] * y.shape[1] + columns))
        targets = scipy.sparse.csr_array(entries, shape=(len(y), seen.n_symbols * y.shape[1]))
        zy = np.ascontiguousarray((targets.T @ known).T)
        square = float(np.vdot(y, y))  # the one-hot factor e_x does not change the norm of y
        return GramSums(float(len(y)), np.ones(len(y)) @ known, targets.sum(axis=0), known.T @ known, zy, square)

    def merge(self, a: GramSums, b: GramSums) -> GramSums:
        """The Gram sums of both, added."""
        return Ridge().merge(a, b)

    def solve(self, stats: GramSums) -> Conditional | Projected:
        """The ridge regression, whose outputs are brought onto the simplex."""
        linear, n = Ridge(self.alpha).solve(stats), self.features.n_simplices
        if self.update == "linear":
            return Projected(linear, Contexts.of_last(stats.y[None], n).shares[:1], self.floor, self.features)
        after = stats.y.reshape(_n_symbols(len(stats.y), self.features), -1)
        contexts = self.contexts or Contexts.of_last(after, n, self.strength)
        return Conditional(linear, contexts.numbers, contexts.shares, self.floor, self.features, "simplex")


class _SeenSample(FromSample):
    """Keeps a sample of the examples in which the symbol was observed."""

    features: OneHot

    def summarise(self, z: Z, y: Y, same: tuple[int, Stacked] | None = None) -> Stacked:
        """The examples with an observed symbol, thinned to `max_rows`."""
        seen = _seen(z, y, self.features)
        return super().summarise(z[seen.rows], y[seen.rows])


@dataclass(frozen=True)
class SymbolLogistic(_SeenSample):
    """Multinomial logistic regression of the future on m, one for each observed symbol: minimises the log loss.

    Args:
        features: the features of symbols that define a belief.
        alpha: the penalty per example.
        max_rows: learn from a random sample of at most this many examples.
        floor: as in `SymbolRidge`.
        seed: the seed of that sample; drawn by `prepare` if not given.
        strength: as in `SymbolRidge`.
    """

    features: OneHot
    alpha: float = 1e-6
    max_rows: int = 20_000
    floor: float = 1e-5
    seed: int | None = None
    strength: float = 1.0
    contexts: Contexts | None = field(default=None, compare=False, repr=False)
    """The counts of futures, as in `SymbolRidge`."""

    def __post_init__(self) -> None:
        """Refuse settings that have no meaning."""
        _check(self)

    def counting(self, z: Z, y: Y, lags: int, more: bool = False) -> "SymbolLogistic":
        """A learner with the contexts of these examples; with `more`, added to the contexts counted before."""
        return replace(self, contexts=_counted(self, z, y, lags, more))

    def solve(self, stats: Stacked) -> Conditional:
        """One regression for each symbol and simplex; a future never seen after a symbol gets almost no probability."""
        z, y, _ = stats
        seen = _seen(z, y, self.features)
        known, d = _known(z, y, self.features, self.contexts), y.shape[1]
        weights, intercept = np.zeros((known.shape[1], seen.n_symbols, d)), np.zeros((seen.n_symbols, d))
        counts = np.zeros((seen.n_symbols, d))
        for symbol in range(seen.n_symbols):
            rows = seen.codes == symbol
            counts[symbol] = y[rows].sum(axis=0)
            for part in _parts(d, self.features):
                weights[:, symbol, part], intercept[symbol, part] = _logistic(known[rows], y[rows, part], self.alpha)
        linear = Linear(weights.reshape(len(weights), -1), intercept.ravel())
        contexts = self.contexts or Contexts.of_last(counts, self.features.n_simplices, self.strength)
        return Conditional(linear, contexts.numbers, contexts.shares, self.floor, self.features, "softmax")


@dataclass(frozen=True)
class SymbolClassifier(_SeenSample):
    """Any scikit-learn classifier with `predict_proba`: predicts the future from z = [m; x; rest].

    Args:
        features: the features of symbols that define a belief.
        estimator: the classifier, fitted once for each distribution of a belief.
        max_rows: learn from a random sample of at most this many examples.
        floor: as in `SymbolRidge`.
        seed: the seed of that sample; drawn by `prepare` if not given.
    """

    features: OneHot
    estimator: BaseEstimator
    max_rows: int = 20_000
    floor: float = 1e-3
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that have no meaning, and classifiers that do not predict probabilities."""
        _check(self)
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "predict_proba"):
            raise SettingsError(
                f"estimator: required a classifier with predict_proba, received {shown(self.estimator)}."
            )

    def solve(self, stats: Stacked) -> "Classified":
        """The fitted classifiers, one for each distribution of a belief."""
        z, y, _ = stats
        fitted = []
        for part in _parts(y.shape[1], self.features):
            rows, classes = _classes(y[:, part])
            fitted.append(clone(self.estimator).fit(z[rows], classes))
        mean = Contexts.of_last(y.sum(axis=0)[None], self.features.n_simplices).shares[:1]
        return Classified(tuple(fitted), mean, self.floor, self.features)


@dataclass(frozen=True, eq=False)
class Classified(Opaque):
    """[m; x; rest] -> the probabilities of fitted classifiers; if x is an expectation, their mixture over symbols."""

    estimators: tuple[Any, ...]
    mean: Float[np.ndarray, "one d"]
    floor: float
    """The weight of `mean` in every belief."""
    features: OneHot

    def __call__(self, z: Z) -> Y:
        """The next belief for each row."""
        d = self.mean.shape[1]
        v = self.features.n_symbols(d)
        x = z[:, d : d + v]
        rows, symbols = np.nonzero(x)
        certain = z[rows]
        certain[:, d : d + v] = np.eye(v)[symbols]
        out = np.zeros((len(z), d))
        np.add.at(out, rows, x[rows, symbols][:, None] * self._given(certain))
        return out

    def _given(self, z: Z) -> Y:
        """The next belief of rows in which every x is one symbol."""
        predicted = np.zeros((len(z), self.mean.shape[1]))
        for part, estimator in zip(_parts(predicted.shape[1], self.features), self.estimators, strict=True):
            predicted[:, part.start + estimator.classes_] = estimator.predict_proba(z)
        predicted = onto_simplices(predicted, self.features.n_simplices)
        return np.asarray((1 - self.floor) * predicted + self.floor * self.mean)


def _check(learner: Any) -> None:
    """Refuse settings that have no meaning in any learner of symbols."""
    if not isinstance(learner.features, OneHot):
        raise SettingsError(f"features: required OneHotProduct or OneHotMarginals, received {shown(learner.features)}.")
    share(learner.floor, "floor")
    number(getattr(learner, "alpha", 0.0), "alpha")
    number(getattr(learner, "strength", 1.0), "strength", above=True)
    if isinstance(learner, FromSample):
        whole(learner.max_rows, "max_rows")
        learner.check_sample()


class _Seen(NamedTuple):
    """The examples in which the symbol was observed."""

    rows: Bool[np.ndarray, " b"]
    codes: Int[np.ndarray, " some"]
    n_symbols: int


def _seen(z: Z, y: Y, features: OneHot) -> _Seen:
    d = y.shape[1]
    v = features.n_symbols(d)
    return _Seen(*_classes(z[:, d : d + v]), v)


def _known(z: Z, y: Y, features: OneHot, contexts: Contexts | None) -> Float[np.ndarray, "b k"]:
    """[m; u]: the belief and the inputs, without the last symbols."""
    d, lags = y.shape[1], 1 if contexts is None else contexts.length
    return np.delete(z, np.s_[d : d + lags * features.n_symbols(d)], axis=1)


def _counted(learner: SymbolRidge | SymbolLogistic, z: Z, y: Y, lags: int, more: bool) -> Contexts:
    """The contexts of these examples; with `more`, merged with the contexts that the learner has already."""
    d, features = y.shape[1], learner.features
    v = features.n_symbols(d)
    recent = recent_symbols(z[:, d : d + lags * v], v)
    new = Contexts.of(recent, y, v, features.n_simplices, learner.strength)
    return learner.contexts.merged(new) if more and learner.contexts is not None else new


def _n_symbols(width: int, features: OneHot) -> int:
    """The number of symbols V for which V blocks of d coordinates have this width."""
    return next(v for v in range(1, width + 1) if v * features.width(v) == width)


def _parts(d: int, features: OneHot) -> list[slice]:
    """The coordinates of each distribution of a belief."""
    size = d // features.n_simplices
    return [slice(i * size, (i + 1) * size) for i in range(features.n_simplices)]


def _classes(y: Y) -> tuple[Bool[np.ndarray, " b"], Int[np.ndarray, " some"]]:
    """The rows of a one-hot part that are certain, and the places of their ones."""
    rows = y.max(axis=1, initial=0.0) > CERTAIN
    return rows, y[rows].argmax(axis=1)


def _logistic(z: Z, y: Y, alpha: float) -> tuple[Float[np.ndarray, "p q"], Float[np.ndarray, " q"]]:
    """The weights and intercepts of log-probabilities; an intercept of -30, in effect zero, for classes never seen."""
    rows, classes = _classes(y)
    weights, intercept = np.zeros((z.shape[1], y.shape[1])), np.zeros(y.shape[1])
    present = np.unique(classes)
    if not len(present):
        return weights, intercept
    intercept[:] = -30.0
    if len(present) == 1:
        intercept[present] = 0.0
        return weights, intercept
    with warnings.catch_warnings():  # an unconverged fit is validated like any other, in closed loop
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = LogisticRegression(C=1 / max(alpha * len(classes), 1e-12), max_iter=500).fit(z[rows], classes)
    two = len(present) == 2  # for two classes scikit-learn gives weights of the second only
    weights[:, present[1:] if two else present] = fitted.coef_.T
    intercept[present] = [0.0, *fitted.intercept_] if two else fitted.intercept_
    return weights, intercept
