"""A worker to be killed: `python -m support.doomed_worker <lock file> <output folder> <command>`.

It holds a lock, runs an endless task in a child process and the command, forks a bystander, tells
its pid, and waits.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys

from leasehold.env import SYSTEM
from leasehold.worker.executors.command import CommandExecutor
from leasehold.worker.executors.processes import ProcessExecutor
from support.child_tasks import spin
from support.runs import call_run, command_run


def main() -> None:
    lock_path, output_dir, command = sys.argv[1:]
    lock_fd = os.open(lock_path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)
    processes = ProcessExecutor(1, env=SYSTEM, lock_fd=lock_fd)
    commands = CommandExecutor(1, env=SYSTEM, lock_fd=lock_fd, output_dir=output_dir)
    task = call_run(spin)
    processes.start(task.run)
    commands.start(command_run({"shell": command}).run)
    task.report()
    # It inherits every connection of this process, and outlives it.
    bystander = os.fork()
    if bystander == 0:
        signal.pause()
    print(bystander, flush=True)  # noqa: T201 - the test reads it.
    sys.stdin.read()


if __name__ == "__main__":
    main()
