"""True and false are 1 and 0 in tables of text, in Parquet and in frames: a fault flag is a channel."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psimlearn import Trajectories
from psimlearn.recordings import tables

COLUMNS: dict[str, list[Any]] = {"x": [0.5, 1.5, 2.5], "open": [True, False, True], "hot": [None, True, False]}
BY_HAND = [[0.5, 1, np.nan], [1.5, 0, 1], [2.5, 1, 0]]


def csv(folder: Path) -> Trajectories:
    text = "x,open,hot\n0.5,true,\n1.5,false,true\n2.5,true,false\n"
    (folder / "a.csv").write_text(text)
    return tables.read(folder / "a.csv")


def parquet(folder: Path) -> Trajectories:
    pq.write_table(pa.table(COLUMNS), folder / "a.parquet")
    return tables.read(folder / "a.parquet")


FORMS: dict[str, Any] = {
    "csv": csv,
    "parquet": parquet,
    "pandas": lambda _: Trajectories.from_frame(pd.DataFrame(COLUMNS)),
    "nullable": lambda _: Trajectories.from_frame(pd.DataFrame(COLUMNS).convert_dtypes()),
    "polars": lambda _: Trajectories.from_frame(pl.DataFrame(COLUMNS)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_boolean_column_is_a_channel(form: str, tmp_path: Path) -> None:
    data = FORMS[form](tmp_path)
    assert data.names == ("x", "open", "hot")
    np.testing.assert_array_equal(data.values, BY_HAND)


@pytest.mark.parametrize("cells", [[None, None], ["a", "b"], [None, "b"], [[1], [2]]])
def test_columns_of_objects_that_are_no_numbers_stay_out(cells: list[Any]) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "odd": pd.Series(cells, dtype=object)})
    assert Trajectories.from_frame(frame).names == ("x",)
