"""Workers in the foreground of a terminal: Ctrl-C once, and twice."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from cli.conftest import Shell
from cli.crews import WAIT, Gate, crews, eventually, gate, live_workers, running
from leasehold import Status, TaskQueue
from leasehold.cli.exits import Exit

__all__ = ["crews", "gate"]


class Terminal:
    """A terminal with one command in its foreground."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self._fd = fd
        self.shown = ""

    def read_until(self, text: str) -> None:
        while text not in self.shown:
            self.shown += os.read(self._fd, 4096).decode()

    def ctrl_c(self) -> None:
        os.write(self._fd, b"\x03")


@contextmanager
def foreground(shell: Shell, *arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    # Whoever leads a session and opens a terminal is controlled by it: Ctrl-C reaches it.
    script = f'exec "$@" <>{os.ttyname(theirs)} >&0 2>&0'
    process = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *shell.command(*arguments)],
        cwd=shell.folder,
        env=shell.environment,
        start_new_session=True,
    )
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(theirs)
        os.close(ours)


def test_a_long_file_shows_how_far_it_is(crews: Shell) -> None:
    lines = "".join(f'{{"task": "t", "args": [{n}]}}\n' for n in range(2000))
    (crews.folder / "jobs.jsonl").write_text(lines)
    with foreground(crews, "enqueue", "--file", "jobs.jsonl") as terminal:
        terminal.read_until("submitted 2,000 jobs")
        assert terminal.process.wait(WAIT) == Exit.OK
    assert "2,000 lines" in terminal.shown


def job_of(shell: Shell) -> tuple[Status, int]:
    with TaskQueue(shell.folder / "leasehold.db", num_workers=0) as queue:
        job = queue.get("job")
    return job.status, job.attempts


def test_the_first_lets_the_job_finish(crews: Shell, gate: Gate) -> None:
    crews.ok("enqueue", "--command", gate.command, "--id", "job")
    with foreground(crews, "worker", "start", "--allow-commands", "--count", "2") as terminal:
        eventually(running(crews, "job"))
        terminal.ctrl_c()
        terminal.read_until("stopping: waiting for 2 workers, at most 30 s; Ctrl-C again to stop")
        terminal.read_until("stopping: waiting for 1 job, at most 30 s")
        gate.open()
        terminal.read_until("job job (command): completed")
        assert terminal.process.wait(WAIT) == Exit.OK
    assert job_of(crews) == (Status.COMPLETED, 1)
    assert "\x1b" not in terminal.shown


def test_the_second_hands_it_back_at_once(crews: Shell, gate: Gate) -> None:
    crews.ok("enqueue", "--command", gate.command, "--id", "job")
    with foreground(crews, "worker", "start", "--allow-commands") as terminal:
        eventually(running(crews, "job"))
        [worker] = live_workers(crews)
        # A process that is too busy to heed the first must still hear of the second.
        os.kill(worker.record.pid, signal.SIGSTOP)
        terminal.ctrl_c()
        terminal.read_until("stopping: waiting for 1 worker, at most 30 s; Ctrl-C again to stop")
        terminal.ctrl_c()
        terminal.read_until("stopping at once: running jobs are handed back")
        os.kill(worker.record.pid, signal.SIGCONT)
        assert terminal.process.wait(WAIT) == Exit.INTERRUPTED
    assert job_of(crews) == (Status.PENDING, 0)
