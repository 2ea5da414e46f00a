"""docs/reproduction.md, written from results; the page trains nothing."""

from collections.abc import Callable, Iterable
from pathlib import Path

from psimlearn.reproduce import tables
from psimlearn.reproduce.experiment import experiment
from psimlearn.reproduce.figures import by_horizon, by_number
from psimlearn.reproduce.read import Results, joined, results
from psimlearn.reproduce.tables import short, title
from psimlearn.reproduce.verdict import verdict_table

__all__ = ["write_page"]

IN_FIGURE = ("N4SID", "IVR", "EM-LDS", "AR", "PSIM-Linear", "PSIM-RFF", "PSIM()", "PSIM(auto)")
RATIOS = (
    ("PSIM-Linear", "N4SID"),
    ("PSIM-Linear", "IVR"),
    ("PSIM-RFF", "PSIM-Linear"),
    ("PSIM-Linear_b", "PSIM-Linear"),
)
PAIRS = (*RATIOS[:3], ("PSIM-RFF", "IVR"), ("PSIM()", "PSIM-Linear"), ("PSIM()", "AR"), ("PSIM(auto)", "PSIM()"))
IN_REGIME = (*PAIRS, ("PSIM-Linear_d+b", "PSIM-Linear"), ("PSIM-Linear, phi_2", "PSIM-Linear"))
BY_GRADIENT = (
    "PSIM-Linear",
    "PSIM-Linear_b",
    "PSIM-Linear_d+b",
    "PSIM-RFF",
    "PSIM-RFF_b",
    "RNN",
    "PSIM()",
    "PSIM(auto)",
)
BY_GRADIENT_PAIRS = (
    ("PSIM-Linear_b", "PSIM-Linear"),
    ("PSIM-Linear_d+b", "PSIM-Linear"),
    ("PSIM-RFF_b", "PSIM-RFF"),
    ("RNN", "PSIM-Linear"),
    ("RNN", "PSIM()"),
    ("RNN", "PSIM(auto)"),
)

HEAD = """# The paper, reproduced

`make reproduce` runs the experiments of the paper and writes this page. Each published result has one TOML file in
`src/psimlearn/reproduce/experiments`. The file holds every choice: data, preparation, methods, grids, folds and seeds.
The results are in `results/*.json`, and all tables and figures below are made from them. Each finished job is saved, so
an interrupted run continues where it stopped. If all jobs are done, `make reproduce` only writes this page.
`psimlearn reproduce table1 --quick` gives a first look within two minutes.

The paper is W. Sun, A. Venkatraman, B. Boots and J. A. Bagnell, *Learning to Filter with Predictive State Inference
Machines*, ICML 2016. Its recordings of the drill assembly and its two videos are not public, and the paper does not say
which walks it used. We use public recordings of the same kinds. Compare the order of the methods and the ratios of
their errors, not the errors themselves.

Each section begins with the claim of the paper, in italics.
"""
VERDICT = """## Verdict

Each claim of the paper about errors one step ahead, and the recordings on which it holds. A claim holds, or does not
hold, where the paired difference over folds exceeds two of its standard errors; elsewhere it is not decided. Percent:
the difference of the mean errors, relative to the error of the second method that the claim names. In brackets: folds
that agree with the claim / folds.
"""


def write_page(folder: Path, docs: Path, *, quick: bool = False) -> Path:
    """Write the page and its figures from the results in a folder, and return the path of the page."""
    alone = {name: of for name in SECTIONS if (of := results(folder, name, quick=quick)) is not None}
    beside = {"table1": "appendix", "appendix": "table1"}  # the same folds of the same sets
    found = {name: joined(of, alone.get(beside.get(name, ""))) for name, of in alone.items()}
    sections = [HEAD, VERDICT + "\n" + verdict_table(found)] if found else [HEAD]
    for name, of in found.items():
        sections.append("\n\n".join([f"## {of.experiment.title}", f"*{of.experiment.claim}*"]))
        sections.extend(SECTIONS[name](of, docs))
        if of.experiment.notes:
            sections.append(of.experiment.notes)
    path = docs / "reproduction.md"
    docs.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(section.strip() for section in sections) + "\n", encoding="utf-8")
    return path


