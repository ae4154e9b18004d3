"""The rules of queues as a write needs them: read again only when somebody changed them."""

from __future__ import annotations

from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.queue_config import QueueConfig, QueueRule, QueueState
from leasehold.core.model.stored import UNREADABLE, moment, problem_of
from leasehold.core.rules.rule_book import RuleBook
from leasehold.stores.sqlite.schema.rows import LenientReader, guarded, value_of
from leasehold.stores.tables.query import Kind, Query

LOAD: Final = f"""
    SELECT {guarded("name", Kind.TEXT)}, {guarded("state", Kind.TEXT)},
           {guarded("config", Kind.TEXT)} FROM queue
"""  # noqa: S608  # our own names
SIGNATURES: Final = Query(
    {
        "name": Kind.TEXT,
        "created_at": Kind.MOMENT_OR_NULL,
        "created_by": Kind.TEXT_OR_NULL,
        "changed_at": Kind.MOMENT_OR_NULL,
        "changed_by": Kind.TEXT_OR_NULL,
    },
    "FROM queue",
)

_decode = msgspec.json.Decoder(QueueConfig).decode


class RuleCache:
    """Remembers the rules under the generation at which they were read."""

    def __init__(self) -> None:
        self._generation = 0
        # Before the first change there is nothing to read.
        self._known = RuleBook()

    def at(self, db: apsw.Connection, generation: int) -> RuleBook:
        """The rules by queue. `generation` must be committed: one that is not may come to nothing
        and then be used again for other rules.
        """
        if generation != self._generation:
            self._known = load(db)
            self._generation = generation
        return self._known


def load(db: apsw.Connection) -> RuleBook:
    """The rules as they are now, inside this write or read."""
    rows: Any = db.execute(LOAD)
    rules = dict(_rule_of(row) for row in rows)
    for queue, created_at, created_by, changed_at, changed_by in LenientReader(db).rows(SIGNATURES):
        if queue in rules:
            rules[queue] = rules[queue]._replace(
                created_at=moment(created_at),
                created_by=created_by,
                changed_at=moment(changed_at),
                changed_by=changed_by,
            )
    return RuleBook(rules)


def _rule_of(row: tuple[Any, ...]) -> tuple[str, QueueRule]:
    name, state, config = row
    queue = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    try:
        told, _, actor = value_of("state", Kind.TEXT, state).partition(DELETED_BY)
        known = _decode(value_of("config", Kind.TEXT, config))
        return queue, QueueRule(QueueState(told), known, actor or None)
    except UNREADABLE as error:
        return queue, QueueRule(QueueState.PAUSED, QueueConfig(), problem=problem_of(error))
