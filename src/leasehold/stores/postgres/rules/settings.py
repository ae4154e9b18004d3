"""The settings as a write needs them: read again only when somebody changed one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from leasehold.core.model.settings import DEFINITIONS, SettingValue, check_setting
from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.errors import InvalidSettingError
from leasehold.stores.postgres.server.connection import SqlConnection

GENERATION: Final = "SELECT settings_generation FROM store_state"
LOAD: Final = "SELECT name, value FROM setting"


def load(db: SqlConnection) -> SettingsInForce:
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
    rows: Any = db.execute(LOAD)
    for name, value in rows:
        try:
            if name in DEFINITIONS:
                values[name] = check_setting(name, msgspec.json.decode(value))
        except (*UNREADABLE, InvalidSettingError) as error:
            problems.append(
                f"the setting {name!r} cannot be read, and counts as not set: {problem_of(error)}"
            )
    return values, problems
