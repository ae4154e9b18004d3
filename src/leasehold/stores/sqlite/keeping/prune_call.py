"""One call of prune: what it was asked for, how long which jobs are kept, and what it has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import apsw

from leasehold.core.queue_config import QueueRule
from leasehold.core.queue_retention import QueueRetention
from leasehold.core.retention import RetentionPolicy, Scope
from leasehold.core.status import Status
from leasehold.env import from_micros, to_micros

LANES_OF_QUEUE: Final = "SELECT id FROM lane WHERE queue = ?"

Cutoffs = Mapping[Status, int]
"""Up to which moment jobs of a status must have ended; one that is missing is not pruned."""


class Call(NamedTuple):
    """What one call of prune was asked for, and when."""

    policy: RetentionPolicy
    scope: Scope
    limit: int
    now: int
    common: Cutoffs
    own: Mapping[int, Cutoffs]
    """By lane, for those of queues with a retention of their own."""

    def cutoffs_of(self, lane: int) -> Cutoffs:
        return self.own.get(lane, self.common)

    def latest(self, status: Status) -> int | None:
        """The cutoff of those that keep a status shortest; None if nobody prunes it."""
        cutoffs = (each.get(status) for each in (self.common, *self.own.values()))
        return max((each for each in cutoffs if each is not None), default=None)

    def under(self, db: apsw.Connection, rules: Mapping[str, QueueRule]) -> Call:
        """The same call under the rules that queues have by now."""
        return call_for(db, rules, self.policy, self.scope, self.limit, self.now)


class Found(NamedTuple):
    """What the next write is to take, and where the phase stands after it."""

    seqs: list[int]
    position: int = 0
    bound: int | None = None
    over: bool = True
    """Whether the phase ends with what was found."""
    major: int = 0

    @property
    def nothing(self) -> bool:
        return self.over and not self.seqs


def call_for(
    db: apsw.Connection,
    rules: Mapping[str, QueueRule],
    policy: RetentionPolicy,
    scope: Scope,
    limit: int,
    now: int,
) -> Call:
    """A call of prune; queues without a retention of their own cost nothing here."""
    own: dict[int, Cutoffs] = {}
    for queue, retention in own_retentions(rules).items():
        cutoffs = _cutoffs(retention.over(policy), scope, now)
        lanes: Any = db.execute(LANES_OF_QUEUE, (queue,))
        own.update((lane, cutoffs) for (lane,) in lanes)
    return Call(policy, scope, limit, now, _cutoffs(policy, scope, now), own)


def own_retentions(rules: Mapping[str, QueueRule]) -> dict[str, QueueRetention]:
    """The queues that have a retention of their own."""
    return {
        queue: rule.config.retention
        for queue, rule in rules.items()
        if rule.config.retention is not None
    }


def _cutoffs(policy: RetentionPolicy, scope: Scope, now: int) -> Cutoffs:
    found = policy.cutoffs(from_micros(now), scope)
    return {status: to_micros(moment) for status, moment in found.items()}
