"""Settings, pins (deploy marks, named views, stops of workers), and access from other machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules.pins import pin, unpin
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.core.rules.tokens import (
    check_same,
    create_token,
    end_session,
    is_over,
    revoke_token,
)
from leasehold.stores.tables import settings as table_settings
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.settings import PinShelf, pins, stops
from leasehold.stores.tables.step import TableStep
from leasehold.stores.tables.tokens import TokenReader, TokenShelf, make_key


class SettingVerbs:
    """What is set in the store."""

    _database: TableDatabase
    _read_settings: Callable[[Any], SettingsInForce]

    def settings(self) -> StoredSettings:
        return self._database.look(lambda db: self._read_settings(db).stored({}, stops(db)))

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._database.write(lambda step: table_settings.keep(step, name, value, actor))

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._database.write(lambda step: table_settings.forget(step, name, actor))


class TokenVerbs:
    """Who may come in from other machines."""

    _database: TableDatabase
    _tokens: Callable[[Any], TokenReader]

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        return self._database.write(
            lambda step: create_token(TokenShelf(step, self._tokens(step.db)), draft, digest, actor)
        )

    def tokens(self) -> list[Token]:
        return self._database.look(lambda db: self._tokens(db).every())

    def find_token(self, digest: str) -> Token | None:
        return self._database.look(lambda db: self._tokens(db).find(digest, self._database.now(db)))

    def _token_check(self, token: Token, digest: str) -> Callable[[TableStep], None]:
        """For a write that relies on a token that was found before."""
        return lambda step: check_same(token, self._tokens(step.db).find(digest, step.now))

    def revoke_token(self, name: str, *, actor: str) -> Token:
        return self._database.write(
            lambda step: revoke_token(TokenShelf(step, self._tokens(step.db)), name, actor)
        )

    def end_session(self, token: str, session: str) -> None:
        self._database.write(
            lambda step: end_session(TokenShelf(step, self._tokens(step.db)), token, session)
        )

    def is_session_over(self, token: str, session: str) -> bool:
        return self._database.look(
            lambda db: is_over(self._tokens(db).ended_sessions(token), session)
        )

    def signing_key(self) -> bytes:
        with self._database.read() as db:
            known = self._tokens(db).signing_key()
        if known is None:
            self._database.write(lambda step: make_key(step, self._database.env))
            return self.signing_key()
        return known


class PinVerbs:
    """What people left on the store for others."""

    _database: TableDatabase

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._database.look(lambda db: pins(db, kind))

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._database.write(lambda step: pin(PinShelf(step), kind, name, text, actor))

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._database.write(lambda step: unpin(PinShelf(step), kind, name, actor))
