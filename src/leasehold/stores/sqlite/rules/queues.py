"""Queues and their rules: how they are kept and counted; `core.rules.queue_orders` decides.

What is done to a queue in more than one write: its changes, a purge, its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.budget import BURIED_AT_ONCE, batched
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import DELETED_RULE, QueueInfo, QueueRule, QueueState
from leasehold.core.model.records import Purged
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import WAITING, Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules import queue_orders, rebalancing
from leasehold.core.rules.queue_orders import Buried
from leasehold.core.rules.starting import key_starts, next_start_at
from leasehold.env import from_micros, to_micros
from leasehold.stores.sqlite.keeping.removing import erase
from leasehold.stores.sqlite.leasing.rebalance import Passes
from leasehold.stores.sqlite.leasing.state import end_waiting, state_of
from leasehold.stores.sqlite.reading import read
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.schema.damaged_cells import DELETED_BY
from leasehold.stores.sqlite.submitting.gate import BucketBook
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import rebalance
from leasehold.stores.tables.rebalance import SOME_RESCORING

KEEP_RULE: Final = """
    INSERT INTO queue (name, state, config, created_at, created_by, changed_at, changed_by)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET state = excluded.state, config = excluded.config,
        changed_at = excluded.changed_at, changed_by = excluded.changed_by
"""
FORGET_RULE: Final = "DELETE FROM queue WHERE name = ?"
FORGET_BUCKETS: Final = "DELETE FROM bucket WHERE queue = ?"
KNOWN: Final = "SELECT 1 FROM lane WHERE queue = ? LIMIT 1"
# Few rows: one per queue and task. `coalesce` makes one statement of it, for one queue and for all.
FIGURES: Final = (
    f"SELECT queue, {', '.join(f'sum({status.value})' for status in Status)}, "  # noqa: S608  # our own names
    "min(iif(typeof(made_at) = 'integer', made_at, NULL)), min(deleted_after IS total_submitted) "
    "FROM lane WHERE queue = coalesce(?, queue) GROUP BY queue"
)
# Until more is submitted to it than was by then.
NOTE_DELETED: Final = "UPDATE lane SET deleted_after = total_submitted WHERE queue = ?"
HELD: Final = """
    SELECT queue, task, held_until FROM lane
    WHERE queue = coalesce(?, queue) AND held_until > ? ORDER BY task
"""
# `running` is small, so all of it may be read.
RUNNING_OF_KEY: Final = """
    SELECT count(*) FROM running CROSS JOIN job USING (seq) CROSS JOIN lane ON lane.id = job.lane
    WHERE lane.queue = ? AND limit_key = ?
"""
LEFT: Final = """
    SELECT coalesce(sum(scheduled + blocked + pending + failed), 0), coalesce(sum(running), 0)
    FROM lane WHERE queue = ?
"""
# For a reader, which holds up nobody: `waiting` is looked through as a whole.
WAITING_IN_QUEUE: Final = """
    SELECT seq FROM ready WHERE ready.lane IN (SELECT id FROM lane WHERE queue = ?1
        UNION ALL SELECT -id FROM key_lane WHERE queue = ?1)
    UNION ALL
    SELECT seq FROM waiting JOIN job USING (seq)
    WHERE job.lane IN (SELECT id FROM lane WHERE queue = ?1)
    LIMIT ?2
"""
NUMBERS: Final = """
    SELECT seq FROM job WHERE id IN (SELECT value FROM json_each(?)) ORDER BY seq DESC
"""
DEPENDENTS: Final = """
    SELECT needs, count(*) FROM blocker WHERE needs IN (SELECT value FROM json_each(?))
    GROUP BY needs
"""
ERASE_WHEN_TOLD: Final = "INSERT INTO resolving (seq, purged) VALUES (?, 1)"
STILL_PENDING: Final = """
    SELECT 1 FROM lane JOIN ready ON ready.lane = lane.id WHERE queue = ?1
    UNION ALL
    SELECT 1 FROM key_lane JOIN ready ON ready.lane = -key_lane.id WHERE queue = ?1 LIMIT 1
