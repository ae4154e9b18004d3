"""Settings, and access from other machines."""

from __future__ import annotations

from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules.settings_in_force import setting_to_set, setting_to_unset
from leasehold.stores.memory import (
    settings,
    tokens,
)
from leasehold.stores.memory.locked import LockedState


class SettingVerbs(LockedState):
    """The stored settings."""

    def settings(self) -> StoredSettings:
        return self._look(settings.settings)

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._run(
            lambda state: settings.carry_out(
                state, setting_to_set(state.settings.values, name, value), actor
            )
        )

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._run(
            lambda state: settings.carry_out(
                state, setting_to_unset(state.settings.values, name), actor
            )
        )


class TokenVerbs(LockedState):
    """Access from other machines."""

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        return self._run(tokens.create, draft, digest, actor)

    def tokens(self) -> list[Token]:
        return self._look(tokens.every)

    def find_token(self, digest: str) -> Token | None:
        return self._look(tokens.find, digest)

    def revoke_token(self, name: str, *, actor: str) -> Token:
        return self._run(tokens.revoke, name, actor)

    def end_session(self, token: str, session: str) -> None:
        self._run(tokens.end_session, token, session)

    def is_session_over(self, token: str, session: str) -> bool:
        return self._look(tokens.is_session_over, token, session)

    def signing_key(self) -> bytes:
        return self._look(lambda state: state.signing_key)
