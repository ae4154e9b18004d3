"""Settings and pins. Guard of a change: the present values are read inside the write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.pins import stops_in
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep
from leasehold.stores.verbs.access import PinVerbs, SettingVerbs

EVERY: Final = "SELECT document FROM pin WHERE kind = $1 ORDER BY at, name"
PUT: Final = """
    INSERT INTO pin VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind, name) DO UPDATE SET at = excluded.at, document = excluded.document
"""
DROP: Final = "DELETE FROM pin WHERE kind = $1 AND name = $2"

_pin: Final = msgspec.json.Decoder(Pin)


def pins(db: SqlConnection, kind: PinKind) -> list[Pin]:
    """The pins of a kind, oldest first; unreadable ones are skipped."""
    found: list[Pin] = []
    rows: Any = db.execute(EVERY, (kind,))
    for (document,) in rows:
        with suppress(*UNREADABLE):
            found.append(_pin.decode(document))
    return found


def stops(db: SqlConnection) -> dict[str, str]:
    """The workers asked to stop."""
    return stops_in(pins(db, "stop"))


class PinShelf:
    """See `leasehold.core.rules.pins.PinShelf`."""

    def __init__(self, step: TableStep) -> None:
        self._step = step
        self.now = step.now
        self.audit = step.audit

    def every(self, kind: PinKind) -> list[Pin]:
        return pins(self._step.db, kind)

    def put(self, pin: Pin) -> None:
        document = msgspec.json.encode(pin).decode()
        self._step.execute(PUT, (pin.kind, pin.name, self.now, document))

    def drop(self, kind: PinKind, name: str) -> None:
        self._step.execute(DROP, (kind, name))

    def let_workers_look(self) -> None:
        self._step.settings_changed()
        self._step.hints.ready = True


KEEP: Final = """
    INSERT INTO setting VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
FORGET: Final = "DELETE FROM setting WHERE name = $1"


class SettingShelf:
    """See `leasehold.core.rules.settings_in_force.SettingShelf`."""

    def __init__(self, step: TableStep) -> None:
        self._step = step
        self.audit = step.audit

    def in_force(self) -> SettingsInForce:
        return self._step.settings

    def change(self, name: str, value: SettingValue | UnsetType) -> None:
        step = self._step
        if value is UNSET:
            step.execute(FORGET, (name,))
        else:
            step.execute(KEEP, (name, msgspec.json.encode(value).decode()))
        step.settings_changed()
        step.hints.ready = True

    def stored(self) -> StoredSettings:
        return self._step.settings.stored({}, stops(self._step.db))


class TableSettingVerbs(SettingVerbs, PinVerbs):
    """Reads of settings and pins."""

    _setting_shelf = SettingShelf
    _pin_shelf = PinShelf
    _read_settings: Callable[[Any], SettingsInForce]

    def settings(self) -> StoredSettings:
        return self._look(lambda db: self._read_settings(db).stored({}, stops(db)))

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._look(lambda db: pins(db, kind))
