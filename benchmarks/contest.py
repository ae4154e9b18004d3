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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from benchmarks.contenders import Contender
from benchmarks.rivals.effects import RECORD, Effect, read

ROOT = Path(__file__).parent.parent
RIVALS = ROOT / ".venv" / "rivals"
"""Where `make against` installs them."""
NODE_RIVALS = Path(__file__).parent / "rivals" / "node"
CALL_SECONDS_MAX = 120.0
"""How long a producer may take."""
START_SECONDS_MAX = 30.0
"""How long a worker may take until its first job has run."""


class Fresh:
    """A contender on a fresh, empty store, and the record of what its jobs did."""

    def __init__(self, contender: Contender, program: str, url: str, folder: Path) -> None:
        if contender.is_of_node:
            name = contender.module.removeprefix("node/")
            self._command = [program, str(NODE_RIVALS / "run.cjs"), name]
        else:
            self._command = [program, "-m", "benchmarks.rivals.run", contender.module]
        folder.mkdir(parents=True)
        self._effects = folder / "effects"
        self._gate = folder / "gate"
        self._complaints = folder / "complaints"
        self._environment = {
            **os.environ,
            "BENCH_URL": contender.url(url),
            "BENCH_EFFECTS": str(self._effects),
            "PYTHONPATH": str(ROOT),
            "NODE_PATH": os.environ.get("NODE_PATH") or str(RIVALS / "node_modules"),
        }
        self.version, *more = self._call("set_up").split()
        self.has_bulk = more == ["bulk"]

    def submit(self, jobs: int, verb: str = "submit", *more: float) -> float:
        """Seconds that it took one producer; one job more is submitted before the clock starts."""
        return float(self._call(verb, str(jobs), *map(str, more)))

    def submit_fast(self, jobs: int) -> None:
        self.submit(jobs, "bulk" if self.has_bulk else "submit")

    def producers(self, jobs: int, number: int) -> None:
        """Submit so many jobs from each of some processes at the same time.

        They begin when all of them have started, and one job of each has run: to start an
        interpreter and to import a queue takes a core longer than to submit hundreds of jobs.
        """
        first_jobs_end = self._written() + number * RECORD.size
        gate = {"BENCH_GATE": str(self._gate)}
        running = [self._start("submit", str(jobs), more=gate) for _ in range(number)]
        try:
            ends_at = time.monotonic() + START_SECONDS_MAX
            while self._written() < first_jobs_end and time.monotonic() < ends_at:
                if any(each.poll() for each in running):
                    break
                time.sleep(0.005)
            self._gate.touch()
            codes = [each.wait(CALL_SECONDS_MAX) for each in running]
        finally:
            for each in running:
                kill(each)
            self._gate.unlink(missing_ok=True)
        if any(codes):
            raise RuntimeError(f"a producer failed: {self._last_complaint()}")

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

    def wait_for(self, jobs: int, seconds_max: float) -> None:
        """Until so many records were written, or so long since the first of them."""
        ends_at = time.monotonic() + START_SECONDS_MAX
        has_begun = False
        while (written := self._written()) < jobs * RECORD.size:
            if written and not has_begun:
                has_begun = True
                ends_at = time.monotonic() + seconds_max
            if time.monotonic() > ends_at:
                break
            time.sleep(0.005)
        if not written:
            raise RuntimeError(f"no job has run: {self._last_complaint()}")

    def _written(self) -> int:
        return self._effects.stat().st_size if self._effects.exists() else 0

    def _last_complaint(self) -> str:
        lines = self._complaints.read_text().strip().splitlines()
        return lines[-1].strip() if lines else "nothing was said about it"

    def _call(self, *arguments: str) -> str:
        process = self._start(*arguments)
        try:
            said, _ = process.communicate(timeout=CALL_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{arguments[0]} took more than {CALL_SECONDS_MAX:.0f} s") from None
        finally:
            kill(process)
        if process.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {self._last_complaint()}")
        return said.strip().rpartition("\n")[2]

    def _start(
        self, *arguments: str, more: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.Popen[str]:
        output = subprocess.DEVNULL if arguments[0] == "work" else subprocess.PIPE
        command = [*self._command, *arguments]
        with self._complaints.open("a") as complaints:
            try:
                return subprocess.Popen(
                    command,
                    env={**self._environment, **more},
                    stdout=output,
                    stderr=complaints,
                    text=True,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise RuntimeError("not installed: make .venv/rivals") from None


def kill(process: subprocess.Popen[str]) -> None:
    """Kill -9 a process and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def program_of(contender: Contender) -> str:
    """The interpreter that has the contender."""
    if contender.is_ours:
        return sys.executable
    if contender.is_of_node:
        return shutil.which("node") or "node"
    return str(RIVALS / contender.environment / "bin" / "python")
