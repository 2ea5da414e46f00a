"""`psimlearn demo`: a filter learnt from simulated recordings, beside the best possible one, which is known."""

from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["demo"]

OPTIMUM = "optimal Kalman filter"
START = 20
"""The first row that is scored: every method has enough past by then."""


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="psimlearn-demo",
    show_default=True,
    help="Where to put the recordings, the model and the report.",
)
@click.option(
    "--recordings",
    "n_recordings",
    default=200,
    show_default=True,
    type=click.IntRange(10),
    help="Number of recordings.",
)
@click.option("--length", default=100, show_default=True, type=click.IntRange(30), help="Rows of a recording.")
@options.force
def demo(folder: Path, n_recordings: int, length: int, force: bool) -> None:
    """Learn a filter from simulated recordings and set it beside the optimal one.

    The recordings come from a noisy linear system that forgets slowly. The system is known, so the best possible filter
    is known too: how close does a filter come that has seen only recordings? The demo takes some seconds, needs no
    data, and writes files to continue with.
    """
    import numpy as np

    from psimlearn.baselines import LastObservation, TrainingMean
    from psimlearn.cli.columns import Columns
    from psimlearn.cli.files import write_table
    from psimlearn.cli.methods import autoregression, subspace
    from psimlearn.cli.progress import learnt
    from psimlearn.cli.tables import optimum_table
    from psimlearn.datasets.linear import long_memory_system
    from psimlearn.estimator.psim import PSIM
    from psimlearn.evaluate import Forecaster, errors_by_horizon
    from psimlearn.evaluate.residuals import coverage

    paths = _free(folder, force)
    rng = np.random.default_rng(0)
    system = long_memory_system()
    train, test = (_named(system.simulate(n, length, rng)) for n in (n_recordings, 1000))
    click.echo(f"Learning a filter from {n_recordings} recordings of {length} noisy observations, 2 channels ..")
    model = learnt(PSIM(window=2, random_state=0), train, Columns("recording", "t", train.names, ()))
    click.echo(f"\n{model.summary()}\n")
    methods: dict[str, Forecaster] = {
        "training mean": TrainingMean.fit(train),
        "last observation": LastObservation.fit(train),
        "autoregression": autoregression(train, 2, skip=START),
        "N4SID": subspace(train),
        "PSIM": model.filter_,
        OPTIMUM: system.kalman(),
    }
    errors = {name: errors_by_horizon(method, test, 2, skip=START) for name, method in methods.items()}
    optimum_table(errors, OPTIMUM, f"squared error on 1000 new recordings, from row {START} on")
    share = coverage(model.filter_, test, 1, [0.9])[0]
    click.echo(f"90 % intervals cover {share:.1%} of them. Only the last line was told how the system works.\n")
    for name, data in (("recordings.csv", train), ("new.csv", test[:50])):
        write_table(paths[name], _keys(data), data.names or (), data.values)
    model.save(paths["model.psim"])
    written = ["recordings.csv", "new.csv", "model.psim", *_report(model, train, paths["report.html"])]
    click.echo(f"In {folder}/: {', '.join(written)}. Now try:\n\n{_next(folder, 'report.html' in written)}")


def _free(folder: Path, force: bool) -> dict[str, Path]:
    """Make the folder and return the paths of its files, none of which may exist unless forced."""
    from psimlearn.cli.files import check_free
    from psimlearn.errors import DataError

    paths = {name: folder / name for name in ("recordings.csv", "new.csv", "model.psim", "report.html")}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: required a folder to write to, received: {error}. Use --folder.") from error
    for path in paths.values():
        check_free(path, force)
    return paths


def _named(data: Any) -> Any:
    """The recordings, with names for channels and recordings."""
    from dataclasses import replace

    return replace(data, names=("x", "y"), ids=tuple(f"r{i:04}" for i in range(len(data))))


def _keys(data: Any) -> dict[str, list[Any]]:
    """Columns that identify a row: its recording, and its number there."""
    return {
        "recording": [id for id, length in zip(data.ids, data.lengths, strict=True) for _ in range(length)],
        "t": [t for length in data.lengths for t in range(length)],
    }


def _report(model: Any, data: Any, path: Path) -> list[str]:
    """Write the report and return its name; nothing without the drawing library."""
    from psimlearn.cli.files import write_text
    from psimlearn.errors import MissingExtraError
    from psimlearn.report import fit_page

    try:
        write_text(path, fit_page(model, data, "The demo: a filter learnt from simulated recordings"))
    except MissingExtraError as error:
        options.say(f"no report: {error}")
        return []
    return [path.name]


def _next(folder: Path, with_report: bool) -> str:
    """Commands to try next; a report is asked for where it can be drawn."""
    report = " --report mine.html" if with_report else ""
    return "\n".join(
        f"  psimlearn {words}"
        for words in (
            f"info {folder}/model.psim",
            f"fit {folder}/recordings.csv -o mine.psim{report}",
            f"evaluate {folder}/model.psim {folder}/new.csv",
            f"forecast {folder}/model.psim {folder}/new.csv --steps 10",
            f"filter {folder}/model.psim - < {folder}/new.csv | head",
        )
    )
