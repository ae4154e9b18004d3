"""The settings as a write needs them: read again only when somebody changed one."""

from __future__ import annotations

from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.settings import DEFINITIONS, SettingValue, check_setting
from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.errors import InvalidSettingError
from leasehold.stores.sqlite.schema.rows import guarded, value_of
from leasehold.stores.tables.query import Kind

GENERATION: Final = "SELECT settings_generation FROM store_state"
LOAD: Final = f"""
    SELECT {guarded("name", Kind.TEXT)}, {guarded("value", Kind.TEXT)} FROM setting
"""  # noqa: S608  # our own names


class KnownSettings:
    """Remembers the settings under the generation at which they were read."""

    def __init__(self) -> None:
        # Before the first change there is nothing to read.
        self._known = self.unset = SettingsInForce.of(0, {})

    def at(self, db: apsw.Connection, generation: int) -> SettingsInForce:
        """The settings. `generation` must be committed: one that is not may come to nothing and
        then be used again for other settings.
        """
        if generation != self._known.generation:
            self._known = load(db)
        return self._known


def load(db: apsw.Connection) -> SettingsInForce:
    """The settings as they are now, inside this write or read.

    One that this version does not know was set by a newer one, and is left alone; one that it
    cannot read counts as not set.
    """
    row: Any = db.execute(GENERATION).fetchone()
    return SettingsInForce.of(row[0], _read(db)[0])


def unreadable_settings(db: apsw.Connection) -> list[str]:
    """The settings that cannot be read, as sentences."""
    return _read(db)[1]


def _read(db: apsw.Connection) -> tuple[dict[str, SettingValue], list[str]]:
    values: dict[str, SettingValue] = {}
    problems: list[str] = []
    rows: Any = db.execute(LOAD)
    for name, value in rows:
        try:
            known = value_of("its name", Kind.TEXT, name)
            if known in DEFINITIONS:
                decoded = msgspec.json.decode(value_of("its value", Kind.TEXT, value))
                values[known] = check_setting(known, decoded)
        except (*UNREADABLE, InvalidSettingError) as error:
            shown = name.decode(errors="replace") if isinstance(name, bytes) else name
            problems.append(
                f"the setting {shown!r} cannot be read, and counts as not set: {problem_of(error)}"
            )
    return values, problems
