"""What people do to queues: create, update, pause, resume, drain, purge, delete. All audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.messages import purged_by, queue_deleted
from leasehold.core.priority import DEFAULT_SCORING
from leasehold.core.queue_config import (
    QueueConfig,
    QueueInfo,
    QueueState,
    being_deleted,
    check_queue_name,
)
from leasehold.core.queue_rules import Purged, said
from leasehold.core.refusals import no_queue, queue_exists, queue_not_empty
from leasehold.core.search import JobFilter, Page
from leasehold.core.status import WAITING, Status
from leasehold.env import from_micros
from leasehold.errors import InvalidQueueError
from leasehold.stores.sqlite.keeping.erase import erase
from leasehold.stores.sqlite.leasing import people, relimit
from leasehold.stores.sqlite.leasing.rebalance import rescore
from leasehold.stores.sqlite.leasing.state import end_waiting, find, state_of
from leasehold.stores.sqlite.reading import read
from leasehold.stores.sqlite.rules.known import DELETED_BY, Rule, load
from leasehold.stores.sqlite.writing.step import Step

KEEP_RULE: Final = """
    INSERT INTO queue (name, state, config) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET state = excluded.state, config = excluded.config
"""
FORGET_RULE: Final = "DELETE FROM queue WHERE name = ?"
FORGET_BUCKETS: Final = "DELETE FROM bucket WHERE queue = ?"
KNOWN: Final = "SELECT 1 FROM lane WHERE queue = ? LIMIT 1"
# Few rows: one per queue and task. `coalesce` makes one statement of it, for one queue and for all.
FIGURES: Final = (
    f"SELECT queue, {', '.join(f'sum({status.value})' for status in Status)} "  # noqa: S608  # our own names
    "FROM lane WHERE queue = coalesce(?, queue) GROUP BY queue"
)
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
BLOCKS_SOMEBODY: Final = "SELECT 1 FROM blocker WHERE needs = ? LIMIT 1"
DELETE_WHEN_TOLD: Final = "INSERT INTO resolving (seq, purged) VALUES (?, 1)"
STILL_PENDING: Final = """
    SELECT 1 FROM lane JOIN ready ON ready.lane = lane.id WHERE queue = ?1
    UNION ALL
    SELECT 1 FROM key_lane JOIN ready ON ready.lane = -key_lane.id WHERE queue = ?1 LIMIT 1
"""
JOB_TO_BURY: Final = "SELECT id, lane FROM job WHERE seq = ?"
FOUND_AT_ONCE: Final = 100_000
"""How many jobs to bury one read looks for."""


def create(step: Step, queue: str, config: QueueConfig, actor: str) -> None:
    """Give a new queue its rules."""
    check_queue_name(queue)
    known = step.rules.get(queue)
    if known is None:
        _keep(step, queue, Rule(QueueState.ACTIVE, config))
        people.audit(step, actor, "create_queue", 1, {"queue": queue, "config": config})
    elif known.state is QueueState.DELETING:
        raise being_deleted(queue)
    elif known.config != config:
        raise queue_exists(queue)


def update(step: Step, queue: str, changes: Mapping[str, Any], actor: str) -> None:
    """Change some of a queue's rules."""
    known = _known(step, queue)
    _keep(step, queue, known._replace(config=known.config.changed(changes), problem=None))
    people.audit(step, actor, "update_queue", 1, {"queue": queue, "changes": dict(changes)})


def set_state(step: Step, queue: str, state: QueueState, actor: str) -> None:
    """Pause, resume or drain a queue."""
    action = _ACTIONS.get(state)
    if action is None:
        raise InvalidQueueError(f"a queue is active, paused or draining, not {state}: delete it")
    _keep(step, queue, _known(step, queue)._replace(state=state, problem=None))
    people.audit(step, actor, action, 1, {"queue": queue})


_ACTIONS: Final = {
    QueueState.ACTIVE: "resume_queue",
    QueueState.PAUSED: "pause_queue",
    QueueState.DRAINING: "drain_queue",
}


def to_purge(db: apsw.Connection, queue: str, where: JobFilter, limit: int) -> Page:
    """Waiting jobs that fit. For a reader: all jobs may have to be looked at."""
    statuses = WAITING & set(where.statuses or WAITING)
    if where.queues is not None and queue not in where.queues:
        return Page([], None)
    fitting = msgspec.structs.replace(where, queues=(queue,), statuses=tuple(statuses))
    return read.search(db, fitting, limit, None)


def purge(step: Step, queue: str, where: JobFilter, actor: str, page: Page) -> Purged:
    """Delete those of these jobs that still wait: all are cancelled, and then deleted when nobody
    waits for them.

    Those that others wait for are deleted by `dependents.resolve`, which tells these first.
    """
    purged = 0
    for job in page.jobs:
        waiting = find(step, job.id)
        # It was found by a reader: it may have been leased or ended since.
        if waiting is None or waiting.status not in WAITING:
            continue
        seq = waiting.seq
        end_waiting(step, waiting, Status.CANCELLED, purged_by(actor))
        if step.somebody_waits and step.execute(BLOCKS_SOMEBODY, (seq,)).fetchone():
            step.execute(DELETE_WHEN_TOLD, (seq,))
            step.some_unresolved = True
        else:
            erase(step, seq)
        purged += 1
    if purged:
        people.audit(step, actor, "purge_queue", purged, {"queue": queue, "where": said(where)})
    return Purged(purged, more=page.next_cursor is not None)


