"""The invariants of the memory store, checked independently of the code that keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from leasehold.core.model.status import TERMINAL, Status, allowed
from leasehold.core.rules.sampling import since_last_look
from leasehold.stores.memory import dependents
from leasehold.stores.memory.meter import SpanShelf
from leasehold.stores.memory.queues import running_by_key
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State


def problems(state: State) -> list[str]:
    """Every broken invariant, as a sentence; none if all is well."""
    return [
        *_wrong_counts(state),
        *(problem for record in state.records.values() for problem in _wrong_record(state, record)),
    ]


def _wrong_counts(state: State) -> Iterator[str]:
    found = Counter((record.draft.queue, record.status) for record in state.records.values())
    latest = since_last_look(SpanShelf(state), None)
    for name, queue in state.queues.items():
        for status, count in queue.counts.items():
            if count != found[name, status]:
                yield f"queue {name} counts {count} {status} jobs and holds {found[name, status]}"
        ready = sum(1 for _ in queue.lanes.records())
        shown = sum(not record.parked for record in queue.lanes.records())
        delayed = sum(entry[2].stamp == entry[1] for entry in queue.lanes.delayed.entries)
        if ready != queue.counts[Status.PENDING] or shown != queue.lanes.ready.live:
            yield f"queue {name} has {ready} live entries for its pending jobs"
        if delayed != queue.counts[Status.SCHEDULED] + queue.counts[Status.FAILED]:
            yield f"queue {name} has {delayed} live entries for its delayed jobs"
        heaps = queue.lanes.heaps()
        size = sum(len(heap.entries) for heap in heaps)
        dead = size - sum(heap.live for heap in heaps)
        if (size, dead) != (queue.lanes.count.size, queue.lanes.count.dead):
            yield f"queue {name} miscounts its {size} heap entries, {dead} of them dead"
        by_priority = Counter(
            record.priority
            for record in state.records.values()
            if record.draft.queue == name and record.status is Status.PENDING
        )
        if [by_priority[priority] for priority in range(101)] != queue.lanes.pending_by_priority:
            yield f"queue {name} miscounts its pending jobs by priority"
        span = latest[name]
        if span.runs.count != span.completed + span.failed:
            yield f"queue {name} has not measured as many runs as attempts ended"
        shelf = queue.lanes.shelf
        if shelf is not None and not queue.lanes.follows_a_change:
            yield from shelf.problems(name, running_by_key(state, name))
    if len(state.running) != sum(queue.counts[Status.RUNNING] for queue in state.queues.values()):
        yield f"{len(state.running)} jobs are listed as running, which is not what the queues count"


def _wrong_record(state: State, record: Record) -> Iterator[str]:
    status = record.status
    if (status is Status.RUNNING) != (record.id in state.running):
        yield f"job {record.id} is {status}, against the list of running jobs"
    if (status is Status.RUNNING) != (record.worker is not None):
        yield f"job {record.id} is {status} and its holder is {record.worker}"
    if status in TERMINAL and record not in state.finished:
        yield f"job {record.id} is {status} and would never be forgotten"
    if record.attempts > record.allowance:
        yield f"job {record.id} had {record.attempts} attempts of {record.allowance}"
    yield from dependents.problems(state, record)
    if status is Status.COMPLETED and not record.history:
        return  # The whole history was dropped to keep the bound.
    last: Status | None = None
    for row in record.history:
        event, before, after = row.event, row.before, row.after
        if before is not last or (before is not after and after not in allowed(event, before)):
            yield f"the history of job {record.id} says {event}: {before} to {after}, after {last}"
        last = after
    if last is not status:
        yield f"the history of job {record.id} ends with {last}, but it is {status}"
