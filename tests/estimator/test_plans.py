"""Inputs of rows to come as tables, in Python and on the command line: what their times say counts.

The system is x_{t+1} = x_t / 2 + u_t without noise, hourly, so that each forecast is known by hand.
"""

from collections.abc import Callable
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from commands import run
from psimlearn.errors import DataError
from psimlearn.estimator.psim import PSIM
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from small import QUICK, RNG

ROLES: dict[str, Any] = {"id": "machine", "time": "when", "channels": ["x"], "inputs": ["u"]}
ROWS, STEPS = 30, 4
END = pd.Timestamp("2024-01-02 05:00")
"""The last row of every recording."""
COMING: list[float] = [1.0, -1.5, 0.5, -0.5, 1.5, -1.0]
"""The inputs of the rows from 06:00 on, for machine a; those of the others are turned by one row each."""


@cache
def past(machines: str = "abcdef") -> pd.DataFrame:
    parts = []
    for i, machine in enumerate(machines):
        u, x = RNG(i).standard_normal(ROWS), np.zeros(ROWS)
        for t in range(ROWS - 1):
            x[t + 1] = 0.5 * x[t] + u[t]
        when = pd.date_range(end=END, periods=ROWS, freq="h")
        parts.append(pd.DataFrame({"machine": machine, "when": when, "x": x, "u": u}))
    return pd.concat(parts, ignore_index=True)


def coming(machine: str) -> np.ndarray:
    return np.array(np.roll(COMING, "abcdef".index(machine)))


def plan(machines: str = "a", n: int = STEPS, start: str = "2024-01-02 06:00", freq: str = "h") -> pd.DataFrame:
    """The inputs of so many rows, one after the other, from this time on."""
    when = pd.date_range(start, periods=n, freq=freq)
    return pd.concat(
        [pd.DataFrame({"machine": machine, "when": when, "u": np.resize(coming(machine), n)}) for machine in machines],
        ignore_index=True,
    )


def by_hand(machines: str) -> np.ndarray:
    """What follows the last rows, by the equation of the system."""
    told = []
    for machine in machines:
        last = past()[past()["machine"] == machine].iloc[-1]
        x, u = last["x"], last["u"]
        for following in coming(machine)[:STEPS]:
            x, u = 0.5 * x + u, following
            told.append(x)
    return np.array(told)


@cache
def fitted() -> PSIM:
    return PSIM(**QUICK, learner=Ridge(1e-6)).fit(Trajectories.from_frame(past(), **ROLES))


def of(machines: str) -> pd.DataFrame:
    return past()[past()["machine"].isin(list(machines))]


def in_python(machines: str, rows: pd.DataFrame, folder: Path) -> np.ndarray:
    found = fitted().forecast(of(machines), STEPS, future_inputs=rows)
    assert found["when"].tolist() == [END + pd.Timedelta(hours=h) for h in range(1, STEPS + 1)] * len(machines)
    return np.asarray(found["x"])


def in_polars(machines: str, rows: pd.DataFrame, folder: Path) -> np.ndarray:
    found = fitted().forecast(pl.from_pandas(of(machines)), STEPS, future_inputs=pl.from_pandas(rows))
    return np.asarray(found["x"].to_numpy())


def on_the_command_line(machines: str, rows: pd.DataFrame, folder: Path) -> np.ndarray:
    """`psimlearn forecast`, with what it says of an error as an error."""
    fitted().save(folder / "m.psim")
    of(machines).to_csv(folder / "now.csv", index=False)
    rows.to_csv(folder / "plan.csv", index=False)
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        words = ["--steps", str(STEPS), "--future-inputs", str(folder / "plan.csv")]
        left = run("forecast", folder / "m.psim", folder / "now.csv", *words)
    if left:
        raise DataError(err.getvalue())
    return np.asarray(pd.read_csv(StringIO(out.getvalue()))["x"])


WAYS: dict[str, Callable[[str, pd.DataFrame, Path], np.ndarray]] = {
    "pandas": in_python,
    "polars": in_polars,
    "command": on_the_command_line,
}
ways = pytest.mark.parametrize("way", WAYS)


FITTING: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
    "the next rows": ("a", plan),
    "more rows than needed": ("a", lambda: plan(n=6)),
    "several recordings, the last one first": ("abf", lambda: plan("fba")),
    "recordings that are not continued too": ("c", lambda: plan("abcdef")),
    "unsorted": ("ab", lambda: plan("ab").sample(frac=1.0, random_state=1)),
    "past rows before the next ones": ("a", lambda: pd.concat([of("a").drop(columns="x"), plan()])),
    "a few minutes late": ("a", lambda: plan(start="2024-01-02 06:10")),
    "without times": ("ab", lambda: plan("ab").drop(columns="when")),
    "without an id": ("a", lambda: plan().drop(columns="machine")),
}


@ways
@pytest.mark.parametrize("case", FITTING)
def test_rows_that_follow_the_last_one_are_taken_by_their_times(way: str, case: str, tmp_path: Path) -> None:
    machines, rows = FITTING[case]
    np.testing.assert_allclose(WAYS[way](machines, rows(), tmp_path), by_hand(machines), rtol=0, atol=0.01)


