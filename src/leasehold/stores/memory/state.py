"""The whole state of the memory store, and the one function that changes a job's status.

Nothing here takes a lock: the store holds its one lock around every verb, so a verb that checks its
input before it changes anything is atomic.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, Final

import msgspec

from leasehold.core.model.budget import (
    INHERITED_AT_ONCE,
    LATE_AT_ONCE,
    LATE_LOOKED_AT_ONCE,
    SHOWN_AT_ONCE,
)
from leasehold.core.model.changes import ChangeKind
from leasehold.core.model.pins import Pin
from leasehold.core.model.records import AuditRecord, WorkerInfo
from leasehold.core.model.retention import (
    CLEANUP_RECORDS_MAX,
    MEMORY_RETENTION,
    RetentionPolicy,
)
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.settings import retention_by
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.status import STEPS, TERMINAL, Event, Status, check
from leasehold.core.model.tokens import Token
from leasehold.core.rules.cleanup_store import CleanUpProgress
from leasehold.core.rules.clock import ClockBasis, StoreTime, show_time, tell_time, time_in_step
from leasehold.core.rules.decision import COMPLETED_TOTALS, Decision, end_of_waiting
from leasehold.core.rules.operations import Operation
from leasehold.core.rules.queue_limits import lets_somebody_go_on
from leasehold.core.rules.sampling import end_minute
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.core.rules.undoing import OperationPart
from leasehold.env import ClockReading, Env, from_micros, to_micros
from leasehold.stores.memory.archive import JobArchive
from leasehold.stores.memory.feed import Feed
from leasehold.stores.memory.finished import Finished, trim
from leasehold.stores.memory.links import JobLinks
from leasehold.stores.memory.meter import Meter, SpanShelf
from leasehold.stores.memory.queue_record import MemoryQueue
from leasehold.stores.memory.record import KeptEvent, Record
from leasehold.stores.memory.tallies import FailureBook, WorkerTallies

# Enum members are slow to look up in Python 3.11, and these are used several times per job.
PENDING: Final = Status.PENDING
RUNNING: Final = Status.RUNNING
BLOCKED: Final = Status.BLOCKED
COMPLETED: Final = Status.COMPLETED
CREATED: Final = Event.CREATED

AUDIT_RECORDS_MAX: Final = 10_000


NumberedAudit = tuple[int, AuditRecord]


class KnownKey(msgspec.Struct):
    """An idempotency key and the job it was first used for."""

    job_id: str
    seq: int
    digest: bytes
    expires_at: int
    status: Status
    """The job's last status, once the job itself is forgotten."""


class News(msgspec.Struct):
    """What to tell listeners once the lock is released."""

    ready: bool = False
    ended: list[str] = []
    cancel_requested: list[str] = []

    def __bool__(self) -> bool:
        return self.ready or bool(self.ended) or bool(self.cancel_requested)


