"""Ended jobs, the first to end first, so that the old ones are found without looking at others.

They are forgotten by age, and to make room for others. Queues with a retention of their own stand
on a shelf of their own: jobs that they keep for longer are not in the way of the rest.
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
"""How many jobs one call forgets at most, so that no caller waits long for it."""

Shelf = dict[Status, OrderedDict[str, Record]]


class Finished:
    """Ended jobs by shelf and status."""

    def __init__(self) -> None:
        self.count = 0
        self._common: Shelf = {status: OrderedDict() for status in ENDED}
        self.shelves: dict[str | None, Shelf] = {None: self._common}
        """By the queue that it is for; None is the one of all the others."""

    def add(self, record: Record) -> None:
        # Every job that ends comes by here: without a shelf of its own nothing is looked up.
        shelf = self._of(record) if len(self.shelves) > 1 else self._common
        shelf[record.status][record.id] = record
        self.count += 1

    def remove(self, record: Record) -> None:
        del self._of(record)[record.status][record.id]
        self.count -= 1

    def __contains__(self, record: Record) -> bool:
        return record.id in self._of(record)[record.status]

    def set_apart(self, queue: str) -> None:
        """Give a queue a shelf of its own. It looks at all ended jobs, once."""
        if queue not in self.shelves:
            own = self.shelves[queue] = {status: OrderedDict() for status in ENDED}
            for status, jobs in self._common.items():
                for record in [each for each in jobs.values() if each.draft.queue == queue]:
                    own[status][record.id] = jobs.pop(record.id)

    def put_together(self, queue: str) -> None:
        """Take a queue's shelf away; its jobs stand where they would stand without it."""
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
    """Let a job's idempotency key be used again."""
    if _key_of(state, record) is not None:
        del state.keys[record.draft.queue, record.draft.idempotency_key or ""]


def _key_of(state: State, record: Record) -> KnownKey | None:
    if record.draft.idempotency_key is None:
        return None
    known = state.keys.get((record.draft.queue, record.draft.idempotency_key))
    return known if known is not None and known.seq == record.seq else None


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
        for queue in state.finished.shelves
        if queue is not None
        and (rule := state.queues[queue].rule) is not None
        and rule.config.retention is not None
    }


def ended_by(
    state: State, shelf: str | None, status: Status, cutoff: int, limit: int
) -> list[Record]:
    """Jobs of a shelf that ended by then and that no unfinished job needs, first ended first."""
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
    """Forget ended jobs whose time is over. Their keys are kept until those expire."""
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
    # A full batch means that there is more to do: the next call goes on with it.
    if forgotten < TRIM_BATCH:
        next_minute = (state.open_minute + 1) * MINUTE_MICROS
        state.trim_at = min(state.now + TRIM_INTERVAL_MICROS, next_minute)


def is_full_of_dead(state: State) -> bool:
    """Whether dead letters alone are as many as ended jobs are kept."""
    if state.capacity is None or state.finished.count < state.capacity:
        return False
    dead = sum(len(shelf[Status.DEAD]) for shelf in state.finished.shelves.values())
    return dead >= state.capacity


def make_room(state: State) -> None:
    """Forget jobs that ended first; never a dead letter, which waits for a person.

    Called after a verb, which may still be at work on a job that has just ended.
    """
    while state.finished.count > state.ended_max:
        heads = [
            record
            for shelf in state.finished.shelves
            for status in (Status.COMPLETED, Status.CANCELLED)
            for record in ended_by(state, shelf, status, state.now, 1)
        ]
        # None if all are dead, or needed by unfinished jobs, whose number is bounded itself.
        if not heads:
            return
        prune(state, min(heads, key=_end), archived=state.policy.archive_seconds != 0)
