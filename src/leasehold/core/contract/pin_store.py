"""The part of the store contract about pins, as numbered clauses."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.pins import Pin, PinKind


class PinStore(Protocol):
    """Small texts that people leave on a store for all who use it."""

    def pins(self, kind: PinKind) -> list[Pin]:
        """Those of a kind, the oldest first.

        - PIN-1  The latest PINS_MAX (200) of each kind are kept, in the order of their times.
        """

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        """Keep a pin, in the place of the one of that kind and name.

        - PIN-2  The same text again, or none, is no change: its time and author stay. A name or a
                 text that cannot be one raises InvalidPinError and changes nothing.
        - PIN-3  Every change is an audit record.
        - PIN-4  A stop raises the generation of the settings (STT-1), which then tell it under
                 `stops`, and listeners hear `on_ready`: so a running worker learns of it.
        """

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        """Take a pin away; answers with it.

        - PIN-5  A missing entry is no change, and None is the answer.
        """
