"""`PSIM` on shards: recordings that are loaded a part at a time."""

from typing import Any

from psimlearn.checks import whole
from psimlearn.choose.fit import Fitted
from psimlearn.choose.sharded import SAMPLE_ROWS, fitted_on_shards
from psimlearn.choose.watch import Watch
from psimlearn.errors import SettingsError
from psimlearn.estimator.channels import remember
from psimlearn.estimator.checks import checkpointed
from psimlearn.estimator.parameters import interpreted
from psimlearn.estimator.scores import SquareSums, square_sums
from psimlearn.filter import Filter
from psimlearn.recordings.catalogue import catalogued, drawn
from psimlearn.recordings.passes import Engine, InTurn, Pass, Portion, plus, silent
from psimlearn.recordings.roles import Roles
from psimlearn.recordings.shards import Shards

__all__ = ["check_without_shards", "learnt_from_shards", "score_of_shards"]


def check_without_shards(engine: Any, sample_rows: Any) -> None:
    """Refuse settings of shards beside recordings in memory."""
    if engine is not None or sample_rows is not None:
        raise SettingsError(
            "engine, sample_rows: required Shards beside them, received recordings in memory. Leave them out, or use "
            "Shards.cut(recordings, n)."
        )


def learnt_from_shards(
    model: Any, shards: Shards, groups: Any, checkpoint: Any, engine: Any, sample_rows: Any, watch: Watch
) -> tuple[Fitted, Roles | None]:
    """Read the catalogue of shards, choose on a sample, train on all; and the meaning of the columns."""
    if groups is not None:
        raise SettingsError("groups: required none with shards, received some. Fit a part of the recordings in memory.")
    engine = _engine_of(engine)
    rows = SAMPLE_ROWS if sample_rows is None else whole(sample_rows, "sample_rows", 100)
    watch(f"reading {len(shards)} shards")
    catalogue = catalogued(shards, engine, lambda done, total: _tell(watch, done, total))
    remember(model, catalogue.n_channels, catalogue.names)
    model.step_ = catalogue.step
    settings = interpreted(model.get_params(deep=False), drawn(catalogue, 1, 0))
    with checkpointed(checkpoint, catalogue, settings, f"{rows} rows", model.random_state, watch) as (journal, seed):
        return fitted_on_shards(catalogue, settings, seed, watch, engine, rows, journal), catalogue.roles


def _engine_of(engine: Any) -> Engine:
    if engine is None:
        return InTurn()
    if not isinstance(engine, Engine):
        raise SettingsError(
            "engine: required None, InTurn(), Processes(n) or psimlearn.cluster.Dask(client), received "
            f"{type(engine).__name__}."
        )
    return engine


def _tell(watch: Watch, done: int, total: int) -> None:
    watch.goes_on("shards", done, total)


def score_of_shards(filter: Filter, shards: Shards, engine: Any = None) -> float:
    """As `PSIM.score`, over all shards."""
    found: SquareSums = _engine_of(engine).map_merge(Pass("score", _squares, plus, filter), shards, silent)
    return found.r_squared()


def _squares(filter: Filter, portion: Portion) -> SquareSums:
    data = portion.data
    return square_sums(filter.scaling(data.values), filter.scaling(filter.forecast(data, 1)[:, 0]))
