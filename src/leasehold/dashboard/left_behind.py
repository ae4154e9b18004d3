"""Jobs that ended because of others: a replay of those alone leaves them as they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import ReplayAll, narrowed
from leasehold.core.rules.operations import Operation, Plan
from leasehold.dashboard.visit import Desk
from leasehold.errors import InvalidRequestError

LOOKED_AT: Final = 500
"""The most jobs of a plan whose dependents are looked up."""
SELECTED_MAX: Final = 50
"""How many jobs an address can select."""


@dataclass(frozen=True)
class LeftBehind:
    """Jobs that ended because of those of a plan, and are not in it."""

    job_ids: tuple[str, ...] = ()
    all_cancelled: bool = True

    @property
    def selected(self) -> str:
        """A search for them, if an address can hold it."""
        few = len(self.job_ids) <= SELECTED_MAX
        return " ".join(f"id:{each}" for each in self.job_ids) if few else ""


NOBODY: Final = LeftBehind()


def left_behind_by(desk: Desk, job_ids: Collection[str]) -> LeftBehind:
    """The jobs that a replay of these jobs alone leaves as they are."""
    if not job_ids:
        return NOBODY
    graph = desk.store.graph(list(job_ids)[:LOOKED_AT])
    nodes = graph.nodes
    left = tuple(each for each in graph.brought_down_by(job_ids) if each not in set(job_ids))
    return LeftBehind(left, all(nodes[each].status is Status.CANCELLED for each in left))


def left_behind(desk: Desk, plan: Plan) -> LeftBehind:
    """The jobs that this plan, if it is a replay, leaves as they are."""
    if not isinstance(plan.order, ReplayAll) or plan.planned > LOOKED_AT:
        return NOBODY
    jobs = desk.queue.operations.samples(plan, LOOKED_AT)
    return left_behind_by(desk, [job.id for job in jobs])


def still_left_by(desk: Desk, operation: Operation) -> LeftBehind:
    """The jobs that a replay has left as they were, if it was about jobs known by their ids."""
    named = operation.where.ids
    if not isinstance(operation.order, ReplayAll) or not named or operation.ended_at is None:
        return NOBODY
    return left_behind_by(desk, named)


def with_those_left(desk: Desk, where: JobFilter) -> JobFilter:
    """A filter for the dead jobs that match this one, and for all that ended because of them."""
    found = desk.store.search(
        narrowed(ReplayAll(), where, 1), limit=LOOKED_AT + 1, without=("payload", "result")
    ).jobs
    if len(found) > LOOKED_AT:
        raise InvalidRequestError(
            f"the jobs that ended because of others are looked up for {LOOKED_AT} jobs at most: "
            "narrow the search"
        )
    job_ids = [job.id for job in found]
    both = dict.fromkeys((*job_ids, *left_behind_by(desk, job_ids).job_ids))
    return JobFilter(ids=tuple(both), statuses=(Status.DEAD, Status.CANCELLED))
