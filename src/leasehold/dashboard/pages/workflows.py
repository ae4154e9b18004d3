"""Workflows: how far is each, and where did it stop? And one of them as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from leasehold.core.contract.looking import looking
from leasehold.core.model.job import Job
from leasehold.core.model.search import Count, JobFilter
from leasehold.core.model.status import Status
from leasehold.dashboard.graph_picture import picture
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.errors import JobNotFoundError

SHOWN: Final = 25
"""About how many workflows a page has."""
LOOKED_AT: Final = 200
"""So many jobs with a parent are looked at for it."""
READ_OF_EACH: Final = 100
"""So many jobs of each workflow are read; those of a larger one are counted."""
COUNTED_MAX: Final = 1000
"""So many jobs of a larger workflow are counted in each status."""
NODES_SHOWN: Final = 500
LIGHT: Final = ("payload", "result", "metadata")


@dataclass(frozen=True)
class WorkflowRow:
    """A workflow at a glance."""

    id: str
    jobs: list[Job]
    """The last of them."""
    counts: dict[Status, Count]
    """All of them, by status."""
    is_cut: bool

    @property
    def state(self) -> str:
        """In one word: the state that needs a person comes first."""
        return state_of(self.counts)


def state_of(counts: Collection[Status]) -> str:
    """How a workflow stands.

    >>> state_of({Status.COMPLETED, Status.DEAD}), state_of({Status.COMPLETED})
    ('dead', 'completed')
    """
    if Status.DEAD in counts:
        return "dead"
    if any(not status.is_terminal for status in counts):
        return "running"
    return "cancelled" if Status.CANCELLED in counts else "completed"


def workflows(desk: Desk, visit: Visit) -> FilledPage:
    parents, next_cursor = _next_parents(desk, visit.text("cursor") or None)
    return FilledPage(
        "workflows.html",
        {
            "title": "Workflows",
            "page": "workflows",
            "now": desk.queue.now(),
            "rows": [_row(desk, parent) for parent in parents],
            "next_cursor": next_cursor,
            "is_first": not visit.text("cursor"),
        },
    )


def _next_parents(desk: Desk, cursor: str | None) -> tuple[list[str], str | None]:
    """About a page of the next parents, and where those after them begin.

    Each costs a look of its own, and a workflow may have one job or thousands.
    """
    parents: dict[str, None] = {}
    for _ in range(LOOKED_AT // SHOWN):
        found = looking(desk.store).search(
            JobFilter(has_parent=True), limit=SHOWN, cursor=cursor, without=LIGHT
        )
        parents |= dict.fromkeys(job.parent_id for job in found.jobs if job.parent_id is not None)
        cursor = found.next_cursor
        if cursor is None or len(parents) >= SHOWN:
            break
    return list(parents), cursor


def _row(desk: Desk, parent: str) -> WorkflowRow:
    page = looking(desk.store).search(
        JobFilter(parent_id=parent), limit=READ_OF_EACH, without=LIGHT
    )
    return _workflow(desk, parent, list(page.jobs), is_cut=page.next_cursor is not None)


def _workflow(desk: Desk, parent: str, jobs: list[Job], *, is_cut: bool) -> WorkflowRow:
    if not is_cut:
        found = Counter(job.status for job in jobs)
        counts = {status: Count(found[status]) for status in Status if found[status]}
        return WorkflowRow(parent, jobs, counts, is_cut)
    look = looking(desk.store)
    in_each = {
        status: look.count(JobFilter(parent_id=parent, statuses=(status,)), counted_max=COUNTED_MAX)
        for status in Status
    }
    return WorkflowRow(parent, jobs, {each: n for each, n in in_each.items() if n.jobs}, is_cut)


def workflow(desk: Desk, visit: Visit) -> FilledPage:
    name = visit.text("id")
    page = looking(desk.store).search(JobFilter(parent_id=name), limit=NODES_SHOWN, without=LIGHT)
    if not page.jobs:
        raise JobNotFoundError(f"no job belongs to workflow {name!r}: there was none, or all of "
                               "its jobs were pruned")  # fmt: skip
    jobs = {job.id: job for job in reversed(page.jobs)}
    graph = desk.queue.graph(*jobs)
    ordered = [jobs[job_id] for job_id in graph.nodes if job_id in jobs]
    row = _workflow(desk, name, ordered, is_cut=page.next_cursor is not None)
    down = {
        origin: len(graph.to_replay([origin]))
        for origin in dict.fromkeys(graph.origin_of(job.id) for job in ordered)
        if graph.nodes[origin].status in (Status.DEAD, Status.CANCELLED)
    }
    return FilledPage(
        "workflow.html",
        {
            "title": f"Workflow {name}",
            "page": "workflows",
            "now": desk.queue.now(),
            "row": row,
            "state": row.state,
            "name_of": {job.id: job.id.removeprefix(f"{name}:") for job in ordered},
            "nodes": graph.nodes,
            "origins": down,
            "can_replay": {
                job.id for job in ordered if job.status in (Status.DEAD, Status.CANCELLED)
            },
            "picture": picture(graph, ordered[0].id, marked=False),
            "parent": desk.store.get(name),
        },
    )
