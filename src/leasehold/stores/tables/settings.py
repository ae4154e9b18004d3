"""Settings and pins. Guard of a change: what is there is read inside the write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import UNSET

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.pins import pin, stops_in, unpin
from leasehold.core.rules.settings_in_force import (
    SettingChange,
    SettingsInForce,
    setting_to_set,
    setting_to_unset,
)
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

EVERY: Final = "SELECT document FROM pin WHERE kind = $1 ORDER BY at, name"
PUT: Final = """
    INSERT INTO pin VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind, name) DO UPDATE SET at = excluded.at, document = excluded.document
"""
DROP: Final = "DELETE FROM pin WHERE kind = $1 AND name = $2"

_pin: Final = msgspec.json.Decoder(Pin)


def pins(db: SqlConnection, kind: PinKind) -> list[Pin]:
    """The pins of a kind, the oldest first; an unreadable one is passed over."""
    found: list[Pin] = []
    rows: Any = db.execute(EVERY, (kind,))
    for (document,) in rows:
        with suppress(*UNREADABLE):
            found.append(_pin.decode(document))
    return found


def stops(db: SqlConnection) -> dict[str, str]:
    """Which workers were asked to stop."""
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


def _change(step: TableStep, change: SettingChange | None, actor: str) -> StoredSettings:
    if change is not None:
        if change.value is UNSET:
            step.execute(FORGET, (change.name,))
        else:
            step.execute(KEEP, (change.name, msgspec.json.encode(change.value).decode()))
        step.audit(actor, change.action, 0, change.detail)
        step.settings_changed()
        # Workers should look at them.
        step.hints.ready = True
    return step.settings.stored({}, stops(step.db))


class SettingVerbs:
    """What is set in the store."""

    _database: TableDatabase
    _read_settings: Callable[[Any], SettingsInForce]

    def settings(self) -> StoredSettings:
        return self._database.look(lambda db: self._read_settings(db).stored({}, stops(db)))

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._database.write(
            lambda step: _change(step, setting_to_set(step.settings.values, name, value), actor)
        )

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._database.write(
            lambda step: _change(step, setting_to_unset(step.settings.values, name), actor)
        )


class PinVerbs:
    """What people left on the store for others."""

    _database: TableDatabase

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._database.look(lambda db: pins(db, kind))

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._database.write(lambda step: pin(PinShelf(step), kind, name, text, actor))

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._database.write(lambda step: unpin(PinShelf(step), kind, name, actor))
