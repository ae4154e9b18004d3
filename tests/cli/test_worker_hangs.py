"""A worker process that hangs when it is told to stop is killed by its crew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Self

import msgspec
import pytest

from cli.crews import WAIT
from leasehold.cli.exits import Exit
from leasehold.cli.workers.ends import LOOK_SECONDS_MAX, MARGIN_SECONDS, Deadlines
from leasehold.cli.workers.pidfile import PidFile, pid_files
from leasehold.cli.workers.plan import CrewPlan, workers_folder
from leasehold.connect import connect

READY = "ready: "
KILLED = "has not stopped in time, and is killed"
IMPATIENT_CREW = """
import sys
import msgspec
from leasehold.cli.workers import ends
from leasehold.cli.workers.crew import Crew
from leasehold.cli.workers.plan import CrewPlan
from leasehold.worker.loglines import log_to_stderr

ends.MARGIN_SECONDS = 0.1
log_to_stderr(quiet=False, log_format="plain", utc=False)
sys.exit(Crew(msgspec.json.decode(sys.argv[1], type=CrewPlan)).run())
"""
"""The real one would wait for a quarter of a minute."""


class HangingCrew:
    """A crew of one worker process that was stopped by the system, and so heeds no signal."""

    def __init__(self, plan: CrewPlan) -> None:
        arguments = [sys.executable, "-P", "-c", IMPATIENT_CREW, msgspec.json.encode(plan).decode()]
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        self.log = ""
        self.until(READY)
        [self.worker] = self._workers(plan)
        self._stop(plan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            os.kill(self.worker.record.pid, signal.SIGKILL)
        self.process.communicate()

    def _stop(self, plan: CrewPlan) -> None:
        """Stop the worker where it keeps nobody else from writing."""
        pid = self.worker.record.pid
        with closing(connect(plan.store_url)) as store:
            while True:
                os.kill(pid, signal.SIGSTOP)
                writing = threading.Thread(target=store.recover, kwargs={"actor": "me"})
                writing.start()
                writing.join(2)
                if not writing.is_alive():
                    return
                os.kill(pid, signal.SIGCONT)
                writing.join()

    @staticmethod
    def _workers(plan: CrewPlan) -> list[PidFile]:
        files = pid_files(workers_folder(plan.store_url))
        return [file for file in files if file.record.role == "worker" and not file.is_stale]

    def until(self, words: str) -> None:
        """Wait until the log has these words."""
        assert self.process.stderr is not None
        while words not in self.log:
            line = self.process.stderr.readline()
            assert line, self.log
            self.log += line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_does_not_stop_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    with HangingCrew(CrewPlan(store_url=str(tmp_path / "jobs.db"), grace_seconds=0.1)) as crew:
        crew.process.send_signal(number)
        crew.until(f"worker process {crew.worker.record.pid} {KILLED}")
        assert crew.process.wait(WAIT) == Exit.OK
        assert crew.worker.is_stale


def test_a_second_signal_ends_the_grace(tmp_path: Path) -> None:
    with HangingCrew(CrewPlan(store_url=str(tmp_path / "jobs.db"), grace_seconds=3600)) as crew:
        crew.process.send_signal(signal.SIGTERM)
        crew.until("stopping: waiting for 1 worker")
        crew.process.send_signal(signal.SIGTERM)
        crew.until(KILLED)
        assert crew.process.wait(WAIT) == Exit.OK


def test_a_process_that_another_one_replaces_is_killed_too(tmp_path: Path) -> None:
    with HangingCrew(CrewPlan(store_url=str(tmp_path / "jobs.db"), grace_seconds=0.1)) as crew:
        crew.process.send_signal(signal.SIGUSR1)
        crew.until(f"worker process {crew.worker.record.pid} {KILLED}")
        crew.until("all workers have been restarted")
        crew.process.send_signal(signal.SIGTERM)
        assert crew.process.wait(WAIT) == Exit.OK


ORPHAN = """
import atexit, signal, socket, sys, threading
from leasehold.cli.workers import process

process.MARGIN_SECONDS = 0.1
crew, link = socket.socketpair()
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
orphan = threading.Thread(target=process._stop_with_crew, args=(link, 0.1), daemon=True)
orphan.start()
if sys.argv[1] == "thread":
    threading.Thread(target=threading.Event().wait).start()
else:
    atexit.register(threading.Event().wait)
crew.close()
while True:
    signal.pause()
"""
"""A worker process whose crew was killed, and that does not come to its end."""


@pytest.mark.parametrize("hangs_in", ["thread", "atexit"])
def test_a_process_that_hangs_without_a_crew_ends_itself(hangs_in: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", ORPHAN, hangs_in], stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=WAIT)
    assert process.returncode == -signal.SIGKILL, said


def test_a_deadline_only_ever_comes_nearer() -> None:
    deadlines = Deadlines(grace_seconds=10 * 24 * LOOK_SECONDS_MAX)
    assert deadlines.next_look(0) is None
    deadlines.told(1, 0)
    deadlines.told(2, 0)
    assert deadlines.next_look(0) == LOOK_SECONDS_MAX
    deadlines.told(1, 5, at_once=True)
    deadlines.told(1, 6)
    assert deadlines.next_look(0) == 5 + MARGIN_SECONDS
    assert deadlines.missed(5 + MARGIN_SECONDS) == [1]
    deadlines.forget(1)
    assert deadlines.missed(5 + MARGIN_SECONDS) == []
