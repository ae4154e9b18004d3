"""The rules of queues as a write needs them: read again only when somebody changed them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.queue_config import QueueConfig, QueueRule, QueueState
from leasehold.core.model.stored import (
    UNREADABLE,
    moment,
    problem_of,
)
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.postgres.server.connection import SqlConnection

LOAD: Final = """
    SELECT name, state, config, created_at, created_by, changed_at, changed_by FROM queue
"""

_decode = msgspec.json.Decoder(QueueConfig).decode


def load(db: SqlConnection) -> RuleBook:
    """The rules as they are now, inside this write or read."""
    rows: Any = db.execute(LOAD)
    return RuleBook(dict(_rule_of(row) for row in rows))


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
