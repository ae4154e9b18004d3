"""A worker process begins when its store lets it, however long others keep that locked."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from leasehold.cli.exits import Exit
from leasehold.cli.workers.plan import CrewPlan, start_python
from leasehold.cli.workers.process import open_queue
from leasehold.errors import StoreUnavailableError
from leasehold.queue.facade import TaskQueue

HOLD = """
import sys
from pathlib import Path
from leasehold.stores.sqlite.disk.lock import WriteLock
with WriteLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class Waiting(logging.Handler):
    """Knows when the worker has said that it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.is_told = threading.Event()
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record.getMessage()
        self.is_told.set()


def test_a_store_that_stays_locked_for_long_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "jobs.db-run").mkdir(0o700)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "jobs.db-run" / "write.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    waiting = Waiting()
    logger = logging.getLogger("leasehold.worker.joblines")
    logger.addHandler(waiting)
    opened: list[TaskQueue] = []
    plan = CrewPlan(store_url=f"sqlite:///{tmp_path}/jobs.db?lock_timeout_seconds=0.05")
    worker = threading.Thread(target=lambda: opened.append(open_queue(plan)), daemon=True)
    try:
        worker.start()
        assert waiting.is_told.wait(30)
        assert "tries again" in waiting.said
        assert str(holder.pid) in waiting.said
        assert not opened
    finally:
        holder.communicate()
        logger.removeHandler(waiting)
    worker.join(30)
    [queue] = opened
    queue.shutdown()


def test_what_cannot_be_opened_at_all_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        open_queue(CrewPlan(store_url=f"sqlite:///{tmp_path}/nowhere/jobs.db"))


def test_a_look_at_the_application_ends_quietly_when_the_command_was_stopped(
    tmp_path: Path,
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(tmp_path / "said", "w+b") as said:
        plan = CrewPlan(store_url=f"sqlite:///{tmp_path}/jobs.db")
        probe = start_python("leasehold.cli.workers.probe", plan, writer, output=said.fileno())
        os.close(writer)
        assert probe.wait(60) == Exit.INTERRUPTED
        said.seek(0)
        assert said.read() == b""