def _real_systems(found: Results, docs: Path) -> Iterable[str]:
    """Table 1 and Fig. 3."""
    by_horizon(found, IN_FIGURE, docs / "figures" / "fig3.svg")
    sets = found.sets
    methods = [m for m in list(found.experiment.methods)[::-1] if any(m in found.methods(name) for name in sets)]
    yield (
        "### One-step error\n\nSquared error, summed over channels: mean +- deviation over folds. Bold: the least "
        "error among the methods that were run on all folds."
    )
    yield tables.errors_table(found, sets, methods, "errors", 0)
    yield "The paper prints, for its recordings:"
    yield tables.published_table(found)
    yield "### Ratios of one-step errors, ours and the paper's"
    yield tables.ratios_table(found, RATIOS)
    yield (
        "### Paired differences\n\nThe error of the first method minus the error of the second on the same fold, "
        "divided by the mean error of the second: mean +- standard error, and (folds on which the first is better / "
        "folds)."
    )
    yield tables.paired_table(found, PAIRS)
    yield "\n".join(_verdicts(found))
    yield "### Fig. 3: error by look-ahead\n\n![Errors by steps ahead, six sets](figures/fig3.svg)"
    yield "Errors at the farthest step, 5 (3 for video):"
    yield tables.errors_table(found, sets, methods, "errors", -1)
    videos = [name for name in sets if "pixels" in found.of(name, methods[0])[0]]
    if videos:
        yield (
            "### Videos in pixels\n\nOne-step error, summed over all pixels, in grey levels. All methods see 20 "
            "principal components; no method can predict the rest of the picture."
        )
        yield tables.errors_table(found, videos, methods, "pixels", 0)
    table1 = [m for m in methods if m in experiment("table1").methods]
    minutes = sum(each["cpu"] for each in found.found.values() if each["method"] in table1) / 60
    yield (
        f"### What it costs\n\nSeconds of one core for one fold: choice of settings, training and test. All of Table "
        f"1 takes {minutes:.0f} minutes of processor time."
    )
    yield tables.cost_table(found, sets, table1)


def _verdicts(found: Results) -> Iterable[str]:
    """Where the paper's order of methods holds here and where not, in words, from the means over folds."""
    claims = [("PSIM-Linear", "N4SID", 1), ("PSIM-Linear", "IVR", 1)]
    claims += [("PSIM-RFF", "PSIM-Linear", step) for step in (1, 3)]
    for first, second, step in claims:
        holds: list[str] = []
        fails: list[str] = []
        for name in found.sets:
            if not {first, second} <= set(found.methods(name)):
                continue
            a, b = (found.values(name, m, "errors").mean(axis=0)[step - 1] for m in (first, second))
            (holds if a <= b else fails).append(f"{title(found, name)} ({short(a)} against {short(b)})")
        yield (
            f"- **{first} at or below {second}, {step} step{'s' * (step > 1)} ahead**: holds on "
            f"{', '.join(holds) or 'none'}; does not hold on {', '.join(fails) or 'none'}."
        )


def _regime(found: Results, docs: Path) -> Iterable[str]:
    """The methods of Table 1 on recordings that are sampled more coarsely, or noisy."""
    sets = found.sets
    methods = [m for m in list(found.experiment.methods)[::-1] if any(m in found.methods(name) for name in sets)]
    n_run = {title(found, name): max(len(found.of(name, m)) for m in found.methods(name)) for name in sets}
    fewer = [f"{name}: {n} of {found.experiment.n_folds}" for name, n in n_run.items() if n < found.experiment.n_folds]
    yield (
        "### One-step error in percent of the trajectory power\n\nMeans over folds, against the rows as they were "
        "recorded, noise included." + (f" Folds that were run: {', '.join(fewer)}; elsewhere all." if fewer else "")
    )
    yield tables.shares_table(found, sets, methods)
    yield "### Paired differences\n\nAs above, one step ahead and at the farthest step, 5 (3 for video)."
    yield tables.paired_table(found, IN_REGIME)
    noisy = [name for name in sets if "clean" in found.of(name, found.methods(name)[0])[0]]
    if noisy:
        yield (
            "### Errors against the rows without noise\n\nThe methods see noisy rows only, and chose their settings by "
            "them; the predictions are scored by the rows before noise was added. One step ahead, mean +- deviation:"
        )
        yield tables.errors_table(found, noisy, methods, "clean", 0)
        yield "At the farthest step:"
        yield tables.errors_table(found, noisy, methods, "clean", -1)
    yield "### What it costs\n\nSeconds of one core for one fold."
    yield tables.cost_table(found, sets, methods)


