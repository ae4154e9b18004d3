"""Orders about queues: create, update, pause, resume, drain, purge, delete. All are audited.

Decided once for every store, inside the write that carries them out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from leasehold.core.model.queue_config import (
    QueueConfig,
    QueueInfo,
    QueueRule,
    QueueState,
    being_deleted,
    check_queue_name,
)
from leasehold.core.model.records import Purged
from leasehold.core.model.refusals import no_queue, queue_exists, queue_not_empty
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import WAITING, Status
from leasehold.core.rules.messages import purged_by, queue_deleted
from leasehold.errors import InvalidQueueError

J = TypeVar("J")
"""A store's own handle of a job."""

_ACTIONS: Final = {
    QueueState.ACTIVE: "resume_queue",
    QueueState.PAUSED: "pause_queue",
    QueueState.DRAINING: "drain_queue",
}


class QueueBook(Protocol[J]):
    """The state of a store's queues and their jobs, inside one write."""

    @property
    def now(self) -> datetime: ...

    def rule_of(self, queue: str) -> QueueRule | None: ...

    def has_held_jobs(self, queue: str) -> bool:
        """Whether a job was ever submitted to it or refused by it."""

    def set_rule(self, queue: str, rule: QueueRule) -> None:
        """Save a rule, move pending jobs to the places that it gives them, and wake waiting
        workers.
        """

    def forget_rule(self, queue: str) -> None:
        """Forget a rule and everything kept for it, and wake waiting workers: retries of jobs that
        the rule held back may continue.
        """

    def jobs_left(self, queue: str) -> tuple[int, int]:
        """How many jobs wait and how many run in a queue, by its counters."""

    def has_pending(self, queue: str) -> bool:
        """Whether it has a pending job, regardless of its counters."""

    def end_waiting(self, jobs: Sequence[J], after: Status, reason: str) -> list[J]:
        """Cancel the given jobs that wait, or make them dead letters; returns them."""

    def dependents(self, jobs: Sequence[J]) -> Mapping[J, int]:
        """The given jobs that others wait for, and how many wait."""

    def erase(self, jobs: Collection[J]) -> None:
        """Delete ended jobs with all their records."""

    def erase_when_told(self, jobs: Collection[J]) -> None:
        """Delete ended jobs once their ends have been applied to all their dependents."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None: ...

    def info(self, queue: str) -> QueueInfo:
        """The queue as this write leaves it."""


class Buried(NamedTuple):
    """What one write of a queue's deletion did."""

    jobs: int
    """How many became dead letters."""
    is_all: bool


def create(book: QueueBook[J], queue: str, config: QueueConfig, actor: str) -> None:
    """Give a new queue its rules."""
    check_queue_name(queue)
    known = book.rule_of(queue)
    if known is None:
        rule = QueueRule(config=config, created_at=book.now, created_by=actor)
        book.set_rule(queue, _signed(book, rule, actor))
        book.audit(actor, "create_queue", 0, {"queue": queue, "config": said(config)})
    elif known.state is QueueState.DELETING:
        raise being_deleted(queue)
    elif known.config != config:
        raise queue_exists(queue, _differences(known, config))


def update(book: QueueBook[J], queue: str, changes: Mapping[str, Any], actor: str) -> None:
    """Change some of a queue's rules."""
    known = _known(book, queue)
    changed = known._replace(config=known.config.changed(changes), problem=None)
    book.set_rule(queue, _signed(book, changed, actor))
    detail = {"queue": queue, "changes": msgspec.to_builtins(dict(changes))}
    book.audit(actor, "update_queue", 0, detail)


def set_state(book: QueueBook[J], queue: str, state: QueueState, actor: str) -> None:
    """Pause, resume or drain a queue."""
    action = _ACTIONS.get(state)
    if action is None:
        raise InvalidQueueError(f"a queue is active, paused or draining, not {state}: delete it")
    changed = _known(book, queue)._replace(state=state, problem=None)
    book.set_rule(queue, _signed(book, changed, actor))
    book.audit(actor, action, 0, {"queue": queue})


def to_purge(queue: str, where: JobFilter) -> JobFilter | None:
    """The filter, narrowed to jobs of the queue that can be purged; None if none can match."""
    if where.queues is not None and queue not in where.queues:
        return None
    statuses = tuple(WAITING & set(where.statuses or WAITING))
    return msgspec.structs.replace(where, queues=(queue,), statuses=statuses)


