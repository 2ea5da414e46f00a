"""The tables of docs/reproduction.md, as Markdown: means, deviations and ratios of results, nothing else."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from psimlearn.evaluate import Comparison
from psimlearn.reproduce.read import Results

__all__ = [
    "bounds_table",
    "cost_table",
    "errors_table",
    "excess_table",
    "gradient_table",
    "markdown",
    "optimisers_table",
    "paired_table",
    "published_table",
    "ratios_table",
    "shares_table",
    "short",
    "title",
    "two_methods_table",
]

Pairs = Sequence[tuple[str, str]]


# -- of many methods -------------------------------------------------------------------------------------------------


def errors_table(found: Results, sets: Sequence[str], methods: Sequence[str], measure: str, step: int) -> str:
    """One row for each method, one column for each set: mean and deviation over folds, the least in bold.

    Args:
        found: the results.
        sets: the columns.
        methods: the rows.
        measure: "errors", or "pixels" for videos.
        step: 0 for one step ahead, -1 for the farthest.
    """
    columns = [_cells(found, name, methods, measure, step) for name in sets]
    rows = [[method, *cells] for method, *cells in zip(methods, *columns, strict=True)]
    if measure == "errors":
        rows.append(["trajectory power", *(short(found.values(name, methods[0], "power").mean()) for name in sets)])
    return markdown(["", *(title(found, name) for name in sets)], rows)


def _cells(found: Results, name: str, methods: Sequence[str], measure: str, step: int) -> list[str]:
    """The errors of each method on one set; an empty cell for a method that was not run on it."""
    errors = {m: found.values(name, m, measure)[:, step] for m in methods if m in found.methods(name)}
    n_folds = max(map(len, errors.values()))
    least = min(by_fold.mean() for by_fold in errors.values() if len(by_fold) == n_folds)
    return [_cell(errors[m], n_folds, least) if m in errors else "" for m in methods]


def _cell(errors: np.ndarray, n_folds: int, least: float) -> str:
    if len(errors) < n_folds:
        return f"{_spread(errors)} ({len(errors)} folds)"
    return f"**{_spread(errors)}**" if errors.mean() == least else _spread(errors)


def shares_table(found: Results, sets: Sequence[str], methods: Sequence[str]) -> str:
    """The one-step error in percent of the trajectory power, ours and where there is one the paper's."""
    rows = []
    for name in sets:
        shares = {m: _shares(found, name, m) for m in methods if m in found.methods(name)}
        n_folds = max(map(len, shares.values()))
        fewer = {m: f" ({len(each)} folds)" if len(each) < n_folds else "" for m, each in shares.items()}
        rows.append(
            [title(found, name), *(f"{shares[m].mean():.2%}{fewer[m]}" if m in shares else "" for m in methods)]
        )
        printed = found.experiment.published.get(name, {})
        if printed:
            paper = [f"{printed[m][0] / printed['power']:.1%}" if m in printed else "" for m in methods]
            rows.append([f"{found.experiment.sets[name]['stands_for']}, printed", *paper])
    return markdown(["", *methods], rows)


def _shares(found: Results, name: str, method: str) -> np.ndarray:
    """The one-step error of each fold over the mean power of these folds."""
    shares: np.ndarray = found.values(name, method, "errors")[:, 0] / found.values(name, method, "power").mean()
    return shares


def published_table(found: Results) -> str:
    """The errors that the paper prints."""
    printed = {name: errors for name, errors in found.experiment.published.items() if name in found.sets}
    if not printed:
        return "(on none of these sets)"
    methods = [name for name in next(iter(printed.values())) if name != "power"]
    header = ["", *(found.experiment.sets[name].get("stands_for", name) for name in printed)]
    rows = [[m, *(f"{short(errors[m][0])} +- {short(errors[m][1])}" for errors in printed.values())] for m in methods]
    rows.append(["trajectory power", *(short(errors["power"]) for errors in printed.values())])
    return markdown(header, rows)


def ratios_table(found: Results, pairs: Pairs) -> str:
    """The one-step error of a first method divided by that of a second: here, and in brackets in the paper."""
    rows = []
    for name in found.sets:
        printed = found.experiment.published.get(name)
        cells = [title(found, name)]
        for first, second in pairs:
            ours = ""
            if {first, second} <= set(found.methods(name)):
                compared = found.compared(name, methods=(first, second))
                errors = dict(zip(compared.methods, compared.mean()[:, 0], strict=True))
                ours = f"{errors[first] / errors[second]:.2f}"
            cells.append(ours + (f" ({printed[first][0] / printed[second][0]:.2f})" if printed else ""))
        rows.append(cells)
    return markdown(["ours (paper's)", *(f"{first} / {second}" for first, second in pairs)], rows)


def paired_table(found: Results, pairs: Pairs) -> str:
    """The differences of a first and a second method over folds, one step ahead and at the farthest step."""
    header = ["", "steps", *(title(found, name) for name in found.sets)]
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
    return markdown(header, rows)


def _difference(compared: Comparison, first: str, second: str, far: bool) -> str:
    n_folds, horizon = compared.errors.shape[1:]
    step = horizon if far else 1
    ours, scale = (compared.mean()[compared.methods.index(method), step - 1] for method in (first, second))
    if n_folds < 2:
        return f"{ours / scale - 1:+.0%}"
    if not np.isfinite(compared.errors).all():
        return "failed"
    difference = compared.paired(first, second, step)
    return f"{difference.mean / scale:+.1%} +- {difference.standard_error / scale:.1%} ({difference.wins}/{n_folds})"


