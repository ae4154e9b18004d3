"""What `worker status` shows: the registry of the store, and the pid files of this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from leasehold.cli.workers.pidfile import PidFile
from leasehold.core.model.records import WorkerInfo, is_at_work, is_late, workers_at_work
from leasehold.core.model.settings import beat_seconds
from leasehold.documents.records import document_of
from leasehold.queue.facade import TaskQueue
from leasehold.queue.health import is_gone


def overview(queue: TaskQueue, files: Sequence[PidFile]) -> list[dict[str, Any]]:
    """A document for each worker of the store, oldest first.

    `state` is `alive`, `dead` (proved: its jobs are taken back by the next sweep), `gone` (a
    consumer whose process is not there any more: its jobs wait for their leases to end), `late`
    (heartbeats are missing) or `silent` (no sign of life for two minutes, and no proof).
    """
    by_worker = {file.record.worker_id: file for file in files if file.record.role == "worker"}
    workers = sorted(queue.workers(), key=lambda worker: worker.started_at)
    now, every = queue.now(), beat_seconds(queue.store.settings().values)
    return [
        _document(worker, file, _state(worker, file, now, every))
        for worker, file in ((each, by_worker.get(each.id)) for each in workers)
    ]


def not_of_crews(queue: TaskQueue, read_files: Callable[[], Iterable[PidFile]]) -> list[str]:
    """The ids of live workers of this machine that a program started itself, by `run_worker`."""
    workers = [
        each
        for each in workers_at_work(queue.workers(), queue.lost_workers(), queue.now())
        if each.host == socket.gethostname() and not is_gone(each)
    ]
    # Read afterwards: a worker of a crew writes its file just after it has registered.
    of_crews = {file.record.worker_id for file in read_files()}
    return [each.id for each in workers if each.id not in of_crews]


def remove_stale(files: Iterable[PidFile], queue: TaskQueue) -> int:
    """Remove the pid files of processes that are gone; returns how many.

    A worker's file stays while the registry still knows the worker: it is the proof of its death.
    """
    registered = {worker.id for worker in queue.workers()}
    stale = [file for file in files if file.record.worker_id not in registered and file.is_stale]
    for file in stale:
        file.remove()
    return len(stale)


def _document(worker: WorkerInfo, file: PidFile | None, state: str) -> dict[str, Any]:
    record = None if file is None else file.record
    return {
        "id": worker.id,
        "state": state,
        "kind": "consumer" if worker.is_consumer else "worker",
        "host": worker.host,
        "pid": worker.pid,
        "crew_pid": None if record is None else record.crew_pid,
        "app_version": worker.app_version,
        "queues": worker.queues,
        "slots": worker.slots,
        "running": worker.running,
        "jobs": [document_of(job) for job in worker.jobs],
        "started_at": worker.started_at,
        "heartbeat_at": worker.heartbeat_at,
        "log_path": None if record is None else record.log_path,
    }


def _state(worker: WorkerInfo, file: PidFile | None, now: datetime, every: float) -> str:
    if file is not None and file.is_stale:
        return "dead"
    if file is None and is_gone(worker):
        return "gone" if worker.is_consumer else "dead"
    # A process that is there may be stopped, and one elsewhere cut off: heartbeats tell.
    if not is_at_work(worker, now):
        return "silent"
    return "late" if is_late(worker, now, every) else "alive"
