"""The state of each worker in `worker status`, by its heartbeats, whether its process is there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from leasehold import TaskQueue
from leasehold.cli.workers.overview import overview
from leasehold.cli.workers.pidfile import HeldPidFile, PidRecord, pid_files
from leasehold.core.model.records import SILENT_SECONDS, WorkerInfo
from leasehold.core.model.settings import HEARTBEAT_SECONDS
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore


def test_a_process_that_is_there_but_stopped_is_late_and_then_silent(tmp_path: Path) -> None:
    clock = ManualClock()
    env = Env(clock=clock)
    queue = TaskQueue(MemoryStore(env=env), num_workers=0, env=env)
    now, pid = clock.now(), os.getpid()
    for name, host in (("here", socket.gethostname()), ("far", "elsewhere")):
        info = WorkerInfo(
            id=name, host=host, pid=pid, queues=("q",), slots=1, started_at=now, heartbeat_at=now
        )
        queue.store.register_worker(info)
    record = PidRecord(pid=pid, role="worker", started_at=now, crew_pid=pid, worker_id="here")
    held = HeldPidFile(str(tmp_path), record)

    def states() -> set[str]:
        return {str(each["state"]) for each in overview(queue, pid_files(str(tmp_path)))}

    assert states() == {"alive"}
    clock.advance(3 * HEARTBEAT_SECONDS)
    assert states() == {"late"}
    clock.advance(SILENT_SECONDS)
    assert states() == {"silent"}
    for name in ("here", "far"):
        queue.store.renew(name, [])
    assert states() == {"alive"}
    held.close()
