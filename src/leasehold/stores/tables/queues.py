"""Queues: as a look finds them (`core.rules.queue_facts`), and as a write changes them
(`core.rules.queue_orders`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.queue_config import QueueInfo, QueueRule
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import WAITING, Status
from leasehold.core.model.stored import MOMENT_MAX, micros
from leasehold.core.rules import rebalancing
from leasehold.core.rules.queue_facts import QueueFacts, infos
from leasehold.core.rules.queue_orders import QueueBook
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.starting import StartBook
from leasehold.env import from_micros
from leasehold.stores.tables import rebalance
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.job_reading import TableJobs
from leasehold.stores.tables.job_states import Ending, TableHistories
from leasehold.stores.tables.rebalance import SOME_RESCORING, TablePasses
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep
from leasehold.stores.verbs.queues import QueueVerbs

FOUND_AT_ONCE: Final = 100_000
"""How many jobs to bury one read finds."""

HELD: Final = """
    SELECT queue, task, held_until FROM lane
    WHERE queue = coalesce($1, queue) AND held_until > $2 ORDER BY task
"""
# `running` is small, so all of it may be read; but each of its jobs is looked up.
RUNNING_OF_KEY: Final = """
    SELECT count(*) FROM running
    WHERE (SELECT lane.queue = $1 AND limit_key = $2
           FROM job JOIN lane ON lane.id = job.lane WHERE job.seq = running.seq)
"""
# For a reader, which blocks no writer: this scans `waiting` as a whole.
WAITING_IN_QUEUE: Final = """
    SELECT seq FROM ready WHERE ready.lane IN (SELECT id FROM lane WHERE queue = $1
        UNION ALL SELECT -id FROM key_lane WHERE queue = $1)
    UNION ALL
    SELECT seq FROM waiting JOIN job USING (seq)
    WHERE job.lane IN (SELECT id FROM lane WHERE queue = $1)
    LIMIT $2
"""


class TableQueues:
    """See `leasehold.core.rules.queue_facts.QueueReader`; jobs go by their numbers."""

    figures: ClassVar[str]
    """By queue, or for one: the counts by status, when it was first known, and whether it is
    deleted.
    """
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

    def facts(self, queue: str | None) -> Mapping[str, QueueFacts]:
        held: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for name, task, until in self._db.execute(HELD, (queue, self._now)).fetchall():
            held[name][task] = until
        rules = self.rules
        # A queue that was created and never held a job is not counted yet.
        none = dict.fromkeys(Status, 0)
        facts = {
            name: QueueFacts(rule, none, None, False, {})
            for name, rule in rules.items()
            if queue in (None, name)
        }
        for name, *sums, first, is_deleted in self._db.execute(self.figures, (queue,)).fetchall():
            counts = dict(zip(Status, sums, strict=True))
            since = first if first is not None and 0 < first <= MOMENT_MAX else None
            rule = rules.get(name)
            facts[name] = QueueFacts(rule, counts, since, bool(is_deleted), held[name])
        return facts

    def running_of_key(self, queue: str, key: str) -> int:
        return int(self._db.execute(RUNNING_OF_KEY, (queue, key)).fetchone()[0])

    def find(self, where: JobFilter, limit: int) -> tuple[list[int], bool]:
        page = self.jobs(self._db).search(where, limit, None)
        numbers = (
            f"SELECT seq FROM job WHERE {self.jobs.dialect.among('id', '$1')} ORDER BY seq DESC"
        )
        ids = self.jobs.dialect.listed([job.id for job in page.jobs])
        found = self._db.execute(numbers, (ids,)).fetchall()
        return [seq for (seq,) in found], page.next_cursor is not None

    def waiting_in(self, queue: str) -> list[int]:
        return [seq for (seq,) in self._db.execute(WAITING_IN_QUEUE, (queue, FOUND_AT_ONCE))]


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
    """See `leasehold.core.rules.queue_orders.QueueBook`; jobs are identified by number."""

    note_deleted: ClassVar[str]
    """Records in the lanes of a queue how many jobs have been submitted so far."""
    note_purged: ClassVar[str]
    """For `many`: has an ended job's dependents handled, and the job erased afterwards."""
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
        # A reader found them, so some may have been leased or ended since.
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
        """The queue in the state in which this write leaves it."""
        self._step.flush()
        [found] = infos(self.queues(self._step.db, self._step.now), queue)
        return found


class TableQueueVerbs(QueueVerbs):
    """Queues, as this database reads them, and places their jobs."""

    _database: TableDatabase
    _queue_book: type[TableQueueBook]

    def _queue_reader(self, look: SqlConnection) -> TableQueues:
        return self._queue_book.queues(look, self._database.now(look))

    def _change(self, queue: str, order: Callable[[QueueBook[int]], None]) -> QueueInfo:
        with self._database.read() as db:
            unfinished = db.execute(SOME_RESCORING).fetchone() is not None
        if unfinished:
            # An earlier change is finished first: it leaves less for this one to do.
            self._place_anew(queue)
        return super()._change(queue, order)

    def _place_anew(self, queue: str) -> None:  # noqa: ARG002  # what an earlier write left, too
        self._database.rebalance_the_rest()
