"""Settings, pins (deploy marks, named views, stops of workers), and access from other machines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules import pins, settings_in_force, tokens
from leasehold.core.rules.pins import PinShelf
from leasehold.core.rules.settings_in_force import SettingShelf
from leasehold.core.rules.tokens import TokenReader, TokenShelf
from leasehold.stores.verbs.atomic import AtomicStore


class SettingVerbs(AtomicStore):
    """The stored settings."""

    _setting_shelf: Callable[[Any], SettingShelf]

    @abstractmethod
    def settings(self) -> StoredSettings: ...

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._write(
            lambda write: settings_in_force.set_setting(
                self._setting_shelf(write), name, value, actor
            )
        )

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._write(
            lambda write: settings_in_force.unset_setting(self._setting_shelf(write), name, actor)
        )


class PinVerbs(AtomicStore):
    """What people left on the store for others."""

    _pin_shelf: Callable[[Any], PinShelf]

    @abstractmethod
    def pins(self, kind: PinKind) -> list[Pin]: ...

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._write(lambda write: pins.pin(self._pin_shelf(write), kind, name, text, actor))

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._write(lambda write: pins.unpin(self._pin_shelf(write), kind, name, actor))


class TokenVerbs(AtomicStore):
    """Who may come in from other machines."""

    _tokens: Callable[[Any], TokenReader]
    """For who looks."""

    @abstractmethod
    def _token_shelf(self, write: Any) -> TokenShelf: ...

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        return self._write(
            lambda write: tokens.create_token(self._token_shelf(write), draft, digest, actor)
        )

    def tokens(self) -> list[Token]:
        return self._look(lambda look: self._tokens(look).every())

    def revoke_token(self, name: str, *, actor: str) -> Token:
        return self._write(lambda write: tokens.revoke_token(self._token_shelf(write), name, actor))

    def end_session(self, token: str, session: str) -> None:
        self._write(lambda write: tokens.end_session(self._token_shelf(write), token, session))

    def is_session_over(self, token: str, session: str) -> bool:
        return self._look(
            lambda look: tokens.is_over(self._tokens(look).ended_sessions(token), session)
        )
