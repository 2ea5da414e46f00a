"""Small faults put into the source one at a time, to see whether the tests of the faulty room notice.

    python benchmarks/mutants.py --seed 20261119 --count 60 --list
    python benchmarks/mutants.py --seed 20261119 --count 60 --out mutants.json [--rooms train choose] [--jobs 2]
    python benchmarks/mutants.py --known

A fault is a comparison that is a little off, a number off by one, a sign, an axis, or a term left out. Rooms are drawn
by their lines, then one of these operators, then a place. Each fault goes into a copy of the package, which stands
first on the path of Python; the examples of the faulty file and the tests of its room run on it, likeliest files first,
until one fails. Faults that no test notices are printed with their line: each needs a test, or changes no answer.

With `--out` a run can be stopped and goes on later: faults that were killed stay so, others run again once the tests of
their room have changed. `--known` takes the faults that once survived: they stay here as text, and it is an error if
that text is gone. Loops that need numba are left out where it is not installed.
"""

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "psimlearn"
TESTS = REPOSITORY / "tests"
ROOMS = ("filter", "train", "choose", "recordings", "serve")
BESIDE = {"filter": ("contract",)}
"""Folders of tests that also belong to a room."""
MOST_COUNT = 9
"""Larger whole numbers are sizes and settings: one more changes no answer."""
LIMIT = 1800.0
"""Seconds for all tests of a room; a fault that needs more made a loop that does not end."""
LIKELIEST = 3
"""Files of tests that run first: most faults are killed by them, before all others are even imported."""
OF_ONE = 120
"""Seconds for one test."""

SWAPPED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
SIGNS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
JOINING = (ast.Add, ast.Sub, ast.BitAnd, ast.BitOr)


class Mutant(NamedTuple):
    """A fault: some text of a line, and what stands there instead."""

    file: str
    """In the package."""
    operator: str
    start: int
    """The place in the bytes of the file."""
    old: str
    new: str

    @property
    def room(self) -> str:
        return self.file.split("/")[0]

    def applied(self, text: str) -> str:
        """The text of the file with the fault; the number of its lines stays."""
        data, old = text.encode(), self.old.encode()
        assert data[self.start : self.start + len(old)] == old, f"{self.file}: {self.old!r} is not at {self.start}"
        new = self.new + "\n" * (self.old.count("\n") - self.new.count("\n"))
        return (data[: self.start] + new.encode() + data[self.start + len(old) :]).decode()

    def line(self, text: str) -> int:
        return text.encode()[: self.start].count(b"\n") + 1

    def key(self, text: str) -> str:
        """Names the fault as long as its line stays as it is."""
        data = text.encode()
        begin = data.rfind(b"\n", 0, self.start) + 1
        line = data[begin : data.find(b"\n", self.start)].decode().strip()
        return f"{self.file} | {line} | {self.start - begin} {self.operator}: {self.old} -> {self.new}"


KNOWN: tuple[tuple[str, str, str], ...] = (
    ("filter/thresholds.py", "np.floor(place).astype(int) - 1", "np.ceil(place).astype(int) - 1"),
    ("train/portions.py", "== portion.shard, 1] - portion.first", "== portion.shard, 1]"),
    ("serve/bank.py", "self.doubts.pop(place, None)", "pass"),
    ("recordings/windows.py", "plan.time - late >= enough", "plan.time - late > enough"),
    ("recordings/windows.py", "first_seen[plan.stream], plan.time)", "first_seen[plan.stream], plan.time) + 1"),
    ("filter/uncertainty.py", "self.ratio[np.minimum(age, ages - 1)", "self.ratio[np.minimum(age + 1, ages - 1)"),
    ("evaluate/calibrate.py", '_other(filter, unseen, "unknown", starts)', '_other(filter, unseen, "known", starts)'),
)
"""Faults that survived, or that only tests of other rooms noticed, by chance: the file, its text, the fault."""


