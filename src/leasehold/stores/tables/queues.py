"""Queues: for reads; as a write changes them (`core.rules.queue_orders`); what takes many writes.

Those are a change of rules (jobs are placed anew), a purge, and an end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from leasehold.core.model.budget import BURIED_AT_ONCE, PURGE_AT_ONCE, batched
from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.key_limits import KeyInfo
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
from leasehold.core.model.stored import MOMENT_MAX, micros
from leasehold.core.rules import queue_orders, rebalancing
from leasehold.core.rules.queue_orders import Buried
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.starting import StartBook, key_starts, next_start_at
from leasehold.env import from_micros
from leasehold.stores.tables import rebalance
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.job_reading import TableJobs
from leasehold.stores.tables.job_states import Ending, TableHistories
from leasehold.stores.tables.rebalance import SOME_RESCORING, TablePasses
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

FOUND_AT_ONCE: Final = 100_000
"""How many jobs to bury one read looks for."""

HELD: Final = """
    SELECT queue, task, held_until FROM lane
    WHERE queue = coalesce($1, queue) AND held_until > $2 ORDER BY task
"""
# `running` is small, so all of it may be read.
RUNNING_OF_KEY: Final = """
    SELECT count(*) FROM running CROSS JOIN job CROSS JOIN lane
    WHERE job.seq = running.seq AND lane.id = job.lane AND lane.queue = $1 AND limit_key = $2
"""
# For a reader, which blocks no writer: `waiting` is looked through as a whole.
WAITING_IN_QUEUE: Final = """
    SELECT seq FROM ready WHERE ready.lane IN (SELECT id FROM lane WHERE queue = $1
        UNION ALL SELECT -id FROM key_lane WHERE queue = $1)
    UNION ALL
    SELECT seq FROM waiting JOIN job USING (seq)
    WHERE job.lane IN (SELECT id FROM lane WHERE queue = $1)
    LIMIT $2
