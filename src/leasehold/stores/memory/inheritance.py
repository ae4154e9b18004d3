"""Bases of jobs that others wait for, kept as high as `core.inheritance` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from leasehold.core import inheritance
from leasehold.core.status import Status
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State


def raise_needed(state: State, records: Iterable[Record]) -> None:
    """Raise what these wait for, which have begun to wait or are more urgent than they were."""
    bases = inheritance.raised(
        [(record.id, record.base) for record in records],
        lambda job_id: _needs(state, job_id),
        lambda job_id: state.records[job_id].base,
    )
    _write(state, bases)


def reprioritized(state: State, record: Record) -> None:
    """A job's own priority has changed: so may its base, and those of the jobs it waits for."""
    before = record.base
    bases = (base for _, base in _waiting_for(state, record.id))
    record.base = max(record.priority, *bases, 0)
    if record.status is Status.PENDING:
        state.queues[record.draft.queue].lanes.place_anew(record, state.now)
    if record.base > before:
        raise_needed(state, [record])
    elif record.base < before:
        state.links.lowered.update(record.blocked_by or ())


def lower(state: State) -> None:
    """Let those fall that were raised by somebody who does not wait for them any more."""
    suspects, state.links.lowered = state.links.lowered, set()
    fallen = inheritance.lowered(
        [job_id for job_id in sorted(suspects) if job_id in state.records],
        lambda job_id: _needs(state, job_id),
        lambda job_id: state.records[job_id].base,
        lambda job_id: state.records[job_id].priority,
        lambda job_id: _waiting_for(state, job_id),
    )
    _write(state, fallen)


def problems(state: State, record: Record) -> Iterator[str]:
    """A base that is not what those who wait for the job make it."""
    if not record.status.is_terminal:
        base = max(record.priority, *(base for _, base in _waiting_for(state, record.id)), 0)
        if record.base != base:
            yield f"job {record.id} counts as priority {record.base} instead of {base}"


def _write(state: State, bases: Mapping[str, int]) -> None:
    for job_id, base in bases.items():
        record = state.records[job_id]
        record.base = base
        # A job of the call under way is not among the ready ones yet.
        if record.status is Status.PENDING and record.stamp:
            state.queues[record.draft.queue].lanes.place_anew(record, state.now)
            state.wake()


def _needs(state: State, job_id: str) -> list[str]:
    """What a job waits for, without what has ended and is only still to be told."""
    return [
        needed
        for needed in state.records[job_id].blocked_by or ()
        if not state.records[needed].status.is_terminal
    ]


def _waiting_for(state: State, job_id: str) -> Iterator[tuple[str, int]]:
    for waiting in state.links.blocking.get(job_id, ()):
        yield waiting, state.records[waiting].base
