"""The information about queues, for reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, Final

from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import DELETED_RULE, QueueInfo, QueueRule, QueueState
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import queue_orders
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.starting import StartBook, key_starts, next_start_at
from leasehold.env import from_micros
from leasehold.stores.tables.job_reading import TableJobs
from leasehold.stores.tables.statements import Dialect, SqlConnection

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

    dialect: ClassVar[Dialect]
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
        numbers = f"SELECT seq FROM job WHERE {self.dialect.among('id', '$1')} ORDER BY seq DESC"  # noqa: S608  # our own names
        ids = self.dialect.listed([job.id for job in page.jobs])
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
