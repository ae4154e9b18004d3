"""The whole store at one glance: queues, jobs, workers, and what looks wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from leasehold.cli.documents import document_of
from leasehold.cli.session import Session
from leasehold.core.queue_config import QueueState
from leasehold.core.status import Status

QueueFigures = Mapping[str, Any]
"""A queue's name and state, a count per status, and its lifetime totals as `total_...`."""


class Overview(NamedTuple):
    """What there was at one moment."""

    at: datetime
    store: str
    total: Mapping[str, int]
    queues: Sequence[QueueFigures]
    workers: Sequence[Mapping[str, Any]]

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "store": self.store,
            "at": self.at,
            "jobs": {status.value: self.total[status.value] for status in Status},
            "queues": list(self.queues),
            "workers": list(self.workers),
            "warnings": list(warnings_of(self)),
        }


def look(session: Session) -> Overview:
    """Look at everything once. Nothing of it counts jobs one by one."""
    queue = session.queue
    return Overview(
        at=queue.now(),
        store=session.store_url,
        total=queue.get_queue_stats(),
        queues=[queue_figures(session, name) for name in queue.queues()],
        workers=[document_of(worker) for worker in queue.workers()],
    )


def queue_figures(session: Session, name: str) -> dict[str, Any]:
    """The state and the figures of one queue."""
    state = session.queue.queue_info(name).state
    return {"queue": name, "state": state.value, **session.queue.get_queue_stats(name)}


def warnings_of(overview: Overview) -> Iterator[str]:
    """What a person should know of without having asked."""
    served = {name for worker in overview.workers for name in worker["queues"]}
    for queue in overview.queues:
        name, pending = queue["queue"], queue[Status.PENDING]
        if pending and queue["state"] == QueueState.PAUSED:
            yield f"queue {name!r} is paused, pending {pending:,}: `queue resume {name}`"
        elif pending and name not in served:
            yield (
                f"no worker serves queue {name!r}, pending {pending:,}: "
                f"`worker start --queues {name}`"
            )
    dead = overview.total[Status.DEAD]
    if dead:
        letters = "dead letter waits" if dead == 1 else "dead letters wait"
        yield f"{dead:,} {letters} for a decision: `dlq list`"
