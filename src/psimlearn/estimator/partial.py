"""`PSIM.partial_fit`: the attributes of a model that has learnt from more recordings."""

from copy import copy
from typing import Any

from psimlearn.checks import switch
from psimlearn.choose.updates import updated, warned
from psimlearn.errors import SettingsError
from psimlearn.estimator.channels import asked
from psimlearn.recordings.shards import Shards
from psimlearn.train.hints import hint_sums, merged_hints, with_hints
from psimlearn.train.partial import absorbed, check_range

__all__ = ["learnt_more"]


def learnt_more(model: Any, X: Any, any_range: bool) -> dict[str, Any]:
    """The new attributes; the model itself stays as it was, whatever goes wrong."""
    if model.sums_ is None:
        raise SettingsError(
            "partial_fit needs the sums of training, received a model without sums: a file keeps them only by "
            "save(path, with_sums=True). Use fit on all recordings."
        )
    if isinstance(X, Shards):
        return _from_shards(model, X, any_range)
    data = asked(model, X, any_range=True).trajectories  # `check_range` refuses what is far
    if not switch(any_range, "any_range"):
        check_range(model.filter_, model.sums_, data, model.recipe_)
    # where rounds with gaps followed, earlier ones have faded: a row counts about twice, as after one round
    n_rounds = 1 if model.report_["choices"].get("rounds_with_gaps") else model.n_rounds_
    more = absorbed(model.filter_, model.learner_, model.sums_, data, n_rounds, model.recipe_)
    hints = merged_hints(model.hint_sums_, hint_sums(more.filter, data))
    report = updated(model.report_, model.filter_, model.sums_, more.filter, more.outside, data)
    warned(report, model.report_)
    return {
        "filter_": with_hints(more.filter, hints),
        "learner_": more.learner,
        "sums_": more.sums,
        "hint_sums_": hints,
        "report_": report,
    }


def _from_shards(model: Any, shards: Shards, any_range: bool) -> dict[str, Any]:
    """The new attributes after one shard and then the next."""
    learner, new = copy(model), {}
    for data in shards:
        new = learnt_more(learner, data, any_range)
        learner.__dict__.update(new)
    return new
