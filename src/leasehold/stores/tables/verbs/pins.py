"""Pins: deploy marks, named views, workers that are to stop."""

from __future__ import annotations

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.rules.pins import pin, unpin
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.pins import PinShelf, pins


class PinVerbs:
    """What people left on the store for others."""

    _database: TableDatabase

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._database.look(lambda db: pins(db, kind))

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._database.write(lambda step: pin(PinShelf(step), kind, name, text, actor))

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._database.write(lambda step: unpin(PinShelf(step), kind, name, actor))
