"""The first and last lines of a worker process: its store, queues and tasks, and how it ended."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from leasehold.core.model.phrases import counted, listed
from leasehold.core.model.records import ALL_QUEUES
from leasehold.version import __version__
from leasehold.worker.safelog import safe_logger

if TYPE_CHECKING:
    from leasehold.core.contract.store import Store
    from leasehold.worker.statistics import WorkerStatistics
    from leasehold.worker.stopping import StopReason

logger = safe_logger("leasehold.worker")

NAMES_MAX: Final = 20


def say_hello(
    worker: str,
    store: Store,
    queues: Collection[str],
    slots: int,
    tasks: Collection[str],
    *,
    allow_commands: bool,
) -> None:
    """Log what this worker serves."""
    logger.info(
        "leasehold %s: worker %s serves %s of store %s with %s",
        __version__,
        worker,
        _queues(queues),
        store,
        counted(slots, "slot"),
    )
    if tasks:
        logger.info("tasks: %s", shortened(sorted(tasks)))
    if allow_commands:
        logger.info("it also runs commands")


def _queues(names: Collection[str]) -> str:
    if ALL_QUEUES in names:
        return "all queues"
    return f"{'queue' if len(names) == 1 else 'queues'} {listed(names)}"


_REASONS: Final = {"unrunnable": "the remaining jobs need other workers"}
"""The reasons whose name does not say enough."""


def say_goodbye(worker: str, reason: StopReason, did: WorkerStatistics) -> None:
    """Log why this worker stopped, and how much it did."""
    told = {
        "completed": did.completed,
        "failed": did.failed,
        "cancelled": did.cancelled,
        "handed back": did.handed_back,
    }
    logger.info(
        "worker %s has stopped%s: %s",
        worker,
        "" if reason == "stopped" else f" ({_REASONS.get(reason, reason)})",
        ", ".join(f"{count:,} {what}" for what, count in told.items() if count) or "no job was run",
    )


def shortened(names: list[str]) -> str:
    """The first few names, and the number of further ones."""
    more = len(names) - NAMES_MAX
    return ", ".join([*names[:NAMES_MAX], *([f"and {more} more"] if more > 0 else [])])
