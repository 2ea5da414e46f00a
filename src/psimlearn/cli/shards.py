"""Files that do not fit in memory together: each is a shard, loaded when its turn comes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from psimlearn.cli.columns import Columns, Reading, columns_of, reading_of
from psimlearn.cli.models import Model, read_for
from psimlearn.cli.options import say
from psimlearn.cli.recordings import recordings
from psimlearn.errors import DataError
from psimlearn.recordings.found import files_of
from psimlearn.recordings.selection import MAX_BYTES
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.tables import words_of_files
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["outputs_of", "shards_for", "sourced"]


def sourced(
    data: Sequence[str], options: Mapping[str, Any], report: Path | None
) -> tuple[Any, Columns, dict[str, Any]]:
    """Recordings or shards to learn from, their columns, and further arguments of `PSIM.fit`."""
    columns, reading = columns_of(options), reading_of(options)
    asked = options["shards"] or options["workers"] or options["cluster"]
    if _in_shards(data, bool(asked), report):
        engine = _engine_of(options["workers"], options["cluster"])
        shards, columns = _shards_of(data, columns, reading)
        return shards, columns, {"engine": engine, "sample_rows": options["sample_rows"]}
    given = recordings(data, columns, reading)
    return given.data, given.columns, {"groups": given.groups}


def _in_shards(data: Sequence[str], wanted: bool, report: Path | None) -> bool:
    """Whether files are to be loaded one at a time: because it is asked for, or they do not fit in memory together."""
    if not wanted:
        files = [] if "-" in data else files_of(list(data))
        size = sum(file.stat().st_size for file in files)
        if size <= MAX_BYTES or len(files) == 1:
            return False
        say(f"psimlearn: {len(files)} files of {size / 2**30:.1f} GiB do not fit in memory: each is loaded as a shard.")
    if report is not None:
        raise click.UsageError("--report needs recordings in memory. Fit shards without it; then 'psimlearn evaluate'.")
    return True


def _shards_of(data: Sequence[str], columns: Columns, reading: Reading) -> tuple[Shards, Columns]:
    """One shard for each file, with the columns of the first; and these columns."""
    if columns.symbols or columns.group or reading.channels_first:
        raise click.UsageError("--shards: --symbols, --group and --channels-first need recordings in memory.")
    files = files_of(list(data))
    first = recordings([str(files[0])], columns, reading)
    found = first.columns
    if "," in (found.time or ""):
        raise DataError(
            f"{files[0]}: required a time in one column with --shards, received two columns. Write them anew as one, "
            "or leave them out with --exclude."
        )
    if found.channels is None:
        return Shards.from_files(files, array=reading.array), found
    if found.categories:
        words = words_of_files(files, tuple(found.categories), reading.header, found.missing)
        found = found._replace(categories=words)
    return Shards.from_files(files, **_options(found, reading, first.data.step)), found


def shards_for(model: Model, data: Sequence[str], options: Mapping[str, Any]) -> Shards:
    """One shard for each file, read with the columns of a model."""
    if model.filter.alphabet is not None or not data or "-" in data:
        raise click.UsageError("--shards: required files or folders of numbers, received symbols or no files.")
    files = list(map(str, files_of(list(data))))
    return replace(Shards.of(partial(_read, model, file, options) for file in files), labels=tuple(files))


def _read(model: Model, file: str, options: Mapping[str, Any]) -> Trajectories:
    found: Trajectories = read_for(model, file, options).data
    return found


def _options(columns: Columns, reading: Reading, step: float | None) -> dict[str, Any]:
    """The options of `tables.read` for all files."""
    by_name = {name: getattr(columns, name) for name in ("id", "time", "channels", "inputs", "hints", "missing")}
    by_reading = {name: getattr(reading, name) for name in ("header", "duplicates", "sort", "resample")}
    known = reading.step if step is None else step
    return by_name | by_reading | {"time_format": columns.time_format, "step": known, "words": columns.categories}


def _engine_of(workers: int | None, address: str | None) -> Any:
    """Where shards are computed: here, in processes, or on a cluster."""
    if workers and address:
        raise click.UsageError("required --workers or --cluster, received both.")
    if address:
        from psimlearn.cluster import Dask

        return Dask(address)
    from psimlearn.recordings.passes import InTurn, Processes

    return Processes(workers) if workers else InTurn()


def outputs_of(data: Sequence[str], folder: Path, force: bool) -> list[tuple[str, Path]]:
    """Each file with the file of its answers, in a folder that is made if need be."""
    files = files_of(list(data))
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: required a folder for the answers to shards, received a file. Name a folder.")
    made = [(str(file), folder / f"{file.name.split('.')[0]}.parquet") for file in files]
    taken = [str(path) for _, path in made if path.exists() and not force]
    if taken or len({path for _, path in made}) < len(made):
        raise DataError(
            f"{folder}: required a new file for the answers to each shard, received {taken[:1] or 'two of one name'}. "
            "Use --force to replace files, and give shards different names."
        )
    folder.mkdir(parents=True, exist_ok=True)
    return made