def known() -> list[Mutant]:
    """The faults of `KNOWN` at their places."""
    found = []
    for file, old, new in KNOWN:
        data = (PACKAGE / file).read_bytes()
        if data.count(old.encode()) != 1:
            sys.exit(f"{file}: required {old!r} once, found {data.count(old.encode())}: bring KNOWN up to date")
        found.append(Mutant(file, "known", data.index(old.encode()), old, new))
    return found


class Places(ast.NodeVisitor):
    """All faults that can be put into a file."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.data, self.found = file, text.encode(), list[Mutant]()
        self.lines = [0]
        for line in text.encode().splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        tree = ast.parse(text)
        settings = [each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign) and _is_setting(each)]
        for each in tree.body:
            if each not in settings:
                self.visit(each)

    def begin(self, node: ast.expr) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def add(self, operator: str, start: int, end: int, new: str) -> None:
        old = self.data[start:end].decode()
        if old != new:
            self.found.append(Mutant(self.file, operator, start, old, new))

    def between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """A fault in the sign that stands between two expressions."""
        gap = self.data[self.end(left) : self.begin(right)].decode()
        place = gap.find(old)
        if place >= 0 and "#" not in gap:
            start = self.end(left) + len(gap[:place].encode())
            self.add(operator, start, start + len(old), new)

    def dropped(self, left: ast.expr, right: ast.expr) -> None:
        """The right one of two terms left out, where no parentheses are cut."""
        if not re.search(rb"[()#]", self.data[self.end(left) : self.begin(right)]):
            self.add("dropped term", self.end(left), self.end(right), "")

    # what is no answer: messages, annotations, what only checkers of types read

    def visit_Raise(self, node: ast.Raise) -> None: ...
    def visit_Assert(self, node: ast.Assert) -> None: ...
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
            self.visit(each)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    # the operators

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for i, operator in enumerate(node.ops):
            if type(operator) in SWAPPED:
                self.between("comparison", operands[i], operands[i + 1], *SWAPPED[type(operator)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int and 0 <= node.value <= MOST_COUNT:
            for other in sorted({node.value + 1, max(node.value - 1, 0)}):
                self.add("off by one", self.begin(node), self.end(node), str(other))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(_is_text(side) for side in (node.left, node.right)):
            if type(node.op) in SIGNS:
                self.between("sign", node.left, node.right, *SIGNS[type(node.op)])
            if isinstance(node.op, JOINING):
                self.dropped(node.left, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values[:-1], node.values[1:], strict=True):
            self.dropped(left, right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in SIGNS and not _is_text(node.value):
            old, new = SIGNS[type(node.op)]
            self.between("sign", node.target, node.value, f"{old}=", f"{new}=")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            self.add("sign", self.begin(node), self.begin(node) + 1, "")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg == "stacklevel":  # of a warning: a message, too
            return
        if node.arg != "axis":
            self.generic_visit(node)
        elif isinstance(node.value, ast.Constant | ast.UnaryOp):
            other = "1" if ast.unparse(node.value) == "0" else "0"
            self.add("axis", self.begin(node.value), self.end(node.value), other)

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        shape = isinstance(node.func, ast.Attribute) and node.func.attr in ("reshape", "swapaxes", "transpose")
        for each in [] if shape else [*node.args, *node.keywords]:  # other shapes end in an error
            self.visit(each)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "T":
            self.add("axis", self.end(node) - len(".T"), self.end(node), "")
        self.generic_visit(node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_setting(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether capital letters say that this is a constant: another value is another choice, which may be as good."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return all(re.fullmatch(r"_?[A-Z0-9_, ()]+|__all__", ast.unparse(target)) for target in targets)


def _files(room: str) -> list[Path]:
    """The files of a room that can be run here."""
    compiled = find_spec("numba") is not None
    files = sorted((PACKAGE / room).rglob("*.py"))
    return [f for f in files if compiled or not re.search(r"^@compiled\(|^ *import numba", f.read_text(), re.M)]


def drawn(seed: int, count: int, rooms: Sequence[str]) -> list[Mutant]:
    """So many faults, none twice."""
    rng = random.Random(seed)
    by_room = {}
    for room in rooms:
        kinds: dict[str, list[Mutant]] = {}
        for path in _files(room):
            for each in Places(path.relative_to(PACKAGE).as_posix(), path.read_text()).found:
                kinds.setdefault(each.operator, []).append(each)
        by_room[room] = kinds
    weights = [sum(len(path.read_text().splitlines()) for path in _files(room)) for room in rooms]
    found: list[Mutant] = []
    while len(found) < count and any(kinds for room in by_room.values() for kinds in room.values()):
        kinds = by_room[rng.choices(list(rooms), weights)[0]]
        left = kinds[rng.choice(sorted(kinds))]
        if left:
            found.append(left.pop(rng.randrange(len(left))))
    return found


# -- running -----------------------------------------------------------------------------------------------------------


def test_folders(room: str) -> list[Path]:
    """The folders of tests of a room that are there."""
    return [folder for name in (room, *BESIDE.get(room, ())) if (folder := TESTS / name).is_dir()]


def test_files(mutant: Mutant) -> list[Path]:
    """The tests of a room, those first that speak most of the faulty file."""
    stem = Path(mutant.file).stem
    module = "psimlearn." + mutant.file.removesuffix(".py").replace("/", ".")
    names = re.findall(r"^(?:def|class) (\w+)", (PACKAGE / mutant.file).read_text(), re.M)

    def rank(path: Path) -> tuple[int, int, int]:
        text, about = path.read_text(), path.stem.removeprefix("test_")
        named = about == stem or about in stem.split("_") or stem in about
        imported = re.search(rf"{re.escape(module)}\b", text) is not None or f"import {stem}" in text
        mentions = sum(len(re.findall(rf"\b{name}\b", text)) for name in names if not name.startswith("_"))
        return -(2 * imported + named), -mentions, len(text)

    return sorted((path for folder in test_folders(mutant.room) for path in folder.rglob("test_*.py")), key=rank)


def digest(room: str) -> str:
    """Changes with the tests of a room."""
    texts = [path.read_bytes() for folder in test_folders(room) for path in sorted(folder.rglob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


EXAMPLES = """
import doctest, importlib, os, sys
import psimlearn
assert psimlearn.__file__.startswith(os.environ["PYTHONPATH"]), psimlearn.__file__
module = importlib.import_module(sys.argv[1])
sys.exit(doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed)
"""


def run(command: Sequence[str | Path], source: Path, limit: float) -> tuple[int | None, str]:
    """The exit code and the output of a command with this source first on the path; no code if it took too long."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            list(map(str, command)), cwd=REPOSITORY, env=environment, start_new_session=True, stdout=said, stderr=said
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):  # servers that a failed test has left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.seek(0)
        return code, said.read()


