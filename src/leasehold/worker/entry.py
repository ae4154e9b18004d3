"""A worker's entry in the registry: where it runs, and which jobs others may leave to it."""

from __future__ import annotations

import os
import socket
from datetime import datetime

from leasehold.core.model.job import COMMAND_TASK
from leasehold.core.model.records import WorkerInfo
from leasehold.worker.task import TaskRegistry
from leasehold.worker.worker_rules import WorkerRules


def entry_of(worker: str, rules: WorkerRules, registry: TaskRegistry, now: datetime) -> WorkerInfo:
    """The entry of a worker that starts in this process."""
    return WorkerInfo(
        id=worker,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=rules.queues,
        slots=rules.slots,
        started_at=now,
        heartbeat_at=now,
        tasks=_known_tasks(rules, registry),
        app_version=rules.app_version,
    )


def _known_tasks(rules: WorkerRules, registry: TaskRegistry) -> tuple[str, ...]:
    known = (COMMAND_TASK,) if rules.allow_commands else ()
    if rules.tasks is None:
        return (*known, *registry.known_names())
    return tuple(
        name
        for name in rules.tasks
        if name in known or name in registry or registry.may_import(name)
    )
