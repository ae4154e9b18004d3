"""Jobs that depend on others: submitting and replaying them, and what an end does to those behind.

Whoever ends a job need not know of this: `State.step` notes which of the ended ones block others,
and `resolve` deals with those, so many under one hold of the lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from leasehold.core.budget import DEPENDENTS_AT_ONCE
from leasehold.core.dependencies import (
    Plan,
    consequence,
    is_in_the_way,
    refuse_replay,
    told,
)
from leasehold.core.graph import Graph, GraphNode, graph_of, order_of
from leasehold.core.job import Draft
from leasehold.core.records import Submitted
from leasehold.core.status import Event, Status
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import inheritance
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State

Answer = Submitted | LeaseholdError


# -- submitting --------------------------------------------------------------------------------


def plan_of(
    state: State,
    drafts: Sequence[Draft],
    answers: Sequence[Answer],
    admitted: Mapping[str, Record],
    refused: Mapping[str, LeaseholdError],
) -> Plan:
    """What becomes of drafts that were admitted each by itself."""
    verdicts = [
        None if isinstance(answer, Submitted) and not answer.is_duplicate else answer
        for answer in answers
    ]

    def exists(job_id: str) -> bool:
        return job_id in state.records and job_id not in admitted

    return Plan(drafts, verdicts, exists, refused)


def link(state: State, record: Record, needs: Sequence[str]) -> None:
    """Link a new job, not yet entered, to those it depends on; it is blocked if it must wait."""
    needed = [state.records[job_id] for job_id in needs]
    state.links.add(record, {each.id: each.seq for each in needed})
    policy = record.draft.on_dependency_failure
    blocked_by = {each.id for each in needed if is_in_the_way(policy, ended_as(each))}
    if blocked_by:
        record.status = Status.BLOCKED
        state.links.block(record, blocked_by)
        # What ended badly before will be told as if it had ended just now.
        state.links.ended.extend(each.id for each in needed if each.status.is_terminal)


def ended_as(record: Record) -> Status | None:
    """How a job has ended; None if it has not."""
    return record.status if record.status.is_terminal else None


# -- ends --------------------------------------------------------------------------------------


def resolve(state: State) -> None:
    """Deal with dependents of jobs that have ended, so many of them; `links.ended` keeps the rest.

    What was replayed meanwhile has not ended any more: those it blocks go on waiting for it.
    """
    links = state.links
    left = DEPENDENTS_AT_ONCE
    while links.ended and left > 0:
        needed = state.records.get(links.ended[0])
        blocked = links.blocking.get(links.ended[0])
        if needed is None or not needed.status.is_terminal or not blocked:
            if needed is not None and needed.status.is_terminal:
                needed.base = needed.priority  # Nobody waits for it any more.
                if needed.id in links.purged:
                    erase(state, needed)
            links.purged.discard(links.ended.popleft())
            continue
        for job_id in list(islice(blocked, left)):
            _tell(state, state.records[job_id], needed)
            left -= 1
    if links.lowered:
        inheritance.lower(state)


def _tell(state: State, record: Record, needed: Record) -> None:
    after = consequence(record.draft.on_dependency_failure, needed.status)
    message = told(needed.id, needed.status, needed.reason)
    if after is not None:
        record.ended_by = needed.id
        state.end_waiting(record, after, message)
    elif state.links.satisfy(record, needed.id):
        due = record.run_at <= state.now
        record.run_at = max(record.run_at, state.now)
        state.step(record, Event.UNBLOCKED, Status.PENDING if due else Status.SCHEDULED, message)


def erase(state: State, record: Record) -> None:
    """Delete an ended job with all its records; nobody waits for it."""
    state.forget(record)
    state.free_key(record)


# -- people ------------------------------------------------------------------------------------


def waits_again_for(state: State, record: Record) -> set[str]:
    """The jobs that a replayed job is to wait for; refuses what would be in vain."""
    waits_for = set()
    for needed in _dependencies(state, record):
        if not needed.status.is_terminal:
            waits_for.add(needed.id)
        elif is_in_the_way(record.draft.on_dependency_failure, needed.status):
            raise refuse_replay(record.id, needed.id, needed.status)
    return waits_for


def replay_order(state: State, job_ids: Sequence[str]) -> list[int]:
    """The places of these ids, dependencies first."""
    depends_on = {}
    for job_id in job_ids:
        record = state.records.get(job_id)
        if record is not None and record.needs:
            depends_on[job_id] = [needed.id for needed in _dependencies(state, record)]
    return order_of(job_ids, depends_on)


def needed_by(state: State, record: Record) -> str | None:
    """An unfinished job that depends on this one."""
    if record.seq in state.links.unfinished:
        for dependent in _dependents(state, record):
            if not dependent.status.is_terminal:
                return dependent.id
    return None


# -- looking -----------------------------------------------------------------------------------


def graph(state: State, job_ids: Sequence[str]) -> Graph:
    """These jobs and all that are linked with them."""
    linked: dict[str, Record] = {}
    open_ends = [record for record in map(state.records.get, job_ids) if record is not None]
    while open_ends:
        record = open_ends.pop()
        if record.id not in linked:
            linked[record.id] = record
            open_ends += _dependencies(state, record)
            open_ends += _dependents(state, record)
    in_order = sorted(linked.values(), key=lambda record: record.seq)
    return graph_of(_node(state, record) for record in in_order)


def _node(state: State, record: Record) -> GraphNode:
    depends_on = tuple(needed.id for needed in _dependencies(state, record))
    return GraphNode(
        id=record.id,
        queue=record.draft.queue,
        task=record.draft.task,
        status=record.status,
        depends_on=depends_on,
        on_dependency_failure=record.draft.on_dependency_failure if record.needs else "cancel",
        reason=record.reason,
        ended_by=record.ended_by if record.ended_by in depends_on else None,
    )


def _dependencies(state: State, record: Record) -> Iterator[Record]:
    """Those it depends on that are still there."""
    for job_id, seq in (record.needs or {}).items():
        needed = state.records.get(job_id)
        # After a discard, another job may have the id.
        if needed is not None and needed.seq == seq:
            yield needed


def _dependents(state: State, record: Record) -> Iterator[Record]:
    for job_id in state.links.dependents.get(record.id, ()):
        yield state.records[job_id]


def problems(state: State, record: Record) -> Iterator[str]:
    """Whatever would leave a job blocked for ever, or run it too early."""
    blocked_by = record.blocked_by or set()
    if (record.status is Status.BLOCKED) != bool(blocked_by):
        yield f"job {record.id} is {record.status} and waits for {sorted(blocked_by)}"
    for job_id in blocked_by:
        needed = state.records.get(job_id)
        if record.id not in state.links.blocking.get(job_id, ()):
            yield f"job {record.id} waits for job {job_id}, which knows nothing of it"
        if needed is None or (needed.status.is_terminal and job_id not in state.links.ended):
            yield f"job {record.id} waits for job {job_id}, which has ended or is gone"
