"""The part of the store contract about pins, as numbered clauses."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.pins import Pin, PinKind


class PinStore(Protocol):
    """Short texts that people leave in a store for all of its users."""

    def pins(self, kind: PinKind) -> list[Pin]:
        """The pins of one kind, oldest first.

        - PIN-1  The latest PINS_MAX (200) of each kind are kept, in the order of their times, and
                 of their names where these are the same.
        """

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        """Store a pin, replacing the one of the same kind and name.

        - PIN-2  The same text again, or no text, is no change: the pin's time and author stay. An
                 invalid name or text raises InvalidPinError and changes nothing.
        - PIN-3  Every change is an audit record.
        - PIN-4  A stop raises the generation of the settings (STT-1), which then list it under
                 `stops`, and listeners hear `on_ready`; this is how a running worker learns of it.
        """

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        """Remove a pin and return it.

        - PIN-5  A missing pin is no change, and None is returned.
        """