"""
FOUND_AT_ONCE: Final = 100_000
"""How many jobs to bury one read looks for."""


class QueueBook:
    """See `leasehold.core.rules.queue_orders.QueueBook`; jobs go by their numbers."""

    def __init__(self, step: Step) -> None:
        self._step = step

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
            rebalancing.rescore(Passes(step), queue)
        state = rule.state.value
        if rule.deleted_by is not None:
            state += DELETED_BY + rule.deleted_by
        config = msgspec.json.encode(rule.config).decode()
        created, changed = _micros(rule.created_at), _micros(rule.changed_at)
        signed = created, rule.created_by, changed, rule.changed_by
        step.execute(KEEP_RULE, (queue, state, config, *signed))
        step.rules_changed()
        limits = before.config.key_limits, rule.config.key_limits
        rebalancing.limits_changed(Passes(step), queue, *limits)
        step.hints.ready = True

    def forget_rule(self, queue: str) -> None:
        step = self._step
        step.execute(FORGET_RULE, (queue,))
        step.write_counters()
        step.execute(NOTE_DELETED, (queue,))
        step.execute(FORGET_BUCKETS, (queue,))
        rebalance.forget(step, queue)
        step.rules_changed()
        step.hints.ready = True

    def jobs_left(self, queue: str) -> tuple[int, int]:
        self._step.flush()
        waiting, running = self._row(LEFT, queue)
        return waiting, running

    def has_pending(self, queue: str) -> bool:
        return self._row(STILL_PENDING, queue) is not None

    def end_waiting(self, jobs: Sequence[int], after: Status, reason: str) -> list[int]:
        ended = []
        for seq in jobs:
            job = state_of(self._step, seq)
            # It was found by a reader: it may have been leased, or ended, since.
            if job is not None and job.status in WAITING:
                end_waiting(self._step, job, after, reason)
                ended.append(seq)
        return ended

    def dependents(self, jobs: Sequence[int]) -> Mapping[int, int]:
        if not self._step.somebody_waits:
            return {}
        counted: Any = self._step.execute(DEPENDENTS, (msgspec.json.encode(jobs).decode(),))
        return dict(counted)

    def erase(self, jobs: Collection[int]) -> None:
        for seq in jobs:
            erase(self._step, seq)

    def erase_when_told(self, jobs: Collection[int]) -> None:
        if jobs:
            self._step.executemany(ERASE_WHEN_TOLD, [(seq,) for seq in jobs])
            self._step.some_unresolved = True

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._step.audit(actor, action, count, detail)

    def _row(self, statement: str, about: str | int) -> Any:
        return self._step.execute(statement, (about,)).fetchone()


def to_purge(
    db: apsw.Connection, queue: str, where: JobFilter, limit: int
) -> tuple[list[int], bool]:
    """The numbers of waiting jobs that fit, and whether there are more.

    For a reader: all jobs may have to be looked at.
    """
    fitting = queue_orders.to_purge(queue, where)
    if fitting is None:
        return [], False
    page = read.search(db, fitting, limit, None)
    ids = msgspec.json.encode([job.id for job in page.jobs]).decode()
    found: Any = db.execute(NUMBERS, (ids,))
    return [seq for (seq,) in found], page.next_cursor is not None


def waiting_in(db: apsw.Connection, queue: str) -> list[int]:
    """The numbers of jobs that wait in a queue."""
    return [seq for (seq,) in db.execute(WAITING_IN_QUEUE, (queue, FOUND_AT_ONCE))]


def being_deleted_in(db: apsw.Connection) -> list[str]:
    """The queues that somebody began to delete."""
    return [queue for queue, rule in load(db).items() if rule.state is QueueState.DELETING]


def infos(db: apsw.Connection, now: int, queue: str | None = None) -> list[QueueInfo]:
    """What is known of one queue, if anything, or of all of them, by name."""
    rules = load(db)
    figures: Any = db.execute(FIGURES, (queue,))
    counts: dict[str, dict[Status, int]] = {}
    since: dict[str, datetime] = {}
    deleted: set[str] = set()
    for name, *sums, first, is_deleted in figures:
        counts[name] = dict(zip(Status, sums, strict=True))
        if is_deleted:
            deleted.add(name)
        if first is not None and 0 < first <= MOMENT_MAX:
            since[name] = from_micros(first)
    held: dict[str, dict[str, datetime]] = {}
    rows: Any = db.execute(HELD, (queue, now))
    for name, task, until in rows:
        held.setdefault(name, {})[task] = from_micros(until)
    names = rules.keys() | counts.keys() if queue is None else {queue} & (rules.keys() | counts)
    book = BucketBook(db, now)
    found = (
        _info(
            name,
            rules.get(name) or (DELETED_RULE if name in deleted else QueueRule()),
            counts.get(name) or dict.fromkeys(Status, 0),
            held.get(name) or {},
            since.get(name),
            book,
        )
        for name in sorted(names)
    )
    return [info for info in found if not info.is_gone]


def _info(
    name: str,
    known: QueueRule,
    counts: dict[Status, int],
    held: dict[str, datetime],
    since: datetime | None,
    book: BucketBook,
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


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def key_info(db: apsw.Connection, now: int, queue: str, key: str) -> KeyInfo:
    """How many jobs of a key run in a queue, and when the next may start."""
    row: Any = db.execute(RUNNING_OF_KEY, (queue, key)).fetchone()
    rule = load(db).get(queue)
    rate = None if rule is None else rule.config.key_start_rate
    if rate is None:
        return KeyInfo(row[0])
    next_at = rate.next_at(BucketBook(db, now).full_at(queue, key_starts(key)), now=now)
    return KeyInfo(row[0], None if next_at is None else from_micros(next_at))


def info_inside(step: Step, queue: str) -> QueueInfo:
    """The queue as this write leaves it."""
    step.flush()
    [found] = infos(step.db, step.now, queue)
    return found


def change(database: Database, queue: str, verb: Callable[[QueueBook], None]) -> QueueInfo:
    """Change what counts in a queue, and place its jobs accordingly."""

    def operation(step: Step) -> QueueInfo:
        verb(QueueBook(step))
        return info_inside(step, queue)

    with database.read() as db:
        unfinished = db.execute(SOME_RESCORING).fetchone() is not None
    if unfinished:
        # What an earlier change began is finished first: it leaves less for this one to do.
        database.rebalance_the_rest()
    info = database.write(operation)
    database.rebalance_the_rest()
    return info


def purge(database: Database, queue: str, where: JobFilter, limit: int, actor: str) -> Purged:
    """Delete some of a queue's jobs: a reader finds them, one write takes them."""
    with database.read() as db:
        jobs, more = to_purge(db, queue, where, limit)
    return database.write(
        lambda step: queue_orders.purge(QueueBook(step), queue, where, jobs, actor, more=more)
    )


def delete(database: Database, queue: str, actor: str, *, force: bool) -> int:
    """Delete a queue; answers how many jobs went with it."""
    # First it is marked: from then on nothing comes in and nothing is leased, and should this
    # call be cut short, any sweep goes on.
    if database.write(lambda step: queue_orders.delete(QueueBook(step), queue, actor, force=force)):
        return 0
    return _bury(database, queue)


def finish_deleting(database: Database) -> None:
    """Go on where a call that deletes a queue was cut short."""
    with database.read() as db:
        unfinished = being_deleted_in(db)
    for queue in unfinished:
        _bury(database, queue)


def _bury(database: Database, queue: str) -> int:
    """Finish deleting a queue, so many jobs in each write; answers how many it buried."""
    buried = 0
    done = False
    while not done:
        with database.read() as db:
            found = waiting_in(db, queue)
        for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
            more, done = database.write(partial(_bury_some, queue, jobs, buried))
            buried += more
    return buried


def _bury_some(queue: str, jobs: Sequence[int], buried: int, step: Step) -> Buried:
    return queue_orders.bury(QueueBook(step), queue, jobs, buried)
