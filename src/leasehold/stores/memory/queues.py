"""Queues and their rules: how they are kept and counted; `core.rules.queue_orders` decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from leasehold.core.model.budget import BURIED_AT_ONCE, PURGE_AT_ONCE, batched
from leasehold.core.model.key_limits import KeyInfo, KeyLimits
from leasehold.core.model.priority import DEFAULT_SCORING
from leasehold.core.model.queue_config import (
    DELETED_RULE,
    QueueConfig,
    QueueInfo,
    QueueRule,
    QueueState,
)
from leasehold.core.model.records import Purged
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import WAITING, Status
from leasehold.core.model.stored import moment
from leasehold.core.rules import queue_orders
from leasehold.core.rules.starting import key_starts, next_start_at
from leasehold.env import from_micros
from leasehold.stores.memory import dependents
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.queue_record import StartBook
from leasehold.stores.memory.reading import search
from leasehold.stores.memory.state import State

T = TypeVar("T")


class QueueVerbs(LockedState):
    """Queues and their rules."""

    def queues(self) -> list[str]:
        return self._look(lambda state: sorted(state.queues))

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        info = self._change(queue, lambda book: queue_orders.create(book, queue, config, actor))
        self._place_anew(queue)
        return info

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        info = self._change(queue, lambda book: queue_orders.update(book, queue, changes, actor))
        self._place_anew(queue)
        return info

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._change(queue, lambda book: queue_orders.set_state(book, queue, state, actor))

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        def purge(state: State) -> Purged:
            fitting = queue_orders.to_purge(queue, where)
            if fitting is None:
                return Purged(0, more=False)
            page = search(state, fitting, limit, None)
            jobs = [job.id for job in page.jobs]
            more = page.next_cursor is not None
            return queue_orders.purge(QueueBook(state), queue, where, jobs, actor, more=more)

        return self._write(purge)

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        if self._order(queue, lambda book: queue_orders.delete(book, queue, actor, force=force)):
            return 0
        return self._bury(queue)

    def queue_info(self, queue: str) -> QueueInfo | None:
        found = self._look(lambda state: _info(state, queue) if queue in state.queues else None)
        return None if found is None or found.is_gone else found

    def list_queues(self) -> list[QueueInfo]:
        found = self._look(lambda state: [_info(state, name) for name in sorted(state.queues)])
        return [info for info in found if not info.is_gone]

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._look(_key_info, queue, key)

    def _order(self, queue: str, order: Callable[[QueueBook], T]) -> T:
        """Carry out an order about a queue, and tell followers so."""

        def change(state: State) -> T:
            answer = order(QueueBook(state))
            state.note_change("queue", queue)
            return answer

        return self._write(change)

    def _change(self, queue: str, order: Callable[[QueueBook], None]) -> QueueInfo:
        """Change a queue's rules; answers how it stands."""

        def change(book: QueueBook) -> QueueInfo:
            order(book)
            return book.info(queue)

        return self._order(queue, change)

    def _place_anew(self, queue: str) -> None:
        """A queue's parameters have changed: other calls go on while jobs are placed anew."""

        def place(state: State) -> bool:
            known = state.queues.get(queue)
            return known is not None and known.lanes.rebalance(state.now)

        while self._write(place):
            pass

    def _bury(self, queue: str) -> int:
        """Finish deleting a queue, so many jobs under each hold of the lock."""
        buried = 0
        done = False
        while not done:
            found = self._look(_waiting_in, queue)
            for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
                more, done = self._order(
                    queue, partial(queue_orders.bury, queue=queue, jobs=jobs, buried=buried)
                )
                buried += more
        return buried

    def _bury_the_rest(self) -> None:
        """Go on with deletions that were cut short."""
        for queue in self._look(_being_deleted):
            self._bury(queue)