def cost_table(found: Results, sets: Sequence[str], methods: Sequence[str]) -> str:
    """Processor seconds for one fold."""
    header = ["seconds a fold", *(title(found, name) for name in sets)]
    rows = [
        [m, *(f"{found.seconds(name, m):.1f}" if m in found.methods(name) else "" for name in sets)]
        for m in methods
        if m in found.experiment.methods
    ]
    return markdown(header, rows)


# -- of methods that descend gradients -------------------------------------------------------------------------------


def gradient_table(found: Results, sets: Sequence[str], methods: Sequence[str], step: int) -> str:
    """One row for each set, one column for each method, on the folds that all methods have; the paper's row below."""
    rows = []
    for name in sets:
        compared = found.compared(name, methods=methods)
        errors = dict(zip(compared.methods, compared.errors[:, :, step], strict=True))
        cells = [_spread(errors[m]) if m in errors else "" for m in methods]
        rows.append([title(found, name), f"{compared.errors.shape[1]}", *cells])
        printed = found.experiment.published.get(name)
        if printed and step == 0:
            paper = [short(printed[m]) if m in printed else "" for m in methods]
            rows.append([found.experiment.sets[name]["stands_for"] + ", printed", "10", *paper])
    return markdown(["", "folds", *methods], rows)


def optimisers_table(found: Results, sets: Sequence[str], methods: Sequence[str]) -> str:
    """Which optimisers won their race, on how many folds, and their median number of epochs."""
    header = ["", *(title(found, name) for name in sets)]
    return markdown(header, [[m, *(_leaders(found, name, m) for name in sets)] for m in methods])


def _leaders(found: Results, name: str, method: str) -> str:
    chosen = [each["chosen"] for each in found.of(name, method) if "chosen" in each]
    count = Counter(each["optimiser"] + (f" {each['rate']:g}" if "rate" in each else "") for each in chosen)
    epochs = f"; {np.median([each['epochs'] for each in chosen]):.0f}" if chosen else ""
    return ", ".join(f"{optimiser} {n}" for optimiser, n in count.most_common()) + epochs


# -- of the other results --------------------------------------------------------------------------------------------


def two_methods_table(found: Results) -> str:
    """The two methods of an experiment on the same folds, and the ratio of their errors beside the paper's."""
    second, first = found.experiment.methods
    rows = []
    for name in found.sets:
        compared = found.compared(name)
        a, b = (compared.errors[compared.methods.index(m), :, 0] for m in (first, second))
        printed = found.experiment.published.get(name)
        ratios = [f"{a.mean() / b.mean():.3f}", f"{printed:.2f}" if printed else ""]
        paired = _difference(compared, first, second, False)
        rows.append([title(found, name), _spread(b), _spread(a), *ratios, paired])
    return markdown(["", second, first, "ratio", "paper's ratio", "paired"], rows)


def excess_table(found: Results, corner: str, sets: dict[str, str], excess: str, form: str) -> str:
    """The median excess of each method over the optimal filter.

    Args:
        found: the results.
        corner: the first cell of the header.
        sets: the columns, by name of the set.
        excess: the name of the excess among the results.
        form: "log" for log(e / e_F), "times M" for the excess times the number of trajectories.
    """
    rows = []
    for m in found.methods(next(iter(sets))):
        medians = {name: float(np.median(found.values(name, m, excess))) for name in sets}
        if form == "log":
            rows.append([m, *(f"{np.log1p(median):.1e}" for median in medians.values())])
        else:
            sizes = {name: found.experiment.sets[name]["n_trajectories"] for name in sets}
            rows.append([m, *(f"{sizes[name] * median:.1f}" for name, median in medians.items())])
    return markdown([corner, *sets.values()], rows)


def bounds_table(found: Results, name: str, method: str) -> str:
    """Both sides of DAgger's inequalities, by number of rounds, and on how many systems they hold."""
    systems = [each["bounds"] for each in found.of(name, method)]
    columns = ("gamma", "eps", "follow_the_leader", "least", "finite_sample", "measured")
    rows = []
    for n in [n for n in (1, 2, 5, 10, 20) if n <= len(systems[0])]:
        after = [system[n - 1] for system in systems]
        mean = {c: float(np.mean([each[c] for each in after])) for c in columns}
        holds = sum(each["least"] <= each["gamma"] + each["eps"] + 1e-9 for each in after)
        fresh = sum(each["measured"] <= each["gamma"] + each["eps"] + each["finite_sample"] for each in after)
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
    table = markdown([*header, "loss on new recordings", "<= all three"], rows)
    words = f"means over {len(systems)} random systems, and on how many systems each inequality holds"
    return f"DAgger, {name}: {words}.\n\n{table}"


# -- cells -----------------------------------------------------------------------------------------------------------


def title(found: Results, name: str) -> str:
    """The name of a set as readers see it."""
    return str(found.experiment.sets[name].get("title", name))


def short(value: float, digits: int = 3) -> str:
    """A number of a few digits, with an exponent where it is very small or large."""
    return f"{value:.{digits}g}" if 1e-3 <= abs(value) < 10**digits else f"{value:.{digits - 1}e}"


def _spread(values: np.ndarray) -> str:
    """Mean and deviation over folds."""
    if not np.isfinite(values).all():
        return f"failed ({np.isinf(values).sum()} of {len(values)})"
    return short(values.mean()) + (f" +- {short(values.std(ddof=1), 2)}" if len(values) > 1 else "")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
