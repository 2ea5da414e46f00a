"""PSIM: the scikit-learn face of psimlearn. It chooses, trains, calibrates and reports; the mathematics lives below."""

from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from psimlearn.checks import switch
from psimlearn.choose.fit import fitted
from psimlearn.choose.resume import Training
from psimlearn.choose.summary import summarised
from psimlearn.estimator.alarms import Alarming
from psimlearn.estimator.channels import asked, grouped, learnt_from, remember
from psimlearn.estimator.channels import future_inputs as checked_inputs
from psimlearn.estimator.checks import rows_ahead, seed_of, watch_of
from psimlearn.estimator.exporting import Exporting
from psimlearn.estimator.parameters import interpreted, is_symbolic, learns_on, speaks_symbols
from psimlearn.estimator.partial import learnt_more
from psimlearn.estimator.saved import Contents, load, save
from psimlearn.estimator.scores import mean_log_likelihood, r_squared
from psimlearn.estimator.smoothing import Smoothing
from psimlearn.filter import Features
from psimlearn.filter.live import Live
from psimlearn.filter.predict import foretold
from psimlearn.filter.rollout import rolled
from psimlearn.filter.symbols import SymbolLive
from psimlearn.learners import Learner, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import foretelling
from psimlearn.shapes import Float
from psimlearn.train.recipe import Recipe

__all__ = ["PSIM"]