class QueueBook:
    """See `leasehold.core.rules.queue_orders.QueueBook`; jobs go by their ids."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = from_micros(state.now)
        self.audit = state.note_action

    def info(self, queue: str) -> QueueInfo:
        return _info(self._state, queue)

    def rule_of(self, queue: str) -> QueueRule | None:
        known = self._state.queues.get(queue)
        return None if known is None else known.rule

    def has_held_jobs(self, queue: str) -> bool:
        return queue in self._state.queues

    def set_rule(self, queue: str, rule: QueueRule) -> None:
        state = self._state
        known = state.queue(queue)
        known.rule = rule
        state.has_rules = True
        if rule.config.scoring != known.lanes.scoring:
            known.lanes.rescore(rule.config.scoring)
        _limit_keys(state, queue, rule.config.key_limits)
        if rule.config.retention is None:
            state.finished.put_together(queue)
        else:
            state.finished.set_apart(queue)
        state.retention_changed()
        state.wake()

    def forget_rule(self, queue: str) -> None:
        state = self._state
        known = state.queues[queue]
        known.rule = None
        known.deleted_after = known.totals.submitted
        known.buckets.clear()
        known.drain = None
        _limit_keys(state, queue, None)
        known.lanes.rescore(DEFAULT_SCORING)
        known.lanes.rebalance(state.now)
        state.finished.put_together(queue)
        if not known.totals.submitted and not known.totals.rejected:
            del state.queues[queue]
        state.wake()

    def jobs_left(self, queue: str) -> tuple[int, int]:
        counts = self._state.queues[queue].counts
        return sum(counts[status] for status in WAITING), counts[Status.RUNNING]

    def has_pending(self, queue: str) -> bool:
        return self._state.queues[queue].counts[Status.PENDING] > 0

    def end_waiting(self, jobs: Sequence[str], after: Status, reason: str) -> list[str]:
        ended = []
        for record in filter(None, map(self._state.records.get, jobs)):
            if record.status in WAITING:
                self._state.end_waiting(record, after, reason)
                ended.append(record.id)
        return ended

    def dependents(self, jobs: Sequence[str]) -> Mapping[str, int]:
        blocking = self._state.links.blocking
        return {job_id: len(blocking[job_id]) for job_id in jobs if job_id in blocking}

    def erase(self, jobs: Collection[str]) -> None:
        for job_id in jobs:
            dependents.erase(self._state, self._state.records[job_id])

    def erase_when_told(self, jobs: Collection[str]) -> None:
        self._state.links.purged.update(jobs)


def _waiting_in(state: State, queue: str) -> list[str]:
    """The jobs that wait in a queue."""
    return [
        record.id
        for record in state.records.values()
        if record.draft.queue == queue and record.status in WAITING
    ]


def _being_deleted(state: State) -> list[str]:
    """The queues that somebody began to delete."""
    return [
        name
        for name, queue in state.queues.items()
        if queue.rule is not None and queue.rule.state is QueueState.DELETING
    ]


def _info(state: State, name: str) -> QueueInfo:
    queue = state.queues[name]
    is_deleted = queue.deleted_after == queue.totals.submitted
    rule = queue.rule or (DELETED_RULE if is_deleted else QueueRule())
    return QueueInfo(
        name=name,
        state=rule.state,
        config=rule.config,
        pending=queue.counts[Status.PENDING],
        running=queue.counts[Status.RUNNING],
        counts=dict(queue.counts),
        held_until={
            task: from_micros(at)
            for task, breaker in sorted(queue.breakers.items())
            if (at := breaker.next_probe_at(state.now)) is not None
        },
        next_start_at=moment(next_start_at(StartBook(state), name, rule.config)),
        created_at=rule.created_at or moment(queue.since),
        created_by=rule.created_by,
        changed_at=rule.changed_at,
        changed_by=rule.changed_by,
    )


def running_by_key(state: State, queue: str) -> Counter[str]:
    """How many jobs of each key run in a queue. Few run at a time, so all are looked at."""
    drafts = (record.draft for record in state.running.values())
    return Counter(
        draft.limit_key for draft in drafts if draft.queue == queue and draft.limit_key is not None
    )


def _key_info(state: State, queue: str, key: str) -> KeyInfo:
    """How many jobs of a key run in a queue, and when the next may start."""
    known = state.queues.get(queue)
    rate = None if known is None or known.rule is None else known.rule.config.key_start_rate
    running = running_by_key(state, queue)[key]
    if known is None or rate is None:
        return KeyInfo(running)
    full_at = known.buckets.get(key_starts(key), 0)
    return KeyInfo(running, moment(rate.next_at(full_at, now=state.now)))


def _limit_keys(state: State, queue: str, limits: KeyLimits | None) -> None:
    known = state.queues[queue]
    if limits != known.lanes.key_limits:
        running = partial(running_by_key, state, queue)
        known.lanes.limit_keys(limits, running, state, known.buckets)
