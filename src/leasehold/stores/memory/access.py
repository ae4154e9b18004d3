"""Settings, pins (deploy marks, named views, stops of workers), and access from other machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.retention import MEMORY_RETENTION
from leasehold.core.model.settings import (
    DEFINITIONS,
    SettingValue,
    StoredSettings,
    retention_values,
)
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules import pins, tokens
from leasehold.core.rules.settings_in_force import (
    SettingChange,
    SettingsInForce,
    setting_to_set,
    setting_to_unset,
)
from leasehold.env import from_micros
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.state import Shelf, State

_OWN_DEFAULTS: Final = {
    name: value
    for name, value in retention_values(MEMORY_RETENTION).items()
    if value != DEFINITIONS[name].default
}


class SettingVerbs(LockedState):
    """The stored settings."""

    def settings(self) -> StoredSettings:
        return self._look(_stored)

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._write(
            lambda state: _change(state, setting_to_set(state.settings.values, name, value), actor)
        )

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._write(
            lambda state: _change(state, setting_to_unset(state.settings.values, name), actor)
        )


def _stored(state: State) -> StoredSettings:
    return state.settings.stored(_OWN_DEFAULTS, pins.stops_in(list(state.pins.values())))


def _change(state: State, change: SettingChange | None, actor: str) -> StoredSettings:
    if change is not None:
        known = state.settings
        values = {**known.values, change.name: change.value}
        kept = {name: value for name, value in values.items() if value is not UNSET}
        state.settings = SettingsInForce.of(known.generation + 1, kept)
        state.note_action(actor, change.action, 0, change.detail)
        state.note_change("setting", change.name)
        state.retention_changed()
        # Workers should look at them.
        state.wake()
    return _stored(state)


class PinVerbs(LockedState):
    """Deploy marks, named views, and stops of workers."""

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._look(lambda state: PinShelf(state).every(kind))

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._write(lambda state: pins.pin(PinShelf(state), kind, name, text, actor))

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._write(lambda state: pins.unpin(PinShelf(state), kind, name, actor))


class PinShelf(Shelf):
    """See `leasehold.core.rules.pins.PinShelf`."""

    def every(self, kind: PinKind) -> list[Pin]:
        return [each for each in self._state.pins.values() if each.kind == kind]

    def put(self, pin: Pin) -> None:
        self._state.pins.pop((pin.kind, pin.name), None)
        self._state.pins[pin.kind, pin.name] = pin

    def drop(self, kind: PinKind, name: str) -> None:
        self._state.pins.pop((kind, name), None)

    def let_workers_look(self) -> None:
        known = self._state.settings
        self._state.settings = SettingsInForce.of(known.generation + 1, known.values)
        self._state.wake()


class TokenVerbs(LockedState):
    """Access from other machines."""

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        return self._write(
            lambda state: tokens.create_token(TokenShelf(state), draft, digest, actor)
        )

    def tokens(self) -> list[Token]:
        return self._look(lambda state: sorted(state.tokens.values(), key=lambda token: token.name))

    def find_token(self, digest: str) -> Token | None:
        return self._look(find_token, digest)

    def revoke_token(self, name: str, *, actor: str) -> Token:
        return self._write(lambda state: tokens.revoke_token(TokenShelf(state), name, actor))

    def end_session(self, token: str, session: str) -> None:
        self._write(lambda state: tokens.end_session(TokenShelf(state), token, session))

    def is_session_over(self, token: str, session: str) -> bool:
        return self._look(
            lambda state: tokens.is_over(TokenShelf(state).ended_sessions(token), session)
        )

    def signing_key(self) -> bytes:
        return self._look(lambda state: state.signing_key)


def find_token(state: State, digest: str) -> Token | None:
    """The token with this digest of its secret, while it is good."""
    token = state.tokens.get(digest)
    return token if token is not None and token.is_good_at(from_micros(state.now)) else None


class TokenShelf(Shelf):
    """See `leasehold.core.rules.tokens.TokenShelf`."""

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
