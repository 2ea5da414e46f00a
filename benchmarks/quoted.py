"""Speeds that benchmarks measured and pages quote: one file has them, and tests hold the pages to it.

    python benchmarks/online.py --keep "AMD EPYC, two cores, idle"    # measures, and writes results/speed.json
    python benchmarks/quoted.py                                       # writes its figures into the pages

In a page, `<!-- speed of TABLE: ROW -->` stands before the figures of a row of that file, one for each number of
channels, in prose or in the cells of a table; `ROW / OTHER` are its multiples of another row, and `ROW at 2, 13` takes
some numbers of channels only. A figure keeps the decimals that it has in the page. `<!-- speed: once -->` says that the
other figures of a paragraph stand nowhere else.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "speed.json"
MARKER = re.compile(r"<!-- speed of (\w+): (.+?)(?: / (.+?))?(?: at ([\d, ]+))? -->")
ONCE = "<!-- speed: once -->"
FIGURE = re.compile(r"\d{1,3}(?: \d{3})+(?![\d.])|\d*\.\d+|\d+")
UNIT = r"\b(?:us|ns|microseconds|nanoseconds)\b"

Rows = dict[str, dict[str, float]]
"""Times by name and number of channels."""


def kept() -> dict[str, Any]:
    """Each table: its benchmark, its machine and its rows."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def keep(benchmark: str, machine: str, tables: dict[str, Rows]) -> None:
    """Write the tables of one benchmark beside those of the others, with three digits."""
    found = kept()
    for name, rows in tables.items():
        rounded = {row: {n: float(f"{time:.3g}") for n, time in times.items()} for row, times in rows.items()}
        found[name] = {"benchmark": f"benchmarks/{benchmark}", "machine": machine, "rows": rounded}
    text = json.dumps(found, indent=1)
    RESULTS.write_text(re.sub(r'\{\s+("\d[^{}]*?)\s+\}', _on_one_line, text) + "\n", encoding="utf-8")


def _on_one_line(row: re.Match[str]) -> str:
    return "{" + re.sub(r"\s+", " ", row[1]) + "}"


def asked(marker: re.Match[str], found: dict[str, Any]) -> list[float]:
    """The figures that a marker stands for."""
    table, name, other, some = marker.groups()
    rows: Rows = found[table]["rows"]
    channels = some.split(", ") if some else [n for n in rows[name] if n in rows[other or name]]
    return [rows[name][n] / (rows[other][n] if other else 1.0) for n in channels]


def quoted(page: str, found: dict[str, Any]) -> tuple[str, str]:
    """The page with the figures that its markers ask for, and what is left of it without markers and figures."""
    written, rest, place = "", "", 0
    for marker in MARKER.finditer(page):
        written, rest, place = written + page[place : marker.end()], rest + page[place : marker.start()], marker.end()
        for value in asked(marker, found):
            figure = FIGURE.search(page, place)
            if figure is None or "<!--" in page[place : figure.start()]:
                raise SystemExit(f"{marker[0]}: required {len(asked(marker, found))} figures after it, received fewer")
            written += page[place : figure.start()] + _as(figure[0], value)
            place = figure.end()
    return written + page[place:], rest + page[place:]


def _as(shown: str, value: float) -> str:
    """With as many decimals as before, and thousands apart."""
    return f"{value:,.{len(shown.partition('.')[2])}f}".replace(",", " ")


def unmarked(page: str, found: dict[str, Any]) -> list[str]:
    """Speeds that no marker holds: figures in prose with their unit, rows of tables in this unit."""
    paragraphs, loose = quoted(page, found)[1].split("\n\n"), []
    for before, part in zip(["", *paragraphs], paragraphs, strict=False):
        if ONCE in part:
            continue
        if part.startswith("|"):
            title, _, *rows = part.splitlines()
            timed = re.search(UNIT, title) or (before.endswith(":") and re.search(UNIT, before))
            loose += [row for row in rows if timed and FIGURE.search(row.partition("|")[2].partition("|")[2])]
        else:
            loose += re.findall(rf"[\d.]+ {UNIT}", part)
    return loose


if __name__ == "__main__":
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        path.write_text(quoted(path.read_text(encoding="utf-8"), kept())[0], encoding="utf-8")
