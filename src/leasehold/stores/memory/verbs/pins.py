"""Pins: deploy marks, named views, workers that are to stop."""

from __future__ import annotations

from leasehold.core.model.pins import Pin, PinKind
from leasehold.stores.memory import pins
from leasehold.stores.memory.locked import LockedState


class PinVerbs(LockedState):
    """What people left on the store for others."""

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._look(pins.every, kind)

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._run(pins.pin, kind, name, text, actor)

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._run(pins.unpin, kind, name, actor)
