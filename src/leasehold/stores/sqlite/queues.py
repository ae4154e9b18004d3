"""What people do to queues: create, update, pause, resume, drain, purge, delete. All audited."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.messages import purged_by, queue_deleted
from leasehold.core.priority import DEFAULT_SCORING
from leasehold.core.queue_config import QueueConfig, QueueInfo, QueueState, check_queue_name
from leasehold.core.queue_rules import Purged, said
from leasehold.core.refusals import no_queue, queue_exists, queue_not_empty
from leasehold.core.search import JobFilter
from leasehold.core.status import WAITING, Status
from leasehold.env import from_micros
from leasehold.stores.sqlite import people, read, relimit
from leasehold.stores.sqlite.erase import erase
from leasehold.stores.sqlite.finish import end_waiting
from leasehold.stores.sqlite.locate import locate, remove
from leasehold.stores.sqlite.prune_lanes import MAKE_INDEX
from leasehold.stores.sqlite.rebalance import rescore
from leasehold.stores.sqlite.rules import Rule, load
from leasehold.stores.sqlite.settle import FIND_SEQ
from leasehold.stores.sqlite.step import Step

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
# Guard: the job waits. Those that run, or have ended, are not even looked at.
WAITING_IN_QUEUE: Final = """
    SELECT seq, job.id, job.lane FROM ready JOIN job USING (seq)
    WHERE ready.lane IN (SELECT id FROM lane WHERE queue = ?1
                         UNION ALL SELECT -id FROM key_lane WHERE queue = ?1)
    UNION ALL
    SELECT seq, job.id, job.lane FROM waiting JOIN job USING (seq)
    WHERE job.lane IN (SELECT id FROM lane WHERE queue = ?1)
"""
BLOCKS_SOMEBODY: Final = "SELECT 1 FROM blocker WHERE needs = ? LIMIT 1"
DELETE_WHEN_TOLD: Final = "INSERT INTO resolving (seq, purged) VALUES (?, 1)"


def create(step: Step, queue: str, config: QueueConfig, actor: str) -> None:
    """Give a new queue its rules."""
    check_queue_name(queue)
    known = step.rules.get(queue)
    if known is None:
        _keep(step, queue, Rule(QueueState.ACTIVE, config))
        people.audit(step, actor, "create_queue", 1, {"queue": queue, "config": config})
    elif known.config != config:
        raise queue_exists(queue)


def update(step: Step, queue: str, changes: Mapping[str, Any], actor: str) -> None:
    """Change some of a queue's rules."""
    known = _known(step, queue)
    _keep(step, queue, known._replace(config=known.config.changed(changes)))
    people.audit(step, actor, "update_queue", 1, {"queue": queue, "changes": dict(changes)})


def set_state(step: Step, queue: str, state: QueueState, actor: str) -> None:
    """Pause, resume or drain a queue."""
    _keep(step, queue, _known(step, queue)._replace(state=state))
    people.audit(step, actor, _ACTIONS[state], 1, {"queue": queue})


_ACTIONS: Final = {
    QueueState.ACTIVE: "resume_queue",
    QueueState.PAUSED: "pause_queue",
    QueueState.DRAINING: "drain_queue",
}


def purge(step: Step, queue: str, where: JobFilter, actor: str, limit: int) -> Purged:
    """Delete waiting jobs that fit: all are cancelled, and then deleted when nobody waits for them.

    Those that others wait for are deleted by `dependents.resolve`, which tells these first.
    """
    statuses = WAITING & set(where.statuses or WAITING)
    if where.queues is not None and queue not in where.queues:
        return Purged(0, more=False)
    fitting = msgspec.structs.replace(where, queues=(queue,), statuses=tuple(statuses))
    page = read.search(step.db, fitting, limit, None)
    cancel = people.cancel(purged_by(actor))
    for job in page.jobs:
        found: Any = step.execute(FIND_SEQ, (job.id,)).fetchone()
        seq = found[0]
        place = locate(step, seq)
        assert place is not None
        cancel(step, seq, job, place)
        if step.somebody_waits and step.execute(BLOCKS_SOMEBODY, (seq,)).fetchone():
            step.execute(DELETE_WHEN_TOLD, (seq,))
            step.some_unresolved = True
        else:
            erase(step, seq)
    purged = len(page.jobs)
    if purged:
        people.audit(step, actor, "purge_queue", purged, {"queue": queue, "where": said(where)})
    return Purged(purged, more=page.next_cursor is not None)


def delete(step: Step, queue: str, actor: str, *, force: bool) -> int:
    """Forget a queue; by force, what waits in it becomes dead letters."""
    _known(step, queue)
    left: Any = step.execute(LEFT, (queue,)).fetchone()
    waiting, running = left
    if (waiting or running) and not force:
        raise queue_not_empty(queue, waiting, running)
    buried = _bury(step, queue, queue_deleted(queue, actor)) if waiting else 0
    step.execute(FORGET_RULE, (queue,))
    step.execute(FORGET_BUCKETS, (queue,))
    relimit.forget(step, queue)
    step.rules_changed()
    # Those that were held back by the queue's rules, its running jobs' retries, may go on.
    step.hints.ready = True
    people.audit(step, actor, "delete_queue", buried, {"queue": queue, "force": force})
    return buried


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
    state, config = rule or Rule(QueueState.ACTIVE, QueueConfig())
    return QueueInfo(
        name=name,
        state=state,
        config=config,
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


def _known(step: Step, queue: str) -> Rule:
    rule = step.rules.get(queue)
    if rule is not None:
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
    step.execute(KEEP_RULE, (queue, rule.state.value, config))
    if rule.config.retention is not None:
        step.execute(MAKE_INDEX)
    step.rules_changed()
    if relimit.changed(step, queue, key_limit, rule.config.key_concurrency):
        rescore(step, queue)
    # More may be leased, or submitted, than before.
    step.hints.ready = True


def _bury(step: Step, queue: str, reason: str) -> int:
    rows: list[Any] = step.execute(WAITING_IN_QUEUE, (queue,)).fetchall()
    buried = 0
    for seq, job_id, lane in rows:
        place = locate(step, seq)
        if place is None or place.status not in WAITING:
            continue
        remove(step, seq, place)
        end_waiting(
            step,
            seq=seq,
            job_id=job_id,
            lane=lane,
            before=place.status,
            after=Status.DEAD,
            version=place.version,
            attempts=place.attempts,
            events=place.events,
            available_at=place.available_at,
            reason=reason,
        )
        buried += 1
    return buried
