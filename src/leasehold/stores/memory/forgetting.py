"""Forgetting ended jobs: by age, and to make room for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.status import Status
from leasehold.stores.memory.record import Record

if TYPE_CHECKING:
    from leasehold.stores.memory.state import State

TRIM_INTERVAL_MICROS: Final = 1_000_000
TRIM_BATCH: Final = 1000
"""How many jobs one call forgets at most, so that no caller waits long for it."""


def forget(state: State, record: Record) -> None:
    """Remove an ended job and all its records."""
    state.links.forget(record)
    del state.records[record.id]
    if state.feed is not None:
        state.feed.note_gone(record.id)
    state.finished.remove(record)
    queue = state.queues[record.draft.queue]
    queue.counts[record.status] -= 1
    queue.totals.cleaned += 1
    state.version_floor = max(state.version_floor, record.lease_version)
    if record.draft.idempotency_key is not None:
        known = state.keys.get((record.draft.queue, record.draft.idempotency_key))
        if known is not None and known.seq == record.seq:
            known.status = record.status


def free_key(state: State, record: Record) -> None:
    """Let a job's idempotency key be used again."""
    if record.draft.idempotency_key is not None:
        known = state.keys.get((record.draft.queue, record.draft.idempotency_key))
        if known is not None and known.seq == record.seq:
            del state.keys[record.draft.queue, record.draft.idempotency_key]


def drop_expired_keys(state: State) -> None:
    """Forget idempotency keys whose time is over."""
    while state.keys:
        key, known = next(iter(state.keys.items()))
        if known.expires_at > state.now:
            return
        del state.keys[key]


def own_retentions(state: State) -> dict[str, QueueRetention]:
    """The queues that have a retention of their own, which are those with a shelf of theirs."""
    return {
        queue: rule.config.retention
        for queue in state.finished.own_shelves()
        if (rule := state.queues[queue].rule) is not None and rule.config.retention is not None
    }


def ended_by(
    state: State, shelf: str | None, status: Status, cutoff: int, limit: int
) -> list[Record]:
    """Jobs of a shelf that ended by then and may go, the first ended first."""
    found: list[Record] = []
    for record in state.finished.first(shelf, status):
        if len(found) >= limit or (record.completed_at or 0) > cutoff:
            break
        if not is_needed(state, record):
            found.append(record)
    return found


def is_needed(state: State, record: Record) -> bool:
    """Whether unfinished jobs depend on this job."""
    return record.seq in state.links.unfinished


def prune(state: State, record: Record, *, archived: bool) -> None:
    """Forget an ended job that is not needed any more, and keep its summary."""
    if archived:
        state.archive.add(record, state.now)
    forget(state, record)


def trim(state: State) -> None:
    """Forget ended jobs whose time is over. Their keys are kept until those expire."""
    own = own_retentions(state)
    forgotten = 0
    for shelf in state.finished.shelves():
        policy = state.policy if shelf is None else own[shelf].over(state.policy)
        for status, seconds in policy.seconds_by_status().items():
            cutoff = state.now - round(seconds * 1e6)
            for record in ended_by(state, shelf, status, cutoff, TRIM_BATCH - forgotten):
                prune(state, record, archived=policy.archive_seconds != 0)
                forgotten += 1
    drop_expired_keys(state)
    # A full batch means that there is more to do: the next call goes on with it.
    if forgotten < TRIM_BATCH:
        next_minute = (state.open_minute + 1) * MINUTE_MICROS
        state.trim_at = min(state.now + TRIM_INTERVAL_MICROS, next_minute)


def is_full_of_dead(state: State) -> bool:
    """Whether dead letters alone are as many as ended jobs are kept."""
    if state.capacity is None or state.finished.count < state.capacity:
        return False
    return state.finished.count_of(Status.DEAD) >= state.capacity


def make_room(state: State) -> None:
    """Forget jobs that ended first; never a dead letter, which waits for a person.

    Called after a verb, which may still be at work on a job that has just ended.
    """
    while state.is_overfull:
        heads = [
            record
            for shelf in state.finished.shelves()
            for status in (Status.COMPLETED, Status.CANCELLED)
            for record in ended_by(state, shelf, status, state.now, 1)
        ]
        # None if all are dead, or needed by unfinished jobs, whose number is bounded itself.
        if not heads:
            return
        oldest = min(heads, key=lambda record: (record.completed_at or 0, record.seq))
        prune(state, oldest, archived=state.policy.archive_seconds != 0)
