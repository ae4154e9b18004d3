"""Verbs of the store of which a caller with a scope sees the part that is theirs.

Upkeep is among them: work that is due by the store's own rules is done for any caller, since there
may be no other. Such a caller chooses nothing about it, and is only told when to ask again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from leasehold.core.model.lease import SweepReport
from leasehold.core.model.records import WorkerInfo, serves
from leasehold.core.model.retention import CleanUp, PruneReport
from leasehold.core.model.schedule import Fired

_DESCRIBED: Final = ("kind", "durability", "store_id")
"""The parts of the store's description that are told; not its size, say."""


def _pruned(report: PruneReport) -> PruneReport:
    """The pace of a clean-up: for as long as the lock was held, others go first."""
    return PruneReport(
        run=report.run,
        more=report.more,
        next_due_at=report.next_due_at,
        lock_seconds=report.lock_seconds,
    )


def _uncounted(made: CleanUp) -> CleanUp:
    """That a clean-up was made, and when: the caller that continues it looks for its record."""
    return CleanUp(
        run=made.run,
        mode=made.mode,
        actor="",
        started_at=made.started_at,
        active_at=made.active_at,
        ended_at=made.ended_at,
    )


def _if_own(queues: frozenset[str], found: Any) -> Any:
    return found if found is not None and found.queue in queues else None


def workers_of(queues: frozenset[str], workers: list[WorkerInfo]) -> list[WorkerInfo]:
    """The workers of these queues, to tell why a job waits; not where they run, nor their jobs.

    Of the jobs that each holds those of these queues are counted, among the first hundred.
    """
    return [
        msgspec.structs.replace(
            each,
            host=None,
            pid=None,
            tasks=(),
            jobs=(),
            running=sum(job.queue in queues for job in each.jobs),
            queues=tuple(name for name in sorted(queues) if serves(each.queues, name)),
        )
        for each in workers
        if any(serves(each.queues, name) for name in queues)
    ]


VISIBLE_PART: Final[dict[str, Callable[[frozenset[str], Any], Any]]] = {
    "queues": lambda queues, names: [each for each in names if each in queues],
    "list_queues": lambda queues, infos: [each for each in infos if each.name in queues],
    "metrics_by_queue": lambda queues, found: [each for each in found if each.queue in queues],
    "schedules": lambda queues, known: [each for each in known if each.queue in queues],
    "get": _if_own,
    "archived": _if_own,
    "get_schedule": _if_own,
    "workers": workers_of,
    "describe": lambda queues, about: {
        **{name: about[name] for name in _DESCRIBED if name in about},
        "queues": sorted(queues),
    },
    "recover": lambda *_: SweepReport(),
    "promote": lambda *_: 0,
    "fire_schedules": lambda *_: Fired(),
    "prune": lambda _, report: _pruned(report),
    "cleanups": lambda _, made: [_uncounted(each) for each in made],
}
"""By verb, from the caller's queues and the store's answer to the answer that is told."""
