"""docs/reproduction.md from results: nothing is computed here but means, deviations and ratios."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from psimlearn.evaluate.horizons import Comparison
from psimlearn.reproduce.figures import by_horizon, by_number
from psimlearn.reproduce.read import Results, joined, results

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
    """Write the page and its figures from the results in a folder."""
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


# -- Table 1 and Fig. 3 ----------------------------------------------------------------------------------------------


def _real_systems(own: Results, appendix: Results | None, docs: Path) -> Iterable[str]:
    found = joined(own, appendix)
    by_horizon(found, IN_FIGURE, docs / "figures" / "fig3.svg")
    sets = found.sets
    methods = [m for m in list(found.experiment.methods)[::-1] if any(m in found.methods(name) for name in sets)]
    yield (
        "### One-step error\n\nSquared, summed over channels, mean +- deviation over folds; the least is bold, among "
        "methods that were run on all folds."
    )
    yield _errors_table(found, sets, methods, "errors", 0)
    yield "What the paper printed, on its own recordings:"
    yield _published(found)
    yield "### Ratios of one-step errors, ours and the paper's"
    yield _ratios(found)
    yield (
        "### Paired differences\n\nThe error of the first method less that of the second, fold by fold, as a share of "
        "the second's mean error: mean +- standard error, and on how many folds the first was better."
    )
    yield _paired(found, PAIRS)
    yield "\n".join(_verdicts(found))
    yield "### Fig. 3: error by look-ahead\n\n![Errors by steps ahead, six sets](figures/fig3.svg)"
    yield "Errors at the farthest step, 5 (3 for video):"
    yield _errors_table(found, sets, methods, "errors", -1)
    videos = [name for name in sets if "pixels" in found.of(name, methods[0])[0]]
    if videos:
        yield (
            "### Videos in pixels\n\nOne-step error summed over all pixels, in grey levels: what 20 components leave "
            "out is an error that no method can avoid."
        )
        yield _errors_table(found, videos, methods, "pixels", 0)
    yield _cost(own, sets, methods)


def _errors_table(found: Results, sets: Sequence[str], methods: Sequence[str], what: str, step: int) -> str:
    columns = [_cells(found, name, methods, what, step) for name in sets]
    rows = [[method, *cells] for method, *cells in zip(methods, *columns, strict=True)]
    if what == "errors":
        rows.append(["trajectory power", *(_short(found.values(name, methods[0], "power").mean()) for name in sets)])
    return _table(["", *(_title(found, name) for name in sets)], rows)


def _cells(found: Results, name: str, methods: Sequence[str], what: str, step: int) -> list[str]:
    """The errors of each method on one set; nothing for those that were not run."""
    errors = {m: found.values(name, m, what)[:, step] for m in methods if m in found.methods(name)}
    n_folds = max(map(len, errors.values()))
    least = min(own.mean() for own in errors.values() if len(own) == n_folds)
    return [_cell(errors[m], n_folds, least) if m in errors else "" for m in methods]


def _cell(errors: np.ndarray, n_folds: int, least: float) -> str:
    if len(errors) < n_folds:
        return f"{_spread(errors)} ({len(errors)} folds)"
    return f"**{_spread(errors)}**" if errors.mean() == least else _spread(errors)


def _published(found: Results) -> str:
    printed = {name: of for name, of in found.experiment.published.items() if name in found.sets}
    if not printed:
        return "(on none of these sets)"
    methods = [name for name in next(iter(printed.values())) if name != "power"]
    header = ["", *(found.experiment.sets[name].get("stands_for", name) for name in printed)]
    rows = [[m, *(f"{_short(of[m][0])} +- {_short(of[m][1])}" for of in printed.values())] for m in methods]
    rows.append(["trajectory power", *(_short(of["power"]) for of in printed.values())])
    return _table(header, rows)


def _ratios(found: Results) -> str:
    rows = []
    for name in found.sets:
        printed = found.experiment.published.get(name)
        cells = [_title(found, name)]
        for first, second in RATIOS:
            ours = ""
            if {first, second} <= set(found.methods(name)):
                compared = found.compared(name, methods=(first, second))
                errors = dict(zip(compared.methods, compared.mean()[:, 0], strict=True))
                ours = f"{errors[first] / errors[second]:.2f}"
            cells.append(ours + (f" ({printed[first][0] / printed[second][0]:.2f})" if printed else ""))
        rows.append(cells)
    return _table(["ours (paper's)", *(f"{first} / {second}" for first, second in RATIOS)], rows)


def _paired(found: Results, pairs: Iterable[tuple[str, str]]) -> str:
    header = ["", "steps", *(_title(found, name) for name in found.sets)]
    rows = []
    for first, second in pairs:
        for far in (False, True):
            cells = [f"{first} - {second}", "farthest" if far else "1"]
            for name in found.sets:
                both = {first, second} <= set(found.methods(name))
                compared = found.compared(name, methods=(first, second)) if both else None
                cells.append("" if compared is None else _difference(compared, first, second, far))
            if any(cells[2:]):
                rows.append(cells)
    return _table(header, rows)


def _difference(compared: Comparison, first: str, second: str, far: bool) -> str:
    n_folds, horizon = compared.errors.shape[1:]
    step = horizon if far else 1
    ours, scale = (compared.mean()[compared.methods.index(method), step - 1] for method in (first, second))
    if n_folds < 2:
        return f"{ours / scale - 1:+.0%}"
    if not np.isfinite(compared.errors).all():
        return "diverged"
    difference = compared.paired(first, second, step)
    return f"{difference.mean / scale:+.1%} +- {difference.standard_error / scale:.1%} ({difference.wins}/{n_folds})"


def _verdicts(found: Results) -> Iterable[str]:
    """Where the paper's order holds here, and where not: in words, from the means over folds."""
    claims = [("PSIM-Linear", "N4SID", 1, found.sets), ("PSIM-Linear", "IVR", 1, found.sets)]
    claims += [("PSIM-RFF", "PSIM-Linear", step, found.sets) for step in (1, 3)]
    for first, second, step, sets in claims:
        holds: list[str] = []
        fails: list[str] = []
        for name in sets:
            if not {first, second} <= set(found.methods(name)):
                continue
            a, b = (found.values(name, m, "errors").mean(axis=0)[step - 1] for m in (first, second))
            (holds if a <= b else fails).append(f"{_title(found, name)} ({_short(a)} against {_short(b)})")
        yield (
            f"- **{first} at or below {second}, {step} step{'s' * (step > 1)} ahead**: holds on "
            f"{', '.join(holds) or 'none'}; does not hold on {', '.join(fails) or 'none'}."
        )