class State:
    """The jobs and everything about them."""

    def __init__(
        self, env: Env, capacity: int | None, retention: RetentionPolicy | None = None
    ) -> None:
        self.env = env
        self.random = env.random
        self.capacity = capacity
        self.ended_max = inf if capacity is None else capacity
        """How many ended jobs are kept."""
        self.records: dict[str, Record] = {}
        """By id, in the order of submission."""
        self.queues: dict[str, MemoryQueue] = {}
        self.has_rules = False
        """Whether any queue ever had rules; without them, submits skip the gate."""
        self.running: dict[str, Record] = {}
        self.finished = Finished()
        self.settings = SettingsInForce.of(0, {})
        self.pins: dict[tuple[str, str], Pin] = {}
        self.tokens: dict[str, Token] = {}
        """By the hash of their secret."""
        self.ended_sessions: dict[str, Sequence[str]] = {}
        """By the name of their token."""
        self.operations: dict[str, Operation] = {}
        """By id, in the order in which they began."""
        self.operation_parts: dict[str, dict[int, OperationPart]] = {}
        self.signing_key = bytes.fromhex(env.new_secret() + env.new_secret())
        self.keys: OrderedDict[tuple[str, str], KnownKey] = OrderedDict()
        """Idempotency keys by queue and key, in the order of expiry."""
        self.schedules: dict[str, Schedule] = {}
        self.next_tick: int | None = None
        """When the first of the schedules is due."""
        self.links = JobLinks()
        self.workers: dict[str, WorkerInfo] = {}
        self.registrations: dict[str, int] = {}
        """The number of the latest registration under each name."""
        self.registered = 0
        self.worked = WorkerTallies()
        self.failures = FailureBook()
        self.audit: deque[NumberedAudit] = deque(maxlen=AUDIT_RECORDS_MAX)
        self.audit_archive: deque[NumberedAudit] = deque(maxlen=AUDIT_RECORDS_MAX)
        self._audited = 0  # the number of the latest audit record
        self.feed: Feed | None = None
        """The change feed, while somebody follows it."""
        self.feed_ended_at = 0
        self.replies: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        """Replies to requests that may be sent twice, by request id, with their times."""
        self.version_floor = 0
        """Above every lease version of a forgotten job, whose id may be used again."""
        self.last_seq = 0
        self.now = 0
        self.shown_left = SHOWN_AT_ONCE
        """How many more parked jobs may be shown to leases under this hold of the lock."""
        self.inherited_left = INHERITED_AT_ONCE
        """How many more jobs may be compared with their dependents, likewise."""
        self.news: News | None = None
        """Collected only while somebody listens."""
        self._clock = env.clock
        self._clock_basis = ClockBasis()
        self._given_retention = retention
        self.archive = JobArchive()
        self.cleanups: deque[CleanUpProgress] = deque(maxlen=CLEANUP_RECORDS_MAX)
        self.result_ends: list[tuple[int, int, Record]] = []
        """A heap of results with a time to live: its end, the job's number, the job."""
        self._to_start: list[tuple[int, int, Record]] = []
        """A heap of jobs that became pending and have a latest start: that time, number, job."""
        self.too_old_to_tell: list[Record] = []
        """The jobs whose history the current clean-up will drop."""
        self.trim_at = 0
        """When to look again for jobs past their retention."""
        self.open_minute = 0
        """The minute of the latest call, in which all figures not yet kept happened."""
        self.meter_of_all = Meter()
        """The spans of all queues together."""
        self.retention_changed()
        self.tick()

    def tick(self, *, forgets: bool = True) -> None:
        """Read the clock, which never steps back here, and occasionally forget old records."""
        self.shown_left = SHOWN_AT_ONCE
        self.inherited_left = INHERITED_AT_ONCE
        reading = self._clock.reading()
        now = time_in_step(self.now, self._clock_basis, reading)
        if now is None:
            now = self._odd_time(reading)
        if now < self.trim_at:
            self.now = now  # It never steps back.
        else:
            self._advance(now, forgets=forgets)

    def begin_budgets(self) -> None:
        """Reset the budgets for a new hold of the lock."""
        self.shown_left = SHOWN_AT_ONCE
        self.inherited_left = INHERITED_AT_ONCE

    def look(self) -> None:
        """Read the clock for a read-only verb; the next change records any irregularity."""
        self._advance(show_time(self.now, self._clock_basis, self._clock.reading()))

    def _advance(self, now: int, *, forgets: bool = True) -> None:
        if now > self.now:
            self.now = now
            if now >= self.trim_at:
                self._end_minute()
                if forgets:
                    trim(self)

    def _odd_time(self, reading: ClockReading) -> int:
        """What time it is though the clocks disagree; leases may have to end later for it."""
        time = tell_time(self.now, self._clock_basis, reading)
        self._clock_basis = time.basis
        if time.shift:
            self._move_leases(time)
        return time.now

    def _move_leases(self, time: StoreTime) -> None:
        for record in self.running.values():
            record.expires_at += time.shift
            record.moved_by += time.shift
            record.heartbeat_at = min(record.heartbeat_at + time.shift, time.now)
        for name, info in self.workers.items():
            heartbeat_at = min(to_micros(info.heartbeat_at) + time.shift, time.now)
            self.workers[name] = msgspec.structs.replace(
                info, heartbeat_at=from_micros(heartbeat_at)
            )

    def queue(self, name: str) -> MemoryQueue:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = MemoryQueue(name)
        return found

    def chosen(self, queue: str | None) -> dict[str, MemoryQueue]:
        """All queues, or the one with that name, if it exists."""
        if queue is None:
            return dict(self.queues)
        return {queue: self.queues[queue]} if queue in self.queues else {}

    # -- changing jobs -----------------------------------------------------------------------

    def add(self, records: Sequence[Record]) -> None:
        """Enter new jobs everywhere except in `records`, where their admission has put them."""
        now, queues = self.now, self.queues
        for record in records:
            status = record.status
            queue = queues.get(record.draft.queue) or self.queue(record.draft.queue)
            queue.counts[status] += 1
            queue.totals.submitted += 1
            if queue.since is None:
                queue.since = now
            queue.submitted_by_priority[record.priority] += 1
            record.history.append(KeptEvent(now, CREATED, None, status, None, 0, 0, ""))
            if self.feed is not None:
                self.feed.note("job", record.id, status, CREATED, 1)
            self._enter(queue, record)

    def late(self) -> list[Record]:
        """A bounded number of pending jobs past their start_by that never ran."""
        found: dict[str, Record] = {}
        looks_left = LATE_LOOKED_AT_ONCE
        while self._to_start and self._to_start[0][0] < self.now and looks_left:
            if len(found) == LATE_AT_ONCE:
                break
            looks_left -= 1
            record = heappop(self._to_start)[2]
            # It may have started or ended, and a replay removes its start_by.
            if record.status is PENDING and record.start_by is not None and not record.attempt_rows:
                found[record.id] = record
        return list(found.values())

    def step(self, record: Record, event: Event, after: Status, message: str | int = "") -> None:
        """Change a job's status, if the table allows it, with all its consequences."""
        before = record.status
        if (event, before, after) not in STEPS:
            check(event, before, after, record.id)
        draft, now = record.draft, self.now
        queue = self.queues[draft.queue]
        lanes, counts = queue.lanes, queue.counts
        shelf = lanes.shelf
        if shelf is not None and draft.limit_key is not None and after is RUNNING:
            shelf.started(draft.limit_key)
        # Nearly all calls are for leased and settled jobs, so calls are inlined for those.
        if before is PENDING:
            lanes.forget_ready(record)
            if lanes.count.dead:
                lanes.tidy(now)
        elif before is RUNNING:
            del self.running[record.id]
        else:
            self._leave(queue, record)
        record.status = after
        record.since = now
        counts[before] -= 1
        counts[after] += 1
        history = record.history
        if history:
            history.append(
                KeptEvent(
                    now,
                    event,
                    before,
                    after,
                    record.worker,
                    record.lease_version,
                    record.attempts,
                    message,
                )
            )
        if self.feed is not None:
            self.feed.note("job", record.id, after, event, len(history))
        if queue.rule is not None and lets_somebody_go_on(
            queue.rule.config,
            pending=counts[PENDING],
            more_pending=-(before is PENDING),
            more_running=-(before is RUNNING),
        ):
            self.wake()
        if before is RUNNING:
            record.worker = None
            record.cancel_requested = None
            if shelf is not None and draft.limit_key is not None:
                shelf.ended(draft.limit_key)
        if after is RUNNING:
            self.running[record.id] = record
        else:
            self._enter(queue, record)

    def follow(self, record: Record, decision: Decision) -> None:
        """Apply a decision to a job."""
        if record.attempts != decision.attempts:
            record.attempts = decision.attempts
        if decision.message or record.reason is not None:  # Most have no reason, before and after.
            record.reason = decision.reason
        totals = self.queues[record.draft.queue].totals
        if decision.totals is COMPLETED_TOTALS:
            totals.completed += 1
        else:
            for name in decision.totals:
                setattr(totals, name, getattr(totals, name) + 1)
        self.step(record, decision.event, decision.status, decision.message)

    def end_waiting(self, record: Record, after: Status, reason: str) -> None:
        """End a job that is not running: it is cancelled, or a dead letter."""
        self.follow(record, end_of_waiting(after, record.attempts, reason))

    def wake(self) -> None:
        """Tell listeners that something may now be leased or submitted that could not be before."""
        if self.news is not None:
            self.news.ready = True

    def tell(
        self,
        record: Record,
        event: Event,
        *,
        before: Status | None,
        message: str | int = "",
        holder: tuple[str | None, int] | None = None,
    ) -> None:
        """Write one event to a job's history; `holder` and version default to the job's own."""
        if record.history or before is None:
            # A history that was dropped as a whole does not start again.
            worker, version = holder or (record.worker, record.lease_version)
            record.history.append(
                KeptEvent(
                    self.now,
                    event,
                    before,
                    record.status,
                    worker,
                    version,
                    record.attempts,
                    message,
                )
            )
        if self.feed is not None:
            self.feed.note("job", record.id, record.status, event, len(record.history))

    def _leave(self, queue: MemoryQueue, record: Record) -> None:
        """Handle a job that leaves a status other than pending and running."""
        status = record.status
        if status in TERMINAL:
            self.finished.remove(record)
            record.completed_at = None
            if record.needs:
                self.links.count_unfinished(record, 1)
        elif status is BLOCKED:
            self.links.unblock(record)
        else:
            queue.lanes.forget_delayed(record)
            queue.lanes.tidy(self.now)

    def _enter(self, queue: MemoryQueue, record: Record) -> None:
        """Handle a job that has reached a status other than running."""
        status = record.status
        if status is PENDING:
            queue.lanes.add_ready(record, self.now)
            if record.start_by is not None:
                heappush(self._to_start, (record.start_by, record.seq, record))
            if self.news is not None:
                self.news.ready = True
        elif status in TERMINAL:
            record.completed_at = self.now
            self.finished.add(record)
            if record.needs:
                self.links.count_unfinished(record, -1)
            if record.id in self.links.blocking:
                self.links.note_ended(record)
            ttl = record.draft.result_ttl_seconds
            if ttl is not None and status is COMPLETED:
                heappush(self.result_ends, (self.now + round(ttl * 1e6), record.seq, record))
            if self.news is not None:
                self.news.ended.append(record.id)
        elif status is not BLOCKED:
            queue.lanes.add_delayed(record)
            if self.news is not None:
                self.news.ready = True

    # -- forgetting jobs ---------------------------------------------------------------------

    def retention_changed(self) -> None:
        """Recompute how long jobs are kept, by the store's own policy or otherwise the settings."""
        given = self._given_retention
        self.policy = given or retention_by(self.settings.values, MEMORY_RETENTION)
        self.trim_at = 0

    # -- figures -----------------------------------------------------------------------------

    def _end_minute(self) -> None:
        """Before anything changes in a new minute, save what happened in the previous one."""
        minute = self.now // MINUTE_MICROS
        if minute > self.open_minute:
            end_minute(SpanShelf(self), minute)

    def note_action(self, actor: str, action: str, count: int, detail: Mapping[str, Any]) -> None:
        """Write an audit record."""
        self._audited += 1
        record = AuditRecord(
            at=from_micros(self.now), actor=actor, action=action, detail=dict(detail), count=count
        )
        self.audit.append((self._audited, record))

    def audits(self) -> Iterator[NumberedAudit]:
        """The administrative actions, newest first, archived ones included."""
        yield from reversed(self.audit)
        yield from reversed(self.audit_archive)

    def note_change(self, kind: ChangeKind, name: str) -> None:
        """Notify followers of a change to something other than a job."""
        if self.feed is not None:
            self.feed.note(kind, name)


class RuleView:
    """The state as a rule of the core sees it, inside one verb."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now
        self.audit = state.note_action
