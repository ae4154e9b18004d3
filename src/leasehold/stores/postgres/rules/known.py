"""What people have laid down, as a write needs it: rules of queues, and settings.

They are read again only after a change. A row that makes no sense hinders only itself.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.queue_config import QueueConfig, QueueRule, QueueState
from leasehold.core.model.settings import DEFINITIONS, SettingValue, check_setting
from leasehold.core.model.stored import (
    UNREADABLE,
    moment,
    problem_of,
)
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.errors import InvalidSettingError
from leasehold.stores.postgres.server.connection import SqlConnection

READ_RULES: Final = """
    SELECT name, state, config, created_at, created_by, changed_at, changed_by FROM queue
"""

_decode = msgspec.json.Decoder(QueueConfig).decode


def read_rules(db: SqlConnection) -> RuleBook:
    """The rules as they are now, inside this write or read."""
    rows: Any = db.execute(READ_RULES)
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


GENERATION: Final = "SELECT settings_generation FROM store_state"
READ_SETTINGS: Final = "SELECT name, value FROM setting"


def read_settings(db: SqlConnection) -> SettingsInForce:
    """The settings as they are now, inside this write or read.

    One that this version does not know was set by a newer one, and is left alone; one that it
    cannot read counts as not set.
    """
    row: Any = db.execute(GENERATION).fetchone()
    return SettingsInForce.of(row[0], _read(db)[0])


def unreadable_settings(db: SqlConnection) -> list[str]:
    """The settings that cannot be read, as sentences."""
    return _read(db)[1]


def _read(db: SqlConnection) -> tuple[dict[str, SettingValue], list[str]]:
    values: dict[str, SettingValue] = {}
    problems: list[str] = []
    rows: Any = db.execute(READ_SETTINGS)
    for name, value in rows:
        try:
            if name in DEFINITIONS:
                values[name] = check_setting(name, msgspec.json.decode(value))
        except (*UNREADABLE, InvalidSettingError) as error:
            problems.append(
                f"the setting {name!r} cannot be read, and counts as not set: {problem_of(error)}"
            )
    return values, problems