def _cost(found: Results, sets: Sequence[str], methods: Sequence[str]) -> str:
    total = sum(each["cpu"] for each in found.found.values()) / 60
    table = _table(
        ["seconds a fold", *(_title(found, name) for name in sets)],
        [
            [m, *(f"{found.seconds(name, m):.1f}" if m in found.methods(name) else "" for name in sets)]
            for m in methods
            if m in found.experiment.methods
        ],
    )
    return (
        f"### What it costs\n\nProcessor time of one core, choosing and learning and testing; all of it together is "
        f"{total:.0f} minutes, which two cores share.\n\n{table}"
    )


# -- the appendix ----------------------------------------------------------------------------------------------------


def _by_gradient(own: Results, table1: Results | None, docs: Path) -> Iterable[str]:
    """What descends gradients beside what does not, on the folds that all of them have."""
    found = joined(own, table1)
    sets = [name for name in found.sets if set(BY_GRADIENT[1:3]) & set(found.methods(name))]
    header = ["", "folds", *BY_GRADIENT]
    for step, title in ((0, "One step ahead"), (-1, "At the farthest step, 5 (3 for video)")):
        rows = []
        for name in sets:
            compared = found.compared(name, methods=BY_GRADIENT)
            errors = dict(zip(compared.methods, compared.errors[:, :, step], strict=True))
            cells = [_spread(errors[m]) if m in errors else "" for m in BY_GRADIENT]
            rows.append([_title(found, name), f"{compared.errors.shape[1]}", *cells])
            printed = found.experiment.published.get(name)
            if printed and step == 0:
                paper = [_short(printed[m]) if m in printed else "" for m in BY_GRADIENT]
                rows.append([found.experiment.sets[name]["stands_for"] + ", printed", "10", *paper])
        yield f"{title}, mean +- deviation over the folds that all have:\n\n{_table(header, rows)}"
    yield (
        "Paired differences over folds, as a share of the second's mean error: mean +- standard error, and on how many "
        "the first was better."
    )
    yield _paired(found, BY_GRADIENT_PAIRS)
    yield "The optimisers that led, and were used, on how many folds, with their median number of epochs:"
    yield _table(
        ["", *(_title(found, name) for name in sets)],
        [[m, *(_leaders(found, name, m) for name in sets)] for m in ("PSIM-Linear_b", "PSIM-Linear_d+b", "PSIM-RFF_b")],
    )


