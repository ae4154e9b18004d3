"""Queues and their rules: how they are kept and counted; `core.rules.queue_orders` decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.model.priority import DEFAULT_SCORING
from leasehold.core.model.queue_config import QueueInfo, QueueRule
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import WAITING, Status
from leasehold.core.rules.queue_facts import QueueFacts, infos
from leasehold.env import from_micros
from leasehold.stores.memory import dependents
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.queue_record import MemoryQueue, StartBook
from leasehold.stores.memory.reading import Jobs
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State
from leasehold.stores.verbs.queues import QueueVerbs


class QueueReader:
    """See `leasehold.core.rules.queue_facts.QueueReader`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.buckets = StartBook(state)

    @property
    def rules(self) -> Mapping[str, QueueRule]:
        known = self._state.queues.items()
        return {name: queue.rule for name, queue in known if queue.rule is not None}

    def facts(self, queue: str | None) -> Mapping[str, QueueFacts]:
        return {name: self._facts(each) for name, each in self._state.chosen(queue).items()}

    def _facts(self, queue: MemoryQueue) -> QueueFacts:
        held = {
            task: until
            for task, breaker in sorted(queue.breakers.items())
            if (until := breaker.next_probe_at(self._state.now)) is not None
        }
        is_deleted = queue.deleted_after == queue.totals.submitted
        return QueueFacts(queue.rule, queue.counts, queue.since, is_deleted, held)

    def running_of_key(self, queue: str, key: str) -> int:
        return running_by_key(self._state, queue)[key]

    def find(self, where: JobFilter, limit: int) -> tuple[list[Record], bool]:
        page = Jobs(self._state).search(where, limit, None)
        return [self._state.records[job.id] for job in page.jobs], page.next_cursor is not None

    def waiting_in(self, queue: str) -> list[Record]:
        return [
            record
            for record in self._state.records.values()
            if record.draft.queue == queue and record.status in WAITING
        ]


class QueueBook:
    """See `leasehold.core.rules.queue_orders.QueueBook`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = from_micros(state.now)
        self.audit = state.note_action

    def info(self, queue: str) -> QueueInfo:
        [found] = infos(QueueReader(self._state), queue)
        return found

    def rule_of(self, queue: str) -> QueueRule | None:
        known = self._state.queues.get(queue)
        return None if known is None else known.rule

    def has_held_jobs(self, queue: str) -> bool:
        return queue in self._state.queues

    def set_rule(self, queue: str, rule: QueueRule) -> None:
        state = self._state
        known = state.queue(queue)
        known.set_rule(rule)
        state.has_rules = True
        if rule.config.scoring != known.lanes.scoring:
            known.lanes.rescore(rule.config.scoring)
        _limit_keys(state, queue, rule.config.key_limits)
        if rule.config.retention is None:
            state.finished.put_together(queue)
        else:
            state.finished.set_apart(queue)
        state.retention_changed()
        state.note_change("queue", queue)
        state.wake()

    def forget_rule(self, queue: str) -> None:
        state = self._state
        known = state.queues[queue]
        known.set_rule(None)
        known.deleted_after = known.totals.submitted
        known.buckets.clear()
        known.drain = None
        _limit_keys(state, queue, None)
        known.lanes.rescore(DEFAULT_SCORING)
        known.lanes.rebalance(state.now)
        state.finished.put_together(queue)
        if not known.totals.submitted and not known.totals.rejected:
            del state.queues[queue]
        state.note_change("queue", queue)
        state.wake()

    def jobs_left(self, queue: str) -> tuple[int, int]:
        counts = self._state.queues[queue].counts
        return sum(counts[status] for status in WAITING), counts[Status.RUNNING]

    def has_pending(self, queue: str) -> bool:
        return self._state.queues[queue].counts[Status.PENDING] > 0

    def end_waiting(self, jobs: Sequence[Record], after: Status, reason: str) -> list[Record]:
        # They were found by a look: some may be gone since, or not wait any more.
        records = self._state.records
        still = [job for job in jobs if job.status in WAITING and records.get(job.id) is job]
        for job in still:
            self._state.end_waiting(job, after, reason)
        return still

    def dependents(self, jobs: Sequence[Record]) -> Mapping[Record, int]:
        blocking = self._state.links.blocking
        return {job: len(blocking[job.id]) for job in jobs if job.id in blocking}

    def erase(self, jobs: Collection[Record]) -> None:
        for job in jobs:
            dependents.erase(self._state, job)

    def erase_when_told(self, jobs: Collection[Record]) -> None:
        self._state.links.purged.update(job.id for job in jobs)


def running_by_key(state: State, queue: str) -> Counter[str]:
    """How many jobs of each key run in a queue. Few run at a time, so all are read."""
    drafts = (record.draft for record in state.running.values())
    return Counter(
        draft.limit_key for draft in drafts if draft.queue == queue and draft.limit_key is not None
    )


def _limit_keys(state: State, queue: str, limits: KeyLimits | None) -> None:
    known = state.queues[queue]
    if limits != known.lanes.key_limits:
        running = partial(running_by_key, state, queue)
        known.lanes.limit_keys(limits, running, state, known.buckets)


class MemoryQueueVerbs(LockedState, QueueVerbs):
    """Queues, as this store reads them, and places their jobs."""

    _queue_book = QueueBook

    def _queue_reader(self, look: State) -> QueueReader:
        return QueueReader(look)

    def queues(self) -> list[str]:
        return self._look(lambda state: sorted(state.queues))

    def _place_anew(self, queue: str) -> None:
        def place(state: State) -> bool:
            known = state.queues.get(queue)
            return known is not None and known.lanes.rebalance(state.now)

        while self._write(place):
            pass