def delete(step: Step, queue: str, actor: str, *, force: bool) -> bool:
    """Forget a queue, or begin to: by force, what waits in it has to be buried first.

    Answers whether that was all.
    """
    known = _known(step, queue, deleting=True)
    left: Any = step.execute(LEFT, (queue,)).fetchone()
    waiting, running = left
    if (waiting or running) and not force:
        raise queue_not_empty(queue, waiting, running)
    if not waiting:
        _forget(step, queue, actor, force=force, buried=0)
        return True
    if known.state is not QueueState.DELETING:
        _keep(step, queue, known._replace(state=QueueState.DELETING, deleted_by=actor))
    return False


def waiting_in(db: apsw.Connection, queue: str) -> list[int]:
    """The numbers of jobs that wait in a queue."""
    return [seq for (seq,) in db.execute(WAITING_IN_QUEUE, (queue, FOUND_AT_ONCE))]


def being_deleted_in(db: apsw.Connection) -> list[str]:
    """The queues that somebody began to delete."""
    return [queue for queue, rule in load(db).items() if rule.state is QueueState.DELETING]


def bury(step: Step, queue: str, jobs: Sequence[int], buried: int) -> tuple[int, bool]:
    """Make dead letters of these jobs, and forget the queue when nothing is pending in it.

    `buried` jobs were before. Answers how many these were, and whether that was all.
    """
    rule = step.rules.get(queue)
    if rule is None or rule.state is not QueueState.DELETING:
        return 0, True  # Another process has finished it.
    actor = rule.deleted_by or "somebody"
    reason = queue_deleted(queue, actor)
    more = sum(_bury(step, seq, reason) for seq in jobs)
    step.flush()
    left: Any = step.execute(LEFT, (queue,)).fetchone()
    # Without jobs to bury, counters that are wrong must not keep the queue for ever.
    if (left[0] and jobs) or step.execute(STILL_PENDING, (queue,)).fetchone():
        return more, False
    _forget(step, queue, actor, force=True, buried=buried + more)
    return more, True


def _forget(step: Step, queue: str, actor: str, *, force: bool, buried: int) -> None:
    step.execute(FORGET_RULE, (queue,))
    step.execute(FORGET_BUCKETS, (queue,))
    relimit.forget(step, queue)
    step.rules_changed()
    # Those that were held back by the queue's rules, its running jobs' retries, may go on.
    step.hints.ready = True
    people.audit(step, actor, "delete_queue", buried, {"queue": queue, "force": force})


def infos(db: apsw.Connection, now: int, queue: str | None = None) -> list[QueueInfo]:
    """What is known of one queue, if anything, or of all of them, by name."""
    rules = load(db)
    figures: Any = db.execute(FIGURES, (queue,))
    counts: dict[str, dict[Status, int]] = {
        name: dict(zip(Status, sums, strict=True)) for name, *sums in figures
    }
    held: dict[str, dict[str, datetime]] = {}
    rows: Any = db.execute(HELD, (queue, now))
    for name, task, until in rows:
        held.setdefault(name, {})[task] = from_micros(until)
    names = rules.keys() | counts.keys() if queue is None else {queue} & (rules.keys() | counts)
    return [
        _info(name, rules.get(name), counts.get(name) or dict.fromkeys(Status, 0), held.get(name))
        for name in sorted(names)
    ]


def _info(
    name: str, rule: Rule | None, counts: dict[Status, int], held: dict[str, datetime] | None
) -> QueueInfo:
    known = rule or Rule(QueueState.ACTIVE, QueueConfig())
    return QueueInfo(
        name=name,
        state=known.state,
        config=known.config,
        pending=counts[Status.PENDING],
        running=counts[Status.RUNNING],
        counts=counts,
        held_until=held or {},
    )


def running_of_key(db: apsw.Connection, queue: str, key: str) -> int:
    """How many jobs of a key run in a queue."""
    row: Any = db.execute(RUNNING_OF_KEY, (queue, key)).fetchone()
    return int(row[0])


def info_inside(step: Step, queue: str) -> QueueInfo:
    """The queue as this write leaves it."""
    step.flush()
    [found] = infos(step.db, step.now, queue)
    return found


def _known(step: Step, queue: str, *, deleting: bool = False) -> Rule:
    rule = step.rules.get(queue)
    if rule is not None:
        if rule.state is QueueState.DELETING and not deleting:
            raise being_deleted(queue)
        return rule
    if step.execute(KNOWN, (queue,)).fetchone() is None:
        raise no_queue(queue)
    return Rule(QueueState.ACTIVE, QueueConfig())


def _keep(step: Step, queue: str, rule: Rule) -> None:
    before = step.rules.get(queue)
    key_limit = None if before is None else before.config.key_concurrency
    if rule.config.scoring != (DEFAULT_SCORING if before is None else before.config.scoring):
        rescore(step, queue)
    config = msgspec.json.encode(rule.config).decode()
    state = (
        rule.state.value
        if rule.deleted_by is None
        else f"{rule.state}{DELETED_BY}{rule.deleted_by}"
    )
    step.execute(KEEP_RULE, (queue, state, config))
    step.rules_changed()
    if relimit.changed(step, queue, key_limit, rule.config.key_concurrency):
        rescore(step, queue)
    # More may be leased, or submitted, than before.
    step.hints.ready = True


def _bury(step: Step, seq: int, reason: str) -> bool:
    job = state_of(step, seq)
    if job is None or job.status not in WAITING:
        return False
    end_waiting(step, job, Status.DEAD, reason)
    return True