def _leaders(found: Results, name: str, method: str) -> str:
    chosen = [each["chosen"] for each in found.of(name, method) if "chosen" in each]
    count = Counter(own["optimiser"] + (f" {own['rate']:g}" if "rate" in own else "") for own in chosen)
    epochs = f"; {np.median([own['epochs'] for own in chosen]):.0f}" if chosen else ""
    return ", ".join(f"{who} {n}" for who, n in count.most_common()) + epochs


# -- the others ------------------------------------------------------------------------------------------------------


def _two_methods(found: Results, _: Results | None, docs: Path) -> Iterable[str]:
    """One against the other on the same folds."""
    second, first = found.experiment.methods
    rows = []
    for name in found.sets:
        compared = found.compared(name)
        a, b = (compared.errors[compared.methods.index(m), :, 0] for m in (first, second))
        printed = found.experiment.published.get(name)
        rows.append(
            [
                _title(found, name),
                _spread(b),
                _spread(a),
                f"{a.mean() / b.mean():.3f}",
                f"{printed:.2f}" if printed else "",
                _difference(compared, first, second, False),
            ]
        )
    yield "One-step errors; the last column is the paired difference over folds, and on how many the second was better."
    yield _table(["", second, first, "ratio", "paper's ratio", "paired"], rows)


def _number_of_trajectories(found: Results, _: Results | None, docs: Path) -> Iterable[str]:
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
        methods = found.methods(names[0])
        header = [group, *(f"{found.experiment.sets[name]['n_trajectories']}" for name in names)]
        rows = [
            [m, *(f"{np.log1p(np.median(found.values(name, m, 'excess'))):.1e}" for name in names)] for m in methods
        ]
        yield _table(header, rows)


def _theorems(found: Results, _: Results | None, docs: Path) -> Iterable[str]:
    for name in found.sets:
        for method in found.methods(name):
            if "bounds" in found.of(name, method)[0]:
                yield _bounds_table(found, name, method)
    lengths = [name for name in found.sets if "excess" in found.of(name, found.methods(name)[0])[0]]
    if lengths:
        methods = found.methods(lengths[0])
        yield (
            "Forward Training with 1000 trajectories: M times the excess of its error over the optimal filter's, "
            "relative to that, median over systems. Disjoint: each step learns from trajectories of its own, as the "
            "theorem's proof has it."
        )
        rows = []
        for m in methods:
            excess = [np.median(found.values(name, m, "excess_from_the_first_row")) for name in lengths]
            sizes = [found.experiment.sets[name]["n_trajectories"] for name in lengths]
            rows.append([m, *(f"{size * each:.1f}" for size, each in zip(sizes, excess, strict=True))])
        yield _table(["", *lengths], rows)


def _bounds_table(found: Results, name: str, method: str) -> str:
    systems = [each["bounds"] for each in found.of(name, method)]
    shown = [n for n in (1, 2, 5, 10, 20) if n <= len(systems[0])]
    columns = ("gamma", "eps", "follow_the_leader", "least", "finite_sample", "measured")
    rows = []
    for n in shown:
        mean = {c: float(np.mean([system[n - 1][c] for system in systems])) for c in columns}
        holds = sum(s[n - 1]["least"] <= s[n - 1]["gamma"] + s[n - 1]["eps"] + 1e-9 for s in systems)
        total = [s[n - 1]["gamma"] + s[n - 1]["eps"] + s[n - 1]["finite_sample"] for s in systems]
        fresh = sum(s[n - 1]["measured"] <= each for s, each in zip(systems, total, strict=True))
        rows.append(
            [
                f"{n}",
                f"{mean['gamma']:.2e}",
                f"{mean['follow_the_leader']:.2e}",
                f"{mean['eps']:.4f}",
                f"{mean['least']:.4f}",
                f"{holds}/{len(systems)}",
                f"{mean['finite_sample']:.3f}",
                f"{mean['measured']:.4f}",
                f"{fresh}/{len(systems)}",
            ]
        )
    header = ["N", "gamma_N", "its bound", "eps_N", "min L_n", "min <= gamma + eps", "finite-sample term"]
    table = _table([*header, "loss on new recordings", "<= all three"], rows)
    return f"DAgger, {name}: means over {len(systems)} random systems, and on how many the inequality holds.\n\n{table}"


# -- text ------------------------------------------------------------------------------------------------------------


def _title(found: Results, name: str) -> str:
    return str(found.experiment.sets[name].get("title", name))


def _spread(values: np.ndarray) -> str:
    if not np.isfinite(values).all():
        return f"diverged ({np.isinf(values).sum()} of {len(values)})"
    return _short(values.mean()) + (f" +- {_short(values.std(ddof=1), 2)}" if len(values) > 1 else "")


def _short(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}g}" if 1e-3 <= abs(value) < 10**digits else f"{value:.{digits - 1}e}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
