"""What runs jobs: leases, heartbeat, recovery sweep, supervisor, worker loop and executors.

These names are for authors of their own workers; the built-in worker is made of the same parts.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from leasehold.worker.heartbeat import Heartbeat
    from leasehold.worker.hooks import Hooks
    from leasehold.worker.leases import LeaseManager
    from leasehold.worker.stopping import StopReason
    from leasehold.worker.supervisor import Supervisor
    from leasehold.worker.sweep import RecoverySweep
    from leasehold.worker.task import TaskDefinition, TaskRegistry
    from leasehold.worker.worker import Worker

__all__ = [
    "Heartbeat",
    "Hooks",
    "LeaseManager",
    "RecoverySweep",
    "StopReason",
    "Supervisor",
    "TaskDefinition",
    "TaskRegistry",
    "Worker",
]

_HOMES: Final = {
    "Heartbeat": "heartbeat",
    "Hooks": "hooks",
    "LeaseManager": "leases",
    "RecoverySweep": "sweep",
    "StopReason": "stopping",
    "Supervisor": "supervisor",
    "TaskDefinition": "task",
    "TaskRegistry": "task",
    "Worker": "worker",
}


def __getattr__(name: str) -> Any:
    # Imported on demand: a process that only submits jobs never loads the code that runs them.
    if name not in _HOMES:
        raise AttributeError(f"module 'leasehold.worker' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"leasehold.worker.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
