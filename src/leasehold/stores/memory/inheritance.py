"""Bases of jobs that others wait for, kept as high as `core.rules.inheritance` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from leasehold.core.model.status import Status
from leasehold.core.rules import inheritance
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

    def needs_of(self, job_id: str) -> list[str]:
        records = self._state.records
        needed = records[job_id].blocked_by or ()
        return [each for each in needed if not records[each].status.is_terminal]

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

    def suspect(self, jobs: Iterable[str]) -> None:
        self._state.links.lowered.update(jobs)


def raise_needed(state: State, records: Iterable[Record]) -> None:
    """Raise what these wait for, which have begun to wait."""
    inheritance.raise_needed(Bases(state), [(record.id, record.base) for record in records])


def reprioritized(state: State, record: Record) -> None:
    """A job's own priority has changed."""
    inheritance.reprioritized(Bases(state), record.id, record.base)


def lower(state: State) -> None:
    """Let those fall that were raised by somebody who does not wait for them any more."""
    suspects, state.links.lowered = state.links.lowered, set()
    inheritance.lower(Bases(state), [each for each in sorted(suspects) if each in state.records])


def problems(state: State, record: Record) -> Iterator[str]:
    """A base that is not what those who wait for the job make it."""
    if not record.status.is_terminal:
        base = max(record.priority, *(base for _, base in Bases(state).waiting_for(record.id)), 0)
        if record.base != base:
            yield f"job {record.id} counts as priority {record.base} instead of {base}"
