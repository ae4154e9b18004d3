"""Bases of jobs that others wait for, kept as high as `core.rules.inheritance` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush

from leasehold.core.model.status import Status
from leasehold.core.rules import inheritance
from leasehold.core.rules.inheritance import Compared
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State


class Bases:
    """See `leasehold.core.rules.inheritance.Bases`; jobs go by their ids."""

    def __init__(self, state: State) -> None:
        self._state = state

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
            # A job of the call under way is not among the ready ones yet.
            if record.status is Status.PENDING and record.stamp:
                state.queues[record.draft.queue].lanes.place_anew(record, state.now)
                state.wake()

    def changed(self, job_id: str, base: int) -> None:
        seq, needs = self._state.records[job_id].seq, self._needs_of(job_id)
        if needs:
            heappush(self._state.links.changed, (-base, seq, job_id, needs))

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
            # A job that has changed once more since is in the heap once more.
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

    def _needs_of(self, job_id: str) -> list[str]:
        records = self._state.records
        needed = records[job_id].blocked_by or ()
        return [each for each in needed if not records[each].status.is_terminal]


def raise_needed(state: State, records: Iterable[Record]) -> None:
    """Raise what these wait for, which have begun to wait."""
    bases = Bases(state)
    for record in records:
        bases.changed(record.id, record.base)
    spread(state)


def reprioritized(state: State, record: Record) -> None:
    """A job's own priority has changed."""
    inheritance.given_priority(Bases(state), record.id, record.base)
    spread(state)


def spread(state: State) -> None:
    """Let changes of bases reach whom they concern, so many under one hold of the lock."""
    state.inherited_left = inheritance.spread(Bases(state), state.inherited_left)


def problems(state: State, record: Record) -> Iterator[str]:
    """A base that differs from the one by the job's dependents."""
    if not record.status.is_terminal and not state.links.changed and not state.links.lowered:
        base = max(record.priority, *(base for _, base in Bases(state).waiting_for(record.id)), 0)
        if record.base != base:
            yield f"job {record.id} counts as priority {record.base} instead of {base}"
