"""What a write knows about queues (lanes, buckets and rules) and settings.

See `tables.gate`. Rules and settings are read again only after a change. An unreadable row affects
only itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.queue_config import QueueRule
from leasehold.core.model.settings import SettingValue
from leasehold.core.model.stored import moment
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.core.rules.stored_rules import rule_from, settings_from
from leasehold.stores.postgres.server.connection import SqlConnection, unnested
from leasehold.stores.tables.gate import LaneName, TableLaneNumbers, TableStartBook

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.step import Step


KEEP_BUCKETS: Final = f"""
    INSERT INTO bucket SELECT * FROM {unnested("text text bigint")}
    ON CONFLICT (queue, name) DO UPDATE SET full_at = excluded.full_at
"""
FIND_LANES: Final = f"""
    SELECT lane.queue, lane.task, id FROM {unnested("text text")} AS wanted (queue, task)
        JOIN lane ON lane.queue = wanted.queue AND lane.task = wanted.task
"""
MAKE_LANES: Final = f"""
    INSERT INTO lane (queue, task, made_at) SELECT * FROM {unnested("text text bigint")}
    RETURNING queue, task, id
"""
QUEUES: Final = "SELECT queue FROM lane UNION SELECT name FROM queue ORDER BY 1"


class StartBook(TableStartBook):
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ()
    _db: SqlConnection

    def _keep(self, buckets: Sequence[tuple[str, str, int]]) -> None:
        self._db.many(KEEP_BUCKETS, buckets)


class LaneNumbers(TableLaneNumbers):
    """Remembers lane numbers until the server restarts."""

    def _find(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        found = step.many(FIND_LANES, list(names)) or ()
        return {(queue, task): number for queue, task, number in found}

    def _make(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        made = step.many(MAKE_LANES, [(*name, step.now) for name in names]) or ()
        return {(queue, task): number for queue, task, number in made}


def queues(db: SqlConnection) -> list[str]:
    """Every queue that has or had jobs or rules."""
    return [str(name) for (name,) in db.execute(QUEUES)]


READ_RULES: Final = """
    SELECT name, state, config, created_at, created_by, changed_at, changed_by FROM queue
"""


def read_rules(db: SqlConnection) -> RuleBook:
    """The rules as they are now, inside this write or read."""
    rows: Any = db.execute(READ_RULES)
    return RuleBook(dict(_rule_of(row) for row in rows))


def _rule_of(row: tuple[Any, ...]) -> tuple[str, QueueRule]:
    queue, state, config, created_at, created_by, changed_at, changed_by = row
    return queue, rule_from(state, config)._replace(
        created_at=moment(created_at),
        created_by=created_by,
        changed_at=moment(changed_at),
        changed_by=changed_by,
    )


GENERATION: Final = "SELECT settings_generation FROM store_state"
READ_SETTINGS: Final = "SELECT name, value FROM setting"


def read_settings(db: SqlConnection) -> SettingsInForce:
    """The settings as they are now, inside this write or read."""
    row: Any = db.execute(GENERATION).fetchone()
    return SettingsInForce.of(row[0], _read(db)[0])


def unreadable_settings(db: SqlConnection) -> list[str]:
    """The settings that cannot be read, as sentences."""
    return _read(db)[1]


def _read(db: SqlConnection) -> tuple[dict[str, SettingValue], list[str]]:
    return settings_from(db.execute(READ_SETTINGS))
