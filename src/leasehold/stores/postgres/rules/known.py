"""The rules of queues as a write needs them: read again only when somebody changed them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.model.queue_config import QueueConfig, QueueRule, QueueState
from leasehold.core.model.stored import (
    UNREADABLE,
    moment,
    problem_of,
)
from leasehold.stores.postgres.server.connection import Connection

LOAD: Final = """
    SELECT name, state, config, created_at, created_by, changed_at, changed_by FROM queue
"""
DELETED_BY: Final = " by "
"""Stands between the state `deleting` and who deletes the queue."""

_decode = msgspec.json.Decoder(QueueConfig).decode


class RuleBook(dict[str, QueueRule]):
    """The rules by queue."""

    def __init__(self, rules: Mapping[str, QueueRule] = {}) -> None:
        super().__init__(rules)
        self.key_limits: Mapping[str, KeyLimits] = {
            queue: rule.config.key_limits
            for queue, rule in rules.items()
            if rule.config.key_limits is not None
        }
        """The queues that limit how many jobs of one key run or start, with those limits."""
        self.paced: Collection[str] = {
            queue
            for queue, rule in rules.items()
            if rule.config.start_rate is not None or rule.config.key_start_rate is not None
        }
        """The queues whose jobs, or some of them, have a start rate."""
        self.capped: Collection[str] = {
            queue for queue, rule in rules.items() if rule.config.max_priority is not None
        }
        """The queues in which even a new job may not stand where its own priority says."""


def load(db: Connection) -> RuleBook:
    """The rules as they are now, inside this write or read."""
    rows: Any = db.execute(LOAD)
    return RuleBook(dict(_rule_of(row) for row in rows))


def unreadable_rules(db: Connection) -> Iterator[str]:
    """The queues whose rules cannot be read, as sentences."""
    for queue, rule in load(db).items():
        if rule.problem is not None:
            yield (
                f"the rules of queue {queue!r} cannot be read: {rule.problem}; nothing is leased "
                "or accepted there until they are set again, or this process is upgraded"
            )


def _rule_of(row: tuple[Any, ...]) -> tuple[str, QueueRule]:
    queue, state, config, created_at, created_by, changed_at, changed_by = row
    try:
        told, _, actor = state.partition(DELETED_BY)
        rule = QueueRule(QueueState(told), _decode(config), actor or None)
    except UNREADABLE as error:
        rule = QueueRule(QueueState.PAUSED, QueueConfig(), problem=problem_of(error))
    return queue, rule._replace(
        created_at=moment(created_at),
        created_by=created_by,
        changed_at=moment(changed_at),
        changed_by=changed_by,
    )