"""


class TableQueues:
    """Reads queues; a store says how it reads rules, buckets and jobs."""

    figures: ClassVar[str]
    """By queue, or for one: a sum for each status, since when it is known, is it deleted."""
    start_book: Callable[[Any, int], StartBook]
    jobs: ClassVar[type[TableJobs]]

    def __init__(self, db: Any, now: int) -> None:
        self._db: SqlConnection = db
        self._now = now

    @property
    def rules(self) -> RuleBook:
        return self.jobs.load_rules(self._db)

    @property
    def buckets(self) -> StartBook:
        return self.start_book(self._db, self._now)

    def infos(self, queue: str | None = None) -> list[QueueInfo]:
        """The information about one queue, if there is any, or about all of them, by name."""
        rules = self.rules
        counts: dict[str, dict[Status, int]] = {}
        since: dict[str, datetime] = {}
        deleted: set[str] = set()
        for name, *sums, first, is_deleted in self._db.execute(self.figures, (queue,)).fetchall():
            counts[name] = dict(zip(Status, sums, strict=True))
            if is_deleted:
                deleted.add(name)
            if first is not None and 0 < first <= MOMENT_MAX:
                since[name] = from_micros(first)
        held: dict[str, dict[str, datetime]] = {}
        for name, task, until in self._db.execute(HELD, (queue, self._now)).fetchall():
            held.setdefault(name, {})[task] = from_micros(until)
        known = rules.keys() | counts.keys()
        book = self.buckets
        found = (
            _info(
                name,
                rules.get(name) or (DELETED_RULE if name in deleted else QueueRule()),
                counts.get(name) or dict.fromkeys(Status, 0),
                held.get(name) or {},
                since.get(name),
                book,
            )
            for name in sorted(known if queue is None else known & {queue})
        )
        return [info for info in found if not info.is_gone]

    def info(self, queue: str) -> QueueInfo | None:
        """The information about one queue."""
        return next(iter(self.infos(queue)), None)

    def key_info(self, queue: str, key: str) -> KeyInfo:
        """How many jobs of a key run in a queue, and when the next may start."""
        running = self._db.execute(RUNNING_OF_KEY, (queue, key)).fetchone()[0]
        rule = self.rules.get(queue)
        rate = None if rule is None else rule.config.key_start_rate
        if rate is None:
            return KeyInfo(running)
        next_at = rate.next_at(self.buckets.full_at(queue, key_starts(key)), now=self._now)
        return KeyInfo(running, None if next_at is None else from_micros(next_at))

    def to_purge(self, queue: str, where: JobFilter, limit: int) -> tuple[list[int], bool]:
        """The numbers of waiting jobs that fit, and whether there are more.

        For a reader: all jobs may have to be looked at.
        """
        fitting = queue_orders.to_purge(queue, where)
        if fitting is None:
            return [], False
        page = self.jobs(self._db).search(fitting, limit, None)
        numbers = (
            f"SELECT seq FROM job WHERE {self.jobs.dialect.among('id', '$1')} ORDER BY seq DESC"
        )
        ids = self.jobs.dialect.listed([job.id for job in page.jobs])
        found = self._db.execute(numbers, (ids,)).fetchall()
        return [seq for (seq,) in found], page.next_cursor is not None

    def waiting_in(self, queue: str) -> list[int]:
        """The numbers of jobs that wait in a queue."""
        return [seq for (seq,) in self._db.execute(WAITING_IN_QUEUE, (queue, FOUND_AT_ONCE))]

    def being_deleted(self) -> list[str]:
        """The queues that somebody began to delete."""
        return [queue for queue, rule in self.rules.items() if rule.state is QueueState.DELETING]


def _info(
    name: str,
    known: QueueRule,
    counts: dict[Status, int],
    held: dict[str, datetime],
    since: datetime | None,
    book: StartBook,
) -> QueueInfo:
    next_at = next_start_at(book, name, known.config)
    return QueueInfo(
        name=name,
        state=known.state,
        config=known.config,
        pending=counts[Status.PENDING],
        running=counts[Status.RUNNING],
        counts=counts,
        held_until=held,
        next_start_at=None if next_at is None else from_micros(next_at),
        created_at=known.created_at or since,
        created_by=known.created_by,
        changed_at=known.changed_at,
        changed_by=known.changed_by,
    )


KEEP_RULE: Final = """
    INSERT INTO queue (name, state, config, created_at, created_by, changed_at, changed_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, config = excluded.config,
        changed_at = excluded.changed_at, changed_by = excluded.changed_by
"""
FORGET_RULE: Final = "DELETE FROM queue WHERE name = $1"
FORGET_BUCKETS: Final = "DELETE FROM bucket WHERE queue = $1"
KNOWN: Final = "SELECT 1 FROM lane WHERE queue = $1 LIMIT 1"
LEFT: Final = """
    SELECT CAST(coalesce(sum(scheduled + blocked + pending + failed), 0) AS bigint),
           CAST(coalesce(sum(running), 0) AS bigint)
    FROM lane WHERE queue = $1
"""
STILL_PENDING: Final = """
    SELECT 1 FROM lane JOIN ready ON ready.lane = lane.id WHERE queue = $1
    UNION ALL
    SELECT 1 FROM key_lane JOIN ready ON ready.lane = -key_lane.id WHERE queue = $1 LIMIT 1
"""


class TableQueueBook:
    """See `leasehold.core.rules.queue_orders.QueueBook`; jobs go by their numbers."""

    note_deleted: ClassVar[str]
    """Notes of the lanes of a queue how many jobs were submitted by now."""
    note_purged: ClassVar[str]
    """For `many`: lets an ended job be told to who waits for it, and erased then."""
    queues: ClassVar[type[TableQueues]]
    histories: ClassVar[type[TableHistories]]

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step
        self.audit = step.audit

    @property
    def now(self) -> datetime:
        return from_micros(self._step.now)

    def rule_of(self, queue: str) -> QueueRule | None:
        return self._step.rules.get(queue)

    def has_held_jobs(self, queue: str) -> bool:
        return self._step.execute(KNOWN, (queue,)).fetchone() is not None

    def set_rule(self, queue: str, rule: QueueRule) -> None:
        step = self._step
        before = step.rules.get(queue) or QueueRule()
        if rule.config.scoring != before.config.scoring:
            rebalancing.rescore(TablePasses(self._step, self.histories.ready), queue)
        state = rule.state.value
        if rule.deleted_by is not None:
            state += DELETED_BY + rule.deleted_by
        config = msgspec.json.encode(rule.config).decode()
        signed = micros(rule.created_at), rule.created_by, micros(rule.changed_at), rule.changed_by
        step.execute(KEEP_RULE, (queue, state, config, *signed))
        step.rules_changed()
        limits = before.config.key_limits, rule.config.key_limits
        rebalancing.limits_changed(TablePasses(self._step, self.histories.ready), queue, *limits)
        step.hints.ready = True

    def forget_rule(self, queue: str) -> None:
        step = self._step
        step.execute(FORGET_RULE, (queue,))
        step.flush()
        step.execute(self.note_deleted, (queue,))
        step.execute(FORGET_BUCKETS, (queue,))
        rebalance.forget(step, queue)
        step.rules_changed()
        step.hints.ready = True

    def jobs_left(self, queue: str) -> tuple[int, int]:
        self._step.flush()
        waiting, running = self._step.execute(LEFT, (queue,)).fetchone()
        return waiting, running

    def has_pending(self, queue: str) -> bool:
        return self._step.execute(STILL_PENDING, (queue,)).fetchone() is not None

    def end_waiting(self, jobs: Sequence[int], after: Status, reason: str) -> list[int]:
        # They were found by a reader: some may have been leased, or ended, since.
        histories = self.histories(self._step)
        states = histories.standing_by_number(jobs)
        still = [seq for seq in jobs if seq in states and states[seq].status in WAITING]
        histories.end([Ending(states[seq], after, reason) for seq in still])
        return still

    def dependents(self, jobs: Sequence[int]) -> Mapping[int, int]:
        if not self._step.somebody_waits:
            return {}
        dialect = self.histories.dialect
        needed = dialect.among("needs", "$1")
        counted = f"SELECT needs, count(*) FROM blocker WHERE {needed} GROUP BY needs"
        return dict(self._step.execute(counted, (dialect.listed(jobs),)).fetchall())

    def erase(self, jobs: Collection[int]) -> None:
        self.histories(self._step).erase_all(list(jobs))

    def erase_when_told(self, jobs: Collection[int]) -> None:
        if jobs:
            self._step.many(self.note_purged, [(seq,) for seq in jobs])
            self._step.some_unresolved = True

    def info(self, queue: str) -> QueueInfo:
        """The queue as this write leaves it."""
        self._step.flush()
        [found] = self.queues(self._step.db, self._step.now).infos(queue)
        return found


class QueueVerbs:
    """Queues and their rules."""

    _database: TableDatabase
    _queue_book: type[TableQueueBook]

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        return self._change(queue, lambda book: queue_orders.create(book, queue, config, actor))

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        return self._change(queue, lambda book: queue_orders.update(book, queue, changes, actor))

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._change(queue, lambda book: queue_orders.set_state(book, queue, state, actor))

    def _change(self, queue: str, order: Callable[[TableQueueBook], None]) -> QueueInfo:
        """Change what counts in a queue, and place its jobs accordingly."""

        def operation(step: TableStep) -> QueueInfo:
            book = self._queue_book(step)
            order(book)
            return book.info(queue)

        with self._database.read() as db:
            unfinished = db.execute(SOME_RESCORING).fetchone() is not None
        if unfinished:
            # An earlier change is finished first: it leaves less for this one to do.
            self._database.rebalance_the_rest()
        info = self._database.write(operation)
        self._database.rebalance_the_rest()
        return info

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        # A reader finds the jobs, one write takes them.
        with self._database.read() as db:
            jobs, more = self._queues(db).to_purge(queue, where, limit)
        return self._database.write(
            lambda step: queue_orders.purge(
                self._queue_book(step), queue, where, jobs, actor, more=more
            )
        )

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        # First it is marked: from then on nothing comes in and nothing is leased, and should this
        # call be cut short, any sweep goes on.
        is_gone = self._database.write(
            lambda step: queue_orders.delete(self._queue_book(step), queue, actor, force=force)
        )
        return 0 if is_gone else _bury(self._database, self._queue_book, queue)

    def queue_info(self, queue: str) -> QueueInfo | None:
        return self._database.look(lambda db: self._queues(db).info(queue))

    def list_queues(self) -> list[QueueInfo]:
        return self._database.look(lambda db: self._queues(db).infos())

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._database.look(lambda db: self._queues(db).key_info(queue, key))

    def _queues(self, db: SqlConnection) -> TableQueues:
        return self._queue_book.queues(db, self._database.now(db))


def finish_deleting(database: TableDatabase, book: type[TableQueueBook]) -> None:
    """Go on where a call that deletes a queue was cut short."""
    with database.read() as db:
        unfinished = book.queues(db, database.now(db)).being_deleted()
    for queue in unfinished:
        _bury(database, book, queue)


def _bury(database: TableDatabase, book: type[TableQueueBook], queue: str) -> int:
    """Finish deleting a queue, so many jobs in each write; answers how many it buried."""
    buried = 0
    done = False
    while not done:
        with database.read() as db:
            found = book.queues(db, database.now(db)).waiting_in(queue)
        for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
            more, done = database.write(partial(_bury_some, book, queue, jobs, buried))
            buried += more
    return buried


def _bury_some(
    book: type[TableQueueBook], queue: str, jobs: Sequence[int], buried: int, step: TableStep
) -> Buried:
    return queue_orders.bury(book(step), queue, jobs, buried)
