"""Jobs that depend on others: submitting and replaying them, and the effect of an end on them.

The code that ends a job need not know of this: `State.step` records which ended jobs block others,
and `resolve` handles those, a bounded number under one hold of the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice

from leasehold.core.model.budget import DEPENDENTS_AT_ONCE
from leasehold.core.model.graph import Graph, GraphNode, graph_of, order_of
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import inheritance, resolving
from leasehold.core.rules.dependencies import still_to_wait_for
from leasehold.core.rules.inheritance import Compared
from leasehold.core.rules.intake import NewLinks
from leasehold.core.rules.resolving import Dependent, Ended
from leasehold.stores.memory.finished import forget, free_key
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import RuleView, State


def link(state: State, record: Record, links: NewLinks) -> None:
    """Link a new job, not yet entered, to its dependencies; it is blocked if it must wait."""
    state.links.add(record, {job_id: state.records[job_id].seq for job_id in links.needs})
    if links.blocked_by:
        record.status = Status.BLOCKED
        state.links.block(record, set(links.blocked_by))


# -- ends --------------------------------------------------------------------------------------


class Links(RuleView):
    """See `leasehold.core.rules.resolving.Links`."""

    def next_ended(self) -> Ended[Record] | None:
        links = self._state.links
        while (first := links.first_ended()) is not None:
            seq, job_id = first
            record = self._state.records.get(job_id)
            if record is not None and record.seq == seq and record.status.is_terminal:
                purged = record.id in links.purged
                return Ended(record, record.id, record.status, record.reason, purged)
            links.all_told(seq)
        return None

    def take_dependents(self, ended: Ended[Record], limit: int) -> list[Dependent[Record]]:
        links, records = self._state.links, self._state.records
        found = [records[job_id] for job_id in islice(links.blocking.get(ended.id, ()), limit)]
        return [
            Dependent(
                record,
                record.draft.on_dependency_failure,
                record.available_at,
                waits_for_others=not links.satisfy(record, ended.id),
            )
            for record in found
        ]

    def end(self, record: Record, after: Status, ended: Ended[Record], message: str) -> None:
        record.ended_by = ended.id
        self._state.end_waiting(record, after, message)

    def free(self, pending: Sequence[Record], scheduled: Sequence[Record], message: str) -> None:
        for record in pending:
            record.available_at = self.now
            self._state.step(record, Event.UNBLOCKED, Status.PENDING, message)
        for record in scheduled:
            self._state.step(record, Event.UNBLOCKED, Status.SCHEDULED, message)

    def all_told(self, ended: Ended[Record]) -> None:
        ended.job.base = ended.job.priority
        self._state.links.all_told(ended.job.seq)
        if ended.is_purged:
            erase(self._state, ended.job)


def resolve(state: State) -> None:
    """Handle a bounded number of dependents of ended jobs; `links.ended` keeps the rest."""
    if state.links.ended:
        resolving.resolve(Links(state), DEPENDENTS_AT_ONCE)
    if state.links.lowered or state.links.changed:
        spread(state)


def erase(state: State, record: Record) -> None:
    """Delete an ended job without dependents, with all its records."""
    forget(state, record)
    free_key(state, record)


# -- inherited priorities ----------------------------------------------------------------------


class Bases(RuleView):
    """See `leasehold.core.rules.inheritance.Bases`; jobs are identified by id."""

    def own_of(self, job_id: str) -> int:
        return self._state.records[job_id].priority

    def base_of(self, job_id: str) -> int:
        return self._state.records[job_id].base

    def waiting_for(self, job_id: str) -> Iterator[tuple[str, int]]:
        for waiting in self._state.links.blocking.get(job_id, ()):
            yield waiting, self._state.records[waiting].base

    def write(self, bases: Mapping[str, int]) -> None:
        state = self._state
        for job_id, base in bases.items():
            record = state.records[job_id]
            record.base = base
            # A job of the current call is not among the ready ones yet.
            if record.status is Status.PENDING and record.stamp:
                state.queues[record.draft.queue].lanes.place_anew(record, state.now)
                state.wake()

    def changed(self, job_id: str, base: int) -> None:
        records = self._state.records
        needed = records[job_id].blocked_by or ()
        needs = [each for each in needed if not records[each].status.is_terminal]
        if needs:
            heappush(self._state.links.changed, (-base, records[job_id].seq, job_id, needs))

    def next_suspect(self) -> str | None:
        lowered = self._state.links.lowered
        while lowered:
            job_id = lowered.pop()
            if job_id in self._state.records:
                return job_id
        return None

    def next_to_compare(self, limit: int) -> Compared[str] | None:
        records, changed = self._state.records, self._state.links.changed
        while changed:
            negative, _, job_id, needs = changed[0]
            record = records.get(job_id)
            # A job that has changed again since is in the heap again.
            if not needs or record is None or record.base != -negative:
                heappop(changed)
                continue
            blocked_by = record.blocked_by or ()
            some = [needs.pop() for _ in range(min(limit, len(needs)))]
            if not needs:
                heappop(changed)
            compared = [(each, records[each].base) for each in some if each in blocked_by]
            return Compared(record.base, compared)
        return None


def raise_needed(state: State, records: Iterable[Record]) -> None:
    """Raise the dependencies of these jobs, which have begun to wait."""
    bases = Bases(state)
    for record in records:
        bases.changed(record.id, record.base)
    spread(state)


def reprioritized(state: State, record: Record) -> None:
    """A job's own priority has changed."""
    inheritance.given_priority(Bases(state), record.id, record.base)
    spread(state)


