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

        - TOK-1  A name that is taken raises TokenExistsError, a draft that is none
                 InvalidTokenError; nothing is changed then. Its lifetime begins now, by the
                 store's clock.
        - TOK-2  Every change of tokens is an audit record, which holds nothing of the secret.
        """

    def tokens(self) -> list[Token]:
        """Every token that was not revoked, by name, the expired ones too."""

    def find_token(self, digest: str) -> Token | None:
        """The token with this hash, if it is good now.

        - TOK-3  A token that has expired or was revoked is not found, from the very moment on and
                 in every process.
        """

    def submit_as(
        self, token: Token, digest: str, drafts: Sequence[Draft]
    ) -> list[Submitted | LeaseholdError]:
        """`submit` for the holder of a token that was found before, all or nothing.

        - TOK-7  The token is looked for in the write itself: unless it is found under this hash,
                 the same as before and good now, nothing is stored, and UnauthenticatedError is
                 raised.
        """

    def revoke_token(self, name: str, *, actor: str) -> Token:
        """Forget a token; answers with its last snapshot.

        - TOK-4  An unknown name raises TokenNotFoundError. The name is free again.
        """

    def end_session(self, token: str, session: str) -> None:
        """Note that somebody who came in by a token has left: that session is over.

        Sessions are named by the server that lets people in, so that later ones sort later.

        - TOK-6  From the very moment on the session is over, in every process, for as long as the
                 token is there. Of very many, the latest are kept, and all that began before those
                 are over. An unknown token has no sessions.
        """

    def is_session_over(self, token: str, session: str) -> bool:
        """Whether somebody has ended this session."""

    def signing_key(self) -> bytes:
        """32 bytes known only to processes that have the store itself.

        - TOK-5  They are the same for every process and for as long as the store lives, and no
                 other store's. A server derives from them every value that must not be guessed.
        """
