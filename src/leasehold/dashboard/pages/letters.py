"""Dead letters: jobs that failed for good and wait for a person."""

from __future__ import annotations

from typing import Final

from leasehold.core.contract.looking import looking
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.documents.jobs import why_dead

PAGE_SIZE: Final = 50
TABS_MAX: Final = 12
"""How many queues have a tab: those with the most dead letters, and the chosen one."""


def letters(desk: Desk, visit: Visit) -> FilledPage:
    where = filter_of(visit)
    cursor = visit.text("cursor") or None
    found = looking(desk.store).search(
        where, limit=PAGE_SIZE, cursor=cursor, without=("payload", "result")
    )
    infos = [info for info in desk.queue.list_queues() if info.counts.get(Status.DEAD)]
    infos.sort(key=lambda info: (info.name != visit.text("queue"), -info.counts[Status.DEAD]))
    tabs = sorted(infos[:TABS_MAX], key=lambda info: info.name)
    return FilledPage(
        "letters.html",
        {
            "title": "Dead letters",
            "page": "dead-letters",
            "now": desk.queue.now(),
            "letters": [(each, why_dead(each) or "no reason was given") for each in found.jobs],
            "next_cursor": found.next_cursor,
            "total": looking(desk.store).count(where),
            "queue": visit.text("queue"),
            "task": visit.text("task"),
            "queues": [(info.name, info.counts[Status.DEAD]) for info in tabs],
            "queues_left_out": len(infos) - len(tabs),
            "all": sum(info.counts[Status.DEAD] for info in infos),
        },
    )


def filter_of(visit: Visit) -> JobFilter:
    """The chosen dead letters."""
    queue, task = visit.text("queue"), visit.text("task")
    return JobFilter(
        statuses=(Status.DEAD,),
        queues=(queue,) if queue else None,
        tasks=(task,) if task else None,
    )
