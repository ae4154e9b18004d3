"""What people do to queues: create, update, pause, resume, drain, purge, delete. All audited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
from leasehold.core.search import JobFilter
from leasehold.core.status import WAITING, Status
from leasehold.env import from_micros
from leasehold.errors import InvalidQueueError
from leasehold.stores.memory import dependents
from leasehold.stores.memory.parking import Parking
from leasehold.stores.memory.reading import search
from leasehold.stores.memory.rules import Rule
from leasehold.stores.memory.state import State

_ACTIONS: Final = {
    QueueState.ACTIVE: "resume_queue",
    QueueState.PAUSED: "pause_queue",
    QueueState.DRAINING: "drain_queue",
}


def create(state: State, queue: str, config: QueueConfig, actor: str) -> QueueInfo:
    """Give a new queue its rules."""
    check_queue_name(queue)
    known = state.queue(queue)
    if known.rule is None:
        _give(state, queue, config)
        state.note_action(actor, "create_queue", {"queue": queue, "config": said(config)}, 1)
    elif known.rule.state is QueueState.DELETING:
        raise being_deleted(queue)
    elif known.rule.config != config:
        raise queue_exists(queue)
    return _info(state, queue)


def update(state: State, queue: str, changes: Mapping[str, Any], actor: str) -> QueueInfo:
    """Change some of a queue's rules."""
    _check_known(state, queue)
    rule = state.queue(queue).rule
    config = (QueueConfig() if rule is None else rule.config).changed(changes)
    _give(state, queue, config)
    detail = {"queue": queue, "changes": msgspec.to_builtins(dict(changes))}
    state.note_action(actor, "update_queue", detail, 1)
    return _info(state, queue)


def set_state(state: State, queue: str, to: QueueState, actor: str) -> QueueInfo:
    """Pause, resume or drain a queue."""
    action = _ACTIONS.get(to)
    if action is None:
        raise InvalidQueueError(f"a queue is active, paused or draining, not {to}: delete it")
    _check_known(state, queue)
    _rule(state, queue).state = to
    state.wake()
    state.note_action(actor, action, {"queue": queue}, 1)
    return _info(state, queue)


def purge(state: State, queue: str, where: JobFilter, actor: str, limit: int) -> Purged:
    """Delete waiting jobs that fit: all are cancelled, and then deleted when nobody waits for them.

    Those that others wait for are deleted by `dependents.resolve`, which tells these first.
    """
    statuses = WAITING & set(where.statuses or WAITING)
    if where.queues is not None and queue not in where.queues:
        return Purged(0, more=False)
    fitting = msgspec.structs.replace(where, queues=(queue,), statuses=tuple(statuses))
    page = search(state, fitting, limit, None)
    records = [state.records[job.id] for job in page.jobs]
    for record in records:
        state.end_waiting(record, Status.CANCELLED, purged_by(actor))
        if record.id in state.links.blocking:
            state.links.purged.add(record.id)
        else:
            dependents.erase(state, record)
    if records:
        detail = {"queue": queue, "where": said(where)}
        state.note_action(actor, "purge_queue", detail, len(records))
    return Purged(len(records), more=page.next_cursor is not None)


def delete(state: State, queue: str, actor: str, force: bool) -> bool:
    """Forget a queue, or begin to: by force, what waits in it has to be buried first.

    Answers whether that was all.
    """
    _check_known(state, queue, deleting=True)
    known = state.queues[queue]
    waiting = sum(known.counts[status] for status in WAITING)
    running = known.counts[Status.RUNNING]
    if (waiting or running) and not force:
        raise queue_not_empty(queue, waiting, running)
    if not waiting:
        _forget(state, queue, actor, force, 0)
        return True
    rule = _rule(state, queue)
    if rule.state is not QueueState.DELETING:
        rule.state = QueueState.DELETING
        rule.deleted_by = actor
    return False


def waiting_in(state: State, queue: str) -> list[str]:
    """The jobs that wait in a queue."""
    return [
        record.id
        for record in state.records.values()
        if record.draft.queue == queue and record.status in WAITING
    ]


