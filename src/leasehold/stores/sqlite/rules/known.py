"""What a write knows about queues (lanes, buckets and rules), settings, and tokens of the service.

See `tables.gate`. Rules and settings are read again only after a change. A damaged row affects only
itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

from leasehold.core.model.queue_config import QueueRule
from leasehold.core.model.settings import SettingValue
from leasehold.core.model.stored import moment
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.core.rules.stored_rules import rule_from, settings_from
from leasehold.stores.sqlite.schema.rows import LenientReader, guarded, value_of
from leasehold.stores.tables import tokens
from leasehold.stores.tables.gate import LaneName, TableLaneNumbers, TableStartBook
from leasehold.stores.tables.statements import Kind, Query

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.step import Step


KEEP_BUCKET: Final = "INSERT OR REPLACE INTO bucket VALUES (?, ?, ?)"
FIND_LANE: Final = "SELECT id FROM lane WHERE queue = ? AND task = ?"
MAKE_LANE: Final = """
    INSERT INTO lane (queue, task, made_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""
QUEUES: Final = """
    SELECT CAST(queue AS BLOB) FROM lane UNION SELECT CAST(name AS BLOB) FROM queue ORDER BY 1
"""


class StartBook(TableStartBook):
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ()
    _db: apsw.Connection

    def _keep(self, buckets: Sequence[tuple[str, str, int]]) -> None:
        self._db.executemany(KEEP_BUCKET, buckets)


class LaneNumbers(TableLaneNumbers):
    """Remembers lane numbers."""

    def _find(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        found = ((name, step.execute(FIND_LANE, name).fetchone()) for name in names)
        return {name: int(row[0]) for name, row in found if row is not None}

    def _make(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        made = {}
        for name in names:
            step.execute(MAKE_LANE, (*name, step.now))
            made[name] = step.db.last_insert_rowid()
        return made


def queues(db: apsw.Connection) -> list[str]:
    """Every queue that has or had jobs or rules."""
    names: Any = db.execute(QUEUES)
    return [name.decode(errors="replace") for (name,) in names]


READ_RULES: Final = f"""
    SELECT {guarded("name", Kind.TEXT)}, {guarded("state", Kind.TEXT)},
           {guarded("config", Kind.TEXT)} FROM queue
"""
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


def read_rules(db: apsw.Connection) -> RuleBook:
    """The rules as they are now, inside this write or read."""
    rows: Any = db.execute(READ_RULES)
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
    return queue, rule_from(state, config, _text_of)


def _text_of(name: str, cell: Any) -> str:
    return str(value_of(name, Kind.TEXT, cell))


GENERATION: Final = "SELECT settings_generation FROM store_state"
READ_SETTINGS: Final = f"""
    SELECT {guarded("name", Kind.TEXT)}, {guarded("value", Kind.TEXT)} FROM setting
"""


def read_settings(db: apsw.Connection) -> SettingsInForce:
    """The settings as they are now, inside this write or read."""
    row: Any = db.execute(GENERATION).fetchone()
    return SettingsInForce.of(row[0], _read(db)[0])


def unreadable_settings(db: apsw.Connection) -> list[str]:
    """The settings that cannot be read, as sentences."""
    return _read(db)[1]


def _read(db: apsw.Connection) -> tuple[dict[str, SettingValue], list[str]]:
    rows: Any = db.execute(READ_SETTINGS)
    return settings_from(rows, _text_of)


_DOCUMENT: Final = guarded("document", Kind.TEXT)


class TokenReader(tokens.TokenReader):
    """The tokens of a store and its signing key, for readers."""

    all = f"SELECT {guarded('name', Kind.TEXT)}, {_DOCUMENT} FROM token ORDER BY name"
    by_name = f"SELECT {_DOCUMENT} FROM token WHERE name = ?"
    by_digest = f"SELECT {_DOCUMENT} FROM token WHERE digest = ?"
    read_key = f"SELECT {guarded('value', Kind.TEXT)} FROM meta WHERE key = 'signing_key'"

    def text(self, what: str, value: Any) -> str:
        return _text_of(what, value)