WRONG: dict[str, tuple[pd.DataFrame, str]] = {
    "a missing hour": (
        plan(n=6).drop(index=2),
        "required a row every 1 h, so one 1 h after 2024-01-02T07:00:00, received 2024-01-02T09:00:00 next",
    ),
    "past rows alone": (
        of("a").drop(columns="x"),
        "required rows after the recording's last row, 2024-01-02T05:00:00, received rows up to 2024-01-02T05:00:00",
    ),
    "the first rows of the recording": (of("a").drop(columns="x").head(STEPS), "received rows up to 2024-01-01T03:00"),
    "a row every half hour": (
        plan(n=8, start="2024-01-02 05:30", freq="30min"),
        "so one 1 h after 2024-01-02T05:00:00, received 2024-01-02T05:30:00 next",
    ),
    "a row every half hour, on the hour first": (
        plan(n=8, freq="30min"),
        "so one 1 h after 2024-01-02T06:00:00, received 2024-01-02T06:30:00 next",
    ),
    "a row every two hours": (
        plan(n=8, start="2024-01-02 07:00", freq="2h"),
        "so one 1 h after 2024-01-02T05:00:00, received 2024-01-02T07:00:00 next",
    ),
    "a row every 54 minutes": (
        plan(n=24, start="2024-01-02 05:54", freq="54min"),
        "required a row every 1 h, received a row every 54 min",
    ),
    "a day late": (plan(start="2024-01-03 06:00"), "received 2024-01-03T06:00:00 next"),
    "a time twice": (pd.concat([plan(), plan().head(1)]), "required one row for each time"),
    "too few rows": (plan(n=3), "required 4 rows for each recording, received 3"),
    "times with an offset": (
        plan().assign(when=lambda f: f["when"].dt.tz_localize("UTC")),
        "required times of one kind with those of the recording",
    ),
    "another recording": (plan("b"), r"required rows for the ids \['a'\]"),
}


@ways
@pytest.mark.parametrize("case", WRONG)
def test_rows_that_do_not_follow_are_refused(way: str, case: str, tmp_path: Path) -> None:
    rows, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        WAYS[way]("a", rows, tmp_path)


def test_an_index_of_times_counts_too() -> None:
    found = fitted().forecast(of("a"), STEPS, future_inputs=plan(n=6).set_index(["machine", "when"]))
    np.testing.assert_allclose(found["x"], by_hand("a"), rtol=0, atol=0.01)
    alone = of("a").drop(columns="machine").set_index("when")
    found = fitted().forecast(alone, STEPS, future_inputs=plan()[["when", "u"]].set_index("when"))
    np.testing.assert_allclose(found["x"], by_hand("a"), rtol=0, atol=0.01)
    late = plan(start="2024-01-03 06:00").drop(columns="machine").set_index("when")
    with pytest.raises(DataError, match=r"future_inputs: .*received 2024-01-03T06:00:00 next"):
        fitted().forecast(alone, STEPS, future_inputs=late)


def test_a_plan_with_times_for_recordings_without_times() -> None:
    """Its own rows must be one step apart; nobody knows more."""
    bare = Trajectories.of([of("a")[["x"]].to_numpy()], [of("a")[["u"]].to_numpy()], names=["x"])
    apart = plan(start="2031-01-01 00:00")
    np.testing.assert_allclose(
        fitted().forecast(bare, STEPS, future_inputs=apart)[0, :, 0], by_hand("a"), rtol=0, atol=0.01
    )
    with pytest.raises(DataError, match="received 2031-01-01T02:00:00 next"):
        fitted().forecast(bare, STEPS, future_inputs=plan(start="2031-01-01", n=6).drop(index=1))


def test_times_do_not_count_by_step_none() -> None:
    rows = PSIM(**QUICK, learner=Ridge(1e-6)).fit(Trajectories.from_frame(past(), **ROLES, step=None))
    late = rows.forecast(of("a"), STEPS, future_inputs=plan(start="2024-01-03 06:00"))
    np.testing.assert_allclose(late["x"], by_hand("a"), rtol=0, atol=0.01)


def test_days_on_the_clock_and_months_are_steps() -> None:
    """A day of 23 hours, and months of 28 to 31 days, count as one step as they do in recordings."""
    for freq, start, zone in (("D", "2024-03-01", "Europe/Berlin"), ("MS", "2021-01-01", None)):
        when = pd.date_range(start, periods=ROWS + STEPS, freq=freq, tz=zone)
        x = np.zeros(ROWS + STEPS)
        u = RNG(1).standard_normal(ROWS + STEPS)
        for t in range(ROWS + STEPS - 1):
            x[t + 1] = 0.5 * x[t] + u[t]
        frame = pd.DataFrame({"when": when, "x": x, "u": u})
        model = PSIM(window=2, lags=1, learner=Ridge(1e-6)).fit(
            Trajectories.from_frame(frame.head(ROWS), time="when", inputs=["u"])
        )
        found = model.forecast(frame.head(ROWS), STEPS, future_inputs=frame.drop(columns="x"))
        np.testing.assert_allclose(found["x"], x[-STEPS:], rtol=0, atol=0.01)
