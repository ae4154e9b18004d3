"""`python -m benchmarks.postgres`: the figures of the PostgreSQL store, asked and reached.

Everything is measured on one server that is started for it (or the one that LEASEHOLD_TEST_POSTGRES
names), each time in a fresh database. Ratios within one run mean something, rates do not. The last
part is as long as the time allows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from benchmarks import tasks
from benchmarks.postgres.crews import drained_per_second, has_graphile, has_others
from leasehold import NewJob, TaskQueue
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.stores.postgres.server.life import SERVER_UP_SECONDS
from support.servers import postgres

PGQUEUER = [(processes, batch) for processes in (1, 2) for batch in ("100", "500")]
"""Worker processes and sizes of PgQueuer's batches, of which the best count."""
AT_ONCE = RetentionPolicy(completed_seconds=0, archive_seconds=0)


class Run:
    """One run: the server, how much is done, and what came of it."""

    def __init__(self, server: str, *, quick: bool, minutes: float) -> None:
        self._server = server
        self._made = 0
        self._ends_at = time.perf_counter() + 60 * minutes
        self.quick = quick
        self.jobs = 2_000 if quick else 20_000
        self.repeats = 1 if quick else 3
        self.part = ""
        self.rows: list[dict[str, Any]] = []
        self.remarks: list[str] = []

    @property
    def is_over(self) -> bool:
        """Whether its time is up."""
        return time.perf_counter() > self._ends_at

    def row(
        self,
        what: str,
        reached: str,
        asked: str = "",
        met: bool | None = None,
        **figures: float | list[float],
    ) -> None:
        """Note a figure, and show it as a line of docs/benchmarks.md."""
        verdict = {None: "", True: "yes", False: "**no**"}[met]
        print(f"| {what} | {asked} | {reached} | {verdict} |", flush=True)
        row = {"part": self.part, "what": what, "asked": asked, "reached": reached, "met": met}
        self.rows.append(row | {"figures": figures})

    @contextmanager
    def database(self) -> Iterator[str]:
        """A fresh one."""
        self._made += 1
        name = f"bench_{os.getpid()}_{self._made}"
        with psycopg.connect(self._server, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        parts = urlsplit(self._server)
        try:
            yield urlunsplit((*parts[:2], f"/{name}", *parts[3:]))
        finally:
            with psycopg.connect(self._server, autocommit=True) as db:
                db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def drained(self, name: str, setting: str = "", *, jobs: int = 0, crew: int = 2) -> float:
        with self.database() as url:
            return drained_per_second(name, url, jobs or self.jobs, setting, crew)

    def medians(self, measures: dict[str, Callable[[], float]]) -> dict[str, float]:
        """Of several, their repeats interleaved."""
        found: dict[str, list[float]] = {name: [] for name in measures}
        for _ in range(self.repeats):
            for name, measure in measures.items():
                found[name].append(measure())
        return {name: statistics.median(values) for name, values in found.items()}


def ratio_of(run: Run, what: str, ours: float, other: float, least: float | None) -> None:
    """A row about two rates."""
    ratio = ours / other
    met = None if least is None else ratio >= least
    asked = "" if least is None else f"{least:g}"
    reached = f"{ours:,.0f} : {other:,.0f} per s = {ratio:.2f}"
    run.row(what, reached, asked, met, ours=ours, other=other, ratio=ratio)


def drain(run: Run) -> None:
    """The same jobs, by two worker processes each."""
    measures: dict[str, Callable[[], float]] = {
        "leasehold": lambda: run.drained("leasehold"),
        "bare": lambda: run.drained("bare"),
    }
    if has_others():
        tried = {(n, each): run.drained("pgqueuer", each, crew=n) for n, each in PGQUEUER}
        crew, batch = max(PGQUEUER, key=lambda each: tried[each])
        measures["pgqueuer"] = lambda: run.drained("pgqueuer", batch, crew=crew)
        shown = "; ".join(f"{n} x {each}: {rate:,.0f}" for (n, each), rate in tried.items())
        run.remarks.append(f"PgQueuer on asyncpg and uvloop, processes x batch: {shown} per s.")
    if has_graphile():
        measures["graphile-worker"] = lambda: run.drained("graphile")
    rates = run.medians(measures)
    if has_others():
        # Of what takes minutes a tenth is enough.
        rates["procrastinate"] = run.drained("procrastinate", jobs=run.jobs // 10)
    asked = {"procrastinate": 20.0, "pgqueuer": 1.5, "graphile-worker": 0.7, "bare": 0.6}
    for name, least in asked.items():
        if name in rates:
            what = f"drain of {run.jobs:,}, never analyzed, Leasehold : {name}"
            ratio_of(run, what, rates["leasehold"], rates[name], least)
        else:
            run.remarks.append(f"{name} was left out: make .venv/rivals (and Node for graphile).")


def analyzed(run: Run) -> None:
    """The same table without statistics, with those of a full one, and of a nearly empty one."""

    def analyze(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(b"ANALYZE")

    def when_full() -> float:
        with run.database() as url:
            return drained_per_second("leasehold", url, run.jobs, filled=lambda: analyze(url))

    def when_nearly_empty() -> float:
        with run.database() as url:
            drained_per_second("leasehold", url, 100)
            analyze(url)
            return drained_per_second("leasehold", url, run.jobs)

    found = run.medians(
        {
            "never": lambda: run.drained("leasehold"),
            "when full": when_full,
            "when nearly empty": when_nearly_empty,
        }
    )
    for when, least in (("when full", 0.8), ("when nearly empty", None)):
        what = f"drain, never analyzed : analyzed {when}"
        ratio_of(run, what, found["never"], found[when], least)


def depth(run: Run) -> None:
    """The first jobs of a deep queue, and of a shallow one."""
    deep = 20_000 if run.quick else 1_000_000

    def fill(url: str, pending: int) -> None:
        with TaskQueue(url, num_workers=0) as queue:
            for first in range(0, pending, 10_000):
                more = min(10_000, pending - first)
                queue.submit_many([NewJob("never", queue="deep", priority=1)] * more)

    # Filled once: a million jobs take longer to submit than to look past.
    with run.database() as shallow_url, run.database() as deep_url:
        fill(shallow_url, 1_000)
        fill(deep_url, deep)
        found = run.medians(
            {
                "few": lambda: drained_per_second("leasehold", shallow_url, run.jobs),
                "many": lambda: drained_per_second("leasehold", deep_url, run.jobs),
            }
        )
    what = f"drain beside {deep:,} pending : beside 1,000"
    ratio_of(run, what, found["many"], found["few"], 0.8)


def end_to_end(run: Run) -> None:
    """One producer that waits for each acknowledgement, alone and with a worker process."""
    jobs = run.jobs // 10

    def measure(*, works: bool) -> float:
        with run.database() as url, TaskQueue(url, num_workers=0) as queue:
            queue.submit(tasks.noop)
            with worker(url) if works else _nobody():
                began = time.perf_counter()
                for _ in range(jobs):
                    queue.submit(tasks.noop)
                while works and queue.get_queue_stats()["total_completed"] < jobs:
                    time.sleep(0.005)
                return jobs / (time.perf_counter() - began)

    found = run.medians(
        {"both": lambda: measure(works=True), "alone": lambda: measure(works=False)}
    )
    what = "end to end, one producer : that producer alone"
    ratio_of(run, what, found["both"], found["alone"], 0.6)


def pick_up(run: Run) -> None:
    """From submit to the start of the job in an idle worker process."""
    waits = []
    with run.database() as url, TaskQueue(url, num_workers=0) as queue, worker(url):
        for _ in range(20 if run.quick else 200):
            time.sleep(random.uniform(0.01, 0.05))
            began = time.time()
            waits.append(queue.submit(tasks.now).result(timeout=30) - began)
    waits.sort()
    p50, p99 = (1000 * waits[len(waits) * n // 100] for n in (50, 99))
    sync = _sync_millis()
    reached = f"{p50:.1f} / {p99:.1f} ms (a sync of the disk {sync:.1f} ms; it has two)"
    what = "pick-up by an idle worker, p50 / p99"
    run.row(what, reached, "p50 under 5 ms", p50 < 5, p50=p50, p99=p99, sync=sync)


def _sync_millis() -> float:
    """The median time of a sync of one page, as the server does it in each commit."""
    took = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(100):
            os.write(file.fileno(), bytes(8192))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
            time.sleep(0.005)
    return 1000 * statistics.median(took)


def recovery(run: Run) -> None:
    """From kill -9 of a worker process to the next start of its job, the worst."""
    # A server that was started a moment ago proves nobody dead: it has not heard of anybody yet.
    time.sleep(SERVER_UP_SECONDS + 1)
    took = max(_recovered(run) for _ in range(run.repeats))
    what = f"a killed worker's job runs again, the worst of {run.repeats}"
    run.row(what, f"{took:.1f} s", "3 s", took < 3, seconds=took)


def _recovered(run: Run) -> float:
    with run.database() as url, tempfile.TemporaryDirectory() as folder:
        starts = Path(folder) / "starts"
        with TaskQueue(url, num_workers=0) as queue, worker(url) as first:
            queue.submit(tasks.hold, str(starts), 60)
            _until(lambda: starts.exists() and starts.read_text().endswith("\n"))
            with worker(url) as second:
                # Workers look for the dead about once a second: at any point of that second.
                time.sleep(random.uniform(0, 1))
                began = time.time()
                first.kill()
                _until(lambda: len(starts.read_text().splitlines()) == 2)
                second.kill()
                return float(starts.read_text().splitlines()[1]) - began


def size(run: Run) -> None:
    """Tables and indexes under a steady load, cleaned up as it goes."""
    rounds, jobs = (3, 2_000) if run.quick else (20, 50_000)
    curve = []
    with run.database() as url, TaskQueue(url, num_workers=0) as queue:
        for _ in range(rounds):
            drained_per_second("leasehold", url, jobs)
            report = queue.store.prune(AT_ONCE, scope=Scope(force=True), actor="bench")
            while report.more:
                how = {"scope": Scope(force=True), "run": report.run, "actor": "bench"}
                report = queue.store.prune(AT_ONCE, **how)  # type: ignore[arg-type]
            curve.append(queue.describe()["size_bytes"] / 1024**2)
            if run.is_over and len(curve) >= rounds // 4:
                run.remarks.append(f"size ended early, after {len(curve)} of {rounds} rounds.")
                break
    shown = " ".join(f"{each:.0f}" for each in curve)
    ratio = curve[-1] / curve[len(curve) // 2]
    what = f"MiB after each {jobs:,} of {len(curve) * jobs:,} jobs; the last : the middle one"
    run.row(what, f"{shown} = {ratio:.2f}", "1.5 at most", ratio <= 1.5, curve=curve, ratio=ratio)


def processes(run: Run) -> None:
    """How throughput grows with worker processes, and where it ends."""
    found = {n: run.drained("leasehold", crew=n) for n in (1, 2, 3, 4, 6)}
    shown = ", ".join(f"{n}: {rate:,.0f} = {rate / found[1]:.2f}" for n, rate in found.items())
    what = f"drain by number of worker processes ({os.cpu_count()} cores)"
    run.row(what, shown, rates=[*found.values()])


@contextmanager
def worker(url: str) -> Iterator[subprocess.Popen[str]]:
    """A worker in another process, ready for work when this is entered."""
    program = [sys.executable, "-m", "benchmarks.worker", url, "-"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(program, text=True, **pipes) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child
        finally:
            child.terminate()


@contextmanager
def _nobody() -> Iterator[None]:
    yield


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.002)


# The longest comes last: it ends early where the time is up.
PARTS = (drain, pick_up, end_to_end, recovery, analyzed, processes, depth, size)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres", description=__doc__)
    names = ", ".join(part.__name__ for part in PARTS)
    parser.add_argument("--only", default="", metavar="PART,...", help=f"some of: {names}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, one repeat")
    parser.add_argument(
        "--minutes", type=float, default=11.0, help="after so many, `size` ends early (11)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    options = parser.parse_args()
    asked = options.only.split(",") if options.only else [part.__name__ for part in PARTS]
    chosen = [part for part in PARTS if part.__name__ in asked]
    if len(chosen) < len(asked):
        parser.error(f"--only is some of: {names}")
    with postgres(durable=True) as server:
        with psycopg.connect(server) as db:
            version = db.info.server_version // 10000
        machine = (
            f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}, "
            f"PostgreSQL {version}, fsync on, history on"
        )
        print(f"{machine}\n\n| | asked | reached | met |\n| --- | --- | --- | --- |", flush=True)
        run = Run(server, quick=options.quick, minutes=options.minutes)
        for part in chosen:
            began = time.perf_counter()
            run.part = part.__name__
            part(run)
            run.remarks.append(f"{run.part} took {time.perf_counter() - began:.0f} s.")
            if options.json is not None:
                document = {"machine": machine, "rows": run.rows, "remarks": run.remarks}
                options.json.write_text(json.dumps(document, indent=1) + "\n")
    print("", *run.remarks, sep="\n")


if __name__ == "__main__":
    main()