def _by_gradient(found: Results, docs: Path) -> Iterable[str]:
    """The appendix: methods that descend gradients beside the others, on the folds that all of them have."""
    sets = [name for name in found.sets if set(BY_GRADIENT[1:3]) & set(found.methods(name))]
    for step, words in ((0, "One step ahead"), (-1, "At the farthest step, 5 (3 for video)")):
        yield f"{words}: mean +- deviation over the folds that all methods have."
        yield tables.gradient_table(found, sets, BY_GRADIENT, step)
    yield ("Paired differences as above: mean +- standard error, and (folds on which the first is better / folds).")
    yield tables.paired_table(found, BY_GRADIENT_PAIRS)
    yield (
        "The optimiser that won the race of the first epochs, on how many folds, and after the semicolon the median "
        "number of epochs:"
    )
    yield tables.optimisers_table(found, sets, ("PSIM-Linear_b", "PSIM-Linear_d+b", "PSIM-RFF_b"))


def _two_methods(found: Results, docs: Path) -> Iterable[str]:
    """One method against another on the same folds."""
    yield "One-step errors. Last column: the paired difference, and (folds on which the second is better / folds)."
    yield tables.two_methods_table(found)


def _number_of_trajectories(found: Results, docs: Path) -> Iterable[str]:
    """Fig. 2."""
    groups: dict[str, list[str]] = {}
    for name in found.sets:
        groups.setdefault(found.experiment.sets[name]["group"], []).append(name)
    by_number(found, groups, docs / "figures" / "fig2.svg")
    yield "![log(e / e_F) against the number of trajectories](figures/fig2.svg)"
    yield (
        "e is the one-step error of a method, e_F the error of the optimal filter. Each experiment was drawn several "
        "times: lines are medians, bands reach from the least to the largest value. Medians of log(e / e_F), by number "
        "of trajectories:"
    )
    for group, names in groups.items():
        sizes = {name: f"{found.experiment.sets[name]['n_trajectories']}" for name in names}
        yield tables.excess_table(found, group, sizes, "excess", "log")


def _theorems(found: Results, docs: Path) -> Iterable[str]:
    """DAgger's bound by number of rounds, and Forward Training's error by length of the recordings."""
    for name in found.sets:
        for method in found.methods(name):
            if "bounds" in found.of(name, method)[0]:
                yield tables.bounds_table(found, name, method)
    lengths = [name for name in found.sets if "excess" in found.of(name, found.methods(name)[0])[0]]
    if lengths:
        yield (
            "Forward Training with M = 1000 trajectories of T rows. The table shows M (e - e_F) / e_F, the relative "
            "excess over the optimal filter times M, median over systems. Disjoint: the trajectories are split among "
            "the time steps, as in the proof of the theorem."
        )
        columns = dict(zip(lengths, lengths, strict=True))
        yield tables.excess_table(found, "", columns, "excess_from_the_first_row", "times M")


SECTIONS: dict[str, Callable[[Results, Path], Iterable[str]]] = {
    "fig2": _number_of_trajectories,
    "table1": _real_systems,
    "regime": _regime,
    "appendix": _by_gradient,
    "window": _two_methods,
    "features": _two_methods,
    "theorems": _theorems,
}
"""The sections of the page, in their order, by the names of their experiments."""
