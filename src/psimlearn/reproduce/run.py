"""Run the jobs of an experiment, one process per core. Every result is written at once; no job runs twice."""

import json
import os
import platform
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from psimlearn.errors import SettingsError
from psimlearn.evaluate.compare import Failure, attempted
from psimlearn.files.atomic import atomic
from psimlearn.reproduce.experiment import Experiment, Job
from psimlearn.reproduce.given import given
from psimlearn.reproduce.methods import learnt
from psimlearn.reproduce.sets import fold_of, missing
from psimlearn.reproduce.theorems import checked

__all__ = ["performed", "results_of", "run"]

PACKAGES = ("jax", "numpy", "optax", "psimlearn", "scikit-learn", "scipy")


def run(
    experiment: Experiment, folder: Path, *, workers: int, only: Sequence[str] = (), fresh: bool = False
) -> Path | None:
    """Run the jobs that have no result yet; return the file of results, or None if there are none.

    Sets whose recordings are not at hand are left out, with a message. Results whose settings have changed are run
    again.

    Args:
        experiment: the experiment.
        folder: the folder of result files.
        workers: the number of processes.
        only: sets to run; empty for all.
        fresh: run every job again.
    """
    path = folder / f"{experiment.name}.json"
    if unknown := [name for name in only if name not in experiment.sets]:
        raise SettingsError(f"{experiment.name}: required sets of {list(experiment.sets)}, received {unknown}.")
    jobs = experiment.jobs()
    kept = {} if fresh or not path.exists() else results_of(path)
    done = {job.key: kept[job.key] for job in jobs if kept.get(job.key, {}).get("settings") == _plain(job.settings)}
    to_do = [job for job in jobs if job.key not in done and job.set in (only or experiment.sets)]
    to_do = _possible(experiment, to_do)
    if not (done or to_do):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    clock = _Clock(workers)
    for result in done.values():
        clock.note(result)
    with _Progress(experiment.title, len(done) + len(to_do), len(done)) as shown:
        for result in _results(to_do, workers):
            done[f"{result['set']}/{result['method']}/{result['fold']}"] = result
            clock.note(result)
            _write(path, experiment, {job.key: done[job.key] for job in jobs if job.key in done})
            shown.tell(result, clock.left([job for job in to_do if job.key not in done]))
    if not to_do:
        _write(path, experiment, done)
    return path


def _possible(experiment: Experiment, jobs: list[Job]) -> list[Job]:
    """The jobs whose recordings are at hand."""
    absent = {name: missing(experiment.sets[name]) for name in dict.fromkeys(job.set for job in jobs)}
    for name, why in absent.items():
        if why:
            Console().print(f"{experiment.title}: {name} is left out: {why}", highlight=False, soft_wrap=True)
    return [job for job in jobs if not absent[job.set]]


def results_of(path: Path) -> dict[str, Any]:
    """The results in a file, by key."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["results"]
    return found


# -- jobs ------------------------------------------------------------------------------------------------------------


def _results(jobs: Sequence[Job], workers: int) -> Iterator[dict[str, Any]]:
    """Results in the order in which jobs finish. Each worker keeps its linear algebra to one thread."""
    if workers <= 1:
        yield from map(performed, jobs)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_deaf)
    waiting: set[Future[dict[str, Any]]] = {pool.submit(performed, job) for job in jobs}
    try:
        while waiting:
            finished, waiting = wait(waiting, return_when="FIRST_COMPLETED")
            yield from (future.result() for future in finished)
    finally:  # an interruption ends the workers too, in the middle of a job
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in active_children():
            worker.terminate()


def _deaf() -> None:
    """Ignore Ctrl-C in a worker: the process that started it receives Ctrl-C and ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def performed(job: Job) -> dict[str, Any]:
    """Learn and score. The result of a failed method holds the reason, and the experiment continues."""
    began, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1):
        found = attempted(_found, job.settings)
    if isinstance(found, Failure):
        found = {"failed": f"{type(found.error).__name__}: {found.error}"}
    seconds = {"seconds": round(time.perf_counter() - began, 3), "cpu": round(time.process_time() - cpu, 3)}
    plain: dict[str, Any] = _plain(
        {"set": job.set, "method": job.method, "fold": job.fold} | found | seconds | {"settings": job.settings}
    )
    return plain


def _found(settings: dict[str, Any]) -> dict[str, Any]:
    """The scores of a job's method on its fold."""
    options = {name: value for name, value in settings["method"].items() if name not in ("method", "only")}
    if settings["method"]["method"] == "theorem":
        return checked(settings, **options)
    fold = fold_of(settings)
    data = given(fold.train, settings["validation"], fold.horizon, fold.skip, settings["seed"])
    forecaster, chosen = learnt(data, settings["method"]["method"], **options)
    return fold.score(forecaster) | {"chosen": chosen}


# -- files -----------------------------------------------------------------------------------------------------------


def _write(path: Path, experiment: Experiment, results: dict[str, Any]) -> None:
    """Write the file whole or not at all, so that an interruption loses nothing."""
    head = {
        "name": experiment.name,
        "title": experiment.title,
        "n_folds": experiment.n_folds,
        "seed": experiment.seed,
        "versions": {"python": platform.python_version()} | _versions(),
        "cores": os.cpu_count(),
    }
    # a line for each job
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(result, allow_nan=False)}" for key, result in results.items())
    with atomic(path) as file:
        file.write((json.dumps(head)[:-1] + ',\n"results": {\n' + lines + "\n}}\n").encode())


def _versions() -> dict[str, str]:
    """Versions of the installed packages that results depend on."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _plain(value: Any) -> Any:
    """The value as JSON can hold it; a number that is not finite becomes its name."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


# -- progress --------------------------------------------------------------------------------------------------------


class _Clock:
    """Estimates the time left, from the time that each method took on other folds of the same set."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.seconds: dict[tuple[str, str], list[float]] = defaultdict(list)

    def note(self, result: dict[str, Any]) -> None:
        """Keep the seconds of a result."""
        self.seconds[result["set"], result["method"]].append(result["seconds"])

    def left(self, jobs: Sequence[Job]) -> float:
        """The seconds that these jobs will take."""
        usual = np.mean([np.mean(times) for times in self.seconds.values()])
        expected = [np.mean(self.seconds.get((job.set, job.method), [usual])) for job in jobs]
        return float(max([0.0, np.sum(expected) / self.workers, *expected]))


class _Progress:
    """A progress bar on a terminal; elsewhere one line per job."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self.console = Console()
        self.total, self.count = total, done
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(title, total=total, completed=done, left="")
        if not self.console.is_terminal:
            self.console.print(f"{title}: {done} of {total} are done", highlight=False)

    def __enter__(self) -> "_Progress":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, result: dict[str, Any], left: float) -> None:
        """Show that a job is done."""
        self.count += 1
        what = f"{result['set']}, fold {result['fold']}, {result['method']}"
        how = result.get("failed") or (f"{float(result['errors'][0]):.4g}" if "errors" in result else "done")
        remaining = f"{left / 60:.1f} min left"
        if self.console.is_terminal:
            self.bar.update(self.task, advance=1, description=what, left=remaining)
        else:
            line = f"[{self.count}/{self.total}] {what}: {how} in {result['seconds']:.1f} s; {remaining}"
            self.console.print(line, highlight=False, soft_wrap=True)
