"""docs/reproduction.md, written from results; the page trains nothing."""

from collections.abc import Iterable
from pathlib import Path

from psimlearn.reproduce import tables
from psimlearn.reproduce.figures import by_horizon, by_number
from psimlearn.reproduce.read import Results, joined, results
from psimlearn.reproduce.tables import short, title

__all__ = ["write_page"]

IN_FIGURE = ("N4SID", "IVR", "EM-LDS", "AR", "PSIM-Linear", "PSIM-RFF", "PSIM()", "PSIM(auto)")
RATIOS = (
    ("PSIM-Linear", "N4SID"),
    ("PSIM-Linear", "IVR"),
    ("PSIM-RFF", "PSIM-Linear"),
    ("PSIM-Linear_b", "PSIM-Linear"),
)
PAIRS = (*RATIOS[:3], ("PSIM-RFF", "IVR"), ("PSIM()", "PSIM-Linear"), ("PSIM()", "AR"), ("PSIM(auto)", "PSIM()"))
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

Every table and figure on this page comes from `results/*.json`, which `make reproduce` writes: one TOML file in
`src/psimlearn/reproduce/experiments` for each published result holds every choice of data, preparation, method, grid,
fold and seed. Results are kept job by job, so that an interrupted run goes on where it stopped; `make reproduce` with
nothing left to do only writes this page. `psimlearn reproduce table1 --quick` is a look within two minutes.

The paper is W. Sun, A. Venkatraman, B. Boots and J. A. Bagnell, *Learning to Filter with Predictive State Inference
Machines*, ICML 2016. Its recordings of the drill assembly and its two videos are not public, and which walks it used
is not said: public recordings of the same kinds stand in. So what can be reproduced is the order of the methods and
the ratios of their errors, not the figures themselves.
"""


def write_page(folder: Path, docs: Path, *, quick: bool = False) -> Path:
    """Write the page and its figures from the results in a folder, and return the path of the page."""
    sections = [HEAD]
    beside = {"table1": "appendix", "appendix": "table1"}  # the same folds of the same sets
    writers = {
        "fig2": _number_of_trajectories,
        "table1": _real_systems,
        "appendix": _by_gradient,
        "window": _two_methods,
        "features": _two_methods,
        "theorems": _theorems,
    }
    for name, section in writers.items():
        found = results(folder, name, quick=quick)
        if found is not None:
            sections.append("\n\n".join([f"## {found.experiment.title}", f"*{found.experiment.claim}*"]))
            other = results(folder, beside[name], quick=quick) if name in beside else None
            sections.extend(section(found, other, docs))
            if found.experiment.notes:
                sections.append(found.experiment.notes)
    path = docs / "reproduction.md"
    docs.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(section.strip() for section in sections) + "\n", encoding="utf-8")
    return path


def _real_systems(table1: Results, appendix: Results | None, docs: Path) -> Iterable[str]:
    """Table 1 and Fig. 3."""
    found = joined(table1, appendix)
    by_horizon(found, IN_FIGURE, docs / "figures" / "fig3.svg")
    sets = found.sets
    methods = [m for m in list(found.experiment.methods)[::-1] if any(m in found.methods(name) for name in sets)]
    yield (
        "### One-step error\n\nSquared, summed over channels, mean +- deviation over folds; the least is bold, among "
        "methods that were run on all folds."
    )
    yield tables.errors_table(found, sets, methods, "errors", 0)
    yield "What the paper printed, on its own recordings:"
    yield tables.published_table(found)
    yield "### Ratios of one-step errors, ours and the paper's"
    yield tables.ratios_table(found, RATIOS)
    yield (
        "### Paired differences\n\nThe error of the first method less that of the second, fold by fold, as a share of "
        "the second's mean error: mean +- standard error, and on how many folds the first was better."
    )
    yield tables.paired_table(found, PAIRS)
    yield "\n".join(_verdicts(found))
    yield "### Fig. 3: error by look-ahead\n\n![Errors by steps ahead, six sets](figures/fig3.svg)"
    yield "Errors at the farthest step, 5 (3 for video):"
    yield tables.errors_table(found, sets, methods, "errors", -1)
    videos = [name for name in sets if "pixels" in found.of(name, methods[0])[0]]
    if videos:
        yield (
            "### Videos in pixels\n\nOne-step error summed over all pixels, in grey levels: what 20 components leave "
            "out is an error that no method can avoid."
        )
        yield tables.errors_table(found, videos, methods, "pixels", 0)
    minutes = sum(each["cpu"] for each in table1.found.values()) / 60
    yield (
        f"### What it costs\n\nProcessor time of one core, choosing and learning and testing; all of it together is "
        f"{minutes:.0f} minutes, which two cores share."
    )
    yield tables.cost_table(table1, sets, methods)


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


def _by_gradient(appendix: Results, table1: Results | None, docs: Path) -> Iterable[str]:
    """The appendix: methods that descend gradients beside the others, on the folds that all of them have."""
    found = joined(appendix, table1)
    sets = [name for name in found.sets if set(BY_GRADIENT[1:3]) & set(found.methods(name))]
    for step, words in ((0, "One step ahead"), (-1, "At the farthest step, 5 (3 for video)")):
        yield f"{words}, mean +- deviation over the folds that all have:"
        yield tables.gradient_table(found, sets, BY_GRADIENT, step)
    yield (
        "Paired differences over folds, as a share of the second's mean error: mean +- standard error, and on how many "
        "the first was better."
    )
    yield tables.paired_table(found, BY_GRADIENT_PAIRS)
    yield "The optimisers that led, and were used, on how many folds, with their median number of epochs:"
    yield tables.optimisers_table(found, sets, ("PSIM-Linear_b", "PSIM-Linear_d+b", "PSIM-RFF_b"))


def _two_methods(found: Results, _: Results | None, docs: Path) -> Iterable[str]:
    """One method against another on the same folds."""
    yield "One-step errors; the last column is the paired difference over folds, and on how many the second was better."
    yield tables.two_methods_table(found)


def _number_of_trajectories(found: Results, _: Results | None, docs: Path) -> Iterable[str]:
    """Fig. 2."""
    groups: dict[str, list[str]] = {}
    for name in found.sets:
        groups.setdefault(found.experiment.sets[name]["group"], []).append(name)
    by_number(found, groups, docs / "figures" / "fig2.svg")
    yield "![log(e / e_F) against the number of trajectories](figures/fig2.svg)"
    yield (
        "e is a method's one-step error and e_F that of the optimal filter; lines are medians over draws, bands reach "
        "from the least to the largest. log(e / e_F), medians:"
    )
    for group, names in groups.items():
        sizes = {name: f"{found.experiment.sets[name]['n_trajectories']}" for name in names}
        yield tables.excess_table(found, group, sizes, "excess", "log")


def _theorems(found: Results, _: Results | None, docs: Path) -> Iterable[str]:
    """DAgger's bound by number of rounds, and Forward Training's error by length of the recordings."""
    for name in found.sets:
        for method in found.methods(name):
            if "bounds" in found.of(name, method)[0]:
                yield tables.bounds_table(found, name, method)
    lengths = [name for name in found.sets if "excess" in found.of(name, found.methods(name)[0])[0]]
    if lengths:
        yield (
            "Forward Training with 1000 trajectories: M times the excess of its error over the optimal filter's, "
            "relative to that, median over systems. Disjoint: each step learns from trajectories of its own, as the "
            "theorem's proof has it."
        )
        columns = dict(zip(lengths, lengths, strict=True))
        yield tables.excess_table(found, "", columns, "excess_from_the_first_row", "times M")
