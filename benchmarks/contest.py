"""Contenders: Leasehold and its rivals, each producer and worker in a process of its own.

All are asked the same things in the same way (`rivals/run.py`), and what their jobs did is read
from one file that every task appends to (`rivals/effects.py`). No wait is without an end: what is
not done by then is told as it stands.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rivals.effects import RECORD, Effect, read

ROOT = Path(__file__).parent.parent
RIVALS = ROOT / ".venv" / "rivals"
"""Where `make against` installs them."""
NODE_RIVALS = Path(__file__).parent / "rivals" / "node"
LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Contender:
    """One queue in one configuration."""

    name: str
    module: str
    place: str
    """`sqlite`, `postgres`, `redis` (in memory) or `redis-aof` (each write synced)."""
    durability: str
    is_ours: bool = False
    url_suffix: str = ""

    @property
    def is_of_node(self) -> bool:
        return self.module.startswith("node/")


OURS = "leasehold_itself"
CONTENDERS = (
    Contender("Leasehold, SQLite", OURS, "sqlite", "each write synced", True),
    Contender(
        "Leasehold, SQLite normal",
        OURS,
        "sqlite",
        "synced now and then",
        True,
        "?durability=normal",
    ),
    Contender("Leasehold, PostgreSQL", OURS, "postgres", "each write synced", True),
    Contender("huey, SQLite", "huey_sqlite", "sqlite", "each write synced"),
    Contender("huey, Redis", "huey_redis", "redis", "none"),
    Contender("Celery, Redis", "celery_redis", "redis", "none"),
    Contender("RQ, Redis", "rq_redis", "redis", "none"),
    Contender("Dramatiq, Redis", "dramatiq_redis", "redis", "none"),
    Contender("taskiq, Redis", "taskiq_redis", "redis", "none"),
    Contender("taskiq, durable Redis", "taskiq_redis", "redis-aof", "each write synced"),
    Contender("SAQ, Redis", "saq_redis", "redis", "none"),
    Contender("arq, Redis", "arq_redis", "redis", "none"),
    Contender(
        "Procrastinate, PostgreSQL", "procrastinate_postgres", "postgres", "each write synced"
    ),
    Contender("BullMQ, Redis", "node/bullmq", "redis", "none"),
    Contender("BullMQ, durable Redis", "node/bullmq", "redis-aof", "each write synced"),
    Contender("graphile-worker, PostgreSQL", "node/graphile", "postgres", "each write synced"),
    Contender("PgQueuer, PostgreSQL", "pgqueuer_postgres", "postgres", "each write synced"),
)


class Fresh:
    """A contender on a fresh, empty store, and the record of what its jobs did."""

    def __init__(self, contender: Contender, program: str, url: str, effects: Path) -> None:
        if contender.is_of_node:
            name = contender.module.removeprefix("node/")
            self._command = [program, str(NODE_RIVALS / "run.cjs"), name]
        else:
            self._command = [program, "-m", "benchmarks.rivals.run", contender.module]
        self._effects = effects
        effects.unlink(missing_ok=True)
        self._environment = {
            **os.environ,
            "BENCH_URL": url + contender.url_suffix,
            "BENCH_EFFECTS": str(effects),
            "PYTHONPATH": str(ROOT),
            "NODE_PATH": os.environ.get("NODE_PATH") or str(RIVALS / "node_modules"),
        }
        self.has_bulk = self._call("set_up").strip() == "bulk"

    def submit(self, jobs: int, verb: str = "submit", job_seconds: float = 0.0) -> float:
        """Seconds that it took one producer; one job more is submitted before the clock starts."""
        return float(self._call(verb, str(jobs), str(job_seconds)))

    def submit_fast(self, jobs: int) -> None:
        self.submit(jobs, "bulk" if self.has_bulk else "submit")

    def producers(self, jobs: int, number: int) -> None:
        """Submit so many jobs from each of some processes at the same time."""
        running = [self._start("submit", str(jobs)) for _ in range(number)]
        for each in running:
            each.wait(LIMIT_SECONDS)

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        """A worker; whatever it started ends with it."""
        process = self._start("work")
        try:
            yield process
        finally:
            kill(process)

    def effects(self) -> list[Effect]:
        return read(self._effects.read_bytes()) if self._effects.exists() else []

    def wait_for(self, jobs: int) -> bool:
        """Until so many records were written; False when that took too long."""
        return until(lambda: self._written() >= jobs * RECORD.size)

    def wait_for_numbers(self, jobs: int) -> bool:
        """Until so many different jobs have run."""
        return until(lambda: len({effect.number for effect in self.effects()}) >= jobs)

    def _written(self) -> int:
        return self._effects.stat().st_size if self._effects.exists() else 0

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "it failed")
        return done.stdout.strip().rpartition("\n")[2]

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *arguments],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill -9 a worker and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until(condition: Callable[[], bool]) -> bool:
    ends_at = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.005)
    return True


def program_of(contender: Contender, rivals: str | None) -> str | None:
    """The interpreter that has the contender; None if there is none."""
    if contender.is_of_node:
        return shutil.which("node")
    return sys.executable if contender.is_ours else rivals
