"""Pinning and unpinning: decided once for every store, inside the write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from leasehold.core.model.pins import PINS_MAX, Pin, PinKind, check_pin
from leasehold.env import from_micros


class PinShelf(Protocol):
    """Where a store keeps its pins, inside one write."""

    @property
    def now(self) -> int:
        """The store's clock, in microseconds."""

    def every(self, kind: PinKind) -> Sequence[Pin]:
        """All pins of a kind, oldest first; those of one moment in the order of their names."""

    def put(self, pin: Pin) -> None:
        """Save a pin, replacing the one of its kind and name."""

    def drop(self, kind: PinKind, name: str) -> None: ...

    def let_workers_look(self) -> None:
        """Raise the generation of the settings, and wake the workers."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None: ...


def pin(shelf: PinShelf, kind: PinKind, name: str, text: str, actor: str) -> Pin:
    """Save a pin; the same pin again changes nothing."""
    check_pin(kind, name, text)
    known = {each.name: each for each in shelf.every(kind)}
    # A deploy mark set by a call has a note; workers of a new version set one without a note.
    if name in known and text in ("", known[name].text):
        return known[name]
    made = Pin(kind=kind, name=name, text=text, at=from_micros(shelf.now), by=actor)
    shelf.put(made)
    others = [each for each in known if each != name]
    for oldest in others[: max(0, len(others) + 1 - PINS_MAX)]:
        shelf.drop(kind, oldest)
    shelf.audit(actor, f"pin_{kind}", 0, {kind: name, "text": text})
    if kind == "stop":
        shelf.let_workers_look()
    return made


def unpin(shelf: PinShelf, kind: PinKind, name: str, actor: str) -> Pin | None:
    """Remove a pin and return it; None if there is none."""
    check_pin(kind, name, "")
    known = next((each for each in shelf.every(kind) if each.name == name), None)
    if known is not None:
        shelf.drop(kind, name)
        shelf.audit(actor, f"unpin_{kind}", 0, {kind: name, "text": known.text})
    return known


def stops_in(pins: Sequence[Pin]) -> dict[str, str]:
    """The workers asked to stop, by id, with the text of the pin, as settings list them."""
    return {each.name: each.text for each in pins if each.kind == "stop"}
