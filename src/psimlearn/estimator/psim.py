"""PSIM: the scikit-learn face of psimlearn. It chooses, trains, calibrates and reports; the mathematics lives below."""

from os import PathLike
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from psimlearn.choose.fit import fitted
from psimlearn.choose.resume import Training
from psimlearn.choose.summary import summarised
from psimlearn.choose.updates import warn_if_untested
from psimlearn.estimator import alarming, answers, exporting, output, plotting, smoothing
from psimlearn.estimator.channels import grouped, learnt_from, remember
from psimlearn.estimator.checks import checkpointed, watch_of
from psimlearn.estimator.columns import columns_noted
from psimlearn.estimator.interrupts import interruptible
from psimlearn.estimator.notebook import card_of_model
from psimlearn.estimator.parameters import interpreted, is_symbolic, learns_on, speaks_symbols
from psimlearn.estimator.partial import learnt_more
from psimlearn.estimator.saved import Contents, load, save
from psimlearn.estimator.sharded import check_without_shards, learnt_from_shards
from psimlearn.filter import Features
from psimlearn.learners import Learner, Ridge
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.threads import mostly_one_thread
from psimlearn.train.recipe import Recipe

__all__ = ["PSIM"]


class PSIM(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
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
        cross_weight: how much the past of other channels counts beside the past of a channel itself, for linear
            regression: 1 is the paper; less helps where there are many channels and few rows; "auto" chooses.
        rank: feed back only so many directions of the belief; None for all, "auto" for as few as do no harm.
        box: keep the feedback near the range seen in training.
        opening: learn how recordings begin, so that linear filters learn more from first rows than from later ones.
        feedthrough: inputs act on the observation of the same row.
        recipe: a `Recipe` to be taken as it is, without an opening; lags, prior, weights, rank, box and feedthrough
            are said in it, and refused beside it.
        criterion: minimise the error over the "window" (each step ahead relative to the error of the last observation;
            the next row counts as much as all of them), of the next row only ("one-step"), or over so many steps ahead
            (a number), which count alike.
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
        cross_weight: float | str | Any = "auto",
        rank: int | str | Any | None = None,
        box: bool | Any = True,
        opening: bool | Any = True,
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
        self.cross_weight = cross_weight
        self.rank = rank
        self.box = box
        self.opening = opening
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        checkpoint: Any = None,
        engine: Any = None,
        sample_rows: Any = None,
    ) -> "PSIM":
        """Choose, train, calibrate.

        Ctrl-C ends the search and keeps the best so far, with a warning; pressed again, or with a checkpoint, it stops
        the fit.

        Args:
            X: recordings, or `Shards` of recordings that do not fit in memory together.
            y: ignored.
            groups: one label for each recording: recordings of one group are never both trained on and held out.
            checkpoint: a folder; the same call goes on where an earlier one was interrupted, to the same bits.
            engine: computes passes over shards: `Processes(n)` or `psimlearn.cluster.Dask(client)`; by default one
                shard after the other, in this process.
            sample_rows: with shards, about how many rows settings are chosen on, 100 000 by default.
        """
        with interruptible(watch_of(self.verbose), stops=checkpoint is not None) as watch:
            if isinstance(X, Shards):
                with mostly_one_thread():
                    result, roles = learnt_from_shards(self, X, groups, checkpoint, engine, sample_rows, watch)
            else:
                check_without_shards(engine, sample_rows)
                data = learnt_from(self, X, is_symbolic(self.features))
                settings, roles = interpreted(self.get_params(deep=False), data), data.roles
                labels = grouped(groups, len(data))
                folder = checkpointed(checkpoint, data, settings, labels, self.random_state, watch)
                with folder as (journal, seed), mostly_one_thread():
                    result = fitted(data, settings, seed, watch, labels, journal)
        result.report["notes"].extend(watch.notes)
        self.filter_, self.rounds_, self.n_rounds_ = result.filter, result.rounds, result.n_rounds
        self.trials_ = [trial.row() for trial in result.trials]
        self.report_, self.held_out_ = result.report | columns_noted(roles), result.held_out
        self.recipe_, self.learner_ = result.candidate.recipe, result.learner
        self.sums_, self.hint_sums_ = result.sums, result.hint_sums
        warn_if_untested(self.report_)
        watch.warn()
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
        with mostly_one_thread():
            attributes = learnt_more(self, X, any_range)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    def summary(self) -> str:
        """The recordings, the chosen settings, and held-out errors beside those of simple methods, as text.

        Where there were too few rows to hold any out, these are training errors, and say so.
        """
        check_is_fitted(self)
        return summarised(self.report_)

    # these methods are functions of the other modules of this room, each of which takes the estimator first
    predict = answers.predict
    predict_proba = available_if(speaks_symbols)(answers.predict_proba)
    predict_interval = answers.predict_interval
    forecast = answers.forecast
    transform = answers.transform
    score = answers.score
    score_samples = answers.score_samples
    hints = answers.hints
    start = answers.start
    set_output = output.set_output
    get_feature_names_out = output.get_feature_names_out
    alarms = alarming.alarms
    alarm_threshold = alarming.alarm_threshold
    smooth = smoothing.smooth
    smooth_hints = smoothing.smooth_hints
    impute = smoothing.impute
    reduced = exporting.reduced
    state_space = exporting.state_space
    export = exporting.export
    plot_forecast = plotting.plot_forecast
    plot_surprise = plotting.plot_surprise
    plot_errors = plotting.plot_errors
    plot_rounds = plotting.plot_rounds
    report = plotting.report

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

    def __getstate__(self) -> Any:
        """The attributes for a pickle, without recordings."""
        state = super().__getstate__()
        return state | {"held_out_": []} if "held_out_" in state else state

    def _repr_html_inner(self) -> str:
        """A notebook shows this: the results of a fitted model, and scikit-learn's diagram before."""
        return card_of_model(self) if hasattr(self, "filter_") else str(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The same, in the words of newer notebooks; scikit-learn's configuration may ask for text alone."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def __sklearn_clone__(self) -> "PSIM":
        """A model with the same parameters, not fitted, whose answers have the same form."""
        copy: PSIM = super().__sklearn_clone__()
        copy.set_output(getattr(self, "_output", None))
        return copy

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that NaN is allowed and that there is no target."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags
