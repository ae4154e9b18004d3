"""Pins of a memory store; `core.rules.pins` decides."""

from __future__ import annotations

from typing import Any

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.rules import pins
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.stores.memory.state import State


def every(state: State, kind: PinKind) -> list[Pin]:
    return [each for each in state.pins.values() if each.kind == kind]


def pin(state: State, kind: PinKind, name: str, text: str, actor: str) -> Pin:
    return pins.pin(PinShelf(state), kind, name, text, actor)


def unpin(state: State, kind: PinKind, name: str, actor: str) -> Pin | None:
    return pins.unpin(PinShelf(state), kind, name, actor)


class PinShelf:
    """See `leasehold.core.rules.pins.PinShelf`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now

    def every(self, kind: PinKind) -> list[Pin]:
        return every(self._state, kind)

    def put(self, pin: Pin) -> None:
        self._state.pins.pop((pin.kind, pin.name), None)
        self._state.pins[pin.kind, pin.name] = pin

    def drop(self, kind: PinKind, name: str) -> None:
        self._state.pins.pop((kind, name), None)

    def let_workers_look(self) -> None:
        known = self._state.settings
        self._state.settings = SettingsInForce.of(known.generation + 1, known.values)
        self._state.wake()

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._state.note_action(actor, action, detail, count)