def tested(files: Sequence[Path], source: Path, limit: float) -> tuple[int | None, str]:
    """The exit code and the output of pytest."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--timeout={OF_ONE}", "--tb=line"]
    return run([sys.executable, "-m", "pytest", *options, *files], source, limit)


class Verdict(NamedTuple):
    """What became of a fault."""

    mutant: Mutant
    line: int
    verdict: str
    by: str
    """The test that failed first."""
    seconds: float

    def __str__(self) -> str:
        text = (PACKAGE / self.mutant.file).read_text()
        before, after = (each.splitlines()[self.line - 1].strip() for each in (text, self.mutant.applied(text)))
        head = f"{self.verdict:9} {self.seconds:4.0f} s  {self.mutant.file}:{self.line}  {self.mutant.operator}"
        return f"{head}  {self.by}\n    - {before}\n    + {after}"


def judged(mutant: Mutant, limit: float) -> Verdict:
    """Whether the tests of its room notice a fault."""
    began, text = time.monotonic(), (PACKAGE / mutant.file).read_text()

    def verdict(said: str, by: str) -> Verdict:
        return Verdict(mutant, mutant.line(text), said, by, time.monotonic() - began)

    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder)
        shutil.copytree(PACKAGE, source / "psimlearn", ignore=shutil.ignore_patterns("__pycache__"))
        (source / "psimlearn" / mutant.file).write_text(mutant.applied(text))
        module = "psimlearn." + mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        code, _ = run([sys.executable, "-c", EXAMPLES, module], source, limit)
        if code != 0:
            return verdict("killed", f"examples of {module}")
        files = test_files(mutant)
        code, out = tested(files[:LIKELIEST], source, limit)
        if code == 0 and files[LIKELIEST:]:
            code, out = tested(files[LIKELIEST:], source, limit)
    if code == 0:
        return verdict("suspect" if _may_be_equal(mutant, text) else "survived", "")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", out, re.M)
    if code == 1 or failed:
        return verdict("killed", failed[0] if failed else "")
    return verdict("killed", "out of time") if code is None else verdict("error", out[-500:])


def _may_be_equal(mutant: Mutant, text: str) -> bool:
    """Whether a fault may change no answer: a bound that is a setting or a fraction decides a tie only."""
    if mutant.operator != "comparison" or "=" in (mutant.old + mutant.new).replace("<=", "").replace(">=", ""):
        return False
    line = text.splitlines()[mutant.line(text) - 1]
    return re.search(r"[<>]=? *(?:[A-Z_]{2,}|\d*\.\d+|\d+e-?\d+)|(?:[A-Z_]{2,}|\d*\.\d+) *[<>]", line) is not None


def green(rooms: Sequence[str], limit: float, kept: dict[str, Any]) -> None:
    """Stop unless the tests of these rooms pass without a fault."""
    for room in rooms:
        if kept.get(f"green {room}") == digest(room):
            continue
        code, out = tested(test_folders(room), PACKAGE.parent, limit)
        if code != 0:
            sys.exit(f"tests of {room} fail without a fault:\n{out[-3000:]}")
        kept[f"green {room}"] = digest(room)


def _kept(path: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}
    return found


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seed", type=int, default=20261119, help="such as the date")
    words.add_argument("--count", type=int, default=60)
    words.add_argument("--rooms", nargs="+", default=list(ROOMS))
    words.add_argument("--only", type=int, nargs="+", help="the numbers of some, as --list prints them")
    words.add_argument("--known", action="store_true", help="the faults that survived before")
    words.add_argument("--list", action="store_true", help="print faults, run nothing")
    words.add_argument("--jobs", type=int, default=1)
    words.add_argument("--limit", type=float, default=LIMIT, help="seconds for the tests of a room")
    words.add_argument("--out", type=Path, help="keeps results; another run goes on from there")
    given = words.parse_args()

    mutants = known() if given.known else drawn(given.seed, given.count, given.rooms)
    chosen = range(len(mutants)) if given.only is None else given.only
    texts = {mutant.file: (PACKAGE / mutant.file).read_text() for mutant in mutants}
    for mutant in mutants:
        ast.parse(mutant.applied(texts[mutant.file]))
    if given.list:
        for i in chosen:
            print(i, Verdict(mutants[i], mutants[i].line(texts[mutants[i].file]), "", "", 0.0))
        return

    kept = _kept(given.out)

    def keep() -> None:
        if given.out is not None:
            given.out.write_text(json.dumps(kept, indent=1) + "\n")

    def result(i: int) -> tuple[int, Verdict]:
        mutant = mutants[i]
        before = kept.get(mutant.key(texts[mutant.file]))
        if before and (before["verdict"] == "killed" or before["tests"] == digest(mutant.room)):
            line = mutant.line(texts[mutant.file])
            return i, Verdict(mutant, line, before["verdict"], before["by"], before["seconds"])
        return i, judged(mutant, given.limit)

    green(sorted({mutants[i].room for i in chosen}), given.limit, kept)
    keep()
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(given.jobs) as pool:
        for i, found in pool.map(result, chosen):
            counts[found.verdict] += 1
            print(i, found, flush=True)
            entry = {"verdict": found.verdict, "by": found.by, "seconds": round(found.seconds, 1)}
            kept[found.mutant.key(texts[found.mutant.file])] = {**entry, "tests": digest(found.mutant.room)}
            keep()
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()), f"of {len(chosen)}")


if __name__ == "__main__":
    main()
