"""Each claim of the paper, and on which recordings it holds: the table that opens docs/reproduction.md."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from psimlearn.reproduce.read import Results
from psimlearn.reproduce.tables import markdown, title

__all__ = ["verdict_table"]

DECIDED = 2.0
"""A difference decides a claim if it exceeds so many of its standard errors."""


class Claim(NamedTuple):
    """A method that has less error than another, one step ahead."""

    words: str
    first: str
    second: str
    experiments: tuple[str, ...]


REAL = ("table1", "regime")
CLAIMS = (
    Claim("PSIM-Linear has less error than N4SID", "PSIM-Linear", "N4SID", REAL),
    Claim("PSIM-Linear has less error than IVR", "PSIM-Linear", "IVR", REAL),
    Claim("random features (PSIM-RFF) have less error than PSIM-Linear", "PSIM-RFF", "PSIM-Linear", REAL),
    Claim("DAgger has less error than back-propagation from random weights", "PSIM-Linear", "PSIM-Linear_b", REAL),
    Claim("the same with random features", "PSIM-RFF", "PSIM-RFF_b", REAL),
    Claim("back-propagation refines DAgger's solution a little", "PSIM-Linear_d+b", "PSIM-Linear", REAL),
    Claim(
        "PSIM-Linear has less error than a recurrent network (in the paper not on the robot)",
        "PSIM-Linear",
        "RNN",
        REAL,
    ),
    Claim("k = 5 has less error than k = 1", "PSIM-Linear, k = 5", "PSIM-Linear, k = 1", ("window",)),
    Claim("phi_2 has less error than phi_1", "PSIM-Linear, phi_2", "PSIM-Linear, phi_1", ("features",)),
    Claim("the same with coarser sampling or noise", "PSIM-Linear, phi_2", "PSIM-Linear", ("regime",)),
)


def verdict_table(found: Mapping[str, Results]) -> str:
    """One row for each claim: on which sets it holds, on which it is not decided, and on which it does not hold.

    Args:
        found: the results of experiments, by name; claims about other experiments are left out.
    """
    rows = [_row(claim, [found[name] for name in claim.experiments if name in found]) for claim in CLAIMS]
    rows += _of_number(found["fig2"]) if "fig2" in found else []
    rows += _of_theorems(found["theorems"]) if "theorems" in found else []
    return markdown(
        ["claim of the paper", "holds", "not decided", "does not hold"], (row for row in rows if any(row[1:]))
    )


def _row(claim: Claim, experiments: Iterable[Results]) -> list[str]:
    """The sets of a claim, each with the difference in percent, and (folds on which the first is better / folds)."""
    columns: list[list[str]] = [[], [], []]
    for found in experiments:
        for name in found.sets:
            if {claim.first, claim.second} <= set(found.methods(name)):
                column, words = _decided(found, name, claim.first, claim.second)
                columns[column].append(f"{title(found, name)} {words}")
    return [claim.words, *("; ".join(column) for column in columns)]


def _decided(found: Results, name: str, first: str, second: str) -> tuple[int, str]:
    """0 if the first method has less error, 2 if it has more, 1 if chance may explain the difference; and in words."""
    compared = found.compared(name, methods=(first, second))
    a, b = (compared.errors[compared.methods.index(method), :, 0] for method in (first, second))
    if not np.isfinite([a, b]).all():
        return (0 if np.isfinite(a).all() else 2), "(failed)"
    words = f"{a.mean() / b.mean() - 1:+.1%} ({(a < b).sum()}/{len(a)})"
    if len(a) < 2:
        return 1, words
    mean, error, _ = compared.paired(first, second)
    return (1 if abs(mean) <= DECIDED * error else 0 if mean < 0 else 2), words


def _of_number(found: Results) -> list[list[str]]:
    """Fig. 2, by the medians with the fewest and with the most trajectories."""
    groups: dict[str, list[str]] = {}
    for name in found.sets:
        groups.setdefault(found.experiment.sets[name]["group"], []).append(name)
    claims = (
        ("with few trajectories DAgger has less error than Forward Training", 0, "DAgger", "Forward Training"),
        ("with many, Forward Training has slightly less error than DAgger", -1, "Forward Training", "DAgger"),
        ("with many, autoregressions of 5, 10 and 20 rows are far above DAgger", -1, "DAgger", "AR-20"),
    )
    rows = []
    for words, size, first, second in claims:
        columns: list[list[str]] = [[], [], []]
        for group, names in groups.items():
            for start in ("zero start", "history start"):
                of = {"DAgger": f"DAgger, {start}"}
                a, b = (_excess(found, names[size], of.get(method, method)) for method in (first, second))
                columns[0 if a < b else 2].append(f"{group}, {start} ({a:.1e} against {b:.1e})")
        rows.append([words, *("; ".join(column) for column in columns)])
    return rows


def _excess(found: Results, name: str, method: str) -> float:
    """The median of log(e / e_F)."""
    return float(np.log1p(np.median(found.values(name, method, "excess"))))


def _of_theorems(found: Results) -> list[list[str]]:
    """The theorem's inequality, after every number of rounds, on every system."""
    systems = [each["bounds"] for name in found.sets for each in found.of(name, "regret of DAgger")]
    holds = [all(row["least"] <= row["gamma"] + row["eps"] + 1e-9 for row in system) for system in systems]
    words = "DAgger's best filter loses at most gamma_N + eps_N"
    where = [f"{sum(holds)} of {len(holds)} random systems", "", "" if all(holds) else f"{holds.count(False)} of them"]
    return [[words, *where]] if systems else []
