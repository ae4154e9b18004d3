"""What runs jobs: leases, heartbeat, recovery sweep, supervisor, worker loop and executors.

The names here are for authors of a worker of their own; the built-in one is made of the same.
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
    # Imported when asked for: who only submits jobs never loads what runs them.
    if name not in _HOMES:
        raise AttributeError(f"module 'leasehold.worker' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"leasehold.worker.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
