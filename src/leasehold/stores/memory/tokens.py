"""Tokens of a memory store; `core.rules.tokens` decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules import tokens
from leasehold.env import from_micros
from leasehold.stores.memory.state import State


def create(state: State, draft: TokenDraft, digest: str, actor: str) -> Token:
    return tokens.create_token(TokenShelf(state), draft, digest, actor)


def revoke(state: State, name: str, actor: str) -> Token:
    return tokens.revoke_token(TokenShelf(state), name, actor)


def every(state: State) -> list[Token]:
    return sorted(state.tokens.values(), key=lambda token: token.name)


def find(state: State, digest: str) -> Token | None:
    token = state.tokens.get(digest)
    return token if token is not None and token.is_good_at(from_micros(state.now)) else None


def end_session(state: State, name: str, session: str) -> None:
    tokens.end_session(TokenShelf(state), name, session)


def is_session_over(state: State, name: str, session: str) -> bool:
    return tokens.is_over(state.ended_sessions.get(name, ()), session)


class TokenShelf:
    """See `leasehold.core.rules.tokens.TokenShelf`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now

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

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._state.note_action(actor, action, detail, count)
