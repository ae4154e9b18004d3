"""Ended jobs in the order of their ends, so that old ones are found without reading others.

They are forgotten by age, and to make room for others. Each queue with its own retention has its
own shelf, so that jobs kept for longer are not in the way of the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import merge
from typing import TYPE_CHECKING, Final

from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.status import Status
from leasehold.stores.memory.record import Record

if TYPE_CHECKING:
    from leasehold.stores.memory.state import KnownKey, State

ENDED: Final = (Status.COMPLETED, Status.DEAD, Status.CANCELLED)
TRIM_INTERVAL_MICROS: Final = 1_000_000
TRIM_BATCH: Final = 1000
"""The most jobs that one call forgets, so that no caller waits long for it."""

Shelf = dict[Status, OrderedDict[str, Record]]


class Finished:
    """Ended jobs by shelf and status."""

    def __init__(self) -> None:
        self.count = 0
        self._common: Shelf = {status: OrderedDict() for status in ENDED}
        self.shelves: dict[str | None, Shelf] = {None: self._common}
        """Shelves by queue; None is the shelf of all other queues."""

    def add(self, record: Record) -> None:
        # Every job that ends passes here: without separate shelves nothing is looked up.
        shelf = self._of(record) if len(self.shelves) > 1 else self._common
        shelf[record.status][record.id] = record
        self.count += 1

    def remove(self, record: Record) -> None:
        del self._of(record)[record.status][record.id]
        self.count -= 1

    def __contains__(self, record: Record) -> bool:
        return record.id in self._of(record)[record.status]

    def set_apart(self, queue: str) -> None:
        """Give a queue its own shelf. This reads all ended jobs once."""
        if queue not in self.shelves:
            own = self.shelves[queue] = {status: OrderedDict() for status in ENDED}
            for status, jobs in self._common.items():
                for record in [each for each in jobs.values() if each.draft.queue == queue]:
                    own[status][record.id] = jobs.pop(record.id)

    def put_together(self, queue: str) -> None:
        """Remove a queue's shelf; its jobs move to where they would be without it."""
        for status, jobs in self.shelves.pop(queue, {}).items():
            both = merge(self._common[status].values(), jobs.values(), key=_end)
            self._common[status] = OrderedDict((record.id, record) for record in both)

    def _of(self, record: Record) -> Shelf:
        return self.shelves.get(record.draft.queue, self._common)


def _end(record: Record) -> tuple[int, int]:
    return record.completed_at or 0, record.seq


def forget(state: State, record: Record) -> None:
    """Remove an ended job and all its records; its idempotency key is kept."""
    state.links.forget(record)
    del state.records[record.id]
    if state.feed is not None:
        state.feed.note("job", record.id)
    state.finished.remove(record)
    queue = state.queues[record.draft.queue]
    queue.counts[record.status] -= 1
    queue.totals.cleaned += 1
    state.version_floor = max(state.version_floor, record.lease_version)
    known = _key_of(state, record)
    if known is not None:
        known.status = record.status


def free_key(state: State, record: Record) -> None:
    """Make a job's idempotency key available again."""
    if _key_of(state, record) is not None:
        del state.keys[record.draft.queue, record.draft.idempotency_key or ""]


def _key_of(state: State, record: Record) -> KnownKey | None:
    if record.draft.idempotency_key is None:
        return None
    known = state.keys.get((record.draft.queue, record.draft.idempotency_key))
    return known if known is not None and known.seq == record.seq else None


def drop_expired_keys(state: State) -> None:
    """Forget expired idempotency keys."""
    while state.keys:
        key, known = next(iter(state.keys.items()))
        if known.expires_at > state.now:
            return
        del state.keys[key]


def own_retentions(state: State) -> dict[str, QueueRetention]:
    """The queues with their own retention, which are those with their own shelf."""
    return {
        queue: rule.config.retention
        for queue in state.finished.shelves
        if queue is not None
        and (rule := state.queues[queue].rule) is not None
        and rule.config.retention is not None
    }


def ended_by(
    state: State, shelf: str | None, status: Status, cutoff: int, limit: int
) -> list[Record]:
    """Jobs of a shelf that ended by then and that no unfinished job needs, in the order of their
    ends.
    """
    found: list[Record] = []
    for record in state.finished.shelves[shelf][status].values():
        if len(found) >= limit or (record.completed_at or 0) > cutoff:
            break
        if record.seq not in state.links.unfinished:
            found.append(record)
    return found


def prune(state: State, record: Record, *, archived: bool) -> None:
    """Forget an ended job that no unfinished job needs; its summary is archived."""
    if archived:
        state.archive.add(record, state.now)
    forget(state, record)


def trim(state: State) -> None:
    """Forget ended jobs past their retention. Their keys are kept until those expire."""
    own = own_retentions(state)
    forgotten = 0
    for shelf in state.finished.shelves:
        policy = state.policy if shelf is None else own[shelf].over(state.policy)
        for status, seconds in policy.seconds_by_status().items():
            cutoff = state.now - round(seconds * 1e6)
            for record in ended_by(state, shelf, status, cutoff, TRIM_BATCH - forgotten):
                prune(state, record, archived=policy.archive_seconds != 0)
                forgotten += 1
    drop_expired_keys(state)
    # A full batch means that there is more to do: the next call continues.
    if forgotten < TRIM_BATCH:
        next_minute = (state.open_minute + 1) * MINUTE_MICROS
        state.trim_at = min(state.now + TRIM_INTERVAL_MICROS, next_minute)


def is_full_of_dead(state: State) -> bool:
    """Whether there are as many dead letters as the bound on all ended jobs."""
    if state.capacity is None or state.finished.count < state.capacity:
        return False
    dead = sum(len(shelf[Status.DEAD]) for shelf in state.finished.shelves.values())
    return dead >= state.capacity


def make_room(state: State) -> None:
    """Forget the jobs that ended first, but never dead letters, which wait for a person.

    Called after a verb, which may still be using a job that has just ended.
    """
    while state.finished.count > state.ended_max:
        heads = [
            record
            for shelf in state.finished.shelves
            for status in (Status.COMPLETED, Status.CANCELLED)
            for record in ended_by(state, shelf, status, state.now, 1)
        ]
        # Empty if all are dead, or needed by unfinished jobs, whose number is bounded too.
        if not heads:
            return
        prune(state, min(heads, key=_end), archived=state.policy.archive_seconds != 0)