def spread(state: State) -> None:
    """Pass changed bases on to a bounded number of dependencies under one hold of the lock."""
    state.inherited_left = inheritance.spread(Bases(state), state.inherited_left)


# -- people ------------------------------------------------------------------------------------


def waits_again_for(state: State, record: Record) -> list[str]:
    """The jobs that a replayed job waits for; refuses a replay of a job that could never run."""
    needed = ((each.id, each.id, each.status) for each in _dependencies(state, record))
    return list(still_to_wait_for(record.id, record.draft.on_dependency_failure, needed))


def replay_order(state: State, job_ids: Sequence[str]) -> list[int]:
    """The indexes of these ids, dependencies first."""
    depends_on = {}
    for job_id in job_ids:
        record = state.records.get(job_id)
        if record is not None and record.needs:
            depends_on[job_id] = [needed.id for needed in _dependencies(state, record)]
    return order_of(job_ids, depends_on)


def needed_by(state: State, record: Record) -> str | None:
    """An unfinished job that depends on this job."""
    if record.seq in state.links.unfinished:
        for dependent in _dependents(state, record):
            if not dependent.status.is_terminal:
                return dependent.id
    return None


# -- looking -----------------------------------------------------------------------------------


def graph(state: State, job_ids: Sequence[str]) -> Graph:
    """These jobs and all jobs linked with them."""
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
    """Its dependencies that still exist."""
    for job_id, seq in (record.needs or {}).items():
        needed = state.records.get(job_id)
        # After a discard, another job may have the id.
        if needed is not None and needed.seq == seq:
            yield needed


def _dependents(state: State, record: Record) -> Iterator[Record]:
    for job_id in state.links.dependents.get(record.id, ()):
        yield state.records[job_id]


def problems(state: State, record: Record) -> Iterator[str]:
    """Every fault that would leave a job blocked for ever, or run it too early, or out of turn."""
    links = state.links
    blocked_by = record.blocked_by or set()
    if (record.status is Status.BLOCKED) != bool(blocked_by):
        yield f"job {record.id} is {record.status} and waits for {sorted(blocked_by)}"
    for job_id in blocked_by:
        needed = state.records.get(job_id)
        if record.id not in links.blocking.get(job_id, ()):
            yield f"job {record.id} waits for job {job_id}, which knows nothing of it"
        if needed is None or (needed.status.is_terminal and needed.seq not in links.ended):
            yield f"job {record.id} waits for job {job_id}, which has ended or is gone"
    if not record.status.is_terminal and not links.changed and not links.lowered:
        base = max(record.priority, *(base for _, base in Bases(state).waiting_for(record.id)), 0)
        if record.base != base:
            yield f"job {record.id} counts as priority {record.base} instead of {base}"
