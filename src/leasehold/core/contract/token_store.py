"""The part of the store contract about access from other machines, as numbered clauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.errors import LeaseholdError


class TokenStore(Protocol):
    """The store's part in serving it to others."""

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        """Keep a new token under the hash of its secret.

        - TOK-1  A taken name raises TokenExistsError, an invalid draft InvalidTokenError; neither
                 changes anything. Its lifetime begins now, by the store's clock.
        - TOK-2  Every change of tokens is an audit record, which holds nothing of the secret.
        """

    def tokens(self) -> list[Token]:
        """Every token that was not revoked, by name, expired ones included."""

    def find_token(self, digest: str) -> Token | None:
        """The token with this hash, if it is valid now.

        - TOK-3  From the moment it expires or is revoked, a token is not found in any process.
        """

    def submit_as(
        self, token: Token, digest: str, drafts: Sequence[Draft]
    ) -> list[Submitted | LeaseholdError]:
        """`submit` for the holder of a token found earlier, all or nothing.

        - TOK-7  The token is looked up in the write itself: unless it is found under this hash,
                 unchanged and valid now, nothing is stored, and UnauthenticatedError is raised.
        """

    def revoke_token(self, name: str, *, actor: str) -> Token:
        """Forget a token; returns its last snapshot.

        - TOK-4  An unknown name raises TokenNotFoundError. The name is free again.
        """

    def end_session(self, token: str, session: str) -> None:
        """Record that a session that began with a token has ended.

        The server names sessions so that later ones sort later.

        - TOK-6  From that moment the session is over in every process, for as long as the token
                 exists. Of very many ended sessions the latest are kept, and every session that
                 began before those is over. An unknown token has no sessions.
        """

    def is_session_over(self, token: str, session: str) -> bool:
        """Whether somebody has ended this session."""

    def signing_key(self) -> bytes:
        """32 bytes known only to processes that have the store itself.

        - TOK-5  The key is the same in every process and for the life of the store, and no other
                 store has it. A server derives from it every value that must not be guessed.
        """
