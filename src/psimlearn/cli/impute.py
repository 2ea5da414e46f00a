"""`psimlearn impute`: recordings with their gaps filled."""

from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["impute"]


@click.command()
@options.model
@options.data
@options.output("A .csv or .parquet file [default: CSV on standard output].")
@click.option("--std", is_flag=True, help="Add the standard deviation of each value, C.std; 0 if it was observed.")
@options.reading
@options.force
def impute(model: Path, data: tuple[str, ...], output: Path | None, std: bool, force: bool, **others: Any) -> None:
    """Fill the gaps of recordings from both sides.

    Each missing value becomes its expectation given the whole recording: all rows before and after it, and the other
    channels of its row. Observed values stay as they are. Rows keep their order, ids and times; if rows are missing
    between the times given, they are added, and recordings come one after the other. The model must be linear or use
    random features.

    \b
    Examples:
      psimlearn impute arm.psim gappy.csv -o filled.csv
      psimlearn impute arm.psim gappy.csv --std -o filled.parquet
    """
    import numpy as np

    from psimlearn.cli.files import check_free, write_table
    from psimlearn.cli.models import opened, read_for
    from psimlearn.filter.smooth import smooth

    check_free(output, force)
    saved = opened(model)
    given = read_for(saved, data, others)
    smoothed = smooth(saved.filter, given.data)
    parts = {"": smoothed.mean, ".std": smoothed.std} if std else {"": smoothed.mean}
    rows = np.stack(list(parts.values()), axis=-1).reshape(len(smoothed.mean), -1)
    keys, filled = given.answered(rows, holes=True)
    write_table(output, keys, [f"{channel}{part}" for channel in saved.channels for part in parts], filled, given.times)