class PSIM(Alarming, Smoothing, Exporting, TransformerMixin, BaseEstimator):
    """Learn a filter from recordings.

    Settings given as words ("ridge", "auto", ..) are chosen or tuned by closed-loop error on held-out recordings;
    numbers and objects are taken as they are. Recordings are a list of (T_i, n) arrays, one (T, n) array or data frame
    (one recording), one (m, T, n) array, or `Trajectories`; NaN means "not observed". With the features "onehot",
    recordings are sequences of symbols, in any form that `Trajectories.of_symbols` takes; None means "not observed".

    Args:
        window: how many observations ahead a belief describes, k; "auto" is 5, or fewer for large alphabets.
        features: what a belief says of these: "stack" (means), "squares" (means and variances), "moments" (a full
            Gaussian), "onehot" (the joint distribution of symbols), "onehot-marginals" (the distribution of each, for
            large alphabets), or any `Features`.
        learner: "ridge" (linear), "rff" (random Fourier features), "trees" (linear, then trees on its errors), "auto"
            (the best of these), a `Ridge`, a `RandomFourierRidge`, a `RidgeAndTrees`, or any scikit-learn regressor;
            "gaussian" (with "squares": mean and log-variance, by likelihood); for symbols "ridge", "logistic", a
            `SymbolRidge`, or any classifier with `predict_proba`.
        trainer: "dagger" (one filter for all times), "forward" (one for each time step; needs many recordings),
            "dagger+backprop" (DAgger, then refined by gradient) or "backprop" (by gradient from random weights, with
            the settings of DAgger); the last two need the extra `grad`.
        n_rounds: the most rounds of DAgger.
        init: beliefs of the first round: regressed on "history", the true futures ("teacher"), or "zero"; "auto" is
            "history", and tries filters of identified linear systems (subspace identification) as first rounds too.
        lags: how many of the last observations a step sees; "auto" tries several.
        prior: what predictions are shrunk towards: the "mean", the "last" observation, or "zero"; "auto" chooses.
        belief_weight: how freely the belief is used; 1 is the paper, 0 is autoregression; "auto" chooses.
        level_weight: with the prior "last", how much predictions depend on the level rather than on changes: small
            where recordings differ in offset; None regresses on lags as they are; "auto" chooses.
        rank: feed back only so many directions of the belief; None for all, "auto" for as few as do no harm.
        box: keep the feedback near the range seen in training.
        feedthrough: inputs act on the observation of the same row.
        recipe: a `Recipe` to be taken as it is, instead of lags, prior, belief_weight, rank, box and feedthrough.
        criterion: minimise the error over the whole "window" (each step ahead relative to the error of the last
            observation), of the next row only ("one-step"), or over so many steps ahead (a number).
        validation: the share of recordings to hold out, or further recordings. A single recording is cut in time.
        refit: train on all recordings once everything is chosen.
        random_state: seeds the splits and the random features.
        verbose: print progress, or a `Watch` that receives it and may end a stage early.

    Attributes:
        filter_: the learnt `Filter`.
        rounds_: the rounds of DAgger with the chosen settings on the first split; then the epochs of back-propagation.
        trials_: a list of dicts, one for each setting tried; `pandas.DataFrame(model.trials_)` is a table.
        report_: the contents of `summary()` as plain values.
        held_out_: filters learnt like `filter_` from a part of the recordings, each with the recordings that it did
            not see; empty if there were too few, and after a file or a pickle, which hold no recordings.
        step_: seconds from one row to the next, None if not known; recordings with another step are refused.
    """

    # scikit-learn's rule: __init__ takes anything, and fit complains; so each type is a hint
    def __init__(
        self,
        window: int | str | Any = "auto",
        *,
        features: str | Features | Any = "stack",
        learner: str | Learner[Any] | Any = "ridge",
        trainer: str | Any = "dagger",
        n_rounds: int | Any = 20,
        init: str | Any = "auto",
        lags: int | str | Any = "auto",
        prior: str | Any = "auto",
        belief_weight: float | str | Any = "auto",
        level_weight: float | str | Any | None = "auto",
        rank: int | str | Any | None = None,
        box: bool | Any = True,
        feedthrough: bool | Any = False,
        recipe: Recipe | Any | None = None,
        criterion: str | int | Any = "window",
        validation: float | Trajectories | Any = 0.2,
        refit: bool | Any = True,
        random_state: int | Any | None = None,
        verbose: bool | Any = False,
    ) -> None:
        self.window = window
        self.features = features
        self.learner = learner
        self.trainer = trainer
        self.n_rounds = n_rounds
        self.init = init
        self.lags = lags
        self.prior = prior
        self.belief_weight = belief_weight
        self.level_weight = level_weight
        self.rank = rank
        self.box = box
        self.feedthrough = feedthrough
        self.recipe = recipe
        self.criterion = criterion
        self.validation = validation
        self.refit = refit
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, window: int = 5, *, learner: Any = None, init: str = "zero", **others: Any) -> "PSIM":
        """The paper's algorithm, literally: no lags, prior, box or intercept, nothing standardised.

        Only the round is chosen, by one-step error. `learner` defaults to ridge regression without intercept.
        """
        settings: dict[str, Any] = {"recipe": Recipe.as_published(), "criterion": "one-step", "refit": False} | others
        return cls(window, learner=learner or Ridge(intercept=False), init=init, **settings)

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> "PSIM":
        """Choose, train, calibrate. `y` is ignored.

        Recordings with one label in `groups` (one label for each recording) are never both trained on and held out.
        """
        data = learnt_from(self, X, is_symbolic(self.features))
        settings = interpreted(self.get_params(deep=False), data)
        labels = grouped(groups, len(data))
        result = fitted(data, settings, seed_of(self.random_state), watch_of(self.verbose), labels)
        self.filter_, self.rounds_, self.n_rounds_ = result.filter, result.rounds, result.n_rounds
        self.trials_ = [trial.row() for trial in result.trials]
        self.report_, self.held_out_ = result.report, result.held_out
        self.recipe_, self.learner_ = result.candidate.recipe, result.learner
        self.sums_, self.hint_sums_ = result.sums, result.hint_sums
        return self

    @available_if(learns_on)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, any_range: bool = False) -> "PSIM":
        """Learn from more recordings; the first call is `fit`.

        The sums go on; settings, scaling, box and calibration stay as they were. `report_["later"]` says what the new
        recordings did: the error on them before they were learnt from, and the factor by which the error on the
        earlier examples changed. A `PsimlearnWarning` says when that is harm and when `fit` on all recordings is due.
        Recordings that lie over 10 times as far from the mean as the earlier ones, as in other units, are refused
        unless `any_range` is True.
        """
        if not hasattr(self, "filter_"):
            return self.fit(X)
        for name, value in learnt_more(self, X, any_range).items():
            setattr(self, name, value)
        return self

    def summary(self) -> str:
        """The recordings, the chosen settings, and held-out errors beside those of simple methods, as text."""
        check_is_fitted(self)
        return summarised(self.report_)

    def predict(self, X: Any, horizon: int = 1) -> Any:
        """Row t predicts x_t from the rows up to t - horizon; in the form of X."""
        given = asked(self, X)
        return given.returned(self._foretold(given.trajectories, horizon), channels=True)

    @available_if(speaks_symbols)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, horizon: int = 1) -> Any:
        """Row t holds the probability of each symbol at t given the rows up to t - horizon, in alphabet order."""
        given = asked(self, X)
        return given.returned(self._foretold(given.trajectories, horizon))

    def predict_interval(self, X: Any, horizon: int = 1, coverage: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper bounds around `predict` that cover this share of observations."""
        given = asked(self, X)
        data, horizon = given.trajectories, rows_ahead(horizon, "horizon", *given.trajectories.values.shape)
        prediction = foretold(self.filter_, data, horizon).at(foretelling(data.offsets, horizon))
        low, high = (given.returned(bound, channels=True) for bound in prediction.interval(coverage))
        return low, high

    def forecast(
        self,
        X: Any,
        steps: int,
        return_std: bool = False,
        future_inputs: Any = None,
        *,
        coverage: float | None = None,
    ) -> Any:
        """Predict beyond the end of each recording: (m, steps, n), or (steps, n) for a single array.

        Args:
            X: recordings.
            steps: how many rows.
            return_std: return (mean, std); NaN beyond the horizons that calibration reached.
            future_inputs: known inputs of those rows, (m, steps, p) or (steps, p).
            coverage: return (mean, low, high) with intervals that cover this share of observations.
        """
        given = asked(self, X)
        data = given.trajectories
        p = 0 if self.filter_.input_scaling is None else len(self.filter_.input_scaling.mean)
        steps = rows_ahead(steps, "steps", len(data), data.n_channels)
        inputs = checked_inputs(future_inputs, len(data), steps, p)
        state = self.filter_.run(data, None if inputs is None else inputs[:, 0])[1]
        if not switch(return_std, "return_std") and coverage is None:
            return given.one_each(self.filter_.ahead(state, steps, inputs))
        prediction = self.filter_.predict(state, steps, inputs)
        return tuple(given.one_each(part) for part in prediction.parts(return_std, coverage))

    def transform(self, X: Any) -> Any:
        """The belief after each row, in standardised units; in the form of X."""
        given = asked(self, X)
        rollout = rolled(self.filter_, given.trajectories)
        return given.returned(rollout.layout.plan.packed(rollout.beliefs))

    def score(self, X: Any, y: Any = None) -> float:
        """R^2 of the one-step predictions, averaged over channels; NaN if no channel varies.

        For symbols, the mean log-likelihood of the observed ones, in nats: at most 0, and higher is better.
        """
        data = asked(self, X).trajectories
        if data.alphabet is not None:
            return mean_log_likelihood(self.filter_, data)
        return r_squared(self.filter_.scaling(data.values), self.filter_.scaling(self._foretold(data, 1)))

    def score_samples(self, X: Any, relative: bool = False) -> Any:
        """The log-likelihood of each row given the rows before it, in nats: low for rows unlike the training data.

        With `relative`, less its expectation: comparable between rows of which more or less was known, as first rows.
        """
        given = asked(self, X)
        return given.returned(self.filter_.log_likelihood(given.trajectories, relative=relative))

    def hints(self, X: Any) -> Any:
        """E[h_t | x_1 .. x_t]: the quantities measured in training only, estimated at every row; in the form of X."""
        given = asked(self, X)
        return given.returned(self.filter_.hints(given.trajectories))

    def start(self, n_streams: int = 1, alarm: float | None = None) -> Any:
        """A live filter of one stream or a bank of streams: a `Live`, or for symbols a `SymbolLive`.

        With the rate `alarm`, such as 0.001, `live.alarm` tells after each row whether it is part of an alarm.
        """
        check_is_fitted(self)
        return (Live if self.filter_.alphabet is None else SymbolLive)(self.filter_, n_streams, alarm)

    def save(self, path: str | PathLike[str], with_sums: bool = False) -> None:
        """Write one safe file, which holds no recordings.

        Args:
            path: the file to replace.
            with_sums: keep what `partial_fit` needs to go on, too.
        """
        check_is_fitted(self)
        training = Training(self.filter_, self.recipe_, self.learner_, self.sums_, self.hint_sums_)
        contents = Contents(training, self.trials_, self.report_, self.n_rounds_)
        save(path, self.get_params(deep=False), contents, with_sums)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "PSIM":
        """The model that `save` wrote; raises ModelFileError for a file that cannot be trusted."""
        model, contents = load(path, cls)
        model.filter_, model.recipe_, model.learner_, model.sums_, model.hint_sums_ = contents.training
        model.trials_, model.report_, model.n_rounds_ = contents[1:]
        model.step_ = model.filter_.time_step
        model.rounds_, model.held_out_ = [], []  # a file holds no recordings
        remember(model, len(model.filter_.scaling.mean), model.filter_.names)
        return model

    def _foretold(self, data: Trajectories, horizon: int) -> Float[np.ndarray, "rows n"]:
        ahead = self.filter_.forecast(data, rows_ahead(horizon, "horizon", *data.values.shape))
        return ahead[foretelling(data.offsets, horizon)]

    def __getstate__(self) -> Any:
        """The attributes for a pickle, without recordings."""
        state = super().__getstate__()
        return state | {"held_out_": []} if "held_out_" in state else state

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that NaN is allowed and that there is no target."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags
