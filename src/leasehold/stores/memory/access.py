"""Settings, pins (deploy marks, named views, stops of workers), and access from other machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.retention import MEMORY_RETENTION
from leasehold.core.model.settings import (
    DEFINITIONS,
    SettingValue,
    StoredSettings,
    retention_values,
)
from leasehold.core.model.tokens import Token
from leasehold.core.rules.pins import stops_in
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.env import from_micros
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.state import RuleView, State
from leasehold.stores.verbs.access import PinVerbs, SettingVerbs, TokenVerbs

_OWN_DEFAULTS: Final = {
    name: value
    for name, value in retention_values(MEMORY_RETENTION).items()
    if value != DEFINITIONS[name].default
}


class SettingShelf(RuleView):
    """See `leasehold.core.rules.settings_in_force.SettingShelf`."""

    def in_force(self) -> SettingsInForce:
        return self._state.settings

    def change(self, name: str, value: SettingValue | UnsetType) -> None:
        state = self._state
        values = {**state.settings.values, name: value}
        kept = {each: value for each, value in values.items() if value is not UNSET}
        state.settings = SettingsInForce.of(state.settings.generation + 1, kept)
        state.note_change("setting", name)
        state.retention_changed()
        state.wake()

    def stored(self) -> StoredSettings:
        return self.in_force().stored(_OWN_DEFAULTS, stops_in(list(self._state.pins.values())))


class PinShelf(RuleView):
    """See `leasehold.core.rules.pins.PinShelf`."""

    def every(self, kind: PinKind) -> list[Pin]:
        pins = (each for each in self._state.pins.values() if each.kind == kind)
        return sorted(pins, key=lambda pin: (pin.at, pin.name))

    def put(self, pin: Pin) -> None:
        self._state.pins[pin.kind, pin.name] = pin

    def drop(self, kind: PinKind, name: str) -> None:
        self._state.pins.pop((kind, name), None)

    def let_workers_look(self) -> None:
        known = self._state.settings
        self._state.settings = SettingsInForce.of(known.generation + 1, known.values)
        self._state.wake()


class TokenShelf(RuleView):
    """See `leasehold.core.rules.tokens.TokenShelf`."""

    def every(self) -> list[Token]:
        return sorted(self._state.tokens.values(), key=lambda token: token.name)

    def find(self, name: str) -> Token | None:
        return next((each for each in self._state.tokens.values() if each.name == name), None)

    def add(self, token: Token, digest: str) -> None:
        self._state.tokens[digest] = token

    def remove(self, name: str) -> None:
        kept = self._state.tokens.items()
        self._state.tokens = {digest: each for digest, each in kept if each.name != name}
        self._state.ended_sessions.pop(name, None)

    def ended_sessions(self, name: str) -> Sequence[str]:
        return self._state.ended_sessions.get(name, ())

    def keep_ended_sessions(self, name: str, sessions: Sequence[str]) -> None:
        self._state.ended_sessions[name] = sessions


def find_token(state: State, digest: str) -> Token | None:
    """The token whose secret has this digest, while it is valid."""
    token = state.tokens.get(digest)
    return token if token is not None and token.is_good_at(from_micros(state.now)) else None


class AccessVerbs(LockedState, SettingVerbs, PinVerbs, TokenVerbs):
    """The reads of these verbs, which are one look at a dictionary here."""

    _setting_shelf = SettingShelf
    _pin_shelf = PinShelf
    _tokens = TokenShelf

    def _token_shelf(self, write: State) -> TokenShelf:
        return TokenShelf(write)

    def settings(self) -> StoredSettings:
        return self._look(lambda state: SettingShelf(state).stored())

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._look(lambda state: PinShelf(state).every(kind))

    def find_token(self, digest: str) -> Token | None:
        return self._look(find_token, digest)

    def signing_key(self) -> bytes:
        return self._look(lambda state: state.signing_key)
