"""Counts and times of the server, in the text format of Prometheus."""

from collections import Counter
from typing import Any

from psimlearn.serve.streams import Done, Group

__all__ = ["Metrics"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
HELP = {
    "rows_total": "Rows that were taken.",
    "rows_refused_total": "Rows that were refused, as they came twice, late or without inputs.",
    "groups_total": "Groups of requests that shared a transaction.",
    "alarms_total": "Alarms that began.",
    "requests_total": "Requests, by status.",
    "store_errors_total": "Groups that could not be stored.",
    "chunks_removed_total": "Stored requests that retention removed.",
    "watchers_dropped_total": "Readers of events who were too slow.",
    "commands_total": "Commands that alarms have run.",
}


class Metrics:
    """Counters, and how long writing takes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.by_status: Counter[int] = Counter()
        self.buckets = [0] * len(BUCKETS)
        self.n_writes = 0
        self.seconds = 0.0

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        self.counts[f"{name}_total"] += n

    def group(self, group: Group, seconds: float) -> None:
        """Count a group that was stored."""
        done = [each for each in group.done if isinstance(each, Done)]
        self.count("groups")
        self.count("rows", sum(len(each.planned.rows) for each in done))
        self.count("rows_refused", sum(len(each.planned.refused) for each in done))
        self.count("alarms", sum(alarm.begins for alarm in group.writing.alarms))
        self.n_writes += 1
        self.seconds += seconds
        for i, bound in enumerate(BUCKETS):
            self.buckets[i] += seconds <= bound

    def text(self, gauges: dict[str, tuple[str, Any]]) -> str:
        """All metrics; gauges are given by name, each with its help and its value."""
        lines: list[str] = []
        for name, help in HELP.items():
            lines += [f"# HELP psimlearn_{name} {help}", f"# TYPE psimlearn_{name} counter"]
            if name == "requests_total":
                lines += [f'psimlearn_{name}{{status="{s}"}} {n}' for s, n in sorted(self.by_status.items())]
            else:
                lines.append(f"psimlearn_{name} {self.counts[name]}")
        for name, (help, value) in gauges.items():
            lines += [f"# HELP psimlearn_{name} {help}", f"# TYPE psimlearn_{name} gauge", f"psimlearn_{name} {value}"]
        return "\n".join(lines + self._histogram()) + "\n"

    def _histogram(self) -> list[str]:
        name = "psimlearn_write_seconds"
        bounds = [*map(str, BUCKETS), "+Inf"]
        counts = [*self.buckets, self.n_writes]
        return [
            f"# HELP {name} Seconds to store a group.",
            f"# TYPE {name} histogram",
            *(f'{name}_bucket{{le="{bound}"}} {n}' for bound, n in zip(bounds, counts, strict=True)),
            f"{name}_sum {self.seconds}",
            f"{name}_count {self.n_writes}",
        ]
