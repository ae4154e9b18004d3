"""Creating and revoking tokens: decided once for every store, inside the write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from leasehold.core.model.text import is_text
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.env import from_micros
from leasehold.errors import TokenExistsError, TokenNotFoundError, UnauthenticatedError

ENDED_SESSIONS_KEPT: Final = 200
"""Per token. A session lasts some hours, so earlier ones have mostly expired."""


class TokenReader(Protocol):
    """A store's tokens, for who looks."""

    def every(self) -> list[Token]:
        """All that can be read, by name."""

    def ended_sessions(self, name: str) -> Sequence[str]:
        """The sessions of a token that were ended, in order."""


class TokenShelf(Protocol):
    """Where a store keeps its tokens, inside one write."""

    @property
    def now(self) -> int:
        """The store's clock, in microseconds."""

    def find(self, name: str) -> Token | None: ...

    def add(self, token: Token, digest: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def ended_sessions(self, name: str) -> Sequence[str]:
        """The sessions of a token that were ended, in order."""

    def keep_ended_sessions(self, name: str, sessions: Sequence[str]) -> None: ...

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None: ...


def create_token(shelf: TokenShelf, draft: TokenDraft, digest: str, actor: str) -> Token:
    """Keep a new token."""
    draft.check()
    if shelf.find(draft.name) is not None:
        raise TokenExistsError(
            f"there already is a token {draft.name!r}: revoke it first, or choose another name"
        )
    token = Token.of(draft, from_micros(shelf.now), actor)
    shelf.add(token, digest)
    shelf.audit(actor, "create_token", 0, _detail(token))
    return token


def token_has_ended() -> UnauthenticatedError:
    return UnauthenticatedError("this token is unknown, has expired or was revoked")


def check_same(known: Token, found: Token | None) -> None:
    """Refuse a token that has changed or is gone, inside the write that relies on it."""
    if found != known:
        raise token_has_ended()


def revoke_token(shelf: TokenShelf, name: str, actor: str) -> Token:
    """Forget a token."""
    token = shelf.find(name) if is_text(name) else None
    if token is None:
        raise TokenNotFoundError(f"no token {name!r}: it never existed, or was revoked")
    shelf.remove(name)
    shelf.audit(actor, "revoke_token", 0, _detail(token))
    return token


def end_session(shelf: TokenShelf, name: str, session: str) -> None:
    """Record that a session is over."""
    if is_text(name) and shelf.find(name) is not None:
        ended = {*shelf.ended_sessions(name), session}
        shelf.keep_ended_sessions(name, sorted(ended)[-ENDED_SESSIONS_KEPT:])


def is_over(ended: Sequence[str], session: str) -> bool:
    """Whether a session is over, given the record of ended sessions."""
    return session in ended or (len(ended) >= ENDED_SESSIONS_KEPT and session < ended[0])


def _detail(token: Token) -> dict[str, Any]:
    # Plain data, as every store returns it.
    detail: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(token))
    del detail["created_at"], detail["created_by"]
    return {"token": detail.pop("name"), **detail}
