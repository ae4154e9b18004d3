"""The settings as a write needs them: read again only when somebody changed one."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.settings import (
    DEFINITIONS,
    DraftDefaults,
    SettingValue,
    default_lease_seconds,
    draft_defaults,
    extension_seconds_max,
)

GENERATION: Final = "SELECT settings_generation FROM store_state"
LOAD: Final = "SELECT name, value FROM setting"


class Settings(NamedTuple):
    """What is set, and what that means for a submit and a lease."""

    generation: int
    values: dict[str, SettingValue]
    draft_defaults: DraftDefaults | None
    """What a submit has to fill in; None, the usual case, if that is nothing."""
    lease_seconds: float
    extension_seconds_max: float


class KnownSettings:
    """Remembers the settings under the generation at which they were read."""

    def __init__(self) -> None:
        # Before the first change there is nothing to read.
        self._known = _settings(0, {})

    def at(self, db: apsw.Connection, generation: int) -> Settings:
        """The settings. `generation` must be committed: one that is not may come to nothing and
        then be used again for other settings.
        """
        if generation != self._known.generation:
            self._known = load(db)
        return self._known


def load(db: apsw.Connection) -> Settings:
    """The settings as they are now, inside this write or read.

    One that this version does not know was set by a newer one, and is left alone.
    """
    row: Any = db.execute(GENERATION).fetchone()
    rows: Any = db.execute(LOAD)
    values = {name: msgspec.json.decode(value) for name, value in rows if name in DEFINITIONS}
    return _settings(row[0], values)


def _settings(generation: int, values: dict[str, SettingValue]) -> Settings:
    return Settings(
        generation,
        values,
        draft_defaults(values),
        default_lease_seconds(values),
        extension_seconds_max(values),
    )