def purge(
    book: QueueBook[J], queue: str, where: JobFilter, jobs: Sequence[J], actor: str, *, more: bool
) -> Purged:
    """Delete the jobs that still wait: all are cancelled, and deleted when no job waits for them.
    `more` says whether more jobs match.

    A job with dependents is deleted later, by `core.rules.dependencies`, which handles the
    dependents first.
    """
    purged = book.end_waiting(jobs, Status.CANCELLED, purged_by(actor))
    if not purged:
        return Purged(0, more=more)
    dependents = forget(book, purged)
    book.audit(actor, "purge_queue", len(purged), {"queue": queue, "where": said(where)})
    return Purged(len(purged), more=more, dependents=dependents)


def forget(book: QueueBook[J], jobs: Sequence[J]) -> int:
    """Delete jobs that have just ended; returns how many times a job waited for one of them."""
    dependents = book.dependents(jobs)
    book.erase_when_told(dependents.keys())
    book.erase([job for job in jobs if job not in dependents])
    return sum(dependents.values())


def delete(book: QueueBook[J], queue: str, actor: str, *, force: bool) -> bool:
    """Forget a queue, or begin to: with `force`, its waiting jobs have to be buried first.

    Returns whether the deletion is complete.
    """
    known = _known(book, queue, deleting=True)
    waiting, running = book.jobs_left(queue)
    if (waiting or running) and not force:
        raise queue_not_empty(queue, waiting, running)
    if not waiting:
        _forget(book, queue, actor, force=force, buried=0)
        return True
    if known.state is not QueueState.DELETING:
        changed = known._replace(state=QueueState.DELETING, deleted_by=actor)
        book.set_rule(queue, _signed(book, changed, actor))
    return False


def bury(book: QueueBook[J], queue: str, jobs: Sequence[J], buried: int) -> Buried:
    """Make these jobs dead letters, and forget the queue once nothing waits in it.

    `buried` jobs were buried by earlier writes.
    """
    rule = book.rule_of(queue)
    if rule is None or rule.state is not QueueState.DELETING:
        return Buried(0, is_all=True)  # Another process has finished it.
    actor = rule.deleted_by or "somebody"
    more = len(book.end_waiting(jobs, Status.DEAD, queue_deleted(queue, actor)))
    waiting, _ = book.jobs_left(queue)
    # If no jobs are left to bury, wrong counters must not keep the queue for ever.
    if (waiting and jobs) or book.has_pending(queue):
        return Buried(more, is_all=False)
    _forget(book, queue, actor, force=True, buried=buried + more)
    return Buried(more, is_all=True)


def _forget(book: QueueBook[J], queue: str, actor: str, *, force: bool, buried: int) -> None:
    book.forget_rule(queue)
    book.audit(actor, "delete_queue", buried, {"queue": queue, "force": force})


def _differences(known: QueueRule, wanted: QueueConfig) -> str:
    """Which rules of a queue differ from the wanted ones, and who changed them last."""
    now = msgspec.structs.asdict(known.config)
    told = ", ".join(
        f"{name} is {_told(now[name])}, not {_told(value)}"
        for name, value in msgspec.structs.asdict(wanted).items()
        if now[name] != value
    )
    if known.changed_by is None or known.changed_at is None:
        return told
    at = known.changed_at.isoformat(timespec="seconds")
    return f"{told} (last changed by {known.changed_by} at {at})"


def _told(value: object) -> str:
    """A rule's value in words, the same on every store, whatever type of number it keeps."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return ", ".join(f"{name} {_told(each)}" for name, each in plain.items())
    if isinstance(plain, list | tuple):
        return "/".join(map(_told, plain))
    return str(int(plain)) if isinstance(plain, float) and plain.is_integer() else str(plain)


def _signed(book: QueueBook[J], rule: QueueRule, actor: str) -> QueueRule:
    """The rule with the actor and the time of its last change."""
    return rule._replace(changed_at=book.now, changed_by=actor)


def _known(book: QueueBook[J], queue: str, *, deleting: bool = False) -> QueueRule:
    check_queue_name(queue)
    rule = book.rule_of(queue)
    if rule is None:
        if not book.has_held_jobs(queue):
            raise no_queue(queue)
        return QueueRule()
    if rule.state is QueueState.DELETING and not deleting:
        raise being_deleted(queue)
    return rule


def said(what: msgspec.Struct) -> dict[str, Any]:
    """A filter or a config for an audit record, without the fields that are not set."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(what))
    return {name: value for name, value in plain.items() if value is not None}
