"""How queues stand, for who looks: their rules, what was counted, what holds their jobs back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import DELETED_RULE, QueueInfo, QueueRule, QueueState
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.stored import moment
from leasehold.core.rules.starting import StartBook, key_starts, next_start_at
from leasehold.env import from_micros

J_co = TypeVar("J_co", covariant=True)
"""However a store names its jobs."""


class QueueFacts(NamedTuple):
    """A queue as a store knows it; times in microseconds."""

    rule: QueueRule | None
    counts: Mapping[Status, int]
    """How many jobs stand in each status."""
    since: int | None
    """When its first job came."""
    is_deleted: bool
    """Whether no job was submitted to it since it was deleted."""
    held_until: Mapping[str, int]
    """Tasks that their circuit breaker holds back, and until when."""


class QueueReader(Protocol[J_co]):
    """The queues of a store, for one look."""

    @property
    def rules(self) -> Mapping[str, QueueRule]:
        """Of the queues that have any."""

    @property
    def buckets(self) -> StartBook: ...

    def facts(self, queue: str | None) -> Mapping[str, QueueFacts]:
        """What is known of one queue, or of all: of each that has rules, or ever held a job."""

    def running_of_key(self, queue: str, key: str) -> int: ...

    def find(self, where: JobFilter, limit: int) -> tuple[Sequence[J_co], bool]:
        """Jobs that fit, those submitted last first, and whether there are more."""

    def waiting_in(self, queue: str) -> Sequence[J_co]:
        """Jobs that wait in a queue, all or very many of them."""


def infos(reader: QueueReader[object], queue: str | None = None) -> list[QueueInfo]:
    """All queues by name, or the one of that name; none of which nothing is left."""
    known, buckets = sorted(reader.facts(queue).items()), reader.buckets
    found = (_info(name, facts, buckets) for name, facts in known)
    return [info for info in found if not info.is_gone]


def _info(name: str, facts: QueueFacts, buckets: StartBook) -> QueueInfo:
    rule = facts.rule or (DELETED_RULE if facts.is_deleted else QueueRule())
    return QueueInfo(
        name=name,
        state=rule.state,
        config=rule.config,
        pending=facts.counts[Status.PENDING],
        running=facts.counts[Status.RUNNING],
        counts=dict(facts.counts),
        held_until={task: from_micros(until) for task, until in facts.held_until.items()},
        next_start_at=moment(next_start_at(buckets, name, rule.config)),
        created_at=rule.created_at or moment(facts.since),
        created_by=rule.created_by,
        changed_at=rule.changed_at,
        changed_by=rule.changed_by,
    )


def key_info(reader: QueueReader[object], queue: str, key: str) -> KeyInfo:
    """How many jobs of a key run in a queue, and when the next may start."""
    running = reader.running_of_key(queue, key)
    rule = reader.rules.get(queue)
    rate = None if rule is None else rule.config.key_start_rate
    if rate is None:
        return KeyInfo(running)
    buckets = reader.buckets
    full_at = buckets.full_at(queue, key_starts(key))
    return KeyInfo(running, moment(rate.next_at(full_at, now=buckets.now)))


def being_deleted(reader: QueueReader[object]) -> list[str]:
    """The queues that somebody began to delete."""
    return [name for name, rule in reader.rules.items() if rule.state is QueueState.DELETING]