def being_deleted_now(state: State) -> list[str]:
    """The queues that somebody began to delete."""
    return [
        name
        for name, queue in state.queues.items()
        if queue.rule is not None and queue.rule.state is QueueState.DELETING
    ]


def bury(state: State, queue: str, jobs: Sequence[str], buried: int) -> tuple[int, bool]:
    """Make dead letters of these jobs, and forget the queue when nothing waits in it any more.

    `buried` jobs were before. Answers how many these were, and whether that was all.
    """
    known = state.queues.get(queue)
    rule = None if known is None else known.rule
    if known is None or rule is None or rule.state is not QueueState.DELETING:
        return 0, True  # Another thread has finished it.
    actor = rule.deleted_by or "somebody"
    reason = queue_deleted(queue, actor)
    more = 0
    for record in filter(None, map(state.records.get, jobs)):
        if record.status in WAITING:
            state.end_waiting(record, Status.DEAD, reason)
            more += 1
    if any(known.counts[status] for status in WAITING):
        return more, False
    _forget(state, queue, actor, True, buried + more)
    return more, True


def _forget(state: State, queue: str, actor: str, force: bool, buried: int) -> None:
    known = state.queues[queue]
    known.rule = None
    _limit_keys(state, queue, None)
    known.lanes.rescore(DEFAULT_SCORING, state.now)
    state.finished.put_together(queue)
    if not known.totals.submitted and not known.totals.rejected:
        del state.queues[queue]
    # Those that were held back by the queue's rules, its running jobs' retries, may go on.
    state.wake()
    state.note_action(actor, "delete_queue", {"queue": queue, "force": force}, buried)


def infos(state: State) -> list[QueueInfo]:
    """What is known of every queue, by name."""
    return [_info(state, name) for name in sorted(state.queues)]


def info(state: State, queue: str) -> QueueInfo | None:
    """What is known of a queue; None if nobody ever heard of it."""
    return _info(state, queue) if queue in state.queues else None


def _info(state: State, name: str) -> QueueInfo:
    queue = state.queues[name]
    rule = queue.rule or Rule()
    return QueueInfo(
        name=name,
        state=rule.state,
        config=rule.config,
        pending=queue.counts[Status.PENDING],
        running=queue.counts[Status.RUNNING],
        counts=dict(queue.counts),
        held_until={
            task: from_micros(breaker.held_until)
            for task, breaker in sorted(queue.breakers.items())
            if breaker.held_until is not None and breaker.held_until > state.now
        },
    )


def _check_known(state: State, queue: str, *, deleting: bool = False) -> None:
    if queue not in state.queues:
        raise no_queue(queue)
    rule = state.queues[queue].rule
    if rule is not None and rule.state is QueueState.DELETING and not deleting:
        raise being_deleted(queue)


def _give(state: State, queue: str, config: QueueConfig) -> None:
    _rule(state, queue).config = config
    lanes = state.queues[queue].lanes
    if config.scoring != lanes.scoring:
        lanes.rescore(config.scoring, state.now)
    _limit_keys(state, queue, config.key_concurrency)
    if config.retention is None:
        state.finished.put_together(queue)
    else:
        state.finished.set_apart(queue)
    state.retention_changed()
    state.wake()


def running_by_key(state: State, queue: str) -> Counter[str]:
    """How many jobs of each key run in a queue. Few run at a time, so all are looked at."""
    drafts = (record.draft for record in state.running.values())
    return Counter(
        draft.limit_key for draft in drafts if draft.queue == queue and draft.limit_key is not None
    )


def running_of_key(state: State, queue: str, key: str) -> int:
    """How many jobs of a key run in a queue."""
    return running_by_key(state, queue)[key]


def _limit_keys(state: State, queue: str, limit: int | None) -> None:
    lanes = state.queues[queue].lanes
    if limit is None:
        if lanes.parking is not None:
            lanes.limit_keys(None, state.now)
    elif lanes.parking is None:
        lanes.limit_keys(Parking(lanes, limit, running_by_key(state, queue)), state.now)
    else:
        lanes.parking.change_limit(limit)


def _rule(state: State, queue: str) -> Rule:
    known = state.queue(queue)
    if known.rule is None:
        known.rule = Rule()
        state.has_rules = True
    return known.rule
